//! What earlier faults still do: each condition holds until a time.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Duration, Instant};

use super::Call;

/// How long slow responses of leases and webhooks last.
const SLOW: Duration = Duration::from_secs(60);

/// The conditions of a run.
#[derive(Default)]
pub(super) struct Conditions {
    /// The server is unreachable, and watches end.
    outage: Option<Instant>,
    unauthorized: Option<Instant>,
    untrusted: Option<Instant>,
    /// Verbs and resources.
    forbidden: Vec<(&'static str, String, Instant)>,
    poisoned: Vec<Poisoned>,
    /// Resources whose known versions are too large, until they are listed without one.
    restored: BTreeSet<String>,
    restored_until: Option<Instant>,
    /// Paused replicas.
    paused: BTreeMap<u32, Instant>,
    /// Replicas that cannot reach the lease.
    partitioned: BTreeMap<u32, Instant>,
    /// Replicas whose responses for the lease are late.
    slow_leases: BTreeMap<u32, (Duration, Instant)>,
    webhooks_down: Option<Instant>,
    slow_webhooks: Option<(Duration, Instant)>,
    /// Resources whose objects a webhook changes.
    mutated: BTreeSet<String>,
    /// Resources that are listed in pages of one object; `true` once a page has expired.
    paged: BTreeMap<String, bool>,
}

/// An object whose requests fail.
struct Poisoned {
    resource: String,
    object: String,
    /// From when on attempts must have become rare.
    late: Instant,
    until: Instant,
    /// Requests since then, events that were delivered, and committed writes of the operator.
    late_attempts: usize,
    late_events: usize,
    late_writes: usize,
}

impl Poisoned {
    fn is_late(&self) -> bool {
        (self.late..self.until).contains(&Instant::now())
    }
}

/// Returns the time in this many seconds.
pub(super) fn after(seconds: u32) -> Instant {
    Instant::now() + Duration::from_secs(seconds.into())
}

fn holds(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() < until)
}

/// Why a request gets no response of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoConnection,
    Rejected(u16),
    TooLarge,
    Expired,
}

impl Conditions {
    pub(super) fn is_outage(&self) -> bool {
        holds(self.outage)
    }

    pub(super) fn start_outage(&mut self, seconds: u32) {
        self.outage = Some(after(seconds));
    }

    pub(super) fn unauthorize(&mut self, seconds: u32) {
        self.unauthorized = Some(after(seconds));
    }

    pub(super) fn untrust(&mut self, seconds: u32) {
        self.untrusted = Some(after(seconds));
    }

    pub(super) fn forbid(&mut self, call: &Call, seconds: u32) {
        self.forbidden.push((call.verb, call.resource.clone(), after(seconds)));
    }

    pub(super) fn poison(&mut self, call: &Call, seconds: u32) {
        self.poisoned.push(Poisoned {
            resource: call.main_resource().to_owned(),
            object: call.object(),
            late: after(seconds / 5 * 2),
            until: after(seconds),
            late_attempts: 0,
            late_events: 0,
            late_writes: 0,
        });
    }

    /// Notes that an event was delivered.
    pub(super) fn note_event(&mut self) {
        self.poisoned.iter_mut().filter(|it| it.is_late()).for_each(|it| it.late_events += 1);
    }

    /// Notes a committed write of the operator.
    pub(super) fn note_write(&mut self) {
        self.poisoned.iter_mut().filter(|it| it.is_late()).for_each(|it| it.late_writes += 1);
    }

    /// Returns until when an object is poisoned.
    pub(super) fn poisoned_until(&self) -> Option<Instant> {
        self.poisoned.iter().map(|it| it.until).max()
    }

    /// Returns how many requests for a poisoned object there were in the last three fifths of the
    /// time in which they fail, besides one for each event that the operator has not caused itself.
    pub(super) fn late_attempts(&self) -> usize {
        let attempts = |it: &Poisoned| {
            let changes = it.late_events.saturating_sub(it.late_writes);
            it.late_attempts.saturating_sub(changes)
        };
        self.poisoned.iter().map(attempts).max().unwrap_or_default()
    }

    pub(super) fn restore(&mut self, resources: impl IntoIterator<Item = String>, seconds: u32) {
        self.restored.extend(resources);
        self.restored_until = Some(after(seconds));
    }

