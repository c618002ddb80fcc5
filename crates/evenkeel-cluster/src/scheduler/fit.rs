//! Resource requests of pods and capacity of nodes.

use std::collections::BTreeMap;

use evenkeel_types::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use super::topology::{self, Term};

/// Quantities by resource: CPU in millicores, all other resources in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources(BTreeMap<String, i64>);

impl Resources {
    pub(super) fn of(texts: Option<&BTreeMap<String, Text>>) -> Self {
        let amount = |(name, text): (&String, &Text)| {
            let quantity = Quantity::parse(&text.0).ok()?;
            let amount = if name == "cpu" { quantity.milli_value() } else { quantity.value() };
            Some((name.clone(), amount))
        };
        Self(texts.into_iter().flatten().filter_map(amount).collect())
    }

    pub(super) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    pub(super) fn sub(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_sub(*amount);
        }
    }

    fn set_max(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }

    /// Returns the first resource of which less than requested is free, if any.
    pub(super) fn insufficient(&self, capacity: &Self, used: &Self) -> Option<&str> {
        let is_insufficient = |(name, amount): &(&String, &i64)| {
            **amount > 0 && **amount > capacity.get(name).saturating_sub(used.get(name))
        };
        self.0.iter().find(is_insufficient).map(|(name, _)| name.as_str())
    }

    /// The share of `capacity` that is used, in thousandths, of the most used resource.
    pub(super) fn utilization(&self, capacity: &Self) -> i64 {
        let share = |(name, amount): (&String, &i64)| {
            amount.saturating_mul(1000).checked_div(capacity.get(name)).unwrap_or(0)
        };
        self.0.iter().map(share).max().unwrap_or(0)
    }
}

/// What a pod requires of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct PodRequirements {
    pub(super) resources: Resources,
    pub(super) ports: Vec<(String, i32)>,
    /// Pods of lower priority may be preempted for it.
    pub(super) priority: i32,
    /// Its required anti-affinity terms.
    pub(super) anti_affinity: Vec<Term>,
}

impl PodRequirements {
    /// The larger of the sum over its containers and the largest init container. Sidecars count
    /// towards both.
    pub(super) fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let requests = |container: &Container| {
            let resources = container.resources.as_ref();
            Resources::of(resources.and_then(|resources| resources.requests.as_ref()))
        };
        let mut together = Resources::default();
        for container in &spec.containers {
            together.add(&requests(container));
        }
        let (mut staying, mut most) = (Resources::default(), Resources::default());
        for container in spec.init_containers.iter().flatten() {
            let mut peak = staying.clone();
            peak.add(&requests(container));
            if container.restart_policy.as_deref() == Some("Always") {
                staying = peak.clone();
            }
            most.set_max(&peak);
        }
        together.add(&staying);
        together.set_max(&most);
        together.add(&Resources::of(spec.overhead.as_ref()));
        let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
        let ports = ports.filter_map(|port| {
            let number = port.host_port.filter(|&number| number > 0)?;
            Some((port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), number))
        });
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let anti_affinity = topology::required_anti_affinity(spec, namespace);
        let (ports, priority) = (ports.collect(), spec.priority.unwrap_or(0));
        Self { resources: together, ports, priority, anti_affinity }
    }
}
