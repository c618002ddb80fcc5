//! Exploration: which plans are run, in which order, within which budget.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_types::random::SplitMix64;
use parking_lot::Mutex;
use serde::Serialize;

use crate::plan::{At, Effect, Fault, Plan};
use crate::simulation::{Config, Simulation};
use crate::workload::Step;
use crate::world::Run;

/// How much is explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Tier {
    /// Every single fault at every write, event and watch, within 10 seconds: for each `cargo test`.
    #[default]
    T0,
    /// Also pairs of faults, random mixes and workloads from the schema, within 3 minutes: for CI.
    T1,
    /// Random plans for two hours: for nights.
    T2,
}

impl Tier {
    /// Reads the tier from `SIM_TIER`.
    pub(crate) fn from_env() -> Self {
        match std::env::var("SIM_TIER").as_deref() {
            Ok("1" | "T1" | "t1") => Self::T1,
            Ok("2" | "T2" | "t2") => Self::T2,
            _ => Self::T0,
        }
    }

    fn budget(self) -> Duration {
        match self {
            Self::T0 => Duration::from_secs(10),
            Self::T1 => Duration::from_secs(3 * 60),
            Self::T2 => Duration::from_secs(2 * 60 * 60),
        }
    }

    fn random_plans(self) -> usize {
        match self {
            Self::T0 => 0,
            Self::T1 => 2_000,
            Self::T2 => 1_000_000,
        }
    }
}

/// Reads the seed of random plans from `SIM_SEED`.
pub(crate) fn seed_from_env() -> u64 {
    std::env::var("SIM_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1)
}

/// Returns the budget of a simulation.
pub(crate) fn budget(simulation: &Simulation) -> Duration {
    let from_env = || Some(Duration::from_secs(std::env::var("SIM_BUDGET").ok()?.parse().ok()?));
    simulation.budget.or_else(from_env).unwrap_or_else(|| simulation.tier.budget())
}

/// What an exploration has covered.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Coverage {
    /// Plans that were to be run.
    pub plans: usize,
    /// Plans that were run.
    pub run: usize,
    /// Writes of the operator in the calm run.
    pub writes: usize,
    /// Those at which a fault happened.
    pub writes_hit: usize,
    /// Resources that the operator watches.
    pub watched: usize,
    /// Plans whose faults did not all happen.
    pub missed: usize,
    /// Workloads from the schema.
    pub workloads: usize,
    /// Wall time.
    pub seconds: f64,
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} plans run in {:.1} s; {} of {} writes hit; {} watched resources",
            self.run, self.plans, self.seconds, self.writes_hit, self.writes, self.watched
        )?;
        if self.workloads > 0 {
            write!(f, "; {} workloads from the schema", self.workloads)?;
        }
        if self.missed > 0 {
            write!(f, "; in {} plans not every fault happened", self.missed)?;
        }
        if self.run < self.plans {
            write!(f, "; THE BUDGET WAS USED UP: {} plans were not run", self.plans - self.run)?;
        }
        Ok(())
    }
}

