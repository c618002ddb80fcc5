//! The replicas of the operator and their lease: which of them may write.

use evenkeel::leader::{LeaderElectionHandle, MonotonicClock};

use super::Gate;
use crate::trace::Lane;

/// A replica that competes for the lease.
pub(crate) struct Replica {
    pub(crate) clock: MonotonicClock,
    pub(crate) election: LeaderElectionHandle,
    /// Whether it has written as the leader.
    pub(crate) has_led: bool,
}

/// A write of a replica that was not the leader any more.
#[derive(Clone, Debug)]
pub(crate) struct Breach {
    pub(crate) object: String,
    pub(crate) text: String,
}

impl Gate {
    /// Adds a replica.
    pub(crate) fn compete(
        &self,
        incarnation: u32,
        clock: MonotonicClock,
        election: LeaderElectionHandle,
    ) {
        let replica = Replica { clock, election, has_led: false };
        self.state.lock().replicas.insert(incarnation, replica);
    }

    /// Returns whether the replica takes itself for the leader; `None` without leader election.
    pub(super) fn leads(&self, incarnation: u32) -> Option<bool> {
        let mut state = self.state.lock();
        let replica = state.replicas.get_mut(&incarnation)?;
        let leads = replica.election.is_leader();
        replica.has_led |= leads;
        Some(leads)
    }

    /// Notes a committed write of a replica that has lost its lease: by its own clock, or because
    /// another replica is the holder. A replica that has never led may write what is not bound to
    /// the leader: objects that no leader writes.
    pub(super) async fn check_lease(&self, incarnation: u32, led: Option<bool>, object: &str) {
        let Some(led) = led else { return };
        let (identity, path) = {
            let mut state = self.state.lock();
            let writers = state.writers.entry(object.to_owned()).or_default();
            writers.insert((incarnation, led));
            let shared = writers.iter().any(|(by, as_leader)| *by != incarnation && *as_leader);
            let Some(replica) = state.replicas.get(&incarnation) else { return };
            if !replica.has_led && !shared {
                return;
            }
            let lease = replica.election.lease();
            let (namespace, name) = (lease.namespace().unwrap_or_default(), lease.name());
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
            (replica.election.identity().to_owned(), path)
        };
        let lease = self.user.get(&path).await.unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let text = if !holder.is_empty() && holder != identity {
            format!("written by {identity} after {holder} had acquired the lease")
        } else if !led {
            format!("written by {identity}, which does not hold the lease")
        } else {
            return;
        };
        self.recorder.record(Lane::Operator, format!("{object} {text}"));
        self.state.lock().requests.breaches.push(Breach { object: object.to_owned(), text });
    }
}
