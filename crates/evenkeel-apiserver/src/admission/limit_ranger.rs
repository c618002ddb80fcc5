//! `LimitRanger`: sets the default resources of containers, and rejects pods and
//! PersistentVolumeClaims outside the bounds of their namespace's LimitRanges.

use std::collections::BTreeSet;

use evenkeel_kinds::compute::{self, Kind, Measure, ResourceList};
use evenkeel_types::quantity::Quantity;
use serde_json::{Map, Value};

use crate::context::{Attributes, Operation, Plugin};
use crate::object::{Metadata as _, metadata_mut};
use crate::status::Status;
use crate::storage::Range;

pub(super) struct LimitRanger;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

impl Plugin for LimitRanger {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if target(attributes) != Some(Target::Pod) {
            return Ok(());
        }
        for range in ranges(attributes)? {
            if let Some(pod) = attributes.object.as_deref_mut() {
                set_defaults(pod, &range);
            }
        }
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let Some(target) = target(attributes) else { return Ok(()) };
        let Some(object) = attributes.object.as_deref() else { return Ok(()) };
        for range in ranges(attributes)? {
            let mut errors = Errors::default();
            for limit in limits(&range) {
                match target {
                    Target::Pod => check_pod(&mut errors, limit, object),
                    Target::Claim => check_claim(&mut errors, limit, object),
                }
            }
            if let Some(why) = errors.message() {
                return Err(attributes.forbidden(&why));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Pod,
    Claim,
}

/// Returns what of the write is limited, if anything. The containers of a pod are immutable except
/// for a resize, so its updates are not.
fn target(attributes: &Attributes<'_>) -> Option<Target> {
    let cx = attributes.cx;
    let target = if cx.resource.is("", "pods") {
        Target::Pod
    } else if cx.resource.is("", "persistentvolumeclaims") {
        Target::Claim
    } else {
        return None;
    };
    let applies = match (attributes.operation, cx.subresource.as_deref()) {
        (Operation::Create, None) => true,
        (Operation::Update, None) => target == Target::Claim,
        (Operation::Update, Some("resize")) => target == Target::Pod,
        _ => false,
    };
    let deleting = attributes.old.is_some_and(|old| old.is_deleting());
    (applies && !deleting).then_some(target)
}

/// Returns the LimitRanges of the namespace.
fn ranges(attributes: &Attributes<'_>) -> Result<Vec<Value>, Status> {
    let cx = attributes.cx;
    let range = Range { namespace: Some(&cx.namespace), ..Range::default() };
    let page = cx.core.store.table("limitranges").list(range, None).map_err(Status::internal)?;
    page.items
        .iter()
        .map(|record| serde_json::from_slice(&record.body).map_err(Status::internal))
        .collect()
}

fn limits(range: &Value) -> impl Iterator<Item = &Value> {
    range.pointer("/spec/limits").and_then(Value::as_array).into_iter().flatten()
}

fn is_type(limit: &Value, name: &str) -> bool {
    limit.get("type").and_then(Value::as_str) == Some(name)
}

// === defaults ===

/// Sets the default resources of all containers and lists them in an annotation.
fn set_defaults(pod: &mut Value, range: &Value) {
    let mut defaults = [Map::new(), Map::new()];
    for limit in limits(range).filter(|limit| is_type(limit, "Container")) {
        for (all, field) in defaults.iter_mut().zip(["defaultRequest", "default"]) {
            let given = limit.get(field).and_then(Value::as_object).into_iter().flatten();
            all.extend(given.map(|(name, value)| (name.clone(), value.clone())));
        }
    }
    let [requests, limits] = defaults;
    let mut set = Vec::new();
    for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.get_mut("spec").and_then(|spec| spec.get_mut(field));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
            for (kind, defaults, word) in
                [(Kind::Requests, &requests, "request"), (Kind::Limits, &limits, "limit")]
            {
                let added = add_missing(container, kind, defaults);
                if !added.is_empty() {
                    set.push(format!("{} {word} for {what} {name}", added.join(", ")));
                }
            }
        }
    }
    if set.is_empty() {
        return;
    }
    let annotations = metadata_mut(pod).entry("annotations").or_insert(Value::Null);
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", set.join("; ")).into();
}

/// Adds the resources that the container does not set, and returns their names, sorted.
fn add_missing(container: &mut Value, kind: Kind, defaults: &Map<String, Value>) -> Vec<String> {
    let mut names = BTreeSet::new();
    let Some(container) = container.as_object_mut().filter(|_| !defaults.is_empty()) else {
        return Vec::new();
    };
    let resources = container.entry("resources").or_insert(Value::Null);
    if !resources.is_object() {
        *resources = Value::Object(Map::new());
    }
    let list = &mut resources[kind.field()];
    if !list.is_object() {
        *list = Value::Object(Map::new());
    }
    let Value::Object(list) = list else { return Vec::new() };
    for (name, value) in defaults {
        if !list.contains_key(name) {
            list.insert(name.clone(), value.clone());
            names.insert(name.clone());
        }
    }
    names.into_iter().collect()
}

// === bounds ===

/// Messages in order, as upstream's aggregate of errors prints them.
#[derive(Default)]
struct Errors(Vec<String>);

impl Errors {
    fn check(&mut self, result: Result<(), String>) {
        if let Err(message) = result
            && !self.0.contains(&message)
        {
            self.0.push(message);
        }
    }