/// Returns all single faults for a calm run, those that find most first.
pub(crate) fn singles(calm: &Run) -> Vec<Fault> {
    let mut faults = Vec::new();
    let writes: Vec<(At, bool, &str)> = calm
        .requests
        .writes
        .iter()
        .filter(|write| write.revision.is_some())
        .map(|write| (write.call.at(write.nth), write.code == 201, write.call.verb))
        .collect();
    let on_all = |effect: Effect, faults: &mut Vec<Fault>| {
        faults.extend(writes.iter().map(|(at, ..)| Fault::new(at.clone(), effect)));
    };
    on_all(Effect::CrashAfter, &mut faults);
    on_all(Effect::LoseResponse, &mut faults);
    on_all(Effect::Touch, &mut faults);
    for (resource, events) in &calm.requests.events {
        let events = (*events).min(12);
        for nth in 1..=events {
            let at = || At::new("event", resource, "", nth);
            faults.push(Fault::new(at(), Effect::LagUntilWrite));
            faults.push(Fault::new(at(), Effect::Gap));
        }
    }
    for (at, created, _) in &writes {
        let main = !at.resource.contains('/');
        if *created && main {
            faults.push(Fault::new(at.clone(), Effect::DeleteObject));
        }
    }
    on_all(Effect::StaleRestart, &mut faults);
    on_all(Effect::CrashBefore, &mut faults);
    on_all(Effect::Reject(500), &mut faults);
    for resource in calm.requests.watches.keys() {
        for effect in [Effect::Expire, Effect::EndEmpty, Effect::Freeze] {
            faults.push(Fault::new(At::new("watch", resource, "", 1), effect));
        }
        for effect in [Effect::Expire, Effect::Cut, Effect::Freeze, Effect::Lag(30)] {
            faults.push(Fault::new(At::new("event", resource, "", 1), effect));
        }
        faults.push(Fault::new(At::new("event", resource, "", 2), Effect::Reset));
    }
    for code in [429, 503, 403, 401] {
        on_all(Effect::Reject(code), &mut faults);
    }
    on_all(Effect::Restart, &mut faults);
    if let Some((at, ..)) = writes.first() {
        faults.push(Fault::new(at.clone(), Effect::Outage(20)));
    }
    let mut seen = BTreeSet::new();
    faults.retain(|fault| seen.insert((fault.at.clone(), fault.effect)));
    faults
}

/// Returns the plans of a tier.
pub(crate) fn plans(simulation: &Simulation, calm: &Run) -> Vec<Plan> {
    let faults = singles(calm);
    let single = |fault: &Fault| Plan { faults: vec![fault.clone()], ..Plan::default() };
    let mut plans: Vec<Plan> = faults.iter().map(single).collect();
    if simulation.tier == Tier::T0 {
        return plans;
    }
    let writes = calm.requests.writes.iter().filter(|write| write.revision.is_some());
    let places: Vec<At> = writes.map(|write| write.call.at(write.nth)).collect();
    let effects = [Effect::CrashAfter, Effect::LoseResponse, Effect::Touch];
    for (index, first) in places.iter().enumerate() {
        for second in places.iter().skip(index + 1).take(4) {
            for (one, two) in effects.iter().flat_map(|a| effects.iter().map(move |b| (*a, *b))) {
                let faults = vec![Fault::new(first.clone(), one), Fault::new(second.clone(), two)];
                plans.push(Plan { faults, ..Plan::default() });
            }
        }
    }
    let mut random = SplitMix64(simulation.random_seed);
    for _ in 0..simulation.tier.random_plans() {
        let count = 1 + random.next() % 3;
        let pick =
            |random: &mut SplitMix64| faults.get(random.next() as usize % faults.len().max(1));
        let faults = (0..count).filter_map(|_| pick(&mut random).cloned()).collect();
        plans.push(Plan { faults, ..Plan::default() });
    }
    plans
}

/// Returns the workloads of a tier besides the one of the simulation.
pub(crate) fn workloads(config: &Config, tier: Tier) -> Vec<Vec<Step>> {
    match tier {
        Tier::T0 => Vec::new(),
        _ => config.generated_workloads(),
    }
}

/// Runs `job` for each index on all cores until the deadline, or until one returns `false`. Returns
/// the number of indexes that were run: all before it, in any order.
pub(crate) fn in_parallel(
    count: usize,
    deadline: Instant,
    job: impl Fn(usize) -> bool + Send + Sync,
) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(count.max(1));
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = Mutex::new(usize::MAX);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    // Plans before a failed one are completed, so that the first one is reported.
                    if index >= count || index > *stop.lock() || now() > deadline {
                        return;
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                    if !job(index) {
                        let mut stop = stop.lock();
                        *stop = index.min(*stop);
                    }
                }
            });
        }
    });
    done.into_inner()
}

#[expect(clippy::disallowed_methods, reason = "budgets are wall time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
