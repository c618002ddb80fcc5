//! Behaviour of the built-in Kubernetes kinds. Pure: no IO, no async, no clock.

pub mod columns;
pub mod compute;
pub mod convert;
pub mod defaults;
pub mod empty;
pub mod fields;
mod meta;
mod names;
pub mod pod_security;
pub mod quota;
pub mod references;
pub mod strategy;
pub mod validate;
