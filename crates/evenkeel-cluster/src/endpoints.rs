//! Endpoints of a Service: EndpointSlices and the older Endpoints, computed from pods.
//!
//! Both controllers reconcile Services and list the pods that the selector matches. An index on
//! selectors maps a pod to its Services without a scan of all Services.

mod legacy;

mod slices;

mod mirror;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use evenkeel::{BoxError, Context, Key, Manager, MapContext, Result};
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::{Expression, Selector};

use crate::options::ClusterOptions;
use crate::pods;

/// The name of the EndpointSlice controller in `kube-controller-manager`.
pub(crate) const SLICES: &str = "endpointslice-controller";
/// The name of the Endpoints controller in `kube-controller-manager`.
pub(crate) const LEGACY: &str = "endpoints-controller";

/// The name of the EndpointSlice mirroring controller in `kube-controller-manager`.
pub(crate) const MIRROR: &str = "endpointslice-mirroring-controller";

/// The label of objects that belong to a headless Service.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Registers the EndpointSlice controller.
pub(crate) fn register_slices(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    slices::register(manager)
}

/// Registers the Endpoints controller.
pub(crate) fn register_legacy(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    legacy::register(manager)
}

/// Registers the controller that mirrors Endpoints into EndpointSlices.
pub(crate) fn register_mirror(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    mirror::register(manager)
}

/// Indexes Services by the first pair of their selector. Each controller uses its own index name.
fn index_selectors(manager: &Manager, index: &'static str) -> Result<(), BoxError> {
    manager.index::<Service>(index, |service| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let first = selector.and_then(|selector| selector.iter().next());
        first.map(|(name, value)| format!("{namespace}/{name}={value}")).into_iter().collect()
    })?;
    Ok(())
}

/// Returns the Services that may select a pod: one pair of the selector is among the pod's labels.
fn services_of(pod: &Pod, index: &'static str, cx: &MapContext) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let labels = pod.metadata.labels.iter().flatten();
    let pairs = labels.map(|(name, value)| format!("{namespace}/{name}={value}"));
    pairs.flat_map(|pair| cx.select::<Service>().index(index, &pair).keys()).collect()
}

/// Returns the pods of the reconciled Service; `None` if no controller manages its endpoints.
async fn selected_pods(cx: &Context<Service>, service: &Service) -> Result<Option<Vec<Arc<Pod>>>> {
    let Some(spec) = &service.spec else { return Ok(None) };
    let Some(selector) = spec.selector.as_ref().filter(|selector| !selector.is_empty()) else {
        return Ok(None);
    };
    let is_alias = spec.type_.as_deref() == Some("ExternalName");
    if is_alias || service.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let labels: Selector = selector
        .iter()
        .map(|(name, value)| Expression::Equal(name.clone(), value.clone()))
        .collect();
    let namespace = cx.key().namespace().unwrap_or_default();
    Ok(Some(cx.client().list::<Pod>().in_namespace(namespace).matching(labels).await?))
}

/// Returns the addresses of a pod in one IP family.
fn addresses(pod: &Pod, v6: bool) -> Vec<String> {
    let status = pod.status.as_ref();
    let all = status.and_then(|status| status.pod_ips.as_deref()).unwrap_or_default();
    let mut all: Vec<&str> = all.iter().map(|address| address.ip.as_str()).collect();
    if all.is_empty() {
        all.extend(status.and_then(|status| status.pod_ip.as_deref()));
    }
    let parsed = all.into_iter().filter_map(|text| text.parse::<IpAddr>().ok());
    parsed.filter(|address| address.is_ipv6() == v6).map(|address| address.to_string()).collect()
}

/// Whether the pod has an endpoint, ready or not.
fn has_endpoint(pod: &Pod, terminating: bool) -> bool {
    let status = pod.status.as_ref();
    let has_address = status.is_some_and(|status| {
        status.pod_ip.as_ref().is_some_and(|ip| !ip.is_empty())
            || status.pod_ips.as_ref().is_some_and(|ips| !ips.is_empty())
    });
    has_address && !pods::is_terminal(pod) && (terminating || !pods::is_terminating(pod))
}

/// Returns the reference of an endpoint to its pod.
fn target_ref(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Returns the DNS hostname of a pod in this Service.
fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let named = spec.hostname.as_ref().filter(|name| !name.is_empty())?;
    let matches = spec.subdomain.is_some() && spec.subdomain == service.metadata.name;
    matches.then(|| named.clone())
}

/// Returns the number of a Service port on a pod; `None` if the pod has no port of that name.
fn port_on(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match port.target_port.as_ref() {
        None => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always"));
    let mut ports = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten());
    let protocol = |text: &Option<String>| text.clone().unwrap_or_else(|| "TCP".to_owned());
    let found = ports.find(|found| {
        found.name.as_ref() == Some(name) && protocol(&found.protocol) == protocol(&port.protocol)
    });
    found.map(|found| found.container_port)
}

/// Whether a Service has a cluster IP.
fn has_address(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    !matches!(address, None | Some("" | "None"))
}
