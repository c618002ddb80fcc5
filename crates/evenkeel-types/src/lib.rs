//! The built-in types of Kubernetes as data. Pure: no IO, no async runtime, no clock.
//!
//! [`lookup`] finds a [`Type`] in the table compiled into the crate. [`conform()`] converts JSON as
//! decoding into the Go structs does, and [`protobuf`] converts the binary wire format to JSON and
//! back. [`json`] encodes objects in the field order of their Go structs, [`quantity`] implements
//! resource quantities, [`time`] timestamps, [`duration`] Go's durations and [`cron`] schedules.
//! [`names`] and [`mod@format`] check strings, [`url`] and [`netip`] parse addresses, [`pattern`]
//! compiles Go's regular expressions, [`go`] formats values as in Go's error messages,
//! [`mod@base64`] encodes bytes as Go does, and [`random`] and [`hash`] have what generated names are
//! made of. [`watch`] is a channel that wakes tasks of any runtime, in a fixed order.

pub mod base64;
mod conform;
pub mod cron;
pub mod duration;
pub mod format;
pub mod go;
mod gvk;
pub mod hash;
pub mod json;
pub mod names;
pub mod netip;
pub mod pattern;
pub mod protobuf;
pub mod quantity;
pub mod random;
mod table;
pub mod time;
pub mod url;
pub mod watch;

pub use conform::{StrictDecodingError, TypeMismatch, check_unstructured, conform, empty_to_null};
pub use gvk::Gvk;
pub use table::{
    Custom, DefaultValue, Embed, Expr, Field, ListType, MapType, Shape, Type, TypeRef, all,
    by_name, lookup,
};
