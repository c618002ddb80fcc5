//! The operator for kube-runtime: it applies in each reconcile and writes the status only if it
//! differs.

use std::sync::Arc;

use evenkeel::Condition;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as Stored;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use kube_runtime::controller::{Action, Config};
use kube_runtime::{Controller, watcher};
use serde_json::json;

use super::Progress;
use super::objects::{NAMESPACE, Site, SiteStatus, child};

struct Shared {
    sites: Api<Site>,
    maps: Api<ConfigMap>,
    progress: Arc<Progress>,
}

pub(super) async fn run(
    client: Client,
    workers: u16,
    progress: Arc<Progress>,
) -> anyhow::Result<()> {
    let sites: Api<Site> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let shared = Arc::new(Shared {
        sites: Api::namespaced(client.clone(), NAMESPACE),
        maps: Api::namespaced(client, NAMESPACE),
        progress: progress.clone(),
    });
    let mut stream = std::pin::pin!(
        Controller::new(sites, watcher::Config::default().streaming_lists())
            .owns(maps, watcher::Config::default().streaming_lists())
            .with_config(Config::default().concurrency(workers))
            .run(counted_reconcile, |_, _, _| Action::await_change(), shared)
    );
    let mut done = std::pin::pin!(progress.done());
    loop {
        tokio::select! {
            biased;
            () = &mut done => return Ok(()),
            Some(ended) = stream.next() => drop(ended?),
        }
    }
}

async fn counted_reconcile(site: Arc<Site>, shared: Arc<Shared>) -> Result<Action, kube::Error> {
    shared.progress.clone().count_polls(reconcile(site, shared)).await
}

async fn reconcile(site: Arc<Site>, shared: Arc<Shared>) -> Result<Action, kube::Error> {
    let name = site.name_any();
    let mut map = child(&site);
    map.metadata.owner_references = site.controller_owner_ref(&()).map(|owner| vec![owner]);
    let params = PatchParams::apply("bench");
    shared.maps.patch(&name, &params, &Patch::Apply(&map)).await?;

    let old = site.status.clone().unwrap_or_default();
    let mut conditions: Vec<Stored> = old.conditions.to_vec();
    let ready = Condition::new("Ready", true, "Applied", "the ConfigMap exists");
    let generation = site.metadata.generation;
    let mut changed = ready.set(&mut conditions, generation, Timestamp::now());
    let hosts = site.spec.hosts.len() as i32;
    changed |= old.observed_generation != generation || old.hosts != hosts;
    if changed {
        let conditions = serde_json::from_value(json!(conditions)).unwrap_or_default();
        let status = SiteStatus { observed_generation: generation, hosts, conditions };
        let patch = Patch::Merge(json!({ "status": status }));
        shared.sites.patch_status(&name, &PatchParams::default(), &patch).await?;
    }
    shared.progress.reconciled(&name, !changed);
    Ok(Action::await_change())
}
