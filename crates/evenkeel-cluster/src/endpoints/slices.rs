//! EndpointSlices: the endpoints of a Service in slices of at most 100.
//!
//! Endpoints stay in their slice, so that a change of one pod updates one slice. Pods whose named
//! ports resolve to different numbers are in separate slices.

mod fill;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::cache::TypeOptions;
use evenkeel::owner::OwnerError;
use evenkeel::{Action, BoxError, Context, Key, Manager, Object, Reconciler, Result, owner};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::fill::{Group, SlicePlan};
use crate::pods;

const INDEX: &str = "endpointslice-selector";

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

pub(super) fn register(manager: &Manager) -> Result<(), BoxError> {
    manager
        .controller(Slices)
        .named(super::SLICES)
        .cached(TypeOptions::new())
        .watches::<Pod>(|pod, cx| super::services_of(pod, INDEX, cx))
        .watches::<EndpointSlice>(|slice, _| service_of(slice, MANAGER).into_iter().collect())
        .reads::<Node>()
        .workers(2)
        .register()?;
    super::index_selectors(manager, INDEX)
}

/// Returns the Service of a slice that `manager` manages.
pub(super) fn service_of(slice: &EndpointSlice, manager: &str) -> Option<Key> {
    let labels = slice.metadata.labels.as_ref()?;
    let name = labels.get(SERVICE_NAME)?;
    (labels.get(MANAGED_BY)? == manager)
        .then(|| Key::new(slice.metadata.namespace.as_deref(), name))
}

/// Returns the slices that `manager` manages for the reconciled Service.
pub(super) async fn existing<K: Object>(
    cx: &Context<K>,
    manager: &str,
) -> Result<Vec<Arc<EndpointSlice>>> {
    let slices =
        cx.client().list::<EndpointSlice>().in_namespace(cx.key().namespace().unwrap_or_default());
    Ok(slices.label(SERVICE_NAME, cx.key().name()).label(MANAGED_BY, manager).await?)
}

/// Returns the metadata of a new slice that `manager` manages for `owner`: a Service, or Endpoints
/// of the same name.
///
/// # Errors
/// When the owner has no uid.
pub(super) fn metadata<K: Object>(
    owner: &K,
    manager: &str,
    mut labels: BTreeMap<String, String>,
) -> Result<ObjectMeta, OwnerError> {
    let name = owner.meta().name.clone().unwrap_or_default();
    let generate_name = Some(format!("{name}-"));
    labels.insert(SERVICE_NAME.to_owned(), name);
    labels.insert(MANAGED_BY.to_owned(), manager.to_owned());
    let mut slice = EndpointSlice {
        metadata: ObjectMeta {
            generate_name,
            namespace: owner.meta().namespace.clone(),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        ..EndpointSlice::default()
    };
    owner::set_controller_reference(owner, &mut slice)?;
    Ok(slice.metadata)
}

struct Slices;

impl Reconciler for Slices {
    type Object = Service;

    async fn reconcile(&self, cx: &Context<Service>) -> Result<Action> {
        // Slices of a deleted Service are garbage-collected: the Service owns them.
        let Some(service) = cx.object() else { return Ok(Action::done()) };
        let Some(pods) = super::selected_pods(cx, &service).await? else {
            return Ok(Action::done());
        };
        let existing = existing(cx, MANAGER).await?;
        let mut pods_without_node = Vec::new();
        let mut plan = SlicePlan::default();
        let families = families(&service);
        for family in &families {
            let mut groups: BTreeMap<String, Group> = BTreeMap::new();
            for pod in pods.iter().filter(|pod| super::has_endpoint(pod, true)) {
                let Some(endpoint) = endpoint(cx, &service, pod, family == "IPv6").await? else {
                    pods_without_node.push(pod.metadata.name.clone().unwrap_or_default());
                    continue;
                };
                let ports = ports(&service, pod);
                let group = groups.entry(key(&ports)).or_insert_with(|| Group::new(ports));
                if !endpoint.addresses.is_empty() {
                    group.endpoints.push(endpoint);
                }
            }
            let present = existing.iter().filter(|slice| slice.address_type == *family);
            plan.add(&service, family, groups, present.cloned().collect())?;
        }
        let stray = existing.iter().filter(|slice| !families.contains(&slice.address_type));
        plan.delete.extend(stray.cloned());
        plan.apply(cx).await?;
        if !pods_without_node.is_empty() {
            return Err(format!("nodes of pods {} not found", pods_without_node.join(", ")).into());
        }
        Ok(Action::done())
    }
}

fn families(service: &Service) -> Vec<String> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.clone());
    match families {
        Some(families) if !families.is_empty() => families,
        _ => vec!["IPv4".to_owned()],
    }
}

/// Returns the endpoint of a pod; `None` if its node does not exist, since the zone is unknown
/// then.
async fn endpoint(
    cx: &Context<Service>,
    service: &Service,
    pod: &Pod,
    v6: bool,
) -> Result<Option<Endpoint>> {
    let publish = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses);
    let publish = publish.unwrap_or_default();
    let node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let node = match node_name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => cx.client().get::<Node>(&Key::cluster(name)).await?,
        None => None,
    };
    if node.is_none() && !publish {
        return Ok(None);
    }
    let zone = node.as_ref().and_then(|node| node.metadata.labels.as_ref());
    let zone = zone.and_then(|labels| labels.get("topology.kubernetes.io/zone"));
    let serving = pods::is_ready(pod);
    let terminating = pods::is_terminating(pod);
    Ok(Some(Endpoint {
        addresses: super::addresses(pod, v6),
        conditions: Some(EndpointConditions {
            ready: Some(publish || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: super::hostname(pod, service),
        node_name,
        target_ref: Some(super::target_ref(pod)),
        zone: zone.filter(|zone| !zone.is_empty()).cloned(),
        ..Endpoint::default()
    }))
}

/// Returns the ports of a Service as resolved on this pod; ports it lacks are omitted.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let found = ports.iter().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(super::port_on(pod, port)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    found.collect()
}

/// Returns the key shared by slices with the same ports.
pub(super) fn key(ports: &[EndpointPort]) -> String {
    let mut parts: Vec<String> = ports
        .iter()
        .map(|port| {
            format!("{:?} {:?} {:?} {:?}", port.name, port.port, port.protocol, port.app_protocol)
        })
        .collect();
    parts.sort_unstable();
    parts.join(",")
}
