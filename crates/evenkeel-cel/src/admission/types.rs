//! The types of the variables of admission expressions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::kubernetes::MutationTypes;
use crate::schema::{Field, ListKind, ListSchema, ObjectSchema, Schema};
use crate::{Type, TypeProvider};

/// The type of `variables`, whose fields are the variables of the policy.
pub(super) const VARIABLES: &str = "kubernetes.variables";

/// The type of `request`.
pub(super) static REQUEST: LazyLock<Schema> = LazyLock::new(request);

/// The type of `namespaceObject`.
pub(super) static NAMESPACE: LazyLock<Schema> = LazyLock::new(namespace);

/// Finds the types of an environment.
pub(super) struct Types {
    /// The variables that can be read; `None` if there are no variables.
    pub(super) variables: Option<Vec<(Arc<str>, Type)>>,
    /// Whether patches can be constructed.
    pub(super) patches: bool,
    /// The types of the object and the parameters, where they are known.
    pub(super) documents: Vec<Schema>,
}

impl Types {
    fn schemas(&self) -> impl Iterator<Item = &Schema> {
        [&*REQUEST, &*NAMESPACE].into_iter().chain(&self.documents)
    }
}

impl TypeProvider for Types {
    fn has_type(&self, name: &str) -> bool {
        (name == VARIABLES && self.variables.is_some())
            || self.schemas().any(|schema| schema.has_type(name))
            || (self.patches && MutationTypes.has_type(name))
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        if type_name == VARIABLES {
            let variables = self.variables.as_ref()?;
            // The last declaration of a name counts.
            let variable = variables.iter().rev().find(|(name, _)| &**name == field)?;
            return Some(variable.1.clone());
        }
        if self.patches && MutationTypes.has_type(type_name) {
            return MutationTypes.field(type_name, field);
        }
        self.schemas().find_map(|schema| schema.field(type_name, field))
    }
}

fn object<const N: usize>(name: &str, fields: [(&str, Schema); N]) -> Schema {
    let fields = fields.into_iter().map(|(name, schema)| (name.into(), field(name, schema)));
    let fields: BTreeMap<Box<str>, Field> = fields.collect();
    Schema::Object(Arc::new(ObjectSchema { name: name.into(), fields }))
}

fn field(name: &str, schema: Schema) -> Field {
    Field { json: name.into(), schema }
}

fn list(items: Schema) -> Schema {
    Schema::List(Arc::new(ListSchema { items, kind: ListKind::Atomic }))
}

fn request() -> Schema {
    let gvk = || {
        object(
            "kubernetes.GroupVersionKind",
            [("group", Schema::String), ("version", Schema::String), ("kind", Schema::String)],
        )
    };
    let gvr = || {
        object(
            "kubernetes.GroupVersionResource",
            [("group", Schema::String), ("version", Schema::String), ("resource", Schema::String)],
        )
    };
    let user = object(
        "kubernetes.UserInfo",
        [
            ("username", Schema::String),
            ("uid", Schema::String),
            ("groups", list(Schema::String)),
            ("extra", Schema::Map(Arc::new(list(Schema::String)))),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", gvk()),
            ("resource", gvr()),
            ("subResource", Schema::String),
            ("requestKind", gvk()),
            ("requestResource", gvr()),
            ("requestSubResource", Schema::String),
            ("name", Schema::String),
            ("namespace", Schema::String),
            ("operation", Schema::String),
            ("userInfo", user),
            ("dryRun", Schema::Bool),
            ("options", Schema::Dyn),
        ],
    )
}

fn namespace() -> Schema {
    let texts = || Schema::Map(Arc::new(Schema::String));
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", Schema::String),
            ("type", Schema::String),
            ("lastTransitionTime", Schema::Timestamp),
            ("message", Schema::String),
            ("reason", Schema::String),
        ],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", Schema::String),
            ("generateName", Schema::String),
            ("namespace", Schema::String),
            ("labels", texts()),
            ("annotations", texts()),
            ("UID", Schema::String),
            ("creationTimestamp", Schema::Timestamp),
            ("deletionGracePeriodSeconds", Schema::Int),
            ("deletionTimestamp", Schema::Timestamp),
            ("generation", Schema::Int),
            ("resourceVersion", Schema::String),
            ("finalizers", list(Schema::String)),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", [("finalizers", list(Schema::String))]);
    let status = object(
        "kubernetes.NamespaceStatus",
        [("conditions", list(condition)), ("phase", Schema::String)],
    );
    object("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)])
}
