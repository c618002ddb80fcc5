//! Structural schemas of custom resources. Pure: no IO, no async, no clock.
//!
//! A CRD is defaulted and validated once ([`default_crd`], [`validate_crd`]). The schema of each
//! version is compiled once ([`Structural::compile`]) and used for every request. The messages,
//! paths and order of errors are those of kube-apiserver 1.36.

pub mod field;
pub mod jsonpath;
pub mod metadata;

mod crd;
mod field_path;
mod scale;
mod structural;

pub use crd::{
    canonicalize_crd, default_crd, record_storage_version, unrecognized_formats, validate_crd,
    validate_crd_status_update, validate_crd_update,
};
pub use evenkeel_types::names;
pub use scale::{Scale, ScaleValues};
pub use structural::{CompileError, DecodeError, Rule, RuleFailure, Structural};
