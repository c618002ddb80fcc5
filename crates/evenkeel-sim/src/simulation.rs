//! The surface: what to simulate.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::{BoxError, Manager, Object};
use evenkeel_apiserver::{PolicyRule, Snapshot};
use evenkeel_cluster::ClusterOptions;
use k8s_openapi::api::rbac::v1;
use kube::CustomResourceExt;
use parking_lot::Mutex;
use serde_json::Value;

use crate::application::{Application, ApplicationHandle, Link, MakeStub, Stub};
use crate::explore::Tier;
use crate::oracle::{self, Oracle};
use crate::plan::{Effect, Plan};
use crate::report::Report;
use crate::state::Bodies;
use crate::user::Kinds;
use crate::workload::{self, ObjectRef, Step};
use crate::world::Run;
use crate::{check, explore, fail, subprocess, world};

type Build = dyn Fn(&Manager, &Link) -> Result<(), BoxError> + Send + Sync;
type Test = dyn Fn(&[&Value]) -> Result<(), String> + Send + Sync;

/// What an author requires of the objects.
#[derive(Clone)]
pub(crate) struct Invariant {
    pub(crate) name: String,
    pub(crate) test: Arc<Test>,
    /// Whether it must hold after every write, not only at rest.
    pub(crate) always: bool,
}

/// What every run has in common.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) build: Arc<Build>,
    /// The previous version of the operator.
    pub(crate) previous: Option<Arc<Build>>,
    /// What the operator manages besides objects of the API server.
    pub(crate) application: Option<Arc<MakeStub>>,
    pub(crate) cluster: ClusterOptions,
    pub(crate) seed: u64,
    pub(crate) crds: Vec<Value>,
    /// Objects that exist before the operator starts.
    pub(crate) objects: Vec<Value>,
    pub(crate) workload: Vec<Step>,
    pub(crate) bound: Duration,
    /// How long the cluster must not change to be at rest, at least.
    pub(crate) quiet: Duration,
    pub(crate) checks_deletion: bool,
    pub(crate) disabled: BTreeSet<Oracle>,
    /// Faults that are not injected, and why.
    pub(crate) disabled_faults: Vec<(Effect, String)>,
    /// The faults that are injected, if not all are.
    pub(crate) only_faults: Option<Vec<Effect>>,
    /// The permissions of the operator, if they are checked.
    pub(crate) rules: Option<Vec<PolicyRule>>,
    /// Resources whose objects may be created and deleted more often than in a calm run.
    pub(crate) recreated: BTreeSet<String>,
    pub(crate) invariants: Vec<Invariant>,
    /// What the server of each run starts with, if not with nothing.
    pub(crate) template: Option<Snapshot>,
    /// The kinds that the API server serves, of all runs.
    pub(crate) kinds: Kinds,
    /// The decoded bodies of objects, of all runs.
    pub(crate) bodies: Bodies,
    /// The name of the test, if each plan is run in a process of its own.
    pub(crate) subprocess: Option<String>,
}

/// A simulation of an operator; see [`operator`].
///
/// Builder methods declare exceptions, each with a reason for the reader of the test.
#[must_use = "a simulation runs when `check` is called"]
pub struct Simulation {
    pub(crate) config: Config,
    pub(crate) tier: Tier,
    pub(crate) budget: Option<Duration>,
    pub(crate) plans: Option<PathBuf>,
    pub(crate) replay: Vec<Plan>,
    pub(crate) random_seed: u64,
    pub(crate) exhaustive: bool,
}

/// Simulates an operator under faults. `build` registers its controllers and webhooks with a
/// manager, as `main` does; it is called for each start of the operator, on several threads.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # struct Operator;
/// # impl Operator { fn register(&self, _: &Manager) -> Result<(), RegisterError> { Ok(()) } }
/// evenkeel_sim::operator("web", |manager| Operator.register(manager))
///     .sample("{apiVersion: example.com/v1, kind: Web, metadata: {name: a}, spec: {size: 2}}")
///     .check();
/// ```
pub fn operator<T, E: Into<BoxError>>(
    name: &str,
    build: impl Fn(&Manager) -> Result<T, E> + Send + Sync + 'static,
) -> Simulation {
    let build = move |manager: &Manager, _: &Link| build(manager).map(drop).map_err(Into::into);
    simulation(name, Arc::new(build), None)
}

