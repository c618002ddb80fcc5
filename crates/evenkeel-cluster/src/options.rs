//! How a cluster behaves.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel::Clock;

use crate::kubelet::PodSimulations;

/// How a cluster behaves. The default is one node, everything switched on, and no delays but that
/// of containers that are stopped.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// How many simulated nodes there are.
    pub nodes: usize,
    /// What each simulated node has to give.
    pub capacity: Capacity,
    /// How long simulated pods take.
    pub delays: Delays,
    /// What happens to the containers of pods without a plan of their own.
    pub pod_simulations: PodSimulations,
    /// Controllers that are not run, by the names `kube-controller-manager --controllers` knows
    /// (and `scheduler`, `kubelet`, and `node-registration`, which makes the simulated nodes).
    pub disabled_controllers: BTreeSet<String>,
    /// Makes uids, names and jitter repeat.
    pub seed: Option<u64>,
    /// Where wall-clock time comes from; the machine's unless set.
    pub clock: Option<Clock>,
    /// The certificate authority of the API server in PEM form, which every namespace gets in the
    /// ConfigMap `kube-root-ca.crt`. Without it a line saying that there is none is published.
    pub root_ca: Option<String>,
}

/// How long a simulated pod takes from one state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From creation to a node.
    pub schedule: Duration,
    /// From a node to running containers.
    pub start: Duration,
    /// From running to ready; a container with probes takes at least as long as they do.
    pub ready: Duration,
    /// From running to completion, for containers that complete without a plan or a plain command:
    /// those of Jobs, and those with a command in pods that are not always restarted.
    pub run: Duration,
    /// From SIGTERM to the exit of a container, at most the pod's own grace period. 50 ms by
    /// default, so that a deleted pod is seen with its deletion timestamp as on other clusters. A
    /// container whose command is `sleep` or a plain shell script ignores SIGTERM and takes the whole
    /// grace period.
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

/// What a simulated node has to give; quantities as Kubernetes writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Processors.
    pub cpu: String,
    /// Memory.
    pub memory: String,
    /// Disk that pods may fill.
    pub ephemeral_storage: String,
    /// How many pods may run.
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
    /// Switches a controller off.
    #[must_use]
    pub fn disable_controller(mut self, controller: &str) -> Self {
        self.disabled_controllers.insert(controller.to_owned());
        self
    }
}
