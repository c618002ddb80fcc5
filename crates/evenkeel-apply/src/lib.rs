//! Server-side apply and patches as a pure library: no IO, no async, no clock.
//!
//! The flow, from the leaves up:
//!
//! ```text
//! path, set      which fields: path elements, the trie of owned fields, FieldsV1
//! schema         how a kind's values merge: scalars, lists, maps, atomic or granular
//! typed          a value walked by its schema: field set, compare, merge, remove, extract
//! managed        who owns what: managedFields, the update path and the apply path
//! patch          the other three patches: strategic merge, JSON merge, JSON patch
//! ```
//!
//! Everything works on [`serde_json::Value`]. Inputs are expected to be at most
//! [`MAX_DEPTH`] levels deep; the walkers refuse what is deeper instead of overflowing the stack.

mod text;
mod value;
mod work;

pub mod path;
pub mod set;

pub mod schema;

pub mod typed;

pub mod managed;

pub mod patch;

#[doc(inline)]
pub use crate::{
    path::{Path, PathElement},
    schema::{ObjectType, Schema},
    set::Set,
};

/// The deepest nesting of values and field sets that is walked.
pub const MAX_DEPTH: usize = 192;
