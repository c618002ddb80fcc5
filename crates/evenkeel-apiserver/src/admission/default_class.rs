//! `DefaultStorageClass` and `DefaultIngressClass`: set the default class on objects without one.

use serde_json::Value;

use crate::context::{Attributes, Operation, Plugin};
use crate::object::Metadata as _;
use crate::status::Status;
use crate::storage::Range;

/// The plugin that sets the default class on objects of one kind.
pub(super) struct DefaultClass {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    /// The field of the spec that names a class.
    pub(super) field: &'static str,
    /// The legacy annotation that names a class.
    pub(super) legacy: &'static str,
    /// The table of the classes, and the annotation that marks the default one.
    pub(super) classes: &'static str,
    pub(super) mark: &'static str,
}

pub(super) const STORAGE: DefaultClass = DefaultClass {
    group: "",
    plural: "persistentvolumeclaims",
    field: "storageClassName",
    legacy: "volume.beta.kubernetes.io/storage-class",
    classes: "storage.k8s.io/storageclasses",
    mark: "storageclass.kubernetes.io/is-default-class",
};

pub(super) const INGRESS: DefaultClass = DefaultClass {
    group: "networking.k8s.io",
    plural: "ingresses",
    field: "ingressClassName",
    legacy: "kubernetes.io/ingress.class",
    classes: "networking.k8s.io/ingressclasses",
    mark: "ingressclass.kubernetes.io/is-default-class",
};

impl Plugin for DefaultClass {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let applies =
            cx.resource.is(self.group, self.plural) && attributes.operation == Operation::Create;
        let Some(object) = attributes.object.as_deref_mut().filter(|_| applies) else {
            return Ok(());
        };
        let annotated = object.meta("annotations").and_then(|all| all.get(self.legacy)).is_some();
        if annotated || object["spec"].get(self.field).is_some_and(|class| !class.is_null()) {
            return Ok(());
        }
        let page = cx
            .core
            .store
            .table(self.classes)
            .list(Range::default(), None)
            .map_err(Status::internal)?;
        let mut defaults: Vec<Value> = page
            .items
            .iter()
            .filter_map(|record| serde_json::from_slice::<Value>(&record.body).ok())
            .filter(|class| {
                class.meta("annotations").and_then(|all| all.get(self.mark))
                    == Some(&Value::from("true"))
            })
            .collect();
        // The newest default class wins; ties are broken by name.
        defaults.sort_by(|a, b| {
            let created = |class: &Value| class.meta_str("creationTimestamp").to_owned();
            created(b).cmp(&created(a)).then_with(|| a.meta_str("name").cmp(b.meta_str("name")))
        });
        if let Some(class) = defaults.first() {
            object["spec"][self.field] = class.meta_str("name").into();
        }
        Ok(())
    }
}
