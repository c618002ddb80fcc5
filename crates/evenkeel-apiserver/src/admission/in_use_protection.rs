//! `StorageObjectInUseProtection`: adds the finalizers that protect PersistentVolumes,
//! PersistentVolumeClaims and VolumeAttributesClasses while they are in use.

use crate::context::{Attributes, Operation, Plugin};
use crate::object::{Metadata as _, set_finalizers};
use crate::status::Status;

pub(super) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let resource = &attributes.cx.resource;
        let finalizer = if resource.is("", "persistentvolumeclaims") {
            "kubernetes.io/pvc-protection"
        } else if resource.is("", "persistentvolumes") {
            "kubernetes.io/pv-protection"
        } else if resource.is("storage.k8s.io", "volumeattributesclasses") {
            "kubernetes.io/vac-protection"
        } else {
            return Ok(());
        };
        let creates = attributes.operation == Operation::Create;
        if let Some(object) = attributes.object.as_deref_mut().filter(|_| creates) {
            let mut finalizers: Vec<String> =
                object.finalizers().iter().map(|name| (*name).to_owned()).collect();
            if !finalizers.iter().any(|name| name == finalizer) {
                finalizers.push(finalizer.to_owned());
                set_finalizers(object, finalizers);
            }
        }
        Ok(())
    }
}
