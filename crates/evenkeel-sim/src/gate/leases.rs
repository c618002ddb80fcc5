//! The replicas of the operator and their lease: which of them may write.

use evenkeel::BoxError;
use evenkeel::leader::{LeaderElectionHandle, MonotonicClock};
use http::Response;
use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Gate, SimBody, faults};
use crate::trace::Lane;

/// A replica that competes for the lease.
pub(crate) struct Replica {
    pub(crate) clock: MonotonicClock,
    pub(crate) election: LeaderElectionHandle,
    /// Whether it has written as the leader.
    pub(crate) has_led: bool,
}

/// A write of a replica that was not the leader any more.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Breach {
    pub(crate) object: String,
    pub(crate) text: String,
}

impl Gate {
    /// Records a change of the holder from the response to a write of the lease.
    pub(super) async fn note_holder(
        &self,
        response: Response<SimBody>,
    ) -> Result<Response<SimBody>, BoxError> {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let lease: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if parts.status.is_success() {
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            let before = std::mem::replace(&mut self.state.lock().holder, holder.to_owned());
            if before != holder {
                let text = match (&*before, holder) {
                    (before, "") => format!("{before} releases the lease"),
                    ("", holder) => format!("{holder} acquires the lease"),
                    (before, holder) => format!("{holder} takes over the lease of {before}"),
                };
                self.recorder.record(Lane::Leader, text);
            }
        }
        Ok(Response::from_parts(parts, faults::full(bytes)))
    }

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
