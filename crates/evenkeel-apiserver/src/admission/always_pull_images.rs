//! `AlwaysPullImages`: sets the pull policy of all images of a pod to `Always`, so that only users
//! with credentials for an image use it. Disabled by default.

use std::collections::HashSet;

use evenkeel_kinds::compute;
use evenkeel_schema::field;
use serde_json::Value;

use crate::context::{Attributes, Operation, Plugin};
use crate::status::Status;

pub(super) struct AlwaysPullImages;

const ALWAYS: &str = "Always";

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

impl Plugin for AlwaysPullImages {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !applies(attributes) {
            return Ok(());
        }
        let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
        for list in CONTAINERS {
            for container in list_mut(pod, list) {
                container["imagePullPolicy"] = ALWAYS.into();
            }
        }
        for volume in list_mut(pod, "volumes") {
            if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
                image["pullPolicy"] = ALWAYS.into();
            }
        }
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let Some(pod) = attributes.object.as_deref().filter(|_| applies(attributes)) else {
            return Ok(());
        };
        let mut errors = Vec::new();
        let mut check = |path: String, policy: Option<&Value>| {
            let policy = policy.and_then(Value::as_str).unwrap_or_default();
            if policy != ALWAYS {
                let why = field::Error::not_supported(path, policy, [ALWAYS]).to_string();
                errors.push(attributes.forbidden(&why).message().to_owned());
            }
        };
        for list in CONTAINERS {
            for (at, container) in compute::containers(pod, list).enumerate() {
                let policy = container.get("imagePullPolicy");
                check(format!("spec.{list}[{at}].imagePullPolicy"), policy);
            }
        }
        for (at, volume) in compute::containers(pod, "volumes").enumerate() {
            if let Some(image) = volume.get("image").filter(|image| image.is_object()) {
                check(format!("spec.volumes[{at}].image.pullPolicy"), image.get("pullPolicy"));
            }
        }
        // Upstream returns an aggregate, which is not a status: hence the code.
        match errors.as_slice() {
            [] => Ok(()),
            [one] => Err(Status::without_reason(500, one)),
            several => Err(Status::without_reason(500, format!("[{}]", several.join(", ")))),
        }
    }
}

fn applies(attributes: &Attributes<'_>) -> bool {
    let cx = attributes.cx;
    let Some(pod) = attributes.object.as_deref() else { return false };
    let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
    if !writes || !cx.resource.is("", "pods") || cx.subresource.is_some() {
        return false;
    }
    match attributes.old.filter(|_| attributes.operation == Operation::Update) {
        None => true,
        Some(old) => {
            let before: HashSet<&str> = images(old).collect();
            images(pod).any(|image| !before.contains(image))
        }
    }
}

fn images(pod: &Value) -> impl Iterator<Item = &str> {
    let containers = CONTAINERS.iter().flat_map(|list| compute::containers(pod, list));
    containers.map(|container| container["image"].as_str().unwrap_or_default())
}

fn list_mut<'a>(pod: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = pod.get_mut("spec").and_then(|spec| spec.get_mut(name));
    let elements = list.and_then(Value::as_array_mut).into_iter().flatten();
    elements.filter(|element| element.is_object())
}