/// Like [`operator`], with an [`Application`] that the operator manages. `application` makes the one
/// of each run.
pub fn operator_with<A: Application, T, E: Into<BoxError>>(
    name: &str,
    application: impl Fn() -> A + Send + Sync + 'static,
    build: impl Fn(&Manager, ApplicationHandle<A>) -> Result<T, E> + Send + Sync + 'static,
) -> Simulation {
    let make = move || Arc::new(Mutex::new(application())) as Arc<dyn Stub>;
    simulation(name, with_application(build), Some(Arc::new(make)))
}

/// Returns a build function that gets the application.
fn with_application<A: Application, T, E: Into<BoxError>>(
    build: impl Fn(&Manager, ApplicationHandle<A>) -> Result<T, E> + Send + Sync + 'static,
) -> Arc<Build> {
    Arc::new(move |manager: &Manager, link: &Link| {
        let Some(application) = link.handle::<A>() else {
            return Err("the simulation has no application of this type".into());
        };
        build(manager, application).map(drop).map_err(Into::into)
    })
}

fn simulation(name: &str, build: Arc<Build>, application: Option<Arc<MakeStub>>) -> Simulation {
    Simulation {
        config: Config {
            name: name.to_owned(),
            build,
            previous: None,
            application,
            cluster: ClusterOptions::default(),
            seed: 1,
            crds: Vec::new(),
            objects: Vec::new(),
            workload: Vec::new(),
            bound: Duration::from_secs(30 * 60),
            quiet: Duration::ZERO,
            checks_deletion: true,
            disabled: BTreeSet::new(),
            disabled_faults: Vec::new(),
            only_faults: None,
            rules: None,
            recreated: BTreeSet::new(),
            invariants: Vec::new(),
            template: None,
            kinds: Kinds::default(),
            bodies: Bodies::default(),
            subprocess: None,
        },
        tier: Tier::from_env(),
        budget: None,
        plans: None,
        replay: Vec::new(),
        random_seed: explore::seed_from_env(),
        exhaustive: false,
    }
}

impl Simulation {
    /// Installs the CRD of a type.
    pub fn install<K: CustomResourceExt>(mut self) -> Self {
        match serde_json::to_value(K::crd()) {
            Ok(crd) => self.config.crds.push(crd),
            Err(error) => fail(&format!("cannot encode a CRD: {error}")),
        }
        self
    }

    /// Adds objects, as YAML or JSON, that the user creates, one after the other. Objects without a
    /// namespace are created in `default`, unless they are cluster-scoped.
    pub fn sample(mut self, text: &str) -> Self {
        for object in parse(text) {
            self.config.workload.push(Step::Create(object));
        }
        self
    }

    /// Adds objects, as YAML or JSON, that exist before the operator starts.
    pub fn existing(mut self, text: &str) -> Self {
        self.config.objects.extend(parse(text));
        self
    }

    /// Adds a step: the user changes the object of type `K` with this name by a merge patch.
    pub fn patch<K: Object>(mut self, name: &str, patch: Value) -> Self {
        self.config.workload.push(Step::Patch { object: reference::<K>(name), patch });
        self
    }

    /// Adds a step: the user deletes the object of type `K` with this name.
    pub fn delete<K: Object>(mut self, name: &str) -> Self {
        self.config.workload.push(Step::Delete(reference::<K>(name)));
        self
    }

    /// Adds a step.
    pub fn step(mut self, step: Step) -> Self {
        self.config.workload.push(step);
        self
    }

    /// Sets the previous version of the operator: after the workload, it is replaced by the current
    /// one, which must bring the cluster to the state that it reaches by itself, also if it crashes
    /// meanwhile.
    pub fn previous<T, E: Into<BoxError>>(
        mut self,
        build: impl Fn(&Manager) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        let build = move |manager: &Manager, _: &Link| build(manager).map(drop).map_err(Into::into);
        self.config.previous = Some(Arc::new(build));
        self
    }

