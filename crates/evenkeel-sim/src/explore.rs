//! Exploration: which plans are run, in which order, within which budget.

mod singles;

mod exhaustive;

mod cancelling;

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_types::random::SplitMix64;
use parking_lot::Mutex;
use serde::Serialize;

pub(crate) use cancelling::cancelling_pairs;
pub use exhaustive::Exhaustive;
pub(crate) use exhaustive::{exhaustive, is_small};
pub(crate) use singles::{Singles, handovers, singles};

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
    /// Also pairs of faults, random mixes, workloads from the schema and children deleted at rest, within
    /// 3 minutes: for CI.
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
    /// Those that were run again, with the same trace.
    pub repeated: usize,
    /// Whether the exploration ended at a finding.
    pub found: bool,
    /// Writes of the operator in the calm run.
    pub writes: usize,
    /// Those at which a fault happened.
    pub writes_hit: usize,
    /// Calls of the application in the calm run.
    pub calls: usize,
    /// Those at which a fault happened.
    pub calls_hit: usize,
    /// Pairs of events of which the second one cancels the first.
    pub pairs: usize,
    /// Those whose first event was missed in a plan.
    pub pairs_hit: usize,
    /// The events that were missed.
    #[serde(skip)]
    pub(crate) gaps: BTreeSet<At>,
    /// The plans that were run and not repeated yet, with the hashes of their traces.
    #[serde(skip)]
    pub(crate) ran: Vec<(Plan, u64)>,
    /// Resources that the operator watches.
    pub watched: usize,
    /// Plans whose faults did not all happen.
    pub missed: usize,
    /// Plans that were left out, because another one leaves the same state.
    pub pruned: usize,
    /// Kinds of faults that were not injected, and why.
    pub skipped: Vec<String>,
    /// The exhaustive exploration, if the world is small.
    pub exhaustive: Option<Exhaustive>,
    /// Workloads from the schema.
    pub workloads: usize,
    /// Properties of the specs of the samples.
    pub properties: usize,
    /// Those that a workload changes.
    pub properties_changed: usize,
    /// Wall time.
    pub seconds: f64,
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} plans run in {:.1} s, {} of them twice; {} of {} writes hit; {} watched resources",
            self.run,
            self.plans,
            self.seconds,
            self.repeated,
            self.writes_hit,
            self.writes,
            self.watched
        )?;
        if self.pairs > 0 {
            write!(f, "; {} of {} cancelling pairs of events hit", self.pairs_hit, self.pairs)?;
        }
        if self.calls > 0 {
            write!(f, "; {} of {} calls of the application hit", self.calls_hit, self.calls)?;
        }
        if self.workloads > 0 {
            let Self { workloads, properties, properties_changed, .. } = self;
            write!(
                f,
                "; {workloads} workloads from the schema, which change {properties_changed} of \
                 {properties} properties"
            )?;
        }
        if let Some(exhaustive) = &self.exhaustive {
            write!(f, "; {exhaustive}")?;
        }
        if self.pruned > 0 {
            write!(f, "; {} plans with the same state as another one left out", self.pruned)?;
        }
        for skipped in &self.skipped {
            write!(f, "; skipped: {skipped}")?;
        }
        if self.missed > 0 {
            write!(f, "; in {} plans not every fault happened", self.missed)?;
        }
        match self.plans.saturating_sub(self.run) {
            0 => {}
            left if self.found => write!(f, "; stopped at the finding: {left} plans were not run")?,
            left => write!(f, "; THE BUDGET WAS USED UP: {left} plans were not run")?,
        }
        Ok(())
    }
}

/// The plans of a tier.
pub(crate) struct Plans {
    pub(crate) plans: Vec<Plan>,
    pub(crate) pruned: usize,
}

/// Returns the plans of a tier.
pub(crate) fn plans(simulation: &Simulation, calm: &Run) -> Plans {
    let Singles { faults, pruned } = singles(&simulation.config, calm, simulation.tier);
    let mut plans: Vec<Plan> = faults.iter().cloned().map(Plan::single).collect();
    let more = simulation.tier > Tier::T0;
    plans.extend(handovers(calm, more));
    if more {
        pairs(calm, &mut plans);
        random_mixes(simulation, &faults, &mut plans);
    }
    plans.retain(|plan| !simulation.config.disables(plan));
    Plans { plans, pruned }
}

/// Adds pairs of faults at writes that are close to each other.
fn pairs(calm: &Run, plans: &mut Vec<Plan>) {
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
}

fn random_mixes(simulation: &Simulation, faults: &[Fault], plans: &mut Vec<Plan>) {
    // A poisoned object changes what the other faults mean.
    let faults: Vec<&Fault> =
        faults.iter().filter(|fault| !matches!(fault.effect, Effect::Poison(_))).collect();
    let mut random = SplitMix64(simulation.random_seed);
    for _ in 0..simulation.tier.random_plans() {
        let count = 1 + random.next() % 3;
        let pick =
            |random: &mut SplitMix64| faults.get(random.next() as usize % faults.len().max(1));
        let faults = (0..count).filter_map(|_| pick(&mut random).map(|it| (*it).clone())).collect();
        plans.push(Plan { faults, ..Plan::default() });
    }
}

/// Returns the workloads of a tier besides the one of the simulation.
pub(crate) fn workloads(config: &Config, calm: &Run, tier: Tier) -> Vec<Vec<Step>> {
    match tier {
        Tier::T0 => Vec::new(),
        _ => config.generated_workloads(calm),
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
