//! A Lease as JSON: fields that this code does not know are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::{Map, Value, json};

use crate::key::Key;
use crate::version::Version;

/// The fields of the spec that a leader writes, as client-go names and uses them.
const HOLDER: &str = "holderIdentity";
const DURATION: &str = "leaseDurationSeconds";
const ACQUIRED: &str = "acquireTime";
const RENEWED: &str = "renewTime";
const TRANSITIONS: &str = "leaseTransitions";

/// A Lease object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease(Value);

/// What a process writes when it acquires or renews a lease.
pub(super) struct Claim<'a> {
    pub(super) identity: &'a str,
    pub(super) duration: Duration,
    pub(super) now: Timestamp,
    pub(super) labels: &'a BTreeMap<String, String>,
}

impl Lease {
    /// Parses the JSON of a Lease.
    pub(super) fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json).map(Self)
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    /// Returns a new Lease, held by the claimant.
    pub(super) fn new(key: &Key, claim: &Claim<'_>, transitions: u64) -> Self {
        let metadata = json!({ "name": key.name(), "namespace": key.namespace() });
        let mut lease = Self(json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {},
        }));
        lease.acquire(claim, transitions);
        lease
    }

    /// Sets the claimant as the holder.
    pub(super) fn acquire(&mut self, claim: &Claim<'_>, transitions: u64) {
        let now = self.renew(claim);
        let spec = self.section("spec");
        spec.insert(ACQUIRED.to_owned(), now);
        spec.insert(TRANSITIONS.to_owned(), transitions.into());
    }

    /// Sets the time of the renewal, which it returns, and the claimant as the holder.
    pub(super) fn renew(&mut self, claim: &Claim<'_>) -> Value {
        let mut now = micro_time(claim.now);
        let spec = self.section("spec");
        // The others see a renewal only if something changes.
        if spec.get(RENEWED) == Some(&now) {
            let later = claim.now.checked_add(Duration::from_micros(1));
            now = micro_time(later.unwrap_or(Timestamp::MIN));
        }
        spec.insert(HOLDER.to_owned(), claim.identity.into());
        spec.insert(DURATION.to_owned(), claim.duration.as_secs().into());
        spec.insert(RENEWED.to_owned(), now.clone());
        if !claim.labels.is_empty() {
            let metadata = self.section("metadata");
            let labels = metadata.entry("labels").or_insert(Value::Null);
            if !labels.is_object() {
                *labels = json!({});
            }
            for (name, value) in claim.labels {
                labels[name] = value.as_str().into();
            }
        }
        now
    }

    /// Removes the holder, as client-go does.
    pub(super) fn release(&mut self, now: Timestamp) {
        let now = micro_time(now);
        let spec = self.section("spec");
        spec.insert(HOLDER.to_owned(), "".into());
        spec.insert(DURATION.to_owned(), 1.into());
        spec.insert(RENEWED.to_owned(), now.clone());
        spec.insert(ACQUIRED.to_owned(), now);
    }

    /// Returns the identity of the holder; empty if there is none.
    pub(super) fn holder(&self) -> &str {
        self.0["spec"][HOLDER].as_str().unwrap_or_default()
    }

    /// Returns how long the lease is valid after a change.
    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs(self.0["spec"][DURATION].as_u64().unwrap_or_default())
    }

    /// Returns how often the lease has changed hands.
    pub(super) fn transitions(&self) -> u64 {
        self.0["spec"][TRANSITIONS].as_u64().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> Option<&str> {
        self.0["metadata"]["uid"].as_str()
    }

    pub(super) fn version(&self) -> Option<&str> {
        self.0["metadata"]["resourceVersion"].as_str()
    }

    /// Returns whether it is an older state of the same object.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        let version = |lease: &Self| lease.version().and_then(Version::parse);
        self.uid() == other.uid()
            && version(self).zip(version(other)).is_some_and(|(own, other)| own < other)
    }

    /// Returns whether nothing was renewed between the two states.
    pub(super) fn is_same_record(&self, other: &Self) -> bool {
        self.uid() == other.uid() && self.0["spec"] == other.0["spec"]
    }

    fn section(&mut self, name: &str) -> &mut Map<String, Value> {
        if !self.0.is_object() {
            self.0 = json!({});
        }
        if !self.0[name].is_object() {
            self.0[name] = json!({});
        }
        match &mut self.0[name] {
            Value::Object(section) => section,
            _ => unreachable!("it was set to an object"),
        }
    }
}

fn micro_time(time: Timestamp) -> Value {
    // A time always serializes.
    serde_json::to_value(MicroTime(time)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim<'a>(identity: &'a str, labels: &'a BTreeMap<String, String>) -> Claim<'a> {
        Claim { identity, duration: Duration::from_secs(15), now: Timestamp::UNIX_EPOCH, labels }
    }

    #[test]
    fn fields_and_labels_of_others_survive() {
        let mut lease = Lease(json!({
            "metadata": {
                "name": "op", "resourceVersion": "7", "labels": { "theirs": "kept", "ours": "old" },
                "annotations": { "note": "kept" },
            },
            "spec": {
                "holderIdentity": "other", "leaseTransitions": 4,
                "strategy": "OldestEmulationVersion", "preferredHolder": "third", "later": [1],
            },
        }));
        let labels = [("ours".to_owned(), "new".to_owned())].into();
        lease.acquire(&claim("me", &labels), 5);
        let time = "1970-01-01T00:00:00.000000Z";
        let expected = json!({
            "metadata": {
                "name": "op", "resourceVersion": "7", "labels": { "theirs": "kept", "ours": "new" },
                "annotations": { "note": "kept" },
            },
            "spec": {
                "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 5,
                "acquireTime": time, "renewTime": time,
                "strategy": "OldestEmulationVersion", "preferredHolder": "third", "later": [1],
            },
        });
        assert_eq!(lease.0, expected);
        lease.release(Timestamp::UNIX_EPOCH);
        assert_eq!((lease.holder(), lease.duration().as_secs(), lease.transitions()), ("", 1, 5));
        assert_eq!(lease.0["spec"]["later"], json!([1]));
    }

    #[test]
    fn each_renewal_changes_the_record_even_if_the_wall_clock_stands_still() {
        let labels = BTreeMap::new();
        let claim = claim("me", &labels);
        let first = Lease::new(&Key::namespaced("ns", "op"), &claim, 0);
        let mut second = first.clone();
        second.renew(&claim);
        assert!(!first.is_same_record(&second));
        let mut third = second.clone();
        third.renew(&claim);
        assert!(!second.is_same_record(&third));
    }

    #[test]
    fn malformed_leases_are_expired_and_without_holder() {
        for json in ["null", "[]", r#"{"spec": 1}"#, r#"{"spec": {"leaseDurationSeconds": -5}}"#] {
            let mut lease = Lease::parse(json.as_bytes()).unwrap();
            assert_eq!((lease.holder(), lease.duration()), ("", Duration::ZERO), "{json}");
            lease.acquire(&claim("me", &BTreeMap::new()), 1);
            assert_eq!(lease.holder(), "me", "{json}");
        }
    }

    #[test]
    fn versions_are_compared_within_one_object_only() {
        let lease = |uid: &str, version: &str| {
            Lease(json!({ "metadata": { "uid": uid, "resourceVersion": version } }))
        };
        assert!(lease("a", "9").is_older_than(&lease("a", "10")));
        assert!(!lease("a", "10").is_older_than(&lease("a", "10")));
        assert!(!lease("b", "9").is_older_than(&lease("a", "10")));
        assert!(!lease("a", "x").is_older_than(&lease("a", "10")));
    }
}
