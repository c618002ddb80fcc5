//! `PodTopologyLabels`: copies the zone and region of its node to a pod that is created on it.
//! Bindings do the same, see `subresources/binding.rs`.

use serde_json::{Map, Value};

use crate::context::{Attributes, Operation, Plugin};
use crate::object::metadata_mut;
use crate::status::Status;
use crate::storage::Key;

pub(super) struct PodTopologyLabels;

const LABELS: &[&str] = &["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

impl Plugin for PodTopologyLabels {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        if attributes.operation != Operation::Create || !cx.resource.is("", "pods") {
            return Ok(());
        }
        let Some(object) = attributes.object.as_deref_mut() else { return Ok(()) };
        let node = match cx.subresource.as_deref() {
            None => object.pointer("/spec/nodeName"),
            Some("binding") if matches!(object["target"]["kind"].as_str(), Some("Node")) => {
                object.pointer("/target/name")
            }
            Some(_) => None,
        };
        let Some(node) = node.and_then(Value::as_str).filter(|node| !node.is_empty()) else {
            return Ok(());
        };
        let Some(node) = cx.core.store.table("nodes").get(&Key::new("", node)) else {
            return Ok(());
        };
        for label in LABELS {
            let Some(value) = node.labels.get(label) else { continue };
            let labels = metadata_mut(object).entry("labels").or_insert(Value::Null);
            if !labels.is_object() {
                *labels = Value::Object(Map::new());
            }
            labels[*label] = value.into();
        }
        Ok(())
    }
}
