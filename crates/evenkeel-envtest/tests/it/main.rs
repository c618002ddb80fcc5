//! The two executables, started and stopped the way envtest does it.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod apiserver;
mod etcd;
mod executable;
