//! Distributes endpoints over slices with as few writes as possible.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::owner::OwnerError;
use evenkeel::{Context, Result};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::{HEADLESS, has_address};
use super::{MANAGER, key, metadata};

/// The maximum number of endpoints per slice.
const MAX_ENDPOINTS: usize = 100;

/// Endpoints that have the same ports.
pub(super) struct Group {
    ports: Vec<EndpointPort>,
    pub(super) endpoints: Vec<Endpoint>,
}

impl Group {
    pub(super) fn new(ports: Vec<EndpointPort>) -> Self {
        Self { ports, endpoints: Vec::new() }
    }
}

/// The slices to write.
#[derive(Default)]
pub(super) struct SlicePlan {
    create: Vec<EndpointSlice>,
    update: Vec<EndpointSlice>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
}

/// A slice that may receive other endpoints.
struct PendingSlice {
    slice: EndpointSlice,
    endpoints: Vec<Endpoint>,
    changed: bool,
}

impl SlicePlan {
    /// Plans the slices of one address family.
    ///
    /// # Errors
    /// When the service has no uid.
    pub(super) fn add(
        &mut self,
        service: &Service,
        family: &str,
        groups: BTreeMap<String, Group>,
        existing: Vec<Arc<EndpointSlice>>,
    ) -> Result<(), OwnerError> {
        let (owned, foreign): (Vec<_>, Vec<_>) =
            existing.into_iter().partition(|slice| is_owned(slice, service));
        let mut delete = foreign;
        let mut create = Vec::new();
        let mut kept = 0;
        let mut by_ports: BTreeMap<String, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
        for slice in owned {
            by_ports
                .entry(key(slice.ports.as_deref().unwrap_or_default()))
                .or_default()
                .push(slice);
        }
        for (ports, group) in groups {
            let present = by_ports.remove(&ports).unwrap_or_default();
            kept += self.fill(service, family, group, present, &mut create, &mut delete)?;
        }
        delete.extend(by_ports.into_values().flatten());
        if kept == 0 && create.is_empty() {
            // A Service always has a slice, so that a missing slice means that it was not
            // reconciled yet.
            let placeholder = slice(service, family, Vec::new(), Vec::new())?;
            let same = delete.iter().position(|slice| {
                is_owned(slice, service)
                    && slice.endpoints.as_deref().unwrap_or_default().is_empty()
                    && slice.ports.as_deref().unwrap_or_default().is_empty()
                    && slice.metadata.labels == placeholder.metadata.labels
            });
            match same {
                Some(at) => drop(delete.remove(at)),
                None => create.push(placeholder),
            }
        }
        // A slice that is no longer needed is reused for one that is.
        while let Some(at) = delete.iter().position(|slice| is_owned(slice, service)) {
            let Some(next) = create.pop() else { break };
            let former = delete.remove(at);
            self.update.push(EndpointSlice { metadata: relabelled(&former, &next), ..next });
        }
        self.create.extend(create);
        self.delete.extend(delete);
        Ok(())
    }

    /// Distributes endpoints with the same ports. Returns how many of the existing slices remain.
    fn fill(
        &mut self,
        service: &Service,
        family: &str,
        group: Group,
        present: Vec<Arc<EndpointSlice>>,
        create: &mut Vec<EndpointSlice>,
        delete: &mut Vec<Arc<EndpointSlice>>,
    ) -> Result<usize, OwnerError> {
        let Group { ports, endpoints } = group;
        let template = slice(service, family, ports, Vec::new())?;
        let mut wanted: BTreeMap<_, Endpoint> =
            endpoints.into_iter().map(|endpoint| (identity(&endpoint), endpoint)).collect();
        let mut open = Vec::with_capacity(present.len());
        for slice in &present {
            let present = slice.endpoints.as_deref().unwrap_or_default();
            let kept = present.iter().filter_map(|endpoint| wanted.remove(&identity(endpoint)));
            let endpoints: Vec<Endpoint> = kept.collect();
            let mut next = (**slice).clone();
            next.metadata.labels = template.metadata.labels.clone();
            let changed = endpoints != present || next != **slice;
            open.push(PendingSlice { slice: next, endpoints, changed });
        }
        let mut left: Vec<Endpoint> = wanted.into_values().collect();
        // Slices that are written anyway are filled first, the fullest first.
        let mut order: Vec<usize> = (0..open.len()).filter(|at| open[*at].changed).collect();
        order.sort_by_key(|at| std::cmp::Reverse(open[*at].endpoints.len()));
        for at in order {
            let endpoints = &mut open[at].endpoints;
            let room = MAX_ENDPOINTS.saturating_sub(endpoints.len()).min(left.len());
            endpoints.extend(left.drain(..room));
        }
        while !left.is_empty() {
            let count = left.len().min(MAX_ENDPOINTS);
            let fits = |open: &&mut PendingSlice| {
                let held = open.endpoints.len();
                !open.changed && held > 0 && held + count <= MAX_ENDPOINTS
            };
            let tightest = open.iter_mut().filter(fits).max_by_key(|open| open.endpoints.len());
            let batch: Vec<Endpoint> = left.drain(..count).collect();
            match tightest {
                Some(open) => {
                    open.endpoints.extend(batch);
                    open.changed = true;
                }
                None => create.push(EndpointSlice { endpoints: Some(batch), ..template.clone() }),
            }
        }
        let mut kept = 0;
        for (open, former) in open.into_iter().zip(present) {
            if open.endpoints.is_empty() {
                delete.push(former);
                continue;
            }
            kept += 1;
            if open.changed {
                self.update.push(EndpointSlice { endpoints: Some(open.endpoints), ..open.slice });
            }
        }
        Ok(kept)
    }

    pub(super) async fn apply(self, cx: &Context<Service>) -> Result<()> {
        for slice in &self.create {
            match cx.client().create(slice).await {
                // The namespace is terminating, and the Service with it.
                Err(error) if error.is_forbidden() => return Ok(()),
                result => drop(result?),
            }
        }
        for slice in &self.update {
            cx.client().update(slice).await?;
        }
        for slice in &self.delete {
            cx.client().delete(&**slice).await?;
        }
        Ok(())
    }
}

/// Returns what identifies an endpoint across updates.
fn identity(endpoint: &Endpoint) -> (Option<String>, Vec<String>, Option<String>) {
    let target = endpoint.target_ref.as_ref().and_then(|target| target.uid.clone());
    (target, endpoint.addresses.clone(), endpoint.hostname.clone())
}

fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    let owners = slice.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| Some(&owner.uid) == service.metadata.uid.as_ref())
}

/// Returns the metadata of `former` with the labels of `next`.
fn relabelled(former: &EndpointSlice, next: &EndpointSlice) -> ObjectMeta {
    ObjectMeta { labels: next.metadata.labels.clone(), ..former.metadata.clone() }
}

fn slice(
    service: &Service,
    family: &str,
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
) -> Result<EndpointSlice, OwnerError> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if !has_address(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    Ok(EndpointSlice {
        metadata: metadata(service, MANAGER, labels)?,
        address_type: family.to_owned(),
        endpoints: Some(endpoints),
        ports: Some(ports),
    })
}
