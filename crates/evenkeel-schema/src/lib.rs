//! Structural schemas of custom resources. Pure: no IO, no async, no clock.

pub mod field;
