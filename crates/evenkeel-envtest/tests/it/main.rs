//! Runs the two executables as envtest does.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod apiserver;
mod etcd;
mod executable;
mod security;