    /// Like [`Simulation::previous`], for an operator with an application: see [`operator_with`].
    pub fn previous_with<A: Application, T, E: Into<BoxError>>(
        mut self,
        build: impl Fn(&Manager, ApplicationHandle<A>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        self.config.previous = Some(with_application(build));
        self
    }

    /// Sets the options of the cluster: nodes, delays, disabled controllers.
    pub fn cluster(mut self, options: ClusterOptions) -> Self {
        self.config.cluster = options;
        self
    }

    /// Sets how much is explored. The default is [`Tier::T0`], or the value of `SIM_TIER`.
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    /// Also explores every order of deliveries and reconciles, with at most one fault, if the world
    /// is small: one object in the workload and at most 8 writes. The coverage states whether all
    /// of them were explored within the budget.
    pub fn exhaustive(mut self) -> Self {
        self.exhaustive = true;
        self
    }

    /// Sets the time that the exploration may take. The default is that of the tier, or the value
    /// of `SIM_BUDGET` in seconds.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Sets the virtual time within which the cluster must be at rest after a change or a fault. The
    /// default is 30 minutes.
    pub fn bound(mut self, bound: Duration) -> Self {
        self.config.bound = bound;
        self
    }

    /// Sets how long the cluster must not change to be at rest, in virtual time. The default is 15
    /// seconds; an operator that polls in longer intervals needs more.
    pub fn quiet(mut self, quiet: Duration) -> Self {
        self.config.quiet = quiet;
        self
    }

    /// Allows objects of a type to be created and deleted more often than without faults.
    pub fn allow_recreate<K: Object>(mut self, _reason: &str) -> Self {
        let kind = evenkeel::Kind::of::<K>();
        self.config.recreated.insert(crate::state::resource(kind.group(), kind.plural()));
        self
    }

    /// Disables an oracle.
    pub fn disable(mut self, oracle: Oracle, _reason: &str) -> Self {
        self.config.disabled.insert(oracle);
        if oracle == Oracle::Leftovers {
            self.config.checks_deletion = false;
        }
        self
    }

    /// Injects no faults of this kind, for the given reason. How long a fault lasts does not matter.
    pub fn without_fault(mut self, effect: Effect, reason: &str) -> Self {
        self.config.disabled_faults.push((effect, reason.to_owned()));
        self
    }

    /// Injects faults of these kinds only. How long a fault lasts does not matter.
    pub fn only_faults(mut self, effects: impl IntoIterator<Item = Effect>) -> Self {
        self.config.only_faults.get_or_insert_default().extend(effects);
        self
    }

    /// Sets the permissions of the operator, such as those of its ClusterRole: every request must be
    /// allowed by them ([`Oracle::Permissions`]).
    pub fn rules(mut self, rules: impl IntoIterator<Item = v1::PolicyRule>) -> Self {
        let rules = rules.into_iter().map(|rule| PolicyRule {
            verbs: rule.verbs,
            api_groups: rule.api_groups.unwrap_or_default(),
            resources: rule.resources.unwrap_or_default(),
            resource_names: rule.resource_names.unwrap_or_default(),
            non_resource_urls: rule.non_resource_urls.unwrap_or_default(),
        });
        self.config.rules.get_or_insert_default().extend(rules);
        self
    }

    /// Adds an invariant of the cluster at rest: after each step, `test` gets all objects that were
    /// written since the start, except Events and leases, and returns what is wrong.
    pub fn invariant(
        mut self,
        name: &str,
        test: impl Fn(&[&Value]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let test = Arc::new(test);
        self.config.invariants.push(Invariant { name: name.to_owned(), test, always: false });
        self
    }

    /// Adds an invariant of every moment: `test` gets the objects as [`invariant`](Self::invariant)
    /// does, after every write of any client. It must hold before the operator has reacted, too.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # struct Operator;
    /// # impl Operator { fn register(&self, _: &Manager) -> Result<(), RegisterError> { Ok(()) } }
    /// evenkeel_sim::operator("database", |manager| Operator.register(manager))
    ///     .always("there is at most one primary", |objects| {
    ///         let primaries = objects.iter().filter(|it| it["metadata"]["labels"]["role"] == "primary");
    ///         match primaries.count() {
    ///             0 | 1 => Ok(()),
    ///             count => Err(format!("{count} primaries")),
    ///         }
    ///     })
    ///     .check();
    /// ```
    pub fn always(
        mut self,
        name: &str,
        test: impl Fn(&[&Value]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let test = Arc::new(test);
        self.config.invariants.push(Invariant { name: name.to_owned(), test, always: true });
        self
    }

    /// Runs each plan in a process of its own, for an operator with state in statics, which all runs
    /// would share otherwise. The test must contain the simulation on each execution, and reach it
    /// quickly. Within a run, statics survive the crashes of the operator.
    ///
    /// # Panics
    /// Unless called by a test that libtest runs on a thread of its own, as it does by default.
    #[track_caller]
    pub fn subprocesses(mut self) -> Self {
        // A child process has only one thread.
        let child = subprocess::is_child();
        self.config.subprocess = (!child).then(subprocess::current_test);
        self
    }

    /// Sets the directory of plans that failed before and are replayed first. The default is
    /// `tests/plans` of the crate under test.
    pub fn plans(mut self, directory: impl Into<PathBuf>) -> Self {
        self.plans = Some(directory.into());
        self
    }

    /// Runs only these plans.
    pub fn replay(mut self, plans: impl IntoIterator<Item = Plan>) -> Self {
        self.replay.extend(plans);
        self
    }

    /// Runs the simulation and returns what it has found.
    #[must_use]
    pub fn explore(self) -> Report {
        let report = check::explore(&self);
        report.store();
        report
    }

    /// Runs the simulation. Prints its coverage.
    ///
    /// # Panics
    /// With the report, if an oracle is violated. The plan is stored in `tests/plans`, and replayed
    /// first from then on.
    #[track_caller]
    pub fn check(self) {
        check::check(&self);
    }
}

#[track_caller]
pub(crate) fn parse(text: &str) -> Vec<Value> {
    match world::sample(text) {
        Ok(objects) => objects,
        Err(error) => fail(&format!("cannot parse a sample: {error}")),
    }
}

pub(crate) fn reference<K: Object>(name: &str) -> ObjectRef {
    let kind = evenkeel::Kind::of::<K>();
    let namespace = if kind.namespaced() { "default" } else { "" };
    ObjectRef {
        api_version: kind.api_version(),
        kind: kind.kind().to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

impl Config {
    /// Whether the author has disabled a fault of the plan.
    pub(crate) fn disables(&self, plan: &Plan) -> bool {
        let disabled = |effect: Effect| {
            let only = self.only_faults.as_ref();
            self.disabled_faults.iter().any(|(disabled, _)| disabled.is_same_kind(effect))
                || only.is_some_and(|only| !only.iter().any(|it| it.is_same_kind(effect)))
        };
        plan.faults.iter().any(|fault| disabled(fault.effect))
    }

    /// Returns the service account of the operator.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:default:{}", self.name)
    }

    /// Returns the texts that must appear in Secrets only.
    pub(crate) fn canaries(&self) -> BTreeSet<String> {
        let created = self.workload.iter().filter_map(Step::created);
        created.chain(&self.objects).flat_map(oracle::secret_values).collect()
    }

    /// Returns workloads that are generated from the schemas of the CRDs, after a run of the given
    /// one.
    pub(crate) fn generated_workloads(&self, run: &Run) -> Vec<Vec<Step>> {
        let rejected = run.rejected.iter().map(|(step, _)| *step).collect();
        let mut workloads = workload::schema::workloads(&self.crds, &self.workload, &rejected);
        if !self.disabled_faults.iter().any(|(effect, _)| *effect == Effect::DeleteObject) {
            workloads.extend(workload::without_children(&self.workload, run));
        }
        workloads
    }
}
