//! The oracles: what must hold in every run, whatever faults happen.

mod expected;

mod isolation;

mod lifecycle;

mod rest;

mod status;

mod transition;

mod webhooks;

use std::fmt;

use evenkeel_apiserver::{AccessReport, CountedAccess};
pub(crate) use rest::secret_values;
use serde::Serialize;

use crate::plan::Plan;
use crate::simulation::Config;
use crate::state::State;
use crate::world::{Abort, Run};

/// A property that every run must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Oracle {
    /// After the last fault the cluster reaches the state of a run without faults, and stays in it.
    Convergence,
    /// The same declaration leads to the same children, whatever was declared before.
    Transition,
    /// At rest another reconcile changes nothing.
    Idempotency,
    /// Objects are created and deleted as often as without faults.
    Lifecycle,
    /// Only objects of the operator's own resources are deleted, and no object of another client is
    /// changed because it has the name of a child.
    Ownership,
    /// Nothing is left when the user has deleted everything.
    Leftovers,
    /// Every object that is deleted is gone within the bound.
    Deletion,
    /// `observedGeneration` and `Ready` are true.
    Status,
    /// The number of writes is bounded.
    WriteBudget,
    /// Another reconcile leaves no task and no watch behind.
    Leaks,
    /// Nothing panics, and the manager runs.
    Panics,
    /// A replica that has lost its lease writes nothing.
    Leadership,
    /// An object whose requests fail does not delay others.
    Isolation,
    /// No webhook of the operator prevents what it needs itself.
    Webhooks,
    /// Every request is allowed by the declared permissions.
    Permissions,
    /// The data of Secrets appears in no other object, Event, metric or log line.
    Secrets,
    /// Everything that the operator does ends with its manager, and happens on its thread.
    Escapes,
    /// Two runs of one plan are the same.
    Determinism,
    /// An invariant of the author.
    Invariant,
}

impl Oracle {
    /// Returns the class of bug that a violation shows.
    #[must_use]
    pub fn bug_class(self) -> &'static str {
        match self {
            Self::Convergence => "the cluster does not converge to the desired state",
            Self::Transition => "a declaration has another result than the first time",
            Self::Idempotency => "the reconciler writes although nothing has changed",
            Self::Lifecycle => "objects are created, deleted or replaced another number of times",
            Self::Ownership => "an object of another owner is deleted or changed",
            Self::Leftovers => "objects are left behind after the deletion",
            Self::Deletion => "a deletion never completes",
            Self::Status => "the status claims what is not true",
            Self::WriteBudget => "the operator does not stop writing",
            Self::Leaks => "each reconcile leaves something behind",
            Self::Panics => "the operator panics or ends",
            Self::Leadership => "a replica writes after it has lost its lease",
            Self::Isolation => "an object that fails delays others",
            Self::Webhooks => "a webhook of the operator blocks the operator",
            Self::Permissions => "a request needs a permission that is not declared",
            Self::Escapes => "work of the operator escapes from its manager",
            Self::Secrets => "data of a Secret is exposed",
            Self::Determinism => "the operator is not deterministic",
            Self::Invariant => "an invariant does not hold",
        }
    }
}

/// An oracle that does not hold in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Violation {
    /// The oracle.
    pub oracle: Oracle,
    /// The object, as resource and name.
    pub object: String,
    /// The path of the field, if the violation is about one.
    pub field: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl Violation {
    pub(crate) fn new(oracle: Oracle, object: impl Into<String>) -> Self {
        let empty = String::new;
        let object = object.into();
        Self { oracle, object, field: empty(), expected: empty(), found: empty() }
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    pub(crate) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = expected.into();
        self
    }

    pub(crate) fn found(mut self, found: impl Into<String>) -> Self {
        self.found = found.into();
        self
    }

    /// Returns what stays the same while a plan is shrunk: the oracle, the resource and the field.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let resource = self.object.split(' ').next().unwrap_or_default();
        let field: String = self.field.chars().filter(|it| !it.is_ascii_digit()).collect();
        format!("{:?} {resource} {field}", self.oracle)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle.bug_class(), self.object)?;
        if !self.field.is_empty() {
            write!(f, ", {}", self.field)?;
        }
        if !self.expected.is_empty() {
            write!(f, ": expected {}, found {}", self.expected, self.found)?;
        } else if !self.found.is_empty() {
            write!(f, ": {}", self.found)?;
        }
        Ok(())
    }
}

/// Returns what an upgrade of the operator violates. `expected` is the state that the current version
/// reaches by itself.
pub(crate) fn upgraded(
    config: &Config,
    plan: &Plan,
    run: &Run,
    expected: Option<&State>,
) -> Option<Violation> {
    let difference = || {
        let found = run.states.last()?.differences(expected?).into_iter().next()?;
        let violation = Violation::new(Oracle::Convergence, found.object).field(found.field);
        Some(violation.expected(found.expected).found(format!("{} after the upgrade", found.found)))
    };
    let violations = violations(config, plan, run, None).into_iter().chain(difference());
    // Another version may have another result.
    let applies = |violation: &Violation| {
        violation.oracle != Oracle::Transition && !config.disabled.contains(&violation.oracle)
    };
    violations.into_iter().find(applies)
}

