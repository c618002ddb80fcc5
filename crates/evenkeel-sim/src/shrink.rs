//! Shrinks a plan that violates an oracle: fewer faults, then fewer steps, then earlier faults, as
//! long as the same oracle is violated in the same field.

use std::time::{Duration, Instant};

use crate::check;
use crate::explore;
use crate::oracle::Violation;
use crate::plan::Plan;
use crate::simulation::Config;
use crate::trace::TraceEvent;
use crate::world::{self, Run};

/// Plans that shrinking may try.
const ATTEMPTS: usize = 200;

/// How long it may take.
const TIME: Duration = Duration::from_secs(30);

/// A plan, what it violates and its trace. The first violation is the one that is kept; the others
/// are of the same oracle.
pub(crate) type Shrunk = (Plan, Vec<Violation>, Vec<TraceEvent>);

/// Returns the smallest plan that was found.
pub(crate) fn shrink(config: &Config, plan: Plan, violation: Violation) -> Shrunk {
    let mut shrinker = Shrinker {
        config,
        fingerprint: violation.fingerprint(),
        attempts: ATTEMPTS,
        deadline: explore::now() + TIME,
        calm: Vec::new(),
    };
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
    deadline: Instant,
    /// Runs without faults, with the plans for which they were made.
    calm: Vec<(Plan, Run)>,
}

impl Shrinker<'_> {
    /// Returns a smaller plan with the same violation.
    fn smaller(&mut self, plan: &Plan) -> Option<Shrunk> {
        let without_fault = (0..plan.faults.len()).map(|index| {
            let mut smaller = plan.clone();
            smaller.faults.remove(index);
            smaller
        });
        let steps = plan.steps(&self.config.workload);
        // The first step creates the object that the others are about.
        let without_step = (1..steps.len()).rev().map(|index| {
            let mut workload = steps.to_vec();
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
        if explore::now() > self.deadline {
            return None;
        }
        let calm = match plan.is_calm() {
            true => None,
            false => Some(self.calm(&plan)),
        };
        if calm.is_some_and(|at| self.calm[at].1.aborted.is_some()) {
            return None;
        }
        let calm = calm.map(|at| &self.calm[at].1);
        let run = world::run(self.config, &plan);
        let mut violations = check::twice(self.config, &plan, &run, calm);
        let same = violations.iter().position(|it| it.fingerprint() == self.fingerprint)?;
        let same = violations.remove(same);
        violations.retain(|it| it.oracle == same.oracle);
        violations.insert(0, same);
        Some((plan, violations, run.trace))
    }

    /// Returns the index of the run of the plan without its faults.
    fn calm(&mut self, plan: &Plan) -> usize {
        let quiet = |plan: &Plan| world::quiet(self.config, plan);
        let serves = |of: &Plan| of.workload == plan.workload && quiet(of) == quiet(plan);
        self.calm.iter().position(|(of, _)| serves(of)).unwrap_or_else(|| {
            let run = world::run_calm(self.config, plan);
            self.calm.push((plan.clone(), run));
            self.calm.len() - 1
        })
    }
}
