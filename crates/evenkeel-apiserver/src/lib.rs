//! A Kubernetes API server in one process.

pub mod identity;
pub mod listen;
