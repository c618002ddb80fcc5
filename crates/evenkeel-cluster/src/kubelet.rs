//! The simulated kubelets: pods on simulated nodes come up, run, fail and end, in name only.
//!
//! One controller stands for the kubelets of all nodes. What a pod has been through since this
//! process first saw it is its [`Life`](life::Life), a state machine on tokio's clock; its status is
//! drawn from that and written when it changes. How a pod fares is told by its [`Plan`].

mod addresses;

mod command;

mod life;

mod picture;

mod plan;

mod probes;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::cache::Version;
use evenkeel::predicate::Predicate;
use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result, Watch};
use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::time::Instant;

pub use plan::{PLAN_ANNOTATION, Plan, PlanError, Plans};

use crate::claim::BY_NODE;
use crate::nodes::Facts;
use crate::pods;
use crate::settings::{Delays, Settings};
use addresses::Addresses;
use life::{Life, Stage};

pub(crate) const NAME: &str = "kubelet";

struct Kubelets {
    delays: Delays,
    plans: Plans,
    lives: Mutex<HashMap<Key, Life>>,
    addresses: Addresses,
    /// What is known of the nodes, by name, so that not every pod decodes its node again.
    nodes: Mutex<HashMap<String, (Version, Facts)>>,
}

pub(crate) fn register(manager: &Manager, settings: &Settings) -> Result<(), BoxError> {
    let kubelets = Kubelets {
        delays: settings.delays,
        plans: settings.plans.clone(),
        lives: Mutex::default(),
        addresses: Addresses::default(),
        nodes: Mutex::default(),
    };
    // A node that comes back looks after its pods again; heartbeats are nobody's concern here.
    let changed = Predicate::new(|event| match (event.old(), event.new()) {
        (Some(old), Some(new)) => old.annotations() != new.annotations(),
        _ => true,
    });
    let nodes =
        Watch::mapped_metadata::<Node>(|node, cx| cx.indexed::<Pod>(BY_NODE, node.key().name()));
    manager
        .controller(kubelets)
        .named(NAME)
        .watch(nodes.filter(changed))
        .reads::<Node>()
        .workers(4)
        .register()?;
    Ok(())
}

impl Reconciler for Kubelets {
    type Object = Pod;

    async fn reconcile(&self, cx: &Context<Pod>) -> Result<Action> {
        let Some(pod) = cx.object() else {
            self.bury(cx.key());
            return Ok(Action::done());
        };
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
            return Ok(Action::done());
        };
        let Some(facts) = self.facts(cx, node).await? else { return Ok(Action::done()) };
        if !facts.simulated || facts.down {
            return Ok(Action::done());
        }
        let Some(mut life) = self.life(cx.key(), &pod, node, &facts) else {
            // Every address of the node is taken; one comes free when a pod goes.
            return Ok(Action::requeue_after(Duration::from_secs(1)));
        };
        let plan = self.plans.of(&pod);
        let now = Instant::now();
        let before = life.stage.clone();
        let next = life.advance(&pod, &plan, &self.delays, now, &pods::stamp(cx.clock()));
        let status =
            picture::of(&pod, &life, &plan, &self.delays, &facts, now, &pods::stamp(cx.clock()));
        if life.stage != before {
            tell(cx, &pod, &life.stage);
        }
        let ended = life.stage == Stage::Stopped;
        self.lives().insert(cx.key().clone(), life);
        cx.replace_status(&*pod, pod.status.as_ref(), &status).await?;
        if ended {
            let delete = cx.delete(&*pod).grace_period(Duration::ZERO);
            match delete.await {
                // Another pod has taken the name: this one is gone.
                Err(error) if !error.is_conflict() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(next.map_or(Action::done(), |at| Action::requeue_after(at - now)))
    }
}

impl Kubelets {
    fn lives(&self) -> MutexGuard<'_, HashMap<Key, Life>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod is gone: its address is free.
    fn bury(&self, key: &Key) {
        if let Some(life) = self.lives().remove(key) {
            self.addresses.release(&life.node, life.address);
        }
    }

    /// What the pod has been through, from the start if it is new. None without an address.
    fn life(&self, key: &Key, pod: &Pod, node: &str, facts: &Facts) -> Option<Life> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let known = self.lives().get(key).filter(|life| life.uid == uid).cloned();
        if known.is_some() {
            return known;
        }
        self.bury(key);
        let former = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
        let former = former.and_then(|address| address.parse().ok());
        let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        let address = match facts.network {
            Some(_) if on_host => None,
            Some(network) => Some(self.addresses.take(node, network, former)?),
            None => None,
        };
        Some(Life::begin(uid, node, address, pod, &self.delays))
    }

    async fn facts(&self, cx: &Context<Pod>, node: &str) -> Result<Option<Facts>> {
        let Some(entry) = cx.peek::<Node>(&Key::cluster(node)).await? else { return Ok(None) };
        let version = entry.meta().version();
        let known = {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.get(node).filter(|(seen, _)| *seen == version).map(|(_, facts)| facts.clone())
        };
        if known.is_some() {
            return Ok(known);
        }
        let facts = Facts::of(&*entry.decode::<Node>()?);
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(node.to_owned(), (version, facts.clone()));
        Ok(Some(facts))
    }
}

/// What a kubelet would say of a pod that has come to `stage`.
fn tell(cx: &Context<Pod>, pod: &Pod, stage: &Stage) {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    for container in containers {
        let (name, image) = (&container.name, container.image.as_deref().unwrap_or_default());
        match stage {
            Stage::Running { .. } => cx.announce("Started", &format!("Container started: {name}")),
            Stage::PullFailing { .. } => {
                cx.warn("Failed", &format!("Failed to pull image \"{image}\": not found"));
            }
            Stage::BackOff { .. } => {
                cx.warn("BackOff", &format!("Back-off restarting failed container {name}"));
            }
            Stage::Stopped => cx.announce("Killing", &format!("Stopping container {name}")),
            Stage::Creating { .. } | Stage::Done { .. } => {}
        }
    }
}
