//! Runs the `evenkeel` command as a process.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod background;

mod cluster_start;

mod image;

mod new;

mod support;

mod tree;

mod types;