    pub(super) fn is_restored(&self, resource: &str) -> bool {
        holds(self.restored_until) && self.restored.contains(resource)
    }

    pub(super) fn pause(&mut self, replica: u32, seconds: u32) {
        self.paused.insert(replica, after(seconds));
    }

    pub(super) fn paused_until(&self, replica: u32) -> Option<Instant> {
        self.paused.get(&replica).copied().filter(|until| Instant::now() < *until)
    }

    pub(super) fn partition(&mut self, replica: u32, seconds: u32) {
        self.partitioned.insert(replica, after(seconds));
    }

    /// Returns until when the replica cannot reach the lease.
    pub(super) fn partitioned_until(&self, replica: u32) -> Option<Instant> {
        self.partitioned.get(&replica).copied().filter(|until| Instant::now() < *until)
    }

    pub(super) fn slow_lease(&mut self, replica: u32, seconds: u32) {
        let delay = Duration::from_secs(seconds.into());
        self.slow_leases.insert(replica, (delay, Instant::now() + SLOW));
    }

    /// Returns how late responses for the lease are.
    pub(super) fn lease_delay(&self, replica: u32) -> Option<Duration> {
        let (delay, until) = self.slow_leases.get(&replica)?;
        (Instant::now() < *until).then_some(*delay)
    }

    pub(super) fn stop_webhooks(&mut self, seconds: u32) {
        self.webhooks_down = Some(after(seconds));
    }

    pub(super) fn slow_webhooks(&mut self, seconds: u32) {
        let delay = Duration::from_secs(seconds.into());
        self.slow_webhooks = Some((delay, Instant::now() + SLOW));
    }

    pub(super) fn are_webhooks_down(&self) -> bool {
        holds(self.webhooks_down)
    }

    pub(super) fn webhook_delay(&self) -> Option<Duration> {
        let (delay, until) = self.slow_webhooks?;
        (Instant::now() < until).then_some(delay)
    }

    pub(super) fn mutate(&mut self, resource: &str) {
        self.mutated.insert(resource.to_owned());
    }

    pub(super) fn is_mutated(&self, resource: &str) -> bool {
        self.mutated.contains(resource)
    }

    /// Lists the resource in pages of one object from now on.
    pub(super) fn page(&mut self, resource: &str) {
        self.paged.insert(resource.to_owned(), false);
    }

    pub(super) fn is_paged(&self, resource: &str) -> bool {
        self.paged.get(resource) == Some(&false)
    }

    /// Returns why a request is refused, if it is.
    pub(super) fn refusal(&mut self, call: &Call, query: &str) -> Option<Refusal> {
        if self.is_outage() || holds(self.untrusted) {
            return Some(Refusal::NoConnection);
        }
        if holds(self.unauthorized) {
            return Some(Refusal::Rejected(401));
        }
        let now = Instant::now();
        let forbids = |(verb, resource, until): &(&str, String, Instant)| {
            *verb == call.verb && *resource == call.resource && now < *until
        };
        if self.forbidden.iter().any(forbids) {
            return Some(Refusal::Rejected(403));
        }
        let object = call.object();
        let poisons = |it: &&mut Poisoned| {
            it.resource == call.main_resource() && it.object == object && now < it.until
        };
        if !object.is_empty()
            && let Some(poisoned) = self.poisoned.iter_mut().find(poisons)
        {
            poisoned.late_attempts += usize::from(now >= poisoned.late);
            return Some(Refusal::Rejected(500));
        }
        if matches!(call.verb, "list" | "watch") {
            return self.refused_version(call, query);
        }
        None
    }

    fn refused_version(&mut self, call: &Call, query: &str) -> Option<Refusal> {
        let parameter = |name: &str| {
            query.split('&').find_map(|it| it.strip_prefix(name)).filter(|it| !it.is_empty())
        };
        if parameter("continue=").is_some() && self.is_paged(&call.resource) {
            self.paged.insert(call.resource.clone(), true);
            return Some(Refusal::Expired);
        }
        if self.is_restored(&call.resource) {
            let version = parameter("resourceVersion=").filter(|version| *version != "0");
            if version.is_some() {
                return Some(Refusal::TooLarge);
            }
            self.restored.remove(&call.resource);
        }
        None
    }
}
