//! Structural schemas of custom resources. Pure: no IO, no async, no clock.

pub mod field;
pub mod metadata;
pub mod names;

mod crd;
mod format;
mod go;
mod pattern;
mod structural;

pub use crd::{default_crd, validate_crd, validate_crd_status_update, validate_crd_update};
pub use structural::{CompileError, DecodeError, Rule, Structural};
