//! The single faults that a run without faults suggests: at each write, event, watch and review.

use std::collections::BTreeSet;

use super::Tier;
use crate::gate::Write;
use crate::plan::{At, Effect, Fault, Plan};
use crate::simulation::Config;
use crate::world::Run;

/// Events of a resource at which faults happen.
const EVENTS: usize = 12;

/// Calls of one operation for an object at which faults happen.
const CALLS: u32 = 4;

/// The faults of a calm run, and how many were left out.
pub(crate) struct Singles {
    pub(crate) faults: Vec<Fault>,
    /// Faults that would leave the same state as another one.
    pub(crate) pruned: usize,
}

/// Returns the single faults of a tier for a calm run, those that find most first.
pub(crate) fn singles(config: &Config, calm: &Run, tier: Tier) -> Singles {
    let mut faults = Vec::new();
    let writes: Vec<(At, &Write)> = calm
        .requests
        .writes
        .iter()
        .filter(|write| write.revision.is_some())
        .map(|write| (write.call.at(write.nth), write))
        .collect();
    let on_all = |effect: Effect, faults: &mut Vec<Fault>| {
        faults.extend(writes.iter().map(|(at, _)| Fault::new(at.clone(), effect)));
    };
    let created = |write: &Write| write.code == 201 && !write.call.resource.contains('/');
    on_all(Effect::CrashAfter, &mut faults);
    on_all(Effect::LoseResponse, &mut faults);
    calls(calm, &mut faults);
    on_all(Effect::Touch, &mut faults);
    for resource in calm.requests.events.keys() {
        for nth in events(calm, resource, tier) {
            let at = || At::new("event", resource, "", nth);
            faults.push(Fault::new(at(), Effect::LagUntilWrite));
            faults.push(Fault::new(at(), Effect::Gap));
        }
        // Also over several writes of the operator.
        let at = At::new("event", resource, "", first_event(calm, resource));
        faults.push(Fault::new(at, Effect::Lag(30)));
    }
    let pairs = super::cancelling_pairs(calm);
    faults.extend(pairs.into_iter().map(|at| Fault::new(at, Effect::Gap)));
    for (at, write) in &writes {
        if created(write) {
            faults.push(Fault::new(at.clone(), Effect::DeleteObject));
            // A generated name cannot be taken.
            if !at.object.is_empty() {
                faults.push(Fault::new(at.clone(), Effect::TakeName(20)));
            }
            if write.call.resource == "pods" {
                faults.push(Fault::new(at.clone(), Effect::EvictPod));
            }
        }
    }
    on_all(Effect::StaleRestart, &mut faults);
    let pruned = crashes_before(&writes, &mut faults);
    on_all(Effect::Reject(500), &mut faults);
    poisons(config, &writes, &mut faults);
    watches(calm, tier, &mut faults);
    reviews(calm, &mut faults);
    for code in [429, 503, 403, 401] {
        on_all(Effect::Reject(code), &mut faults);
    }
    on_all(Effect::Deny, &mut faults);
    on_all(Effect::Restart, &mut faults);
    // An apply declares a state that is to be restored; what is created once is not.
    let edited = writes.iter().filter(|(at, write)| created(write) && at.verb == "apply");
    let edited = edited.filter(|(_, write)| write.call.resource != "secrets");
    faults.extend(edited.map(|(at, _)| Fault::new(at.clone(), Effect::EditObject)));
    conditions(&writes, &mut faults);
    let mut seen = BTreeSet::new();
    faults.retain(|fault| seen.insert((fault.at.clone(), fault.effect)));
    Singles { faults, pruned }
}

/// Adds crashes before writes. One that leaves the server as the crash after the write before it is
/// left out: the operator starts again from the same state.
fn crashes_before(writes: &[(At, &Write)], faults: &mut Vec<Fault>) -> usize {
    let mut pruned = 0;
    let mut last = None;
    for (at, write) in writes {
        match last == Some(write.before) {
            true => pruned += 1,
            false => faults.push(Fault::new(at.clone(), Effect::CrashBefore)),
        }
        last = write.revision;
    }
    pruned
}

/// Adds objects whose requests fail, if there are other objects that must not be delayed.
fn poisons(config: &Config, writes: &[(At, &Write)], faults: &mut Vec<Fault>) {
    let objects = config.workload.iter().filter_map(crate::Step::created).count();
    if objects < 2 {
        return;
    }
    let mut seen = BTreeSet::new();
    for (at, write) in writes {
        if !at.object.is_empty() && seen.insert(write.object()) {
            faults.push(Fault::new(at.clone(), Effect::Poison(300)));
        }
    }
}

/// Adds faults of calls of the application.
fn calls(calm: &Run, faults: &mut Vec<Fault>) {
    let effects = [
        Effect::CrashAfter,
        Effect::LoseResponse,
        Effect::Reject(503),
        Effect::CrashBefore,
        Effect::Pause(40),
    ];
    for effect in effects {
        let places = calm.requests.calls.iter().filter(|at| at.nth <= CALLS);
        faults.extend(places.map(|at| Fault::new(at.clone(), effect)));
    }
}

