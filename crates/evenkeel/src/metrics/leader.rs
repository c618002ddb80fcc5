//! Metrics of leader election, by client-go's names.

use super::{Counter, Define, Family, Gauge};

/// The families by lease.
#[derive(Debug)]
pub(crate) struct LeaderFamilies {
    status: Family<Gauge, 1>,
    slowpath: Family<Counter, 1>,
}

/// The metrics of one lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaderMetrics {
    status: Gauge,
    slowpath: Counter,
}

impl LeaderFamilies {
    pub(super) fn new(define: &Define) -> Self {
        Self {
            status: define.gauges(
                "leader_election_master_status",
                "1 if this replica is the leader of the lease, otherwise 0.",
                ["name"],
            ),
            slowpath: define.counters(
                "leader_election_slowpath_total",
                "Renewals of the lease that had to read it first.",
                ["name"],
            ),
        }
    }

    /// Returns the metrics of the lease `name`: not the leader at first.
    pub(crate) fn lease(&self, name: &str) -> LeaderMetrics {
        LeaderMetrics { status: self.status.with([name]), slowpath: self.slowpath.with([name]) }
    }
}

impl LeaderMetrics {
    pub(crate) fn set_leader(&self, leader: bool) {
        self.status.set(f64::from(u8::from(leader)));
    }

    pub(crate) fn slowpath(&self) {
        self.slowpath.inc();
    }
}
