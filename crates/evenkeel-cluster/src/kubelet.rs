//! Simulated kubelets: pods on simulated nodes start, run, fail and stop without processes.
//!
//! One controller acts as the kubelet of all nodes. The state of each pod is its [`Lifecycle`], a
//! state machine on tokio's clock with a state per container. The pod status is computed from it
//! and written when it changes. The [`PodSimulation`] of the pod and the commands and probes of its
//! containers determine what happens.

mod addresses;

// Container behavior.
mod command;

mod image;

mod pod_containers;

mod simulation;

mod probes;

mod process;

mod restart;

// The state machine.
mod events;

mod instance;

mod lifecycle;

mod restore;

// Status reporting.
mod conditions;

mod phase;

mod status;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use evenkeel::cache::Version;
use evenkeel::predicate::Predicate;
use evenkeel::{
    Action, BoxError, Context, EventRecorder, Key, Manager, Reconciler, Result, Watch,
    object_reference,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

pub use simulation::{
    POD_SIMULATION_ANNOTATION, PodSimulation, PodSimulationError, PodSimulations,
};

use crate::controller_ref::BY_NODE;
use crate::nodes::NodeProperties;
use crate::options::{ClusterOptions, Delays};
use crate::pods;
use crate::requestors;
use addresses::Addresses;
use events::{Event, Events};
use lifecycle::{Ending, Inputs, Lifecycle};

pub(crate) const NAME: &str = "kubelet";

struct Kubelets {
    delays: Delays,
    pod_simulations: PodSimulations,
    lifecycles: Mutex<HashMap<Key, Lifecycle>>,
    event_recorder: EventRecorder,
    addresses: Addresses,
    /// Node properties by name, so that not every pod decodes its node.
    nodes: Mutex<HashMap<String, (Version, NodeProperties)>>,
}

pub(crate) fn register(manager: &Manager, options: &ClusterOptions) -> Result<(), BoxError> {
    let kubelets = Kubelets {
        delays: options.delays,
        pod_simulations: options.pod_simulations.clone(),
        lifecycles: Mutex::default(),
        event_recorder: manager.event_recorder(NAME),
        addresses: Addresses::default(),
        nodes: Mutex::default(),
    };
    // A node that is up again reconciles its pods; heartbeats do not matter here.
    let changed = Predicate::new(|event| match (event.old(), event.new()) {
        (Some(old), Some(new)) => old.annotations() != new.annotations(),
        _ => true,
    });
    let nodes = Watch::mapped_metadata::<Node>(|node, cx| {
        cx.select::<Pod>().index(BY_NODE, node.key().name()).keys()
    });
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
            self.forget(cx.key());
            return Ok(Action::done());
        };
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
            return Ok(Action::done());
        };
        let Some(properties) = self.properties(cx, node).await? else { return Ok(Action::done()) };
        if !properties.simulated || properties.down {
            return Ok(Action::done());
        }
        let client = cx.client().with_requestor(&requestors::node(node));
        let (now, wall) = (Instant::now(), pods::timestamp(cx.clock()));
        let Some(mut lifecycle) = self.lifecycle(cx.key(), &pod, node, &properties, now, &wall)
        else {
            // All addresses of the node are in use; one is released when a pod is deleted.
            return Ok(Action::requeue_after(Duration::from_secs(1)));
        };
        let simulation = self.pod_simulations.of(&pod);
        let inputs =
            Inputs { pod: &pod, simulation: &simulation, delays: &self.delays, now, wall: &wall };
        let mut events = Events::new(&pod);
        let next = lifecycle.advance(&inputs, &mut events);
        let over = lifecycle.is_over();
        let known = lifecycle.ending != Some(Ending::AlreadyTerminal);
        let status = known.then(|| status::of(&pod, &lifecycle, &properties, &wall));
        self.lifecycles().insert(cx.key().clone(), lifecycle);
        self.record(&pod, &events.into_list());
        if let Some(status) = status {
            client.patch_status(&*pod, pod.status.as_ref(), &status).await?;
        }
        if over && pods::is_terminating(&pod) {
            let delete = client.delete(&*pod).grace_period(Duration::ZERO);
            match delete.await {
                // Another pod has the name: this one is already deleted.
                Err(error) if !error.is_conflict() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(next.map_or(Action::done(), |at| Action::requeue_after(at - now)))
    }
}

impl Kubelets {
    fn lifecycles(&self) -> MutexGuard<'_, HashMap<Key, Lifecycle>> {
        self.lifecycles.lock()
    }

    /// Removes a deleted pod and releases its address.
    fn forget(&self, key: &Key) {
        let known = self.lifecycles().remove(key);
        if let Some(lifecycle) = known {
            self.addresses.release(&lifecycle.node, lifecycle.address);
        }
    }

    /// Takes the state of the pod, or creates it. Returns `None` if no address is free.
    fn lifecycle(
        &self,
        key: &Key,
        pod: &Pod,
        node: &str,
        properties: &NodeProperties,
        now: Instant,
        wall: &Time,
    ) -> Option<Lifecycle> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let known = self.lifecycles().remove(key);
        match known {
            Some(lifecycle) if lifecycle.uid == uid => return Some(lifecycle),
            Some(other) => self.addresses.release(&other.node, other.address),
            None => {}
        }
        let former = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
        let former = former.and_then(|address| address.parse().ok());
        let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        let address = match properties.network {
            Some(_) if on_host => None,
            Some(network) => Some(self.addresses.take(node, network, former)?),
            None => None,
        };
        let mut lifecycle = Lifecycle::new(uid, node, address, now);
        lifecycle.restore(pod, now, wall);
        Some(lifecycle)
    }

    /// Records events about a pod.
    fn record(&self, pod: &Pod, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        let mut regarding = object_reference(pod);
        for event in events {
            regarding.field_path.clone_from(&event.field_path);
            match event.warning {
                true => self.event_recorder.warning_event(&regarding, event.reason, &event.message),
                false => self.event_recorder.event(&regarding, event.reason, &event.message),
            }
        }
    }

    async fn properties(&self, cx: &Context<Pod>, node: &str) -> Result<Option<NodeProperties>> {
        let Some(entry) = cx.client().peek::<Node>(&Key::cluster(node)).await? else {
            return Ok(None);
        };
        let version = entry.meta().version();
        let known = {
            let nodes = self.nodes.lock();
            nodes
                .get(node)
                .filter(|(seen, _)| *seen == version)
                .map(|(_, properties)| properties.clone())
        };
        if known.is_some() {
            return Ok(known);
        }
        let properties = NodeProperties::of(&*entry.decode::<Node>()?);
        let mut nodes = self.nodes.lock();
        nodes.insert(node.to_owned(), (version, properties.clone()));
        Ok(Some(properties))
    }
}
