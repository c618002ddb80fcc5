//! Shrinks a plan that violates an oracle: fewer faults, then fewer steps, then earlier faults, as
//! long as the same oracle is violated in the same field.

use crate::check;
use crate::oracle::Violation;
use crate::plan::Plan;
use crate::simulation::Config;
use crate::trace::TraceEvent;
use crate::world::{self, Run};

/// Runs that shrinking may take.
const ATTEMPTS: usize = 200;

/// A plan, what it violates and its trace. The first violation is the one that is kept; the others
/// are of the same oracle.
pub(crate) type Shrunk = (Plan, Vec<Violation>, Vec<TraceEvent>);

/// Returns the smallest plan that was found.
pub(crate) fn shrink(config: &Config, plan: Plan, violation: Violation) -> Shrunk {
    let mut shrinker =
        Shrinker { config, fingerprint: violation.fingerprint(), attempts: ATTEMPTS };
    let first = shrinker.attempt(plan.clone());
    let mut best = match first {
        Some(first) => first,
        None => {
            let trace = world::run(config, &plan).trace;
            (plan, vec![violation], trace)
        }
    };
    while let Some(smaller) = shrinker.smaller(&best.0) {
        best = smaller;
    }
    best
}

struct Shrinker<'a> {
    config: &'a Config,
    fingerprint: String,
    attempts: usize,
}

impl Shrinker<'_> {
    /// Returns a smaller plan with the same violation.
    fn smaller(&mut self, plan: &Plan) -> Option<Shrunk> {
        let without_fault = (0..plan.faults.len()).map(|index| {
            let mut smaller = plan.clone();
            smaller.faults.remove(index);
            smaller
        });
        let steps = match plan.workload.is_empty() {
            true => &self.config.workload,
            false => &plan.workload,
        };
        // The first step creates the object that the others are about.
        let without_step = (1..steps.len()).rev().map(|index| {
            let mut workload = steps.clone();
            workload.remove(index);
            Plan { workload, ..plan.clone() }
        });
        let earlier = plan.faults.iter().enumerate().filter(|(_, fault)| fault.at.nth > 1);
        let earlier = earlier.map(|(index, fault)| {
            let mut smaller = plan.clone();
            smaller.faults[index].at.nth = fault.at.nth - 1;
            smaller
        });
        let natural = plan.schedule.iter().map(|_| Plan { schedule: None, ..plan.clone() });
        let shorter = plan.schedule.iter().filter(|choices| !choices.is_empty()).map(|choices| {
            let choices = choices[..choices.len() - 1].to_vec();
            Plan { schedule: Some(choices), ..plan.clone() }
        });
        let candidates: Vec<Plan> = natural
            .chain(without_fault)
            .chain(without_step)
            .chain(earlier)
            .chain(shorter)
            .collect();
        candidates.into_iter().find_map(|candidate| self.attempt(candidate))
    }

    fn attempt(&mut self, plan: Plan) -> Option<Shrunk> {
        self.attempts = self.attempts.checked_sub(1)?;
        let run = world::run(self.config, &plan);
        let calm: Option<Run> = match plan.is_calm() {
            true => None,
            false => Some(world::run(self.config, &plan.calm())),
        };
        if calm.as_ref().is_some_and(|calm| calm.aborted.is_some()) {
            return None;
        }
        let mut violations = check::twice(self.config, &plan, &run, calm.as_ref());
        let same = violations.iter().position(|it| it.fingerprint() == self.fingerprint)?;
        let same = violations.remove(same);
        violations.retain(|it| it.oracle == same.oracle);
        violations.insert(0, same);
        Some((plan, violations, run.trace))
    }
}
