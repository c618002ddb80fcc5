//! Simulated nodes: registration, status reports and lease renewal.
//!
//! A node is simulated if its annotation [`SIMULATED_NODE_ANNOTATION`] is `true`. The cluster creates
//! [`ClusterOptions::nodes`] of them; a node that a client creates with the annotation is simulated
//! too. A node whose annotation [`NODE_SIMULATION_ANNOTATION`] is `down` stops reporting, as if its
//! machine had lost power.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use evenkeel::client::{Client, Patch};
use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result, Source};
use futures_util::stream;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::options::{Capacity, ClusterOptions};
use crate::pods;
use crate::requestors;

/// The annotation of simulated nodes, with value `true`.
pub const SIMULATED_NODE_ANNOTATION: &str = "evenkeel.dev/simulated";

/// The annotation that sets the state of a simulated node; the only value is `down`.
pub const NODE_SIMULATION_ANNOTATION: &str = "evenkeel.dev/simulate";

pub(crate) const NAME: &str = "node-registration";

/// How often a kubelet renews its lease.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// How often the status is reported without a change.
const REPORT_INTERVAL: Duration = Duration::from_secs(300);

/// The duration of the node lease.
const LEASE_SECONDS: i32 = 40;

/// Returns the names of the cluster's nodes: `node-1` and so on.
pub(crate) fn names(count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("node-{number}"))
}

/// The properties of a node that other controllers need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeProperties {
    pub(crate) simulated: bool,
    pub(crate) down: bool,
    pub(crate) address: Option<String>,
    /// The network of the node's pod addresses.
    pub(crate) network: Option<Ipv4Addr>,
}

impl NodeProperties {
    pub(crate) fn of(node: &Node) -> Self {
        let annotation = |name: &str| {
            node.metadata.annotations.as_ref().and_then(|all| all.get(name)).map(String::as_str)
        };
        let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
        let address = addresses.into_iter().flatten().find(|address| address.type_ == "InternalIP");
        let range = node.spec.as_ref().and_then(|spec| spec.pod_cidr.as_deref());
        Self {
            simulated: annotation(SIMULATED_NODE_ANNOTATION) == Some("true"),
            down: annotation(NODE_SIMULATION_ANNOTATION) == Some("down"),
            address: address.map(|address| address.address.clone()),
            network: range.and_then(|range| range.split('/').next()?.parse().ok()),
        }
    }
}

struct Nodes {
    wanted: HashSet<String>,
    /// Whether leases are renewed.
    heartbeats: bool,
    capacity: Capacity,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nodes that were created: a node deleted later is not recreated.
    registered: HashSet<String>,
    /// The number of each node, from which its addresses are derived.
    numbers: HashMap<String, u32>,
    renewed: HashMap<String, Instant>,
    reported: HashMap<String, Instant>,
}

impl State {
    /// Removes a deleted node.
    fn forget(&mut self, name: &str) {
        self.numbers.remove(name);
        self.renewed.remove(name);
        self.reported.remove(name);
    }
}

pub(crate) fn register(manager: &Manager, options: &ClusterOptions) -> Result<(), BoxError> {
    let wanted: Vec<String> = names(options.nodes).collect();
    let keys: Vec<Key> = wanted.iter().map(|name| Key::cluster(name)).collect();
    let nodes = Nodes {
        wanted: wanted.into_iter().collect(),
        heartbeats: options.heartbeats,
        capacity: options.capacity.clone(),
        state: Mutex::default(),
    };
    manager
        .controller(nodes)
        .named(NAME)
        .source(Source::stream("start", stream::iter(keys)))
        .workers(2)
        .register()?;
    Ok(())
}

impl Reconciler for Nodes {
    type Object = Node;

    async fn reconcile(&self, cx: &Context<Node>) -> Result<Action> {
        let name = cx.key().name();
        let Some(node) = cx.object() else {
            let first = self.wanted.contains(name) && self.state().registered.insert(name.into());
            if first {
                as_node(cx).create(&self.build_node(cx, name)).await?;
            } else {
                self.state().forget(name);
            }
            return Ok(Action::done());
        };
        self.state().registered.insert(name.to_owned());
        let properties = NodeProperties::of(&node);
        if !properties.simulated || properties.down || node.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        if properties.network.is_none() {
            self.assign_network(cx, &node).await?;
        }
        self.report(cx, &node, &properties).await?;
        match self.heartbeats {
            true => self.renew(cx, &node).await,
            false => Ok(Action::done()),
        }
    }
}

impl Nodes {
    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the number of a node: that in its name, or else the next free one.
    fn number_of(&self, name: &str) -> u32 {
        let mut state = self.state();
        if let Some(&number) = state.numbers.get(name) {
            return number;
        }
        let own = name.strip_prefix("node-").and_then(|number| number.parse().ok());
        let taken: HashSet<u32> = state.numbers.values().copied().collect();
        let first = u32::try_from(self.wanted.len()).unwrap_or(0) + 1;
        let number = own
            .filter(|number| (1..=MAX_NUMBER).contains(number) && !taken.contains(number))
            .unwrap_or_else(|| {
                (first..=MAX_NUMBER).find(|n| !taken.contains(n)).unwrap_or(MAX_NUMBER)
            });
        state.numbers.insert(name.to_owned(), number);
        number
    }

    fn build_node(&self, cx: &Context<Node>, name: &str) -> Node {
        let number = self.number_of(name);
        let labels = [
            ("beta.kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/hostname", name),
            ("kubernetes.io/os", "linux"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let annotations = [(SIMULATED_NODE_ANNOTATION, "true")];
        Node {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels.map(owned).into()),
                annotations: Some(annotations.map(owned).into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                pod_cidr: Some(network(number)),
                pod_cidrs: Some(vec![network(number)]),
                provider_id: Some(format!("evenkeel://{name}")),
                ..NodeSpec::default()
            }),
            status: Some(self.status(&Node::default(), name, number, &pods::timestamp(cx.clock()))),
        }
    }

