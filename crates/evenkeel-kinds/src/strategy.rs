//! What the server does with a built-in kind besides checking it.
//!
//! [`of`] says how a resource behaves: which fields an endpoint ignores, when `generation` counts,
//! what a delete answers. The `prepare_*` functions run between decoding and validation and bring
//! an object into the state in which it may be stored; [`canonicalize`] runs after validation.
//! [`warnings`] is what the server would tell the client beside the answer.
//!
//! All of it is kube-apiserver 1.36 with every feature gate at its default. Custom resource
//! definitions are described by [`of`] but prepared elsewhere, next to their schemas.

mod core;
mod disabled;
mod others;
mod pod;
mod prepare;
mod request;
mod semantic;
mod service;
mod table;
pub mod warnings;
mod workloads;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use pod::grace_period;
pub(crate) use pod::quality_of_service;
pub use prepare::{
    canonicalize, complete_blank, hide_versioned_metadata, hides_metadata, prepare_for_create,
    prepare_for_status_update, prepare_for_subresource_update, prepare_for_update,
};
pub use service::{before_allocation_on_create, before_allocation_on_update, revealed};
pub use table::{of, reset_fields};
pub(crate) use workloads::TEMPLATE_GENERATION;

/// How the server treats a resource.
#[derive(Debug)]
#[non_exhaustive]
pub struct Strategy {
    /// Whether there is a `status` endpoint, and so a status that the main endpoint ignores.
    pub has_status: bool,
    /// When `metadata.generation` counts.
    pub generation: Generation,
    /// Whether an update of what does not exist creates it.
    pub create_on_update: bool,
    /// Whether an update without a resource version overwrites whatever is there.
    pub unconditional_update: bool,
    /// Whether a delete answers with the deleted object rather than with a Status.
    pub returns_deleted: bool,
    /// Whether a delete waits for a grace period, see [`grace_period`].
    pub graceful_delete: bool,
    /// What becomes of dependents when a delete does not say.
    pub garbage_collection: GarbageCollection,
    /// What the main endpoint ignores, as dotted paths: such fields are not owned by an applier.
    pub reset_fields: &'static [&'static str],
    /// What the status endpoint ignores, as dotted paths.
    pub status_reset_fields: &'static [&'static str],
    /// Which fields of `metadata` the status endpoint leaves as they are.
    pub status_keeps_metadata: &'static [&'static str],
}

/// When `metadata.generation` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Generation {
    /// The server does not set it; on update it stays what it is.
    Unset,
    /// It is one, for ever.
    One,
    /// It starts at one and goes up whenever one of these fields changes.
    Counts(&'static [&'static str]),
    /// It is not set on create, but goes up whenever one of these fields changes.
    CountsUpdates(&'static [&'static str]),
}

/// What becomes of dependents when a delete does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GarbageCollection {
    /// They are deleted after their owner.
    Background,
    /// They lose their owner.
    Orphan,
    /// The kind owns nothing; finalizers of the collector are not even set when asked for.
    Unsupported,
}

/// What preparing an object needs to know of the request.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Who asks.
    pub user: User<'a>,
    /// The current time as the API writes it, for example `2026-01-02T03:04:05Z`.
    pub now: &'a str,
    /// Whether defaulting gave the object the labels of its template, see
    /// [`Applied`](crate::defaults::Applied).
    pub labels_from_template: bool,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// For example `system:admin`.
    pub name: &'a str,
    /// Empty if the authenticator knows none.
    pub uid: &'a str,
    /// In the order the authenticator gave them.
    pub groups: &'a [String],
    /// Whatever else the authenticator knows.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}
