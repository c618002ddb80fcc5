//! Constraints of a CRD's schema that the attributes of `schemars` and `kube` do not have.
//!
//! Each is the value of the attribute `transform`, so a misspelled name is a compile error:
//!
//! ```
//! use evenkeel::prelude::*;
//! use evenkeel::schema::{self, Format};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
//! #[kube(group = "example.com", version = "v1", kind = "Volume", namespaced)]
//! struct VolumeSpec {
//!     #[schemars(range(min = 0), transform = schema::exclusive_minimum)]
//!     #[schemars(transform = schema::multiple_of(512))]
//!     bytes: i64,
//!     #[schemars(transform = schema::format(Format::Uuid))]
//!     id: String,
//! }
//!
//! let yaml = evenkeel::manifest::crd_yaml::<Volume>().unwrap();
//! assert!(yaml.contains("exclusiveMinimum: true"), "{yaml}");
//! assert!(yaml.contains("format: uuid"), "{yaml}");
//! ```
//!
//! ```compile_fail
//! use evenkeel::schema;
//!
//! #[derive(schemars::JsonSchema)]
//! struct VolumeSpec {
//!     #[schemars(transform = schema::multipleof(512))]
//!     bytes: i64,
//! }
//! ```
//!
//! `schemars` ignores attributes that do not fit the type of a field, and a CRD drops unknown keywords.
//! With [`CheckedSchema`] both are compile errors:
//!
//! ```
//! use evenkeel::prelude::*;
//!
//! #[derive(schemars::JsonSchema, CheckedSchema)]
//! struct VolumeSpec {
//!     #[schemars(length(min = 1), extend("maxLength" = 63))]
//!     name: String,
//! }
//! ```
//!
//! ```compile_fail
//! use evenkeel::prelude::*;
//!
//! #[derive(schemars::JsonSchema, CheckedSchema)]
//! struct VolumeSpec {
//!     #[schemars(length(min = 1))] // has no effect on a number
//!     bytes: i64,
//! }
//! ```
//!
//! ```compile_fail
//! use evenkeel::prelude::*;
//!
//! #[derive(schemars::JsonSchema, CheckedSchema)]
//! struct VolumeSpec {
//!     #[schemars(extend("multipleof" = 512))] // did you mean `multipleOf`?
//!     bytes: i64,
//! }
//! ```
//!
//! The other constraints, by the markers of controller-gen:
//!
//! | marker | attribute |
//! |---|---|
//! | `Minimum`, `Maximum` | `#[schemars(range(min = 1, max = 10))]` |
//! | `MinLength`, `MaxLength`, `MinItems`, `MaxItems` | `#[schemars(length(min = 1, max = 10))]` |
//! | `Pattern` | `#[schemars(regex(pattern = "^[a-z]+$"))]` |
//! | `items:` | `#[schemars(inner(length(min = 1)))]` |
//! | `Enum` | a Rust enum |
//! | `default` | `#[serde(default)]`, `#[serde(default = "function")]` |
//! | `optional`, `nullable` | `Option`, `#[serde(default)]` |
//! | `XValidation` | `#[derive(KubeSchema)]` with `#[x_kube(validation = Rule::new(..))]` on a struct or field, `#[kube(validation = ..)]` for the whole object |
//! | `listType`, `listMapKey` | `#[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]` |
//! | `mapType`, `structType` | `#[x_kube(merge_strategy = MapMerge::Atomic)]`; a `StructMerge` has no effect |
//! | `title` | `#[schemars(title = "..")]` |
//! | `XIntOrString` | `#[schemars(schema_with = "schema::int_or_string")]`; also [`quantity`] and [`date_time`] |
//! | `printcolumn`, `subresource`, `resource`, `selectablefield`, `storageversion`, `deprecatedversion`, `metadata` | `#[kube(printcolumn(..), status = "..", scale(..), shortname = "..", category = "..", selectable = "..", deprecated = "..", label(..))]` |

pub use evenkeel_derive::CheckedSchema;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

/// The numbers of `Quantity`, with their suffixes.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A format of strings that API servers validate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Format {
    /// Base64.
    Byte,
    /// A range of IP addresses, for example `10.0.0.0/8`.
    Cidr,
    /// A date, for example `2026-01-31`.
    Date,
    /// A date and time as in RFC 3339.
    DateTime,
    /// A duration as Go prints it, for example `1h30m`.
    Duration,
    /// An e-mail address.
    Email,
    /// A host name.
    Hostname,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// The address of a network interface.
    Mac,
    /// A URI.
    Uri,
    /// A UUID.
    Uuid,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Byte => "byte",
            Self::Cidr => "cidr",
            Self::Date => "date",
            Self::DateTime => "date-time",
            Self::Duration => "duration",
            Self::Email => "email",
            Self::Hostname => "hostname",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Mac => "mac",
            Self::Uri => "uri",
            Self::Uuid => "uuid",
        }
    }
}

/// Excludes the minimum of `range` itself.
pub fn exclusive_minimum(schema: &mut Schema) {
    schema.insert("exclusiveMinimum".to_owned(), true.into());
}

/// Excludes the maximum of `range` itself.
pub fn exclusive_maximum(schema: &mut Schema) {
    schema.insert("exclusiveMaximum".to_owned(), true.into());
}

/// Allows only multiples of an integer.
pub fn multiple_of(divisor: u32) -> impl FnMut(&mut Schema) {
    keyword("multipleOf", divisor.into())
}

/// Sets the least number of entries of a map.
pub fn min_properties(entries: u32) -> impl FnMut(&mut Schema) {
    keyword("minProperties", entries.into())
}

/// Sets the greatest number of entries of a map.
pub fn max_properties(entries: u32) -> impl FnMut(&mut Schema) {
    keyword("maxProperties", entries.into())
}

/// Sets the format of a string.
pub fn format(format: Format) -> impl FnMut(&mut Schema) {
    keyword("format", format.name().into())
}

/// Sets an example, which documents the field. One that cannot be serialized is left out.
pub fn example(value: impl Serialize) -> impl FnMut(&mut Schema) {
    keyword("example", serde_json::to_value(value).unwrap_or_default())
}

/// Accepts and keeps fields that the schema does not declare.
pub fn preserve_unknown_fields(schema: &mut Schema) {
    object(schema);
    schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
}

/// Makes the field an object of any Kubernetes kind, with apiVersion, kind and metadata.
pub fn embedded_resource(schema: &mut Schema) {
    preserve_unknown_fields(schema);
    schema.insert("x-kubernetes-embedded-resource".to_owned(), true.into());
}

/// Returns the schema of `IntOrString`, for the attribute `schema_with`: the type has one of its own
/// only with the feature `schemars` of k8s-openapi, which generates schemas of all types.
pub fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true})
}

/// Returns the schema of `Quantity`, for the attribute `schema_with` as [`int_or_string`].
pub fn quantity(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = int_or_string(generator);
    schema.insert("pattern".to_owned(), QUANTITY.into());
    schema
}

/// Returns the schema of `Time`, for the attribute `schema_with` as [`int_or_string`].
pub fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// Sets the type of a schema that accepts everything, for example of [`Value`].
fn object(schema: &mut Schema) {
    schema.ensure_object().entry("type").or_insert_with(|| "object".into());
}

fn keyword(name: &'static str, value: Value) -> impl FnMut(&mut Schema) {
    move |schema| {
        if !value.is_null() {
            schema.insert(name.to_owned(), value.clone());
        }
    }
}
