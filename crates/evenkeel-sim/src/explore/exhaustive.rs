//! Exhaustive exploration of small worlds: every order of deliveries and reconciles, with at most one
//! fault, up to the state.
//!
//! A run with a schedule notes each choice and the state before it. From each choice whose state was
//! not seen before, the other options are run, too. The state is that of the server, the events that
//! are held and the workqueues; the memory of the operator is not part of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;

use super::in_parallel;
use crate::oracle::{self, Violation};
use crate::plan::{Effect, Fault, Plan};
use crate::simulation::Config;
use crate::world::{self, Run};

/// Writes of the operator in a small world.
const WRITES: usize = 8;

/// What was explored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Exhaustive {
    /// Runs.
    pub runs: usize,
    /// Different states at which there was a choice.
    pub states: usize,
    /// Faults, each with every order of deliveries and reconciles, and the run without one.
    pub faults: usize,
    /// Whether nothing was left out.
    pub complete: bool,
}

impl fmt::Display for Exhaustive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.complete {
            true => "every order of deliveries and reconciles explored",
            false => "NOT every order of deliveries and reconciles explored",
        };
        let Self { runs, states, faults, .. } = self;
        write!(f, "{what}, with at most one of {faults} faults: {runs} runs, {states} states")
    }
}

/// Whether the world is small: one object of the user, and few writes.
pub(crate) fn is_small(config: &Config, calm: &Run) -> bool {
    let objects = config.workload.iter().filter_map(crate::Step::created).count();
    let writes = calm.requests.writes.iter().filter(|write| write.revision.is_some()).count();
    objects <= 1 && writes <= WRITES
}

/// Explores every order; returns the first plan with a violation.
pub(crate) fn exhaustive(
    config: &Config,
    calm: &Run,
    deadline: Instant,
) -> (Exhaustive, Option<(Plan, Violation)>) {
    let writes = calm.requests.writes.iter().filter(|write| write.revision.is_some());
    let places: Vec<_> = writes.map(|write| write.call.at(write.nth)).collect();
    let effects = [Effect::CrashAfter, Effect::LoseResponse, Effect::Touch, Effect::Reject(500)];
    let mut plans = vec![Plan::default()];
    for effect in effects {
        let faults = places.iter().map(|at| Fault::new(at.clone(), effect));
        plans.extend(faults.map(Plan::single).filter(|plan| !config.disables(plan)));
    }
    let (runs, states) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let complete = AtomicBool::new(true);
    let found: Mutex<Option<(usize, Plan, Violation)>> = Mutex::default();
    let done = in_parallel(plans.len(), deadline, |index| {
        let search = Search { config, calm, deadline, runs: &runs, states: &states };
        match search.orders(&plans[index]) {
            Ended::Complete => true,
            Ended::OutOfBudget => {
                complete.store(false, Ordering::Relaxed);
                true
            }
            Ended::Found(plan, violation) => {
                let mut found = found.lock();
                if found.as_ref().is_none_or(|(first, ..)| index < *first) {
                    *found = Some((index, plan, violation));
                }
                false
            }
        }
    });
    let found = found.into_inner().map(|(_, plan, violation)| (plan, violation));
    let explored = Exhaustive {
        runs: runs.into_inner(),
        states: states.into_inner(),
        faults: plans.len() - 1,
        complete: complete.into_inner() && done == plans.len() && found.is_none(),
    };
    (explored, found)
}

struct Search<'a> {
    config: &'a Config,
    calm: &'a Run,
    deadline: Instant,
    runs: &'a AtomicUsize,
    states: &'a AtomicUsize,
}

enum Ended {
    Complete,
    OutOfBudget,
    Found(Plan, Violation),
}

impl Search<'_> {
    /// Runs every order of a plan.
    fn orders(&self, plan: &Plan) -> Ended {
        let mut seen = BTreeSet::new();
        let mut pending = vec![Vec::new()];
        while let Some(choices) = pending.pop() {
            if super::now() > self.deadline {
                return Ended::OutOfBudget;
            }
            let plan = Plan { schedule: Some(choices.clone()), ..plan.clone() };
            let run = world::run(self.config, &plan);
            self.runs.fetch_add(1, Ordering::Relaxed);
            let violations = oracle::violations(self.config, &plan, &run, Some(self.calm));
            if let Some(violation) = violations.into_iter().next() {
                return Ended::Found(plan, violation);
            }
            for (index, decision) in run.decisions.iter().enumerate().skip(choices.len()) {
                if !seen.insert(decision.state) {
                    continue;
                }
                self.states.fetch_add(1, Ordering::Relaxed);
                for other in 1..decision.options {
                    let mut next = choices.clone();
                    next.resize(index, 0);
                    next.push(other);
                    pending.push(next);
                }
            }
        }
        Ended::Complete
    }
}
