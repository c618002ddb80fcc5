//! Compute resources of pods: lists of quantities by name, and the requests and limits of a whole
//! pod. Mirrors upstream's `component-helpers/resource`.

use std::collections::BTreeMap;

use evenkeel_types::quantity::Quantity;
use serde_json::{Map, Value};

/// Quantities by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// What is measured of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// What the spec requires, without the overhead of its RuntimeClass: for LimitRanges.
    Spec,
    /// What the pod uses, including its overhead and what a resize has not released yet: for
    /// ResourceQuotas.
    Usage,
}

/// Which of the two lists of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `requests`.
    Requests,
    /// `limits`.
    Limits,
}

impl Kind {
    /// Returns the name of the field.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// Reads a list of quantities; those that are not valid are left out.
pub fn list(value: Option<&Value>) -> ResourceList {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value)?))).collect()
}

/// Adds `more` to `list`.
pub fn add(list: &mut ResourceList, more: &ResourceList) {
    for (name, quantity) in more {
        match list.get_mut(name) {
            Some(sum) => sum.add(quantity),
            None => _ = list.insert(name.clone(), quantity.clone()),
        }
    }
}

/// Raises each quantity of `list` to at least that of `floor`.
pub fn raise(list: &mut ResourceList, floor: &ResourceList) {
    for (name, quantity) in floor {
        match list.get_mut(name) {
            Some(most) if *most >= *quantity => {}
            Some(most) => *most = quantity.clone(),
            None => _ = list.insert(name.clone(), quantity.clone()),
        }
    }
}

/// Returns the containers in a field of a pod's spec.
pub fn containers<'a>(pod: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    let found = pod.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_array);
    found.into_iter().flatten()
}

/// Returns whether a resource is one that devices and operators add to nodes.
pub fn is_extended_resource(name: &str) -> bool {
    crate::validate::resources::is_extended(name)
}

/// Returns one of the lists of a container.
pub fn of_container(container: &Value, kind: Kind) -> ResourceList {
    list(container.get("resources").and_then(|resources| resources.get(kind.field())))
}

/// Returns whether an init container is a sidecar.
pub fn is_sidecar(container: &Value) -> bool {
    container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
}

/// Returns whether the spec has resources of the whole pod.
pub fn has_pod_level_resources(pod: &Value) -> bool {
    [Kind::Requests, Kind::Limits].into_iter().any(|kind| {
        let names = pod.pointer("/spec/resources").and_then(|all| all.get(kind.field()));
        let mut names = names.and_then(Value::as_object).into_iter().flatten();
        names.any(|(name, _)| is_pod_level(name, Measure::Usage))
    })
}

/// Returns the total of each resource that the containers of a pod need: the sum over containers
/// that run at the same time, or what one init container needs together with the sidecars before
/// it, whichever is greater.
pub(crate) fn aggregate(spec: &Map<String, Value>, kind: Kind) -> ResourceList {
    total(spec, kind, |container| of_container(container, kind))
}

/// Like [`aggregate`], with `effective` for containers that run until the pod ends.
fn total(
    spec: &Map<String, Value>,
    kind: Kind,
    effective: impl Fn(&Value) -> ResourceList,
) -> ResourceList {
    let containers = |field| spec.get(field).and_then(Value::as_array).into_iter().flatten();
    let mut total = ResourceList::new();
    for container in containers("containers") {
        add(&mut total, &effective(container));
    }
    let (mut sidecars, mut init) = (ResourceList::new(), ResourceList::new());
    for container in containers("initContainers") {
        if is_sidecar(container) {
            let own = effective(container);
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut init, &sidecars);
        } else {
            let mut peak = of_container(container, kind);
            add(&mut peak, &sidecars);
            raise(&mut init, &peak);
        }
    }
    raise(&mut total, &init);
    total
}

/// Returns the requests or limits of a whole pod.
pub fn of_pod(pod: &Value, kind: Kind, measure: Measure) -> ResourceList {
    let Some(spec) = pod.get("spec").and_then(Value::as_object) else {
        return ResourceList::new();
    };
    let statuses = Statuses::of(pod, measure);
    let mut total = total(spec, kind, |container| statuses.effective(container, kind));
    let pod_level = pod.pointer("/spec/resources").and_then(|all| all.get(kind.field()));
    for (name, quantity) in list(pod_level) {
        if is_pod_level(&name, measure) {
            total.insert(name, quantity);
        }
    }
    if measure == Measure::Usage {
        let overhead = list(pod.pointer("/spec/overhead"));
        match kind {
            Kind::Requests => add(&mut total, &overhead),
            // A limit that is not set stays so.
            Kind::Limits => {
                for (name, quantity) in overhead {
                    if let Some(limit) = total.get_mut(&name).filter(|limit| !limit.is_zero()) {
                        limit.add(&quantity);
                    }
                }
            }
        }
    }
    total
}

