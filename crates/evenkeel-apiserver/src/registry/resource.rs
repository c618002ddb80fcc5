//! One served resource: its names, verbs, table and type.

use std::sync::{Arc, OnceLock};

use evenkeel_apply::ObjectType;
use evenkeel_kinds::strategy::Strategy;
use evenkeel_kinds::{convert, fields, strategy};
use evenkeel_types::{Gvk, Type};
use serde_json::Value;

use super::builtin::{Row, Scope};
use super::custom::Custom;
use crate::status::GroupResource;
use crate::storage::{Store, Table};

/// A resource in one version.
pub(crate) struct Resource {
    pub(crate) group: Arc<str>,
    pub(crate) version: Arc<str>,
    /// The API version of its objects: `v1`, `apps/v1`.
    pub(crate) api_version: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) list_kind: Arc<str>,
    pub(crate) plural: Arc<str>,
    pub(crate) singular: Arc<str>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<&'static str>,
    pub(crate) short_names: Vec<Box<str>>,
    pub(crate) categories: Vec<Box<str>>,
    pub(crate) subresources: Vec<Subresource>,
    /// The table of the objects, shared by all versions of the resource.
    pub(crate) table: Table,
    /// The version objects are stored in.
    pub(crate) storage_version: Arc<str>,
    /// The schema generation that stored bodies are encoded under.
    pub(crate) epoch: u32,
    /// The selectable fields besides name and namespace.
    pub(crate) selectable: Vec<Box<str>>,
    pub(crate) type_info: TypeInfo,
    /// The merge schema, built on first use.
    pub(crate) apply_type: OnceLock<ObjectType>,
    /// What an empty body decodes to, built on first use.
    pub(crate) zero: OnceLock<Value>,
}

/// The type information of a resource.
pub(crate) enum TypeInfo {
    Builtin(Builtin),
    Custom(Box<Custom>),
}

/// The type and strategy of a built-in kind.
pub(crate) struct Builtin {
    pub(crate) ty: &'static Type,
    pub(crate) strategy: &'static Strategy,
}

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Main,
    Status,
    /// A subresource with its own rules: `finalize`, `approval`, …
    Other(&'a str),
}

impl<'a> Part<'a> {
    pub(crate) fn of(subresource: Option<&'a str>) -> Self {
        match subresource {
            None => Self::Main,
            Some("status") => Self::Status,
            Some(other) => Self::Other(other),
        }
    }
}

/// A subresource; its kind may differ from that of the resource.
#[derive(Clone, Debug)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: Box<str>,
    pub(crate) verbs: &'static [&'static str],
}

impl Resource {
    pub(super) fn builtin(row: &'static Row, store: &Store) -> Self {
        let gvk = Gvk::new(row.group, row.version, row.kind);
        let storage = convert::storage_gvk(gvk);
        let table = match storage.group {
            "" => row.plural.to_owned(),
            group => format!("{group}/{}", row.plural),
        };
        let ty =
            evenkeel_types::lookup(gvk).expect("every row has a known type, which a test checks");
        Self {
            group: row.group.into(),
            version: row.version.into(),
            api_version: gvk.api_version().into(),
            kind: row.kind.into(),
            list_kind: format!("{}List", row.kind).into(),
            plural: row.plural.into(),
            singular: row.kind.to_ascii_lowercase().into(),
            namespaced: row.scope == Scope::Namespaced,
            verbs: row.verbs.to_vec(),
            short_names: row.short_names.iter().map(|name| Box::from(*name)).collect(),
            categories: row.categories.iter().map(|name| Box::from(*name)).collect(),
            subresources: row
                .subresources
                .iter()
                .map(|sub| Subresource {
                    name: sub.name,
                    group: sub.group,
                    version: sub.version,
                    kind: if sub.kind.is_empty() { row.kind } else { sub.kind }.into(),
                    verbs: sub.verbs,
                })
                .collect(),
            table: store.table(&table),
            storage_version: storage.api_version().into(),
            epoch: 0,
            selectable: fields::labels(storage)
                .iter()
                .filter(|label| !matches!(**label, "metadata.name" | "metadata.namespace"))
                .map(|label| Box::from(*label))
                .collect(),
            type_info: TypeInfo::Builtin(Builtin { ty, strategy: strategy::of(gvk) }),
            apply_type: OnceLock::new(),
            zero: OnceLock::new(),
        }
    }

