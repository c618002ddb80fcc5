//! Mirrors Endpoints of Services without a selector into EndpointSlices, so that clients of
//! EndpointSlices see them.
//!
//! Each subset of the Endpoints is mirrored into one slice per address family, as upstream's
//! endpointslicemirroring controller does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use evenkeel::owner::OwnerError;
use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result};
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::legacy::repack;
use super::slices::{self, key, service_of};

const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Endpoints that are a leader election lock have no addresses to mirror.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that apply to the Endpoints object only.
const OWN_ANNOTATIONS: [&str; 2] = [
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// The maximum number of mirrored addresses per subset.
const MAX_PER_SUBSET: usize = 1000;

pub(super) fn register(manager: &Manager) -> Result<(), BoxError> {
    manager
        .controller(Mirror)
        .named(super::MIRROR)
        .watches::<Service>(|service, _| vec![Key::of(service)])
        .watches::<EndpointSlice>(|slice, _| service_of(slice, MANAGER).into_iter().collect())
        .workers(2)
        .register()?;
    Ok(())
}

struct Mirror;

impl Reconciler for Mirror {
    type Object = Endpoints;

    async fn reconcile(&self, cx: &Context<Endpoints>) -> Result<Action> {
        let existing = slices::existing(cx, MANAGER).await?;
        let service = cx.client().get::<Service>(cx.key()).await?;
        let mirrored = cx.object().filter(|endpoints| is_mirrored(endpoints));
        let (Some(endpoints), Some(_)) =
            (mirrored, service.filter(|service| !has_selector(service)))
        else {
            for slice in existing {
                cx.client().delete(&*slice).await?;
            }
            return Ok(Action::done());
        };
        let desired = Desired::of(&endpoints);
        desired.warn(cx);
        write(cx, &endpoints, desired, existing).await?;
        Ok(Action::done())
    }
}

fn is_mirrored(endpoints: &Endpoints) -> bool {
    let skip = endpoints.metadata.labels.as_ref().and_then(|labels| labels.get(SKIP));
    let is_lock = endpoints.metadata.annotations.as_ref().is_some_and(|it| it.contains_key(LEADER));
    skip.is_none_or(|skip| skip != "true") && !is_lock
}

fn has_selector(service: &Service) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| !selector.is_empty())
}

/// The ports and endpoints of one slice.
type Content = (Vec<EndpointPort>, Vec<Endpoint>);

/// The slices that mirror one Endpoints object.
#[derive(Default)]
struct Desired {
    /// By address family and ports.
    slices: BTreeMap<(&'static str, String), Content>,
    invalid: usize,
    skipped: usize,
}

impl Desired {
    fn of(endpoints: &Endpoints) -> Self {
        let mut desired = Self::default();
        for subset in repack(endpoints.subsets.as_deref().unwrap_or_default()) {
            desired.add(subset);
        }
        desired
    }

    fn add(&mut self, subset: EndpointSubset) {
        let ports: Vec<EndpointPort> = subset
            .ports
            .into_iter()
            .flatten()
            .map(|port| EndpointPort {
                name: Some(port.name.unwrap_or_default()),
                port: Some(port.port),
                protocol: Some(port.protocol.unwrap_or_else(|| "TCP".to_owned())),
                app_protocol: port.app_protocol,
            })
            .collect();
        let ready = subset.addresses.into_iter().flatten().map(|address| (address, true));
        let waiting = subset.not_ready_addresses.into_iter().flatten();
        let mut room = MAX_PER_SUBSET;
        for (address, ready) in ready.chain(waiting.map(|address| (address, false))) {
            if room == 0 {
                self.skipped += 1;
                continue;
            }
            let Some((family, endpoint)) = endpoint(address, ready) else {
                self.invalid += 1;
                self.skipped += 1;
                continue;
            };
            room -= 1;
            let slice = self.slices.entry((family, key(&ports)));
            slice.or_insert_with(|| (ports.clone(), Vec::new())).1.push(endpoint);
        }
    }

