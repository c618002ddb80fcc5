//! `Priority`: resolves the PriorityClass of a pod to its priority.

use serde_json::Value;

use crate::context::{Attributes, Operation, Plugin};
use crate::status::Status;
use crate::storage::{Key, Range};

pub(super) struct Priority;

impl Plugin for Priority {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let is_pod = cx.resource.is("", "pods") && cx.subresource.is_none();
        let name = attributes.name().to_owned();
        let Some(object) = attributes.object.as_deref_mut().filter(|_| is_pod) else {
            return Ok(());
        };
        let Some(spec) = object.get_mut("spec") else { return Ok(()) };
        match attributes.operation {
            Operation::Create => {}
            Operation::Update => {
                preserve_existing(spec, attributes.old.and_then(|old| old.get("spec")));
                return Ok(());
            }
            Operation::Delete | Operation::Connect => return Ok(()),
        }
        let table = cx.core.store.table("scheduling.k8s.io/priorityclasses");
        let named = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or("");
        let (mut priority, mut policy) = (0, "PreemptLowerPriority".to_owned());
        let mut class_name = named.to_owned();
        let class = if named.is_empty() {
            // The global default class, if there is one; the lowest of several.
            let page = table.list(Range::default(), None).map_err(Status::internal)?;
            page.items
                .iter()
                .filter_map(|record| serde_json::from_slice::<Value>(&record.body).ok())
                .filter(|class| class["globalDefault"] == true)
                .min_by_key(|class| class["value"].as_i64().unwrap_or(0))
        } else {
            let Some(record) = table.get(&Key::new("", named)) else {
                let why = format!("no PriorityClass with name {named} was found");
                return Err(Status::forbidden(cx.resource.group_resource(), &name, &why));
            };
            serde_json::from_slice(&record.body).ok()
        };
        if let Some(class) = class {
            priority = class["value"].as_i64().unwrap_or(0);
            class_name = class["metadata"]["name"].as_str().unwrap_or("").to_owned();
            if let Some(given) = class["preemptionPolicy"].as_str() {
                policy = given.to_owned();
            }
        }
        if let Some(given) = spec.get("priority").and_then(Value::as_i64)
            && given != priority
        {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; \
                 priority admission controller computed {priority} from the given PriorityClass \
                 name"
            );
            return Err(Status::forbidden(cx.resource.group_resource(), &name, &why));
        }
        spec["priority"] = priority.into();
        if !class_name.is_empty() {
            spec["priorityClassName"] = class_name.into();
        }
        if let Some(given) = spec.get("preemptionPolicy").and_then(Value::as_str)
            && given != policy
        {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
                 priority admission controller computed {policy} from the given PriorityClass name"
            );
            return Err(Status::forbidden(cx.resource.group_resource(), &name, &why));
        }
        spec["preemptionPolicy"] = policy.into();
        Ok(())
    }
}

/// Preserves the fields that this plugin has set, so that clients need not repeat them.
fn preserve_existing(spec: &mut Value, old: Option<&Value>) {
    for field in ["priority", "preemptionPolicy"] {
        if spec.get(field).is_none_or(Value::is_null)
            && let Some(value) = old.and_then(|old| old.get(field))
        {
            spec[field] = value.clone();
        }
    }
}