    pub(crate) fn gvk(&self) -> Gvk<'_> {
        Gvk::new(&self.group, &self.version, &self.kind)
    }

    /// Returns the kind of the objects that requests to a subresource contain.
    pub(crate) fn gvk_of(&self, subresource: Option<&str>) -> Gvk<'_> {
        match subresource.and_then(|name| self.subresource(name)) {
            Some(sub) if sub.version.is_empty() => Gvk { kind: &sub.kind, ..self.gvk() },
            Some(sub) => Gvk::new(sub.group, sub.version, &sub.kind),
            None => self.gvk(),
        }
    }

    /// Returns the Go type of the objects, or with a suffix of their lists: upstream's messages
    /// contain it.
    pub(crate) fn go_type(&self, suffix: &str) -> String {
        match (&self.type_info, &*self.group) {
            (TypeInfo::Custom(_), _) => format!("*unstructured.Unstructured{suffix}"),
            (TypeInfo::Builtin(_), "" | "events.k8s.io") => format!("*core.{}{suffix}", self.kind),
            (TypeInfo::Builtin(_), group) => {
                let package = group.split('.').next().unwrap_or(group);
                format!("*{package}.{}{suffix}", self.kind)
            }
        }
    }

    /// Returns the etcd key of an object, which storage errors contain.
    pub(crate) fn etcd_key(&self, namespace: &str, name: &str) -> String {
        let prefix = match (&self.type_info, &*self.group, &*self.plural) {
            (TypeInfo::Custom(_), group, plural)
            | (_, group @ ("apiextensions.k8s.io" | "apiregistration.k8s.io"), plural) => {
                format!("{group}/{plural}")
            }
            (_, "", "replicationcontrollers") => "controllers".to_owned(),
            (_, "", plural @ "endpoints") => format!("services/{plural}"),
            (_, "", "nodes") => "minions".to_owned(),
            (_, "", "services") => "services/specs".to_owned(),
            (_, "networking.k8s.io", "ingresses") => "ingress".to_owned(),
            (_, _, plural) => plural.to_owned(),
        };
        if namespace.is_empty() {
            format!("/{prefix}/{name}")
        } else {
            format!("/{prefix}/{namespace}/{name}")
        }
    }

    /// Returns the kind in the storage version.
    pub(crate) fn storage_gvk(&self) -> Gvk<'_> {
        Gvk::from_api_version(&self.storage_version, &self.kind)
    }

    /// Returns the group and resource that errors contain: `deployments.apps`.
    pub(crate) fn group_resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.group, resource: &self.plural }
    }

    pub(crate) fn supports(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    pub(crate) fn custom(&self) -> Option<&Custom> {
        match &self.type_info {
            TypeInfo::Custom(custom) => Some(custom),
            TypeInfo::Builtin(_) => None,
        }
    }

    /// Returns the type of a built-in resource.
    pub(crate) fn builtin_type(&self) -> Option<&'static Type> {
        match &self.type_info {
            TypeInfo::Builtin(builtin) => Some(builtin.ty),
            TypeInfo::Custom(_) => None,
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.custom().is_some()
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        &*self.group == group && &*self.plural == plural
    }

    /// Returns the deprecation warning of the resource.
    pub(crate) fn deprecation(&self) -> Option<&str> {
        match &self.type_info {
            TypeInfo::Custom(custom) => custom.deprecation.as_deref(),
            TypeInfo::Builtin(_) => strategy::warnings::deprecated_kind(self.gvk()),
        }
    }

    /// Returns whether objects are stored: reviews and component statuses, which are computed, cannot
    /// be watched.
    pub(crate) fn is_stored(&self) -> bool {
        self.supports("watch")
    }
}
