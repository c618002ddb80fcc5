//! Create, update and delete behaviour of built-in kinds, like upstream's registry strategies.
//!
//! [`of`] describes a resource: which fields an endpoint ignores, when `generation` is incremented,
//! what a delete returns. The `prepare_*` functions run between decoding and validation and bring
//! an object into the form that may be stored; [`canonicalize`] runs after validation. [`warnings`]
//! are the `Warning` headers of the response.
//!
//! Behaves like kube-apiserver 1.36 with every feature gate at its default. CRDs are described by
//! [`of`] but prepared elsewhere, next to their schemas.

mod certificate_signing_request;
mod core;
mod disabled;
mod others;
mod pod;
mod prepare;
mod semantic;
mod service;
mod table;
pub mod warnings;
mod workloads;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use pod::grace_period;
pub(crate) use pod::qos_class;
pub use prepare::{
    canonicalize, complete_bookmark, has_versioned_metadata, prepare_for_create,
    prepare_for_status_update, prepare_for_subresource_update, prepare_for_update,
    remove_versioned_metadata,
};
pub use service::{before_allocation_on_create, before_allocation_on_update, service_as_stored};
pub use table::{of, reset_fields};
pub(crate) use workloads::TEMPLATE_GENERATION;

/// Strategy of a resource.
#[derive(Debug)]
#[non_exhaustive]
pub struct Strategy {
    /// Whether there is a `status` subresource. If so, the main resource ignores `status`.
    pub has_status: bool,
    /// When `metadata.generation` is incremented.
    pub generation: Generation,
    /// Whether an update of an object that does not exist creates it.
    pub create_on_update: bool,
    /// Whether an update without a resourceVersion is allowed.
    pub unconditional_update: bool,
    /// Whether a delete returns the deleted object instead of a Status.
    pub returns_deleted: bool,
    /// Whether deletion has a grace period, see [`grace_period`].
    pub graceful_delete: bool,
    /// Propagation policy of a delete that does not specify one.
    pub garbage_collection: GarbageCollection,
    /// Dotted paths of fields that the main resource ignores. An applier does not own them.
    pub reset_fields: &'static [&'static str],
    /// Dotted paths of fields that the status subresource ignores.
    pub status_reset_fields: &'static [&'static str],
    /// Fields of `metadata` that the status subresource does not change.
    pub status_keeps_metadata: &'static [&'static str],
}

/// When `metadata.generation` is incremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Generation {
    /// The server does not set it and keeps it on update.
    Unset,
    /// It is always 1.
    AlwaysOne,
    /// It starts at 1 and is incremented when one of these fields changes.
    Incremented(&'static [&'static str]),
    /// Like [`Self::Incremented`], but an empty list or map differs from an absent one.
    IncrementedExactly(&'static [&'static str]),
    /// It is not set on create and is incremented when one of these fields changes.
    IncrementedOnUpdate(&'static [&'static str]),
}

/// Default propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GarbageCollection {
    /// Dependents are deleted after their owner.
    Background,
    /// Dependents lose their owner reference.
    Orphan,
    /// The kind has no dependents. Finalizers of the garbage collector are not set even if
    /// requested.
    Unsupported,
}

/// Request data that preparing an object needs.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The user that sent the request.
    pub user: User<'a>,
    /// The current time in API format, for example `2026-01-02T03:04:05Z`.
    pub now: &'a str,
    /// Whether defaulting copied the labels of the template to the object, see
    /// [`Applied`](crate::defaults::Applied).
    pub labels_from_template: bool,
}

/// The authenticated user.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// User name, for example `system:admin`.
    pub name: &'a str,
    /// UID; empty if the authenticator does not provide one.
    pub uid: &'a str,
    /// Groups, in the order of the authenticator.
    pub groups: &'a [String],
    /// Extra fields from the authenticator.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}