    /// Records events about addresses that are not mirrored.
    fn warn(&self, cx: &Context<Endpoints>) {
        if self.invalid > 0 {
            let count = self.invalid;
            let text =
                format!("Skipped {count} invalid IP addresses when mirroring to EndpointSlices");
            cx.warning_event("InvalidIPAddress", &text);
        }
        if self.skipped > self.invalid {
            let text = format!(
                "A max of {MAX_PER_SUBSET} addresses can be mirrored to EndpointSlices per \
                 Endpoints subset. {} addresses were skipped",
                self.skipped
            );
            cx.warning_event("TooManyAddressesToMirror", &text);
        }
    }
}

fn endpoint(address: EndpointAddress, ready: bool) -> Option<(&'static str, Endpoint)> {
    let ip = address.ip.parse::<IpAddr>().ok()?.to_canonical();
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..Default::default() }),
        target_ref: address.target_ref,
        node_name: address.node_name,
        hostname: address.hostname.filter(|name| !name.is_empty()),
        ..Endpoint::default()
    };
    Some((family, endpoint))
}

/// Turns the existing slices into the desired ones, reusing those that would be deleted.
async fn write(
    cx: &Context<Endpoints>,
    endpoints: &Endpoints,
    desired: Desired,
    existing: Vec<Arc<EndpointSlice>>,
) -> Result<()> {
    let mut spare: BTreeMap<String, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    let mut same: BTreeMap<(String, String), Arc<EndpointSlice>> = BTreeMap::new();
    for slice in existing {
        let ports = key(slice.ports.as_deref().unwrap_or_default());
        match same.entry((slice.address_type.clone(), ports)) {
            std::collections::btree_map::Entry::Vacant(free) => drop(free.insert(slice)),
            std::collections::btree_map::Entry::Occupied(_) => {
                spare.entry(slice.address_type.clone()).or_default().push(slice);
            }
        }
    }
    let mut create = Vec::new();
    for ((family, ports), content) in desired.slices {
        let next = slice(endpoints, family, content)?;
        match same.remove(&(family.to_owned(), ports)) {
            Some(present) => update(cx, &present, next).await?,
            None => create.push(next),
        }
    }
    for slice in same.into_values() {
        spare.entry(slice.address_type.clone()).or_default().push(slice);
    }
    for next in create {
        match spare.get_mut(&next.address_type).and_then(Vec::pop) {
            Some(present) => update(cx, &present, next).await?,
            None if endpoints.metadata.deletion_timestamp.is_some() => {}
            None => match cx.client().create(&next).await {
                // The namespace is terminating, and the Endpoints with it.
                Err(error) if error.is_forbidden() => return Ok(()),
                result => drop(result?),
            },
        }
    }
    for slice in spare.into_values().flatten() {
        cx.client().delete(&*slice).await?;
    }
    Ok(())
}

async fn update(
    cx: &Context<Endpoints>,
    present: &EndpointSlice,
    next: EndpointSlice,
) -> Result<()> {
    let next = EndpointSlice {
        metadata: ObjectMeta {
            labels: next.metadata.labels,
            annotations: next.metadata.annotations,
            owner_references: next.metadata.owner_references,
            ..present.metadata.clone()
        },
        ..next
    };
    if next != *present {
        cx.client().update(&next).await?;
    }
    Ok(())
}

fn slice(
    endpoints: &Endpoints,
    family: &str,
    (ports, mirrored): Content,
) -> Result<EndpointSlice, OwnerError> {
    let meta = &endpoints.metadata;
    let mut annotations = meta.annotations.clone().unwrap_or_default();
    annotations.retain(|name, _| !OWN_ANNOTATIONS.contains(&name.as_str()));
    let labels = meta.labels.clone().unwrap_or_default();
    Ok(EndpointSlice {
        metadata: ObjectMeta {
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..slices::metadata(endpoints, MANAGER, labels)?
        },
        address_type: family.to_owned(),
        endpoints: Some(mirrored),
        ports: Some(ports),
    })
}
