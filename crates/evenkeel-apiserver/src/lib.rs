//! A Kubernetes API server in one process.

pub mod identity;
pub mod listen;
#[cfg_attr(not(test), expect(dead_code, reason = "the server does not publish them yet"))]
mod openapi;
#[doc(hidden)]
pub mod storage;
