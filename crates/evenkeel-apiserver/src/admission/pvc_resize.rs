//! `PersistentVolumeClaimResize`: allows a PersistentVolumeClaim to grow only if its StorageClass
//! allows expansion.

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use crate::context::{Attributes, Operation, Plugin};
use crate::object::Metadata as _;
use crate::status::Status;
use crate::storage::Key;

pub(super) struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let applies = cx.resource.is("", "persistentvolumeclaims")
            && cx.subresource.is_none()
            && attributes.operation == Operation::Update;
        let (Some(new), Some(old)) = (attributes.object.as_deref(), attributes.old) else {
            return Ok(());
        };
        if !applies || requested(new) <= requested(old) {
            return Ok(());
        }
        let refuse = |why: &str| Err(attributes.forbidden(why));
        if old.pointer("/status/phase").and_then(Value::as_str) != Some("Bound") {
            return refuse("Only bound persistent volume claims can be expanded");
        }
        let class = class(new);
        let classes = cx.core.store.table("storage.k8s.io/storageclasses");
        let expands = classes
            .get(&Key::new("", class))
            .filter(|_| !class.is_empty() && class == self::class(old))
            .and_then(|record| serde_json::from_slice::<Value>(&record.body).ok())
            .is_some_and(|class| class["allowVolumeExpansion"] == true);
        if expands {
            return Ok(());
        }
        refuse(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions \
             the pvc must support resize",
        )
    }
}

fn requested(pvc: &Value) -> Option<Quantity> {
    let text = pvc.pointer("/spec/resources/requests/storage")?.as_str()?;
    Quantity::parse(text).ok()
}

fn class(pvc: &Value) -> &str {
    const LEGACY: &str = "volume.beta.kubernetes.io/storage-class";
    let annotated = pvc.meta("annotations").and_then(|all| all.get(LEGACY));
    let named = annotated.or_else(|| pvc.pointer("/spec/storageClassName"));
    named.and_then(Value::as_str).unwrap_or("")
}