    fn message(self) -> Option<String> {
        match self.0.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("[{}]", many.join(", "))),
        }
    }
}

fn check_pod(errors: &mut Errors, limit: &Value, pod: &Value) {
    let kind = limit.get("type").and_then(Value::as_str).unwrap_or("");
    match kind {
        "Container" => {
            let init = compute::containers(pod, "initContainers");
            for container in compute::containers(pod, "containers").chain(init) {
                let used = Used {
                    requests: compute::of_container(container, Kind::Requests),
                    limits: compute::of_container(container, Kind::Limits),
                };
                used.check(errors, limit, kind);
            }
        }
        "Pod" => {
            let used = Used {
                requests: compute::of_pod(pod, Kind::Requests, Measure::Spec),
                limits: compute::of_pod(pod, Kind::Limits, Measure::Spec),
            };
            used.check(errors, limit, kind);
        }
        _ => {}
    }
}

fn check_claim(errors: &mut Errors, limit: &Value, claim: &Value) {
    let kind = "PersistentVolumeClaim";
    if !is_type(limit, kind) {
        return;
    }
    let requests = compute::list(claim.pointer("/spec/resources/requests"));
    let used = Used { requests, limits: ResourceList::new() };
    for (name, bound) in compute::list(limit.get("min")) {
        errors.check(used.at_least(kind, &name, &bound));
    }
    for (name, bound) in compute::list(limit.get("max")) {
        errors.check(used.request_at_most(kind, &name, &bound));
    }
}

/// What a container, a pod or a claim requests.
struct Used {
    requests: ResourceList,
    limits: ResourceList,
}

impl Used {
    fn check(&self, errors: &mut Errors, limit: &Value, kind: &str) {
        for (name, bound) in compute::list(limit.get("min")) {
            errors.check(self.at_least(kind, &name, &bound));
        }
        for (name, bound) in compute::list(limit.get("max")) {
            errors.check(self.at_most(kind, &name, &bound));
        }
        for (name, bound) in compute::list(limit.get("maxLimitRequestRatio")) {
            errors.check(self.ratio_at_most(kind, &name, &bound));
        }
    }

    fn at_least(&self, kind: &str, name: &str, bound: &Quantity) -> Result<(), String> {
        let minimum = format!("minimum {name} usage per {kind} is {bound}");
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [observed, limited, enforced] = comparable(request, limit, bound);
        match (request, limit) {
            (None, _) => Err(format!("{minimum}.  No request is specified")),
            (Some(request), _) if observed < enforced => {
                Err(format!("{minimum}, but request is {request}"))
            }
            (_, Some(limit)) if limited < enforced => {
                Err(format!("{minimum}, but limit is {limit}"))
            }
            _ => Ok(()),
        }
    }

    fn request_at_most(&self, kind: &str, name: &str, bound: &Quantity) -> Result<(), String> {
        let maximum = format!("maximum {name} usage per {kind} is {bound}");
        let request = self.requests.get(name);
        let [observed, _, enforced] = comparable(request, None, bound);
        match request {
            None => Err(format!("{maximum}.  No request is specified")),
            Some(request) if observed > enforced => {
                Err(format!("{maximum}, but request is {request}"))
            }
            Some(_) => Ok(()),
        }
    }

    fn at_most(&self, kind: &str, name: &str, bound: &Quantity) -> Result<(), String> {
        let maximum = format!("maximum {name} usage per {kind} is {bound}");
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [observed, limited, enforced] = comparable(request, limit, bound);
        match (request, limit) {
            (_, None) => Err(format!("{maximum}.  No limit is specified")),
            (_, Some(limit)) if limited > enforced => {
                Err(format!("{maximum}, but limit is {limit}"))
            }
            (Some(request), _) if observed > enforced => {
                Err(format!("{maximum}, but request is {request}"))
            }
            _ => Ok(()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the ratio is computed in floats upstream, too")]
    fn ratio_at_most(&self, kind: &str, name: &str, bound: &Quantity) -> Result<(), String> {
        let maximum = format!("{name} max limit to request ratio per {kind} is {bound}");
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let [observed, limited, _] = comparable(request, limit, bound);
        if observed == 0 {
            return Err(format!("{maximum}, but no request is specified or request is 0"));
        }
        if limited == 0 {
            return Err(format!("{maximum}, but no limit is specified or limit is 0"));
        }
        let ratio = limited as f64 / observed as f64;
        let exceeds = if bound.value() <= MAX_MILLI_VALUE {
            ratio * 1000.0 > bound.milli_value() as f64
        } else {
            ratio > bound.value() as f64
        };
        if exceeds {
            return Err(format!("{maximum}, but provided ratio is {ratio:.6}"));
        }
        Ok(())
    }
}

/// The largest whole amount whose thousandths do not overflow.
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

/// Returns request, limit and bound in thousandths, or in whole units if one is too large. What is
/// missing is zero.
fn comparable(request: Option<&Quantity>, limit: Option<&Quantity>, bound: &Quantity) -> [i64; 3] {
    const ZERO: &Quantity = &Quantity::ZERO;
    let all = [request.unwrap_or(ZERO), limit.unwrap_or(ZERO), bound];
    if all.iter().all(|quantity| quantity.value() <= MAX_MILLI_VALUE) {
        all.map(Quantity::milli_value)
    } else {
        all.map(Quantity::value)
    }
}
