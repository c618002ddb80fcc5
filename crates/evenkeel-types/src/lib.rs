//! What Kubernetes knows of its built-in types. Pure: no IO, no async, no clock.
//!
//! [`lookup`] finds a [`Type`] in the table compiled into the crate.

mod gvk;
pub mod quantity;
mod table;

pub use gvk::Gvk;
pub use table::{
    Custom, DefaultValue, Embed, Expr, Field, ListType, MapType, Shape, Type, TypeRef, all,
    by_name, lookup,
};
