//! Structural schemas of custom resources. Pure: no IO, no async, no clock.

pub mod field;
pub mod metadata;
pub mod names;

mod format;
mod go;
mod pattern;
mod structural;

pub use structural::{CompileError, DecodeError, Rule, Structural};
