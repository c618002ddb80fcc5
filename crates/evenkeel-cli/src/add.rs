//! `evenkeel add`: adds a kind, a controller, a webhook or a version to a project that `evenkeel
//! new` created.
//!
//! New code is in new files. The others are changed by insertions at places that are found in their
//! syntax tree, so that all other bytes stay as they are. What is there already is left out: a
//! second run changes nothing.

mod builtin;

mod controller;

mod kind;

mod plan;

mod project;

mod rustfmt;

mod sample;

mod source;

mod version;

mod webhook;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum Add {
    /// Add a custom resource with its reconciler, a test and a sample
    Kind(kind::Kind),
    /// Add a reconciler of a kind of the project or of Kubernetes, and a test
    Controller(controller::Controller),
    /// Add admission webhooks of a kind, defaults and validation, and a test
    Webhook(webhook::Webhook),
    /// Add a version of a kind, its conversion, a test and a sample
    Version(version::Version),
}

#[derive(Args)]
struct Output {
    /// Print a diff instead of writing files
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(add: &Add) -> anyhow::Result<()> {
    match add {
        Add::Kind(command) => kind::run(command),
        Add::Controller(command) => controller::run(command),
        Add::Webhook(command) => webhook::run(command),
        Add::Version(command) => version::run(command),
    }
}

/// Returns the `use` declarations of a type in a module of the library.
fn use_declaration(path: &str) -> String {
    match path.starts_with("crate::") {
        // Types of this crate come last.
        true => format!("\nuse {path};"),
        false => format!("use {path};"),
    }
}
