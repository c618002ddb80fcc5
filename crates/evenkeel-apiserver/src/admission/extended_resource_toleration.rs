//! `ExtendedResourceToleration`: a pod that requests an extended resource tolerates the taint of the
//! same name. Disabled by default.

use std::collections::BTreeSet;

use evenkeel_kinds::compute;
use serde_json::{Value, json};

use crate::context::{Attributes, Operation, Plugin};
use crate::status::Status;

pub(super) struct ExtendedResourceToleration;

impl Plugin for ExtendedResourceToleration {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let applies = writes && cx.resource.is("", "pods") && cx.subresource.is_none();
        let Some(pod) = attributes.object.as_deref_mut().filter(|_| applies) else {
            return Ok(());
        };
        let resources = requested(pod);
        let spec = pod.get_mut("spec").and_then(Value::as_object_mut);
        let Some(spec) = spec.filter(|_| !resources.is_empty()) else { return Ok(()) };
        let list = spec.entry("tolerations").or_insert_with(|| json!([]));
        if !list.is_array() {
            *list = json!([]);
        }
        let Some(list) = list.as_array_mut() else { return Ok(()) };
        for key in resources {
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
            let mut updated = false;
            for same in list.iter_mut().filter(|other| matches(other, &toleration)) {
                *same = toleration.clone();
                updated = true;
            }
            if !updated {
                list.push(toleration);
            }
        }
        Ok(())
    }
}

/// Returns the extended resources that containers and init containers request.
fn requested(pod: &Value) -> BTreeSet<String> {
    let lists = ["containers", "initContainers"];
    let containers = lists.iter().flat_map(|list| compute::containers(pod, list));
    let requests = containers.filter_map(|it| it.pointer("/resources/requests")?.as_object());
    let names = requests.flat_map(|requests| requests.keys());
    names.filter(|name| compute::is_extended_resource(name)).cloned().collect()
}

/// Returns whether two tolerations differ at most in their seconds.
fn matches(one: &Value, other: &Value) -> bool {
    ["key", "operator", "value", "effect"].iter().all(|field| {
        let text = |toleration: &Value| toleration[*field].as_str().unwrap_or_default().to_owned();
        text(one) == text(other)
    })
}
