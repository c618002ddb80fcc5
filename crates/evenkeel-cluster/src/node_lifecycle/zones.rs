//! The eviction rate for nodes that are not ready, per zone.
//!
//! A node that is not ready gets the `NoExecute` taint only when the rate limiter of its zone
//! admits it: one node every ten seconds by default. In a zone where most nodes are not ready the
//! rate is one in a hundred seconds, or zero if the zone is small. If no node of the cluster is
//! ready, the cause is most likely the network between the nodes and the API server: no pod is
//! evicted then.

use std::collections::HashMap;
use std::time::Duration;

use evenkeel::Key;
use k8s_openapi::api::core::v1::Node;
use tokio::time::Instant;

use super::ready;

/// Nodes per second by default (`--node-eviction-rate`).
const RATE: f64 = 0.1;
/// Nodes per second in a large zone where most nodes are not ready
/// (`--secondary-node-eviction-rate`).
const REDUCED_RATE: f64 = 0.01;
/// A zone with more nodes than this is large (`--large-cluster-size-threshold`).
const LARGE: usize = 50;
/// The share of unready nodes above which the rate is reduced (`--unhealthy-zone-threshold`).
const UNHEALTHY: f64 = 0.55;
/// The minimum time from not ready to tainted, so that nodes that fail together are counted
/// together.
const DELAY: Duration = Duration::from_millis(100);

/// Nodes with this label do not count towards the health of a zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// All zones.
#[derive(Default)]
pub(super) struct Zones {
    zones: HashMap<String, Zone>,
    nodes: HashMap<Key, NodeState>,
    /// Whether no node of the cluster is ready.
    disrupted: bool,
    /// Whether all nodes have been added.
    complete: bool,
}

/// The last observed state of a node.
struct NodeState {
    zone: String,
    ready: bool,
    counts: bool,
    /// When it became not ready.
    since: Instant,
    admitted: bool,
}

struct Zone {
    /// All nodes.
    nodes: usize,
    /// The nodes that are not excluded.
    size: usize,
    unready: usize,
    limiter: Limiter,
}

/// Whether a node may be tainted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Yes.
    Now,
    /// Not before this time has passed.
    Later(Duration),
    /// Not until the zone changes; its nodes are enqueued then.
    Stopped,
}

/// A token bucket that holds one token.
struct Limiter {
    rate: f64,
    tokens: f64,
    at: Instant,
}

impl Limiter {
    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(1.0);
        self.at = now;
    }

    /// Sets the rate. Returns whether it changed. Does not add tokens.
    fn set(&mut self, rate: f64, now: Instant) -> bool {
        self.refill(now);
        let changed = (self.rate - rate).abs() > f64::EPSILON;
        self.rate = rate;
        changed
    }

    fn take(&mut self, now: Instant) -> Admission {
        if self.rate <= 0.0 {
            return Admission::Stopped;
        }
        self.refill(now);
        // Repeated additions may round to slightly less than one token.
        let missing = 1.0 - self.tokens;
        if missing < 1e-6 {
            self.tokens = 0.0;
            return Admission::Now;
        }
        Admission::Later(Duration::from_secs_f64(missing / self.rate))
    }
}

impl Zone {
    fn is_fully_disrupted(&self) -> bool {
        self.size > 0 && self.unready == self.size
    }

    /// Returns the rate for the health of its own nodes.
    #[expect(clippy::cast_precision_loss, reason = "a share of a number of nodes")]
    fn rate(&self) -> f64 {
        let share = self.unready as f64 / self.size.max(1) as f64;
        let partly = !self.is_fully_disrupted() && self.unready > 2 && share >= UNHEALTHY;
        match partly {
            true if self.size > LARGE => REDUCED_RATE,
            true => 0.0,
            false => RATE,
        }
    }
}

/// Returns the region and zone of a node.
fn zone_of(node: &Node) -> String {
    let label = |name: &str, older: &str| {
        let labels = node.metadata.labels.as_ref();
        let found = labels.and_then(|labels| labels.get(name).or_else(|| labels.get(older)));
        found.cloned().unwrap_or_default()
    };
    let region = label("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region");
    let zone = label("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone");
    format!("{region}:{zone}")
}