fn is_pod_level(name: &str, measure: Measure) -> bool {
    matches!(name, "cpu" | "memory")
        || (measure == Measure::Usage && crate::defaults::resources::is_huge_page(name))
}

/// The container statuses of a pod, if they count.
struct Statuses<'a> {
    by_name: BTreeMap<&'a str, &'a Value>,
    /// The node cannot fulfil the requested resize.
    infeasible: bool,
}

impl<'a> Statuses<'a> {
    fn of(pod: &'a Value, measure: Measure) -> Self {
        let status = pod.get("status").filter(|_| measure == Measure::Usage);
        let all = |field| {
            let found = status.and_then(|status| status.get(field)).and_then(Value::as_array);
            found.into_iter().flatten()
        };
        let by_name = all("containerStatuses")
            .chain(all("initContainerStatuses"))
            .filter(|status| status.get("resources").is_some())
            .filter_map(|status| Some((status.get("name")?.as_str()?, status)))
            .collect();
        let pending = all("conditions").find(|condition| condition["type"] == "PodResizePending");
        let infeasible = pending.is_some_and(|condition| condition["reason"] == "Infeasible");
        Self { by_name, infeasible }
    }

    /// Returns what a container uses: the largest of what is desired, allocated and applied.
    fn effective(&self, container: &Value, kind: Kind) -> ResourceList {
        let desired = of_container(container, kind);
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(status) = self.by_name.get(name) else { return desired };
        let mut effective = of_container(status, kind);
        if kind == Kind::Requests {
            raise(&mut effective, &list(status.get("allocatedResources")));
        }
        if !self.infeasible {
            raise(&mut effective, &desired);
        }
        effective
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(list: &ResourceList) -> Vec<String> {
        list.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect()
    }

    fn container(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}})
    }

    #[test]
    fn init_containers_count_by_their_peak_and_sidecars_always() {
        let mut sidecar = container("s", "100m");
        sidecar["restartPolicy"] = "Always".into();
        let mut pod = json!({"spec": {
            "containers": [container("a", "1"), container("b", "500m")],
            "initContainers": [container("i", "1"), sidecar, container("j", "2")],
        }});
        let requests = |pod: &Value| text(&of_pod(pod, Kind::Requests, Measure::Usage));
        // 2 + 100m of the sidecar started before it, more than 1.6.
        assert_eq!(requests(&pod), ["cpu=2100m"]);
        pod["spec"]["initContainers"][2] = container("j", "1");
        assert_eq!(requests(&pod), ["cpu=1600m"]);
        pod["spec"]["overhead"] = json!({"cpu": "10m", "memory": "1Mi"});
        assert_eq!(requests(&pod), ["cpu=1610m", "memory=1Mi"]);
        assert_eq!(text(&of_pod(&pod, Kind::Limits, Measure::Usage)), ["cpu=1610m"]);
        assert_eq!(text(&of_pod(&pod, Kind::Requests, Measure::Spec)), ["cpu=1600m"]);
        pod["spec"]["resources"] = json!({"requests": {"cpu": "3"}});
        assert_eq!(text(&of_pod(&pod, Kind::Requests, Measure::Spec)), ["cpu=3"]);
    }

    #[test]
    fn a_resize_counts_what_is_not_released_yet() {
        let mut pod = json!({
            "spec": {"containers": [container("a", "1")]},
            "status": {"containerStatuses": [{
                "name": "a",
                "allocatedResources": {"cpu": "2"},
                "resources": {"requests": {"cpu": "3"}},
            }]},
        });
        let requests = |pod: &Value| text(&of_pod(pod, Kind::Requests, Measure::Usage));
        assert_eq!(requests(&pod), ["cpu=3"]);
        pod["spec"]["containers"][0] = container("a", "4");
        assert_eq!(requests(&pod), ["cpu=4"]);
        pod["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
        assert_eq!(requests(&pod), ["cpu=3"]);
    }
}
