//! The spec of a CRD in upstream's internal form.
//!
//! Fields that are equal in all versions (schema, subresources, columns, selectable fields) move to
//! the top level. A CRD with a single version therefore has all of them at the top level.

use serde_json::Value;

use super::schema::Schema;

pub(super) struct Spec<'a> {
    pub(super) group: &'a str,
    pub(super) scope: &'a str,
    pub(super) names: Names<'a>,
    pub(super) versions: Vec<Version<'a>>,
    /// Whether `versions` is set, even to an empty list.
    pub(super) has_versions: bool,
    /// Fields shared by all versions. Fields absent here are in the versions.
    pub(super) shared: Parts<'a>,
    pub(super) conversion: Option<&'a Value>,
    pub(super) preserve_unknown: bool,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Names<'a> {
    pub(super) plural: &'a str,
    pub(super) singular: &'a str,
    pub(super) kind: &'a str,
    pub(super) list_kind: &'a str,
    raw: Option<&'a Value>,
}

pub(super) struct Version<'a> {
    pub(super) name: &'a str,
    pub(super) served: bool,
    pub(super) storage: bool,
    pub(super) deprecated: bool,
    pub(super) deprecation_warning: Option<&'a str>,
    pub(super) parts: Parts<'a>,
    /// The version's schema, from the version or from the top level.
    pub(super) schema: Option<Schema<'a>>,
    /// Whether the version has a `status` subresource, in the version or at the top level.
    pub(super) has_status: bool,
}

/// Fields that are either at the top level or in each version.
#[derive(Clone, Copy, Default)]
pub(super) struct Parts<'a> {
    /// The object that contains `openAPIV3Schema`.
    pub(super) validation: Option<&'a Value>,
    pub(super) subresources: Option<&'a Value>,
    pub(super) columns: Option<&'a Value>,
    pub(super) selectable: Option<&'a Value>,
}

impl<'a> Spec<'a> {
    pub(super) fn new(crd: &'a Value) -> Self {
        let spec = crd.get("spec").unwrap_or(&Value::Null);
        let raw: &[Value] = spec.get("versions").and_then(Value::as_array).map_or(&[], |v| v);
        let mut versions: Vec<Version<'a>> = raw.iter().map(Version::new).collect();
        let mut shared = Parts::default();
        hoist(&mut versions, &mut shared, |parts| &mut parts.validation);
        hoist(&mut versions, &mut shared, |parts| &mut parts.subresources);
        hoist(&mut versions, &mut shared, |parts| &mut parts.columns);
        hoist(&mut versions, &mut shared, |parts| &mut parts.selectable);
        Self {
            group: text(spec, "group"),
            scope: text(spec, "scope"),
            names: Names::new(spec.get("names")),
            versions,
            has_versions: present(spec, "versions").is_some(),
            shared,
            conversion: present(spec, "conversion"),
            preserve_unknown: flag(spec, "preserveUnknownFields"),
        }
    }

    /// Returns every schema once.
    pub(super) fn schemas(&self) -> impl Iterator<Item = Schema<'a>> + '_ {
        let parts = self.versions.iter().map(|version| version.parts);
        parts.chain([self.shared]).filter_map(|parts| parts.schema())
    }
}

/// Moves a field to the top level if it is equal in all versions.
fn hoist<'a>(
    versions: &mut [Version<'a>],
    shared: &mut Parts<'a>,
    part: impl for<'p> Fn(&'p mut Parts<'a>) -> &'p mut Option<&'a Value>,
) {
    let Some((first, rest)) = versions.split_first_mut() else { return };
    let value = *part(&mut first.parts);
    if rest.iter_mut().all(|version| *part(&mut version.parts) == value) {
        *part(shared) = value;
        for version in versions {
            *part(&mut version.parts) = None;
        }
    }
}

impl<'a> Version<'a> {
    fn new(version: &'a Value) -> Self {
        let parts = Parts {
            validation: present(version, "schema"),
            subresources: present(version, "subresources"),
            columns: present(version, "additionalPrinterColumns"),
            selectable: present(version, "selectableFields"),
        };
        Self {
            name: text(version, "name"),
            served: flag(version, "served"),
            storage: flag(version, "storage"),
            deprecated: flag(version, "deprecated"),
            deprecation_warning: version.get("deprecationWarning").and_then(Value::as_str),
            parts,
            schema: parts.schema(),
            has_status: parts.subresources.is_some_and(|s| present(s, "status").is_some()),
        }
    }
}

impl<'a> Parts<'a> {
    pub(super) fn schema(&self) -> Option<Schema<'a>> {
        present(self.validation?, "openAPIV3Schema").map(Schema::new)
    }

    pub(super) fn columns(&self) -> &'a [Value] {
        self.columns.and_then(Value::as_array).map_or(&[], |list| list)
    }

    pub(super) fn selectable(&self) -> &'a [Value] {
        self.selectable.and_then(Value::as_array).map_or(&[], |list| list)
    }
}

impl<'a> Names<'a> {
    pub(super) fn new(names: Option<&'a Value>) -> Self {
        let get = |key| names.map_or("", |names| text(names, key));
        Self {
            plural: get("plural"),
            singular: get("singular"),
            kind: get("kind"),
            list_kind: get("listKind"),
            raw: names,
        }
    }

    pub(super) fn short_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list("shortNames")
    }

    pub(super) fn categories(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list("categories")
    }

    fn list(&self, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let list = self.raw.and_then(|names| names.get(key)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

pub(super) fn present<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|v| !v.is_null())
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}
