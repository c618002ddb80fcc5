//! How the built-in kinds of Kubernetes behave. Pure: no IO, no async, no clock.

pub mod meta;
pub mod names;
pub mod validate;
