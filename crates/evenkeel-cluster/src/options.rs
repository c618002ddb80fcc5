//! Options of a cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel::Clock;

use crate::kubelet::PodSimulations;

/// Options of a cluster. By default it has one node, all controllers enabled, and no delay except
/// for stopping containers.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The number of simulated nodes.
    pub nodes: usize,
    /// The capacity of each simulated node.
    pub capacity: Capacity,
    /// How long the steps of simulated pods take.
    pub delays: Delays,
    /// The simulation of pods without the annotation
    /// [`POD_SIMULATION_ANNOTATION`](crate::POD_SIMULATION_ANNOTATION).
    pub pod_simulations: PodSimulations,
    /// Controllers that are not run, by their names in `kube-controller-manager --controllers` (and
    /// `scheduler`, `kubelet`, and `node-registration`, which creates the simulated nodes).
    pub disabled_controllers: BTreeSet<String>,
    /// Makes uids, names and jitter reproducible.
    pub seed: Option<u64>,
    /// The source of wall-clock time; the system clock by default.
    pub clock: Option<Clock>,
    /// The certificate authority of the API server in PEM form, published in the ConfigMap
    /// `kube-root-ca.crt` of every namespace. By default a comment that there is none is published.
    pub root_ca: Option<String>,
}

/// How long a simulated pod takes from one state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From creation to binding.
    pub schedule: Duration,
    /// From binding to running containers.
    pub start: Duration,
    /// From running to ready; a container with probes is not ready before they have succeeded.
    pub ready: Duration,
    /// From running to completion, for containers that complete without a simulation or a
    /// recognized command: those of Jobs, and those with a command in pods whose restart policy is
    /// not `Always`.
    pub run: Duration,
    /// From SIGTERM to the exit of a container, at most the grace period of the pod. 50 ms by
    /// default, so that clients see a deleted pod with its deletion timestamp, as on other
    /// clusters. A container whose command is `sleep` or a simple shell script ignores SIGTERM and
    /// takes the whole grace period.
    pub stop: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            schedule: Duration::ZERO,
            start: Duration::ZERO,
            ready: Duration::ZERO,
            run: Duration::ZERO,
            stop: Duration::from_millis(50),
        }
    }
}

/// The capacity of a simulated node, as Kubernetes quantities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// CPU.
    pub cpu: String,
    /// Memory.
    pub memory: String,
    /// Local ephemeral storage.
    pub ephemeral_storage: String,
    /// The maximum number of pods.
    pub pods: u32,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            cpu: "32".to_owned(),
            memory: "256Gi".to_owned(),
            ephemeral_storage: "1Ti".to_owned(),
            pods: 110,
        }
    }
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            capacity: Capacity::default(),
            delays: Delays::default(),
            pod_simulations: PodSimulations::default(),
            disabled_controllers: BTreeSet::new(),
            seed: None,
            clock: None,
            root_ca: None,
        }
    }
}

impl ClusterOptions {
    /// Disables a controller.
    #[must_use]
    pub fn disable_controller(mut self, controller: &str) -> Self {
        self.disabled_controllers.insert(controller.to_owned());
        self
    }
}
