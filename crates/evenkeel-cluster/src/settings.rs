//! How a cluster behaves.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel::Clock;

/// How a cluster behaves. The default is one node, everything switched on, no delays.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many simulated nodes there are.
    pub nodes: usize,
    /// How long simulated pods take.
    pub delays: Delays,
    /// Controllers that are not run, by the names `kube-controller-manager --controllers` knows
    /// (and `scheduler`, `kubelet`).
    pub without: BTreeSet<String>,
    /// Makes uids, names and jitter repeat.
    pub seed: Option<u64>,
    /// Where wall-clock time comes from; the machine's unless set.
    pub clock: Option<Clock>,
}

/// How long a simulated pod takes from one state to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// From creation to a node.
    pub schedule: Duration,
    /// From a node to running containers.
    pub start: Duration,
    /// From running to ready.
    pub ready: Duration,
    /// From the request to stop to being gone, at most the pod's own grace period.
    pub stop: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodes: 1,
            delays: Delays::default(),
            without: BTreeSet::new(),
            seed: None,
            clock: None,
        }
    }
}

impl Settings {
    /// Switches a controller off.
    #[must_use]
    pub fn without(mut self, controller: &str) -> Self {
        self.without.insert(controller.to_owned());
        self
    }
}
