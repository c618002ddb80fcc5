//! Endpoints, the predecessor of EndpointSlices: all addresses of a Service in one object.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result};
use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{HEADLESS, has_address, port_on};
use crate::pods::is_ready;

const INDEX: &str = "endpoints-selector";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The maximum number of addresses in the object. EndpointSlices hold the rest.
const CAPACITY: usize = 1000;

pub(super) fn register(manager: &Manager) -> Result<(), BoxError> {
    manager
        .controller(Legacy)
        .named(super::LEGACY)
        .watches::<Pod>(|pod, cx| super::services_of(pod, INDEX, cx))
        .watches::<Endpoints>(|endpoints, _| vec![Key::of(endpoints)])
        .workers(2)
        .register()?;
    super::index_selectors(manager, INDEX)
}

struct Legacy;

impl Reconciler for Legacy {
    type Object = Service;

    async fn reconcile(&self, cx: &Context<Service>) -> Result<Action> {
        let present = cx.client().get::<Endpoints>(cx.key()).await?;
        let Some(service) = cx.object() else {
            let ours = |endpoints: &Endpoints| label(endpoints, MANAGED_BY) == Some(MANAGER);
            if let Some(endpoints) = present.filter(|endpoints| ours(endpoints)) {
                cx.client().delete(&*endpoints).await?;
            }
            return Ok(Action::done());
        };
        let Some(pods) = super::selected_pods(cx, &service).await? else {
            return Ok(Action::done());
        };
        let mut subsets = subsets(&service, &pods);
        let cut = truncate(&mut subsets);
        let mut next = present.as_deref().cloned().unwrap_or_else(|| Endpoints {
            metadata: ObjectMeta {
                name: service.metadata.name.clone(),
                namespace: service.metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            ..Endpoints::default()
        });
        next.subsets = (!subsets.is_empty()).then_some(subsets);
        let mut labels = service.metadata.labels.clone().unwrap_or_default();
        labels.remove(HEADLESS);
        if !has_address(&service) {
            labels.insert(HEADLESS.to_owned(), String::new());
        }
        labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
        next.metadata.labels = Some(labels);
        let annotations = next.metadata.annotations.get_or_insert_default();
        if cut {
            annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
        } else {
            annotations.remove(OVER_CAPACITY);
        }
        if annotations.is_empty() {
            next.metadata.annotations = None;
        }
        match present {
            None => match cx.client().create(&next).await {
                // The namespace is terminating, and the Service with it.
                Err(error) if error.is_forbidden() => {}
                result => drop(result?),
            },
            Some(present) if next == *present => {}
            Some(_) => drop(cx.client().update(&next).await?),
        }
        Ok(Action::done())
    }
}

fn label<'a>(endpoints: &'a Endpoints, name: &str) -> Option<&'a str> {
    endpoints.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// Name, number, protocol and application protocol.
type Port = (Option<String>, i32, String, Option<String>);

/// Addresses by IP and the uid of their pod, and whether they are ready.
type Addresses = BTreeMap<(String, String), (bool, EndpointAddress)>;

/// Groups addresses with the same ports.
fn subsets(service: &Service, pods: &[std::sync::Arc<Pod>]) -> Vec<EndpointSubset> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let publish = spec.publish_not_ready_addresses.unwrap_or_default();
    let v6 = spec.ip_families.as_ref().and_then(|families| families.first());
    let v6 = v6.is_some_and(|family| family == "IPv6");
    let ports = spec.ports.as_deref().unwrap_or_default();
    let mut by_port: BTreeMap<Option<Port>, Addresses> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| super::has_endpoint(pod, publish)) {
        let Some(address) = address(service, pod, v6) else { continue };
        let ready = publish || is_ready(pod);
        let id = (address.ip.clone(), pod.metadata.uid.clone().unwrap_or_default());
        let mut add = |port: Option<Port>| {
            by_port.entry(port).or_default().insert(id.clone(), (ready, address.clone()));
        };
        if ports.is_empty() && !has_address(service) {
            add(None);
        }
        for port in ports {
            let Some(number) = port_on(pod, port) else { continue };
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            add(Some((port.name.clone(), number, protocol, port.app_protocol.clone())));
        }
    }
    grouped(by_port)
}

/// Returns subsets in canonical form: each address once per port, addresses with the same ports in
/// one subset. Mirrors `RepackSubsets`.
pub(super) fn repack(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let mut by_port: BTreeMap<Option<Port>, Addresses> = BTreeMap::new();
    for subset in subsets {
        let ports = subset.ports.iter().flatten().map(|port| {
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            Some((port.name.clone(), port.port, protocol, port.app_protocol.clone()))
        });
        let mut ports: Vec<Option<Port>> = ports.collect();
        if ports.is_empty() {
            ports.push(None);
        }
        let ready = subset.addresses.iter().flatten().map(|address| (true, address));
        let waiting = subset.not_ready_addresses.iter().flatten().map(|address| (false, address));
        for (ready, address) in ready.chain(waiting) {
            let uid = address.target_ref.as_ref().and_then(|target| target.uid.clone());
            let id = (address.ip.clone(), uid.unwrap_or_default());
            for port in &ports {
                let addresses = by_port.entry(port.clone()).or_default();
                addresses.insert(id.clone(), (ready, address.clone()));
            }
        }
    }
    grouped(by_port)
}

/// Merges ports with the same addresses into one subset.
fn grouped(by_port: BTreeMap<Option<Port>, Addresses>) -> Vec<EndpointSubset> {
    let mut groups: Vec<(Addresses, BTreeSet<Port>)> = Vec::new();
    for (port, addresses) in by_port {
        match groups.iter_mut().find(|(present, _)| *present == addresses) {
            Some((_, ports)) => ports.extend(port),
            None => groups.push((addresses, port.into_iter().collect())),
        }
    }
    groups.into_iter().map(subset).collect()
}

fn subset((addresses, ports): (Addresses, BTreeSet<Port>)) -> EndpointSubset {
    let (ready, waiting): (Vec<_>, Vec<_>) = addresses.into_values().partition(|(ready, _)| *ready);
    let plain = |list: Vec<(bool, EndpointAddress)>| {
        (!list.is_empty()).then(|| list.into_iter().map(|(_, address)| address).collect())
    };
    let ports: Vec<EndpointPort> = ports
        .into_iter()
        .map(|(name, port, protocol, app_protocol)| EndpointPort {
            name,
            port,
            protocol: Some(protocol),
            app_protocol,
        })
        .collect();
    EndpointSubset {
        addresses: plain(ready),
        not_ready_addresses: plain(waiting),
        ports: (!ports.is_empty()).then_some(ports),
    }
}

fn address(service: &Service, pod: &Pod, v6: bool) -> Option<EndpointAddress> {
    Some(EndpointAddress {
        ip: super::addresses(pod, v6).into_iter().next()?,
        hostname: super::hostname(pod, service),
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(super::target_ref(pod)),
    })
}

/// Truncates to the capacity, ready addresses first. Returns whether addresses were dropped.
fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let mut room = CAPACITY;
    let mut cut = false;
    let mut keep = |list: &mut Option<Vec<EndpointAddress>>| {
        if let Some(addresses) = list {
            cut |= addresses.len() > room;
            addresses.truncate(room);
            room -= addresses.len();
        }
        if list.as_ref().is_some_and(Vec::is_empty) {
            *list = None;
        }
    };
    subsets.iter_mut().for_each(|subset| keep(&mut subset.addresses));
    subsets.iter_mut().for_each(|subset| keep(&mut subset.not_ready_addresses));
    cut
}