    /// Assigns a network to a node that a client created.
    async fn assign_network(&self, cx: &Context<Node>, node: &Node) -> Result<()> {
        let network = network(self.number_of(cx.key().name()));
        let patch = Patch::Merge(json!({
            "metadata": {"uid": node.metadata.uid},
            "spec": {"podCIDR": network, "podCIDRs": [network]},
        }));
        let client = cx.client().with_requestor(requestors::NODE_CONTROLLER);
        client.patch::<Node>(cx.key(), &patch).await?;
        Ok(())
    }

    /// Returns the status that this node reports, based on its current status.
    fn status(&self, node: &Node, name: &str, number: u32, now: &Time) -> NodeStatus {
        let mut status = node.status.clone().unwrap_or_default();
        let resources: BTreeMap<String, Quantity> = [
            ("cpu", self.capacity.cpu.clone()),
            ("memory", self.capacity.memory.clone()),
            ("ephemeral-storage", self.capacity.ephemeral_storage.clone()),
            ("pods", self.capacity.pods.to_string()),
        ]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount)))
        .into();
        status.capacity.get_or_insert_with(|| resources.clone());
        status.allocatable = status.allocatable.or_else(|| status.capacity.clone());
        let [a, b] = [number >> 8, number & 0xff];
        let address =
            |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
        status.addresses.get_or_insert_with(|| {
            vec![
                address("InternalIP", format!("172.{}.{}.{}", 18 + (a >> 8), a & 0xff, b)),
                address("Hostname", name.to_owned()),
            ]
        });
        status.node_info.get_or_insert_with(|| NodeSystemInfo {
            architecture: "amd64".to_owned(),
            container_runtime_version: "evenkeel://simulated".to_owned(),
            kernel_version: "simulated".to_owned(),
            kubelet_version: "v1.36.3".to_owned(),
            operating_system: "linux".to_owned(),
            os_image: "Evenkeel".to_owned(),
            machine_id: name.to_owned(),
            system_uuid: name.to_owned(),
            boot_id: name.to_owned(),
            ..NodeSystemInfo::default()
        });
        let conditions = status.conditions.get_or_insert_default();
        for (name, holds, reason, message) in CONDITIONS {
            set_condition(conditions, name, holds, reason, message, now);
        }
        status
    }

    /// Reports the status periodically, or when another client changed a condition.
    async fn report(
        &self,
        cx: &Context<Node>,
        node: &Node,
        properties: &NodeProperties,
    ) -> Result<()> {
        let name = cx.key().name();
        let now = Instant::now();
        let due = self.state().reported.get(name).is_none_or(|&last| last + REPORT_INTERVAL <= now);
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
        let reported = CONDITIONS.iter().all(|(name, holds, ..)| {
            let status = if *holds { "True" } else { "False" };
            conditions.unwrap_or_default().iter().any(|c| c.type_ == *name && c.status == status)
        });
        if reported && !due && properties.address.is_some() {
            return Ok(());
        }
        let number = self.number_of(name);
        let status = self.status(node, name, number, &pods::timestamp(cx.clock()));
        if node.status.as_ref() != Some(&status) {
            let patch = Patch::Strategic(json!({
                "metadata": {"uid": node.metadata.uid},
                "status": status,
            }));
            as_node(cx).subresource::<Node>(cx.key(), "status").patch::<Node>(&patch).await?;
        }
        self.state().reported.insert(name.to_owned(), now);
        Ok(())
    }

    async fn renew(&self, cx: &Context<Node>, node: &Node) -> Result<Action> {
        let name = cx.key().name();
        let now = Instant::now();
        let last = self.state().renewed.get(name).copied();
        if let Some(next) = last.map(|last| last + RENEW_INTERVAL)
            && next > now
        {
            return Ok(Action::requeue_after(next - now));
        }
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some("kube-node-lease".to_owned()),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: name.to_owned(),
                    uid: node.metadata.uid.clone().unwrap_or_default(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(name.to_owned()),
                lease_duration_seconds: Some(LEASE_SECONDS),
                renew_time: Some(MicroTime(cx.clock().now())),
                ..LeaseSpec::default()
            }),
        };
        as_node(cx).apply(&lease).force().await?;
        self.state().renewed.insert(name.to_owned(), now);
        Ok(Action::requeue_after(RENEW_INTERVAL))
    }
}

/// Returns the client of the node's kubelet.
fn as_node(cx: &Context<Node>) -> Client {
    cx.client().with_requestor(&requestors::node(cx.key().name()))
}

/// The largest node number that addresses can be derived from.
const MAX_NUMBER: u32 = 32_767;

fn network(number: u32) -> String {
    format!("10.{}.{}.0/24", 128 + (number >> 8), number & 0xff)
}

const CONDITIONS: [(&str, bool, &str, &str); 4] = [
    (
        "MemoryPressure",
        false,
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", true, "KubeletReady", "kubelet is posting ready status"),
];

fn set_condition(
    conditions: &mut Vec<NodeCondition>,
    name: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: &Time,
) {
    let mut condition = NodeCondition {
        type_: name.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    };
    match conditions.iter_mut().find(|present| present.type_ == name) {
        Some(present) => {
            if present.status == condition.status {
                condition.last_transition_time = present.last_transition_time.clone();
            }
            *present = condition;
        }
        None => conditions.push(condition),
    }
}
