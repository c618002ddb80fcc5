//! What Kubernetes knows of its built-in types. Pure: no IO, no async, no clock.
//!
//! [`lookup`] finds a [`Type`] in the table compiled into the crate, and what follows reads that
//! table: [`conform()`] shapes JSON as decoding into the Go structs would, and [`protobuf`] turns
//! the binary wire form into that JSON and back. [`json`] prints objects in the order of their Go
//! structs, [`quantity`] is the arithmetic of resource amounts, [`time`] reads and prints
//! timestamps, [`duration`] reads Go's durations, [`cron`] reads and computes schedules, and [`go`]
//! prints values the way error texts have them.

mod base64;
mod conform;
pub mod cron;
pub mod duration;
pub mod go;
mod gvk;
pub mod json;
pub mod protobuf;
pub mod quantity;
mod table;
pub mod time;

pub use conform::{StrictDecodingError, TypeMismatch, check_unstructured, conform, empty_to_null};
pub use gvk::Gvk;
pub use table::{
    Custom, DefaultValue, Embed, Expr, Field, ListType, MapType, Shape, Type, TypeRef, all,
    by_name, lookup,
};
