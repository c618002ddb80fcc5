//! How the built-in kinds of Kubernetes behave. Pure: no IO, no async, no clock.

pub mod defaults;
pub mod strategy;