impl Zones {
    /// Whether all nodes have been added; until then the state of the cluster is unknown.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Adds all existing nodes.
    pub(super) fn add_all<'a>(&mut self, nodes: impl IntoIterator<Item = &'a Node>, now: Instant) {
        for node in nodes {
            self.update_node(&Key::of(node), Some(node), now);
        }
        self.complete = true;
        self.update_rates(now);
    }

    /// Updates or removes a node. Returns the nodes for which evictions stop, start, or change
    /// their rate because of it.
    pub(super) fn observe(&mut self, key: &Key, node: Option<&Node>, now: Instant) -> Vec<Key> {
        self.update_node(key, node, now);
        self.update_rates(now)
    }

    /// Whether no node of the cluster is ready.
    pub(super) fn is_disrupted(&self) -> bool {
        self.disrupted
    }

    /// Whether an unready node may be tainted. Once admitted, it stays admitted until it is ready.
    pub(super) fn admit(&mut self, key: &Key, now: Instant) -> Admission {
        let Some(state) = self.nodes.get_mut(key) else { return Admission::Stopped };
        if state.admitted {
            return Admission::Now;
        }
        let early = DELAY.saturating_sub(now.saturating_duration_since(state.since));
        if !early.is_zero() {
            return Admission::Later(early);
        }
        let Some(zone) = self.zones.get_mut(&state.zone) else { return Admission::Stopped };
        let admission = zone.limiter.take(now);
        state.admitted = admission == Admission::Now;
        admission
    }

    fn update_node(&mut self, key: &Key, node: Option<&Node>, now: Instant) {
        let before = self.nodes.remove(key);
        if let Some(before) = &before
            && let Some(zone) = self.zones.get_mut(&before.zone)
        {
            zone.nodes -= 1;
            zone.size -= usize::from(before.counts);
            zone.unready -= usize::from(before.counts && !before.ready);
        }
        let Some(node) = node else { return };
        let is_ready = ready(node).is_some_and(|ready| ready.status == "True");
        let excluded = node.metadata.labels.as_ref().is_some_and(|all| all.contains_key(EXCLUDED));
        let kept = before.filter(|before| !before.ready && !is_ready);
        let state = NodeState {
            zone: zone_of(node),
            ready: is_ready,
            counts: !excluded,
            since: kept.as_ref().map_or(now, |kept| kept.since),
            admitted: kept.is_some_and(|kept| kept.admitted),
        };
        let zone = self.zones.entry(state.zone.clone()).or_insert_with(|| Zone {
            nodes: 0,
            size: 0,
            unready: 0,
            limiter: Limiter { rate: RATE, tokens: 1.0, at: now },
        });
        zone.nodes += 1;
        zone.size += usize::from(state.counts);
        zone.unready += usize::from(state.counts && !state.ready);
        self.nodes.insert(key.clone(), state);
    }

    /// Updates the rates. Returns the unready nodes of the zones whose rate changed.
    fn update_rates(&mut self, now: Instant) -> Vec<Key> {
        if !self.complete {
            return Vec::new();
        }
        self.zones.retain(|_, zone| zone.nodes > 0);
        let mut counted = self.zones.values().filter(|zone| zone.size > 0).peekable();
        let disrupted = counted.peek().is_some() && counted.all(Zone::is_fully_disrupted);
        let switched = disrupted != self.disrupted;
        self.disrupted = disrupted;
        let mut changed = Vec::new();
        for (name, zone) in &mut self.zones {
            let rate = if disrupted { 0.0 } else { zone.rate() };
            if zone.limiter.set(rate, now) || switched {
                changed.push(name.clone());
            }
        }
        let mut keys = Vec::new();
        if changed.is_empty() {
            return keys;
        }
        for (key, state) in &mut self.nodes {
            if changed.contains(&state.zone) && !state.ready {
                state.admitted &= !disrupted;
                keys.push(key.clone());
            }
        }
        keys.sort();
        keys
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, zone: &str, status: &str) -> (Key, Node) {
        let node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        }));
        (Key::cluster(name), node.unwrap())
    }

    /// Returns zones of these sizes, with all nodes ready.
    fn zones(sizes: &[(&str, usize)], now: Instant) -> Zones {
        let mut zones = Zones::default();
        let named = sizes.iter().flat_map(|(zone, size)| (0..*size).map(move |at| (zone, at)));
        let nodes: Vec<Node> =
            named.map(|(zone, at)| node(&format!("{zone}{at}"), zone, "True").1).collect();
        zones.add_all(&nodes, now);
        zones
    }

    fn fail(zones: &mut Zones, zone: &str, count: usize, now: Instant) {
        for at in 0..count {
            let (key, node) = node(&format!("{zone}{at}"), zone, "Unknown");
            zones.observe(&key, Some(&node), now);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_node_every_ten_seconds() {
        let begin = Instant::now();
        let mut zones = zones(&[("a", 9)], begin);
        fail(&mut zones, "a", 2, begin);
        let (first, second) = (Key::cluster("a0"), Key::cluster("a1"));
        assert_eq!(zones.admit(&first, begin), Admission::Later(DELAY));
        let now = begin + DELAY;
        assert_eq!(zones.admit(&first, now), Admission::Now);
        assert_eq!(zones.admit(&first, now), Admission::Now, "a retry takes no token");
        assert_eq!(zones.admit(&second, now), Admission::Later(Duration::from_secs(10)));
        assert_eq!(zones.admit(&second, now + Duration::from_secs(10)), Admission::Now);
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_slow_down_or_stop_in_a_mostly_unready_zone() {
        let begin = Instant::now();
        let now = begin + DELAY;
        for (size, failed, admission) in [
            (3, 2, Admission::Now),
            (5, 3, Admission::Stopped),
            (50, 28, Admission::Stopped),
            (51, 28, Admission::Now),
            (51, 29, Admission::Now),
        ] {
            let mut zones = zones(&[("a", size), ("b", 1)], begin);
            fail(&mut zones, "a", failed, begin);
            assert_eq!(zones.admit(&Key::cluster("a0"), now), admission, "{failed} of {size}");
        }
        let mut zones = zones(&[("a", 60)], begin);
        fail(&mut zones, "a", 40, begin);
        assert_eq!(zones.admit(&Key::cluster("a0"), now), Admission::Now);
        let wait = zones.admit(&Key::cluster("a1"), now);
        assert_eq!(wait, Admission::Later(Duration::from_secs(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_zone_without_a_ready_node_is_evicted_while_another_zone_has_one() {
        let begin = Instant::now();
        let mut zones = zones(&[("a", 4), ("b", 1)], begin);
        fail(&mut zones, "a", 4, begin);
        assert!(!zones.is_disrupted());
        assert_eq!(zones.admit(&Key::cluster("a3"), begin + DELAY), Admission::Now);
        let (key, down) = node("b0", "b", "False");
        let enqueued = zones.observe(&key, Some(&down), begin);
        assert!(zones.is_disrupted());
        assert_eq!(enqueued.len(), 5, "every node is enqueued, so that its taint is removed");
        for name in ["a3", "b0"] {
            let later = begin + Duration::from_secs(1000);
            assert_eq!(zones.admit(&Key::cluster(name), later), Admission::Stopped);
        }
        // One ready node is enough to start evictions again.
        let (key, up) = node("b0", "b", "True");
        let enqueued = zones.observe(&key, Some(&up), begin + Duration::from_secs(1000));
        assert_eq!(enqueued.len(), 4, "{enqueued:?}");
        let now = begin + Duration::from_secs(1010);
        assert_eq!(zones.admit(&Key::cluster("a0"), now), Admission::Now);
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_and_excluded_nodes_do_not_count() {
        let begin = Instant::now();
        let mut zones = zones(&[("a", 2)], begin);
        let (key, mut excluded) = node("a0", "a", "True");
        excluded.metadata.labels.get_or_insert_default().insert(EXCLUDED.into(), String::new());
        zones.observe(&key, Some(&excluded), begin);
        let (key, down) = node("a1", "a", "False");
        zones.observe(&key, Some(&down), begin);
        assert!(zones.is_disrupted());
        zones.observe(&key, None, begin);
        assert!(!zones.is_disrupted());
    }
}
