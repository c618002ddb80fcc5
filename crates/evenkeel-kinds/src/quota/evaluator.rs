//! What a quota counts of one resource.

use evenkeel_types::quantity::{Format, Quantity};
use serde_json::Value;

use super::{Operation, Quota, Request, Scope, pod};
use crate::compute::ResourceList;

/// Counts the objects of one resource, and what else they use.
#[derive(Clone, Debug)]
pub struct Evaluator<'a> {
    counted: Counted,
    /// The name of the object count: `count/deployments.apps`.
    count: String,
    group: &'a str,
    plural: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Pods,
    Services,
    PersistentVolumeClaims,
    ResourceClaims,
    Other,
}

/// Resources without storage, and events.
const IGNORED: &[(&str, &str)] = &[
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// Resources that quotas count by their plural, too.
const LEGACY: &[&str] = &["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

const BY_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

const BY_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";

/// The most devices of one request: upstream's `AllocationResultsMaxSize`.
const ALL_DEVICES: i64 = 32;

impl<'a> Evaluator<'a> {
    /// Returns the evaluator of a resource; `None` if quotas do not count it.
    pub fn of(group: &'a str, plural: &'a str) -> Option<Self> {
        if IGNORED.contains(&(group, plural)) {
            return None;
        }
        let counted = match (group, plural) {
            ("", "pods") => Counted::Pods,
            ("", "services") => Counted::Services,
            ("", "persistentvolumeclaims") => Counted::PersistentVolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Counted::ResourceClaims,
            _ => Counted::Other,
        };
        let count = match group {
            "" => format!("count/{plural}"),
            _ => format!("count/{plural}.{group}"),
        };
        Some(Self { counted, count, group, plural })
    }

    /// Returns whether the request can change the usage of a quota.
    pub fn handles(&self, request: &Request<'_>) -> bool {
        let update = request.operation == Operation::Update;
        match (self.counted, request.subresource) {
            (Counted::Pods, "resize") => update,
            (Counted::Pods, "") if update => request
                .old
                .is_some_and(|old| pod::is_terminating(old) != pod::is_terminating(request.object)),
            (Counted::PersistentVolumeClaims, "status") => request.old.is_some(),
            (Counted::Other | Counted::Pods, "") => !update,
            (_, "") => true,
            _ => false,
        }
    }

    /// Returns whether the evaluator computes the usage of `name`.
    pub fn counts(&self, name: &str) -> bool {
        if name == self.count {
            return true;
        }
        match self.counted {
            Counted::Pods => pod::counts(name),
            Counted::Services => {
                matches!(name, "services" | "services.nodeports" | "services.loadbalancers")
            }
            Counted::PersistentVolumeClaims => {
                let class = name.rsplit_once(BY_STORAGE_CLASS);
                let what = class.map_or(name, |(_, what)| what);
                matches!(what, "persistentvolumeclaims" | "requests.storage")
            }
            Counted::ResourceClaims => name.ends_with(BY_DEVICE_CLASS),
            Counted::Other => self.group.is_empty() && self.is_legacy(name),
        }
    }

    fn is_legacy(&self, name: &str) -> bool {
        name == self.plural && LEGACY.contains(&name)
    }

    /// Returns whether the quota counts the object.
    pub(super) fn matches(&self, quota: &Quota, object: &Value) -> bool {
        quota.hard.keys().any(|name| self.counts(name))
            && self.matches_scopes(&quota.scopes, object)
    }

    /// Returns whether the object is in all scopes. Only pods and claims are in any.
    pub(super) fn matches_scopes(&self, scopes: &[Scope], object: &Value) -> bool {
        scopes.iter().all(|scope| match self.counted {
            Counted::Pods => pod::matches(scope, object),
            Counted::PersistentVolumeClaims => claim_matches(scope, object),
            _ => false,
        })
    }

    /// Checks that the object sets what a quota has to know.
    pub(super) fn constraints<'n>(
        &self,
        required: impl Iterator<Item = &'n str>,
        object: &Value,
    ) -> Result<(), String> {
        match self.counted {
            Counted::Pods => pod::constraints(required, object),
            _ => Ok(()),
        }
    }

    /// Returns what the object uses.
    pub fn usage(&self, object: &Value, now: i64) -> ResourceList {
        let mut usage = ResourceList::new();
        usage.insert(self.count.clone(), whole(1));
        match self.counted {
            Counted::Pods => pod::usage(&mut usage, object, now),
            Counted::Services => service(&mut usage, object),
            Counted::PersistentVolumeClaims => claim(&mut usage, object),
            Counted::ResourceClaims => devices(&mut usage, object),
            Counted::Other if self.group.is_empty() && self.is_legacy(self.plural) => {
                usage.insert(self.plural.to_owned(), whole(1));
            }
            Counted::Other => {}
        }
        usage
    }
}

pub(super) fn whole(value: i64) -> Quantity {
    Quantity::new(value, Format::DecimalSi)
}

fn service(usage: &mut ResourceList, service: &Value) {
    let spec = service.get("spec").unwrap_or(&Value::Null);
    let ports = spec.get("ports").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default();
    let node_ports = match kind {
        "NodePort" => ports.len(),
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => {
            ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count()
        }
        "LoadBalancer" => ports.len(),
        _ => 0,
    };
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    usage.insert("services".to_owned(), whole(1));
    usage.insert("services.nodeports".to_owned(), whole(node_ports));
    let load_balancers = i64::from(kind == "LoadBalancer");
    usage.insert("services.loadbalancers".to_owned(), whole(load_balancers));
}

fn claim(usage: &mut ResourceList, claim: &Value) {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
    let annotated = claim.pointer("/metadata/annotations").and_then(|all| all.get(ANNOTATION));
    let class = annotated.or_else(|| claim.pointer("/spec/storageClassName"));
    let class = class.and_then(Value::as_str).filter(|class| !class.is_empty());
    let mut count = |what: &str, quantity: &Quantity| {
        usage.insert(what.to_owned(), quantity.clone());
        if let Some(class) = class {
            usage.insert(format!("{class}{BY_STORAGE_CLASS}{what}"), quantity.clone());
        }
    };
    count("persistentvolumeclaims", &whole(1));
    let quantity = |pointer: &str| {
        let quantity = Quantity::from_json(claim.pointer(pointer)?)?;
        Some(quantity.rounded_up(0))
    };
    if let Some(requested) = quantity("/spec/resources/requests/storage") {
        // Until a failed expansion is given up, the larger size is allocated.
        let allocated = quantity("/status/allocatedResources/storage");
        count("requests.storage", &allocated.unwrap_or(Quantity::ZERO).max(requested));
    }
}

fn claim_matches(scope: &Scope, claim: &Value) -> bool {
    if scope.name != "VolumeAttributesClass" {
        return false;
    }
    let classes: Vec<&str> = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ]
    .into_iter()
    .filter_map(|pointer| claim.pointer(pointer)?.as_str())
    .filter(|class| !class.is_empty())
    .collect();
    if classes.is_empty() {
        return scope.matches(None);
    }
    classes.into_iter().any(|class| scope.matches(Some(class)))
}

/// Counts the devices of a ResourceClaim by DeviceClass.
fn devices(usage: &mut ResourceList, claim: &Value) {
    let requests = claim.pointer("/spec/devices/requests").and_then(Value::as_array);
    for request in requests.into_iter().flatten() {
        let mut most = ResourceList::new();
        let alternatives = request.get("firstAvailable").and_then(Value::as_array);
        match alternatives.filter(|all| !all.is_empty()) {
            Some(alternatives) => {
                for alternative in alternatives {
                    crate::compute::raise(&mut most, &device(alternative));
                }
            }
            // Before v1, the fields were in the request itself.
            None => most = device(request.get("exactly").unwrap_or(request)),
        }
        crate::compute::add(usage, &most);
    }
}

fn device(request: &Value) -> ResourceList {
    let class = request.get("deviceClassName").and_then(Value::as_str).unwrap_or_default();
    let count = match request.get("allocationMode").and_then(Value::as_str) {
        Some("ExactCount") => request.get("count").and_then(Value::as_i64).unwrap_or(0),
        Some("All") => ALL_DEVICES,
        _ => 0,
    };
    ResourceList::from([(format!("{class}{BY_DEVICE_CLASS}"), whole(count))])
}
