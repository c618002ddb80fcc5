//! Runs the `evenkeel` command as a process.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod add;

mod background;

mod check;

mod cluster_start;

mod dev;

mod help;

mod image;

mod install;

mod manifests;

mod new;

mod operator;

mod plan;

mod support;

mod tree;

mod types;
