//! A Kubernetes API server in one process.

#[doc(hidden)]
pub mod storage;
pub mod identity;
pub mod listen;