/// Returns the number of the first event of a resource that the workload causes.
fn first_event(calm: &Run, resource: &str) -> u32 {
    calm.requests.events_before.get(resource).copied().unwrap_or_default() + 1
}

fn watches(calm: &Run, tier: Tier, faults: &mut Vec<Fault>) {
    for resource in calm.requests.watches.keys() {
        let effects = [Effect::Expire, Effect::EndEmpty, Effect::Freeze, Effect::ExpireContinue];
        for effect in effects {
            faults.push(Fault::new(At::new("watch", resource, "", 1), effect));
        }
        let first = first_event(calm, resource);
        for effect in [Effect::Expire, Effect::Cut] {
            // Before the workload, and in it.
            for nth in [1, first] {
                faults.push(Fault::new(At::new("event", resource, "", nth), effect));
            }
        }
        faults.push(Fault::new(At::new("event", resource, "", first), Effect::Freeze));
        for effect in [Effect::Reset, Effect::Bookmark] {
            faults.push(Fault::new(At::new("event", resource, "", first + 1), effect));
        }
        // A second page needs a second object.
        let events = calm.requests.events.get(resource).copied().unwrap_or_default();
        for nth in [2, events / 2] {
            let at = At::new("event", resource, "", nth.max(1));
            faults.push(Fault::new(at, Effect::ExpireContinue));
        }
    }
    if calm.requests.events.len() < 2 {
        return;
    }
    for resource in calm.requests.events.keys() {
        for nth in events(calm, resource, tier) {
            faults.push(Fault::new(At::new("event", resource, "", nth), Effect::Reorder));
        }
    }
}

/// Returns the events of a resource at which faults happen. In the first tier, the first one of those
/// between two writes of the operator: the others are held or missed together with it.
fn events(calm: &Run, resource: &str, tier: Tier) -> Vec<u32> {
    let writes = calm.requests.writes_before_events.get(resource);
    let mut last = None;
    let numbered = (1..).zip(writes.into_iter().flatten());
    let chosen =
        numbered.filter(|(_, writes)| last.replace(**writes) != Some(**writes) || tier > Tier::T0);
    chosen.map(|(nth, _)| nth).take(EVENTS).collect()
}

/// Adds faults of the operator's webhooks, just under and over the default timeout of 10 s.
fn reviews(calm: &Run, faults: &mut Vec<Fault>) {
    for resource in calm.requests.reviews.keys() {
        for effect in [Effect::WebhookDown(20), Effect::SlowWebhook(9), Effect::SlowWebhook(11)] {
            faults.push(Fault::new(At::new("review", resource, "", 1), effect));
        }
    }
}

/// Adds conditions that last for a while, at the first write of each resource or of all.
fn conditions(writes: &[(At, &Write)], faults: &mut Vec<Fault>) {
    let mut seen = BTreeSet::new();
    for (at, write) in writes {
        if seen.insert((at.verb.clone(), at.resource.clone())) {
            faults.push(Fault::new(at.clone(), Effect::Forbid(30)));
            if !write.call.resource.contains('/') {
                faults.push(Fault::new(at.clone(), Effect::Mutate));
            }
        }
    }
    let Some((at, _)) = writes.first() else { return };
    for effect in [
        Effect::Outage(20),
        Effect::RestartServer,
        Effect::Restore(600),
        Effect::Unauthorize(30),
        Effect::Untrust(30),
    ] {
        faults.push(Fault::new(at.clone(), effect));
    }
}

/// Returns plans with a handover of the lease at each write: one kind after the other, or all.
pub(crate) fn handovers(calm: &Run, all: bool) -> Vec<Plan> {
    const KINDS: [Effect; 5] = [
        // Longer than the lease, shorter than the lease and the grace period of a manager.
        Effect::Pause(30),
        Effect::CrashAfter,
        Effect::PartitionLease(60),
        Effect::Restart,
        Effect::SlowRenew(6),
    ];
    let writes = calm.requests.writes.iter().filter(|write| write.revision.is_some());
    let mut plans = Vec::new();
    for (index, write) in writes.enumerate() {
        let at = write.call.at(write.nth);
        let kinds = match all {
            true => &KINDS[..],
            false => std::slice::from_ref(&KINDS[index % KINDS.len()]),
        };
        plans.extend(kinds.iter().map(|effect| {
            let faults = vec![Fault::new(at.clone(), *effect)];
            Plan { replicas: 2, faults, ..Plan::default() }
        }));
        if all {
            let pause = Fault::new(at.clone(), Effect::Pause(30));
            plans.push(Plan { replicas: 3, faults: vec![pause], ..Plan::default() });
        }
    }
    // A standby with a fast clock takes over early.
    let writes: Vec<&Write> =
        calm.requests.writes.iter().filter(|write| write.revision.is_some()).collect();
    if all && let [first, second, ..] = &writes[..] {
        let rate = Fault::new(first.call.at(first.nth), Effect::ClockRate(140));
        let partition = Fault::new(second.call.at(second.nth), Effect::PartitionLease(60));
        plans.push(Plan { replicas: 2, faults: vec![rate, partition], ..Plan::default() });
    }
    plans
}