/// Returns what a run violates. `calm` is a run of the same workload without faults; `None` while
/// that one itself is checked.
pub(crate) fn violations(
    config: &Config,
    plan: &Plan,
    run: &Run,
    calm: Option<&Run>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    panics(run, &mut violations);
    lifecycle::owner_scopes(run, &mut violations);
    leadership(run, &mut violations);
    webhooks::own_namespace(run, &mut violations);
    escapes(run, &mut violations);
    permissions(config, run, &mut violations);
    aborted(run, &mut violations);
    if run.aborted.is_none() {
        if let Some(calm) = calm {
            webhooks::own_writes(run, calm, &mut violations);
            rest::convergence(plan, run, calm, &mut violations);
            isolation::isolation(config, plan, run, calm, &mut violations);
            isolation::delays(plan, run, &mut violations);
            lifecycle::counts(config, plan, run, calm, &mut violations);
            lifecycle::replacements(plan, run, calm, &mut violations);
            lifecycle::budget(plan, run, calm, &mut violations);
        }
        let workload = plan.steps(&config.workload);
        if calm.is_none() {
            transition::transitions(workload, run, &mut violations);
            expected::samples(config, plan, run, &mut violations);
        }
        rest::idempotency(run, &mut violations);
        rest::leaks(run, calm, &mut violations);
        rest::deletions(run, &mut violations);
        rest::leftovers(run, &mut violations);
        lifecycle::ownership(run, &mut violations);
        lifecycle::trespasses(run, &mut violations);
        status::observed_generations(config, plan, run, &mut violations);
        // What another client has just deleted cannot be known.
        if let Some(calm) = calm.filter(|_| !plan.interferes()) {
            status::readiness(config, run, calm, &mut violations);
        }
    }
    if let Some((name, wrong)) = run.broken.first() {
        violations.push(Violation::new(Oracle::Invariant, name).found(wrong.clone()));
    }
    rest::secrets(config, run, &mut violations);
    violations.retain(|violation| !config.disabled.contains(&violation.oracle));
    violations
}

fn panics(run: &Run, violations: &mut Vec<Violation>) {
    for reconciled in &run.reconciled {
        if let Some(message) = &reconciled.panic {
            let violation = Violation::new(Oracle::Panics, &reconciled.object);
            violations.push(violation.found(format!("panicked: {message}")));
            return;
        }
    }
    // The runtime responds with the panic of a webhook.
    if let Some((_, message)) = run.rejected.iter().find(|(_, it)| it.contains("[recovered]")) {
        violations.push(Violation::new(Oracle::Panics, "webhook").found(message.clone()));
    }
}

/// O10: a replica that has lost its lease writes nothing.
fn leadership(run: &Run, violations: &mut Vec<Violation>) {
    if let Some(breach) = run.requests.breaches.first() {
        let violation = Violation::new(Oracle::Leadership, &breach.object);
        violations.push(violation.found(breach.text.clone()));
    }
}

/// O12: the rules allow every request. Those for the lease are left out: its Role is another one.
fn permissions(config: &Config, run: &Run, violations: &mut Vec<Violation>) {
    let (Some(rules), Some(report)) = (&config.rules, &run.access) else { return };
    let merged = AccessReport::merged(&report.user, [report.clone()], rules);
    let denied = merged.denied.iter().find(|it| it.access.resource != "leases");
    if let Some(CountedAccess { access, .. }) = denied {
        let found = format!("{access} is not allowed by the rules");
        violations.push(Violation::new(Oracle::Permissions, &access.resource).found(found));
    }
}

fn escapes(run: &Run, violations: &mut Vec<Violation>) {
    if let Some(request) = run.requests.escaped.first() {
        violations.push(Violation::new(Oracle::Escapes, "operator").found(request.clone()));
    }
}

fn aborted(run: &Run, violations: &mut Vec<Violation>) {
    match &run.aborted {
        None => {}
        Some(Abort::Operator(error)) => {
            violations.push(Violation::new(Oracle::Panics, "operator").found(error.clone()));
        }
        // See `lifecycle::budget`: a deleted object that the cache still has.
        Some(Abort::OutOfControl { step }) if *step >= run.steps => {}
        Some(Abort::Unsettled { step } | Abort::OutOfControl { step }) => {
            let busiest = lifecycle::busiest(run, *step);
            let (object, writes) = busiest.unwrap_or_else(|| ("operator".to_owned(), 0));
            let found = format!("{writes} writes, and the cluster was never at rest");
            violations.push(Violation::new(Oracle::WriteBudget, object).found(found));
        }
    }
}
