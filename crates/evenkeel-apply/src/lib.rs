//! Server-side apply and patches as a pure library: no IO, no async, no clock.
//!
//! Modules, each on top of those before it:
//!
//! ```text
//! path, set      fields: path elements, the trie of a field set, FieldsV1
//! schema         how the values of a kind merge: scalars, lists, maps, atomic or granular
//! typed          walks of a value and its schema: field set, compare, merge, remove, extract
//! managed        managedFields, and the Update and Apply operations that write them
//! patch          the other patches: strategic merge, JSON merge, JSON patch
//! ```
//!
//! All values are [`serde_json::Value`]. Values nested deeper than [`MAX_DEPTH`] levels are
//! rejected, so that walks cannot overflow the stack.

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

/// Maximum nesting of values and field sets.
pub const MAX_DEPTH: usize = 192;
