//! One run: a cluster in virtual time, the operator, and the user.

mod reduced;

mod incarnation;

mod replicas;

mod quiet;

mod logs;

mod schedule;

mod template;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::{BoxError, Clock, Key};
use evenkeel_apiserver::identity::Identity;
use evenkeel_apiserver::{AccessReport, AccessTrail, Commit};
use evenkeel_cluster::{Cluster, ClusterOptions};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;

use incarnation::Incarnation;
pub(crate) use incarnation::Reconciled;
use quiet::QUIET;
pub(crate) use quiet::quiet;
pub(crate) use reduced::reduced;
pub(crate) use schedule::Decision;
use schedule::Schedule;
pub(crate) use template::template;

use crate::gate::{Command, Gate, Requests};
use crate::plan::{Effect, Fault, Plan};
use crate::simulation::Config;
use crate::state::{self, Decoded, Difference, State};
use crate::subprocess;
use crate::trace::{Lane, Recorder, TraceEvent};
use crate::user::{Refused, User};
use crate::workload::{ObjectRef, Step};

/// The start of the wall clock, in seconds since the Unix epoch.
const EPOCH: i64 = 1_767_225_600;

/// How long it takes at most until requests for an object that was poisoned are repeated: longer than
/// the longest delay before another attempt.
const POISONED_RETRY: Duration = Duration::from_secs(20 * 60);

/// How often the driver checks for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How often the user repeats a step that fails with an error of the server, once per second.
const STEP_RETRIES: usize = 90;

/// How long a run continues after the operator has ended.
const AFTERMATH: Duration = Duration::from_secs(10);

/// A commit, decoded, and the step of the workload it belongs to.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) object: Decoded,
    pub(crate) deleted: bool,
    pub(crate) step: usize,
}

/// What a run has shown.
#[derive(Deserialize, Serialize)]
pub(crate) struct Run {
    pub(crate) trace: Vec<TraceEvent>,
    pub(crate) requests: Requests,
    pub(crate) changes: Vec<Change>,
    /// The number of changes before the workload.
    pub(crate) changes_before: usize,
    /// The number of steps of the workload. What happens later belongs to the deletion of all its
    /// objects.
    pub(crate) steps: usize,
    /// The state after each step.
    pub(crate) states: Vec<State>,
    /// The state before the workload.
    pub(crate) baseline: State,
    /// The state after all objects of the workload were deleted.
    pub(crate) emptied: Option<State>,
    pub(crate) reconciled: Vec<Reconciled>,
    /// Writes of the operator when every object was reconciled once more at rest, with their index.
    pub(crate) idle_writes: std::ops::Range<usize>,
    /// What changed in the application meanwhile.
    pub(crate) idle_changes: Vec<Difference>,
    /// Tasks, and watches by resource, before and after it.
    pub(crate) idle_counts: [Counts; 2],
    /// Faults that did not happen.
    pub(crate) unused: Vec<Fault>,
    /// Steps that the server rejected.
    pub(crate) rejected: Vec<(usize, String)>,
    /// Why the run ended early.
    pub(crate) aborted: Option<Abort>,
    /// Invariants that did not hold after a step: their names and what is wrong.
    pub(crate) broken: Vec<(String, String)>,
    /// The state after requests for a poisoned object succeed again.
    pub(crate) healed: Option<State>,
    /// What the operator's requests needed, if permissions are checked.
    pub(crate) access: Option<AccessReport>,
    /// Events, metrics and log lines with data of a Secret.
    pub(crate) exposed: Vec<String>,
    /// The choices of a schedule: how many there were, and the state before each.
    pub(crate) decisions: Vec<Decision>,
    /// Objects that are being deleted at the end of a step, with the step.
    pub(crate) terminating: Vec<(usize, String)>,
}

/// What an operator holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Counts {
    pub(crate) tasks: usize,
    /// Open watches by resource.
    pub(crate) watches: BTreeMap<String, usize>,
}

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Abort {
    /// The operator could not be started, or its manager returned an error.
    Operator(String),
    /// The cluster was not at rest within the bound.
    Unsettled { step: usize },
    /// The operator sent too many requests.
    OutOfControl { step: usize },
}

/// Runs the workload of a plan without faults. As much time passes as with them, in which an operator
/// may act.
pub(crate) fn run_calm(config: &Config, plan: &Plan) -> Run {
    let config = Config { quiet: quiet(config, plan), ..config.clone() };
    run(&config, &plan.calm())
}

/// Returns a runtime with one thread and a paused clock. It has no sockets: an operator that opens
/// one panics.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| crate::fail(&format!("cannot start a runtime: {error}")))
}

/// Runs a plan in a runtime of its own, or in a process of its own.
pub(crate) fn run(config: &Config, plan: &Plan) -> Run {
    if let Some(test) = &config.subprocess {
        return subprocess::run(config, plan, test);
    }
    loop {
        let (run, discovered) = run_once(config, plan);
        // Requests that other runs do not send have an effect on uids. A process has only one run.
        if !discovered || subprocess::is_child() {
            return run;
        }
    }
}

/// Runs a plan; also returns whether the run has discovered a kind.
fn run_once(config: &Config, plan: &Plan) -> (Run, bool) {
    let runtime = runtime();
    let canaries = config.canaries();
    let logs = (!canaries.is_empty()).then(|| logs::Watched::new(canaries));
    let _guard = logs.as_ref().map(|logs| tracing::subscriber::set_default(logs.clone()));
    let (mut run, user) = runtime.block_on(async {
        match World::start(Cow::Borrowed(config), plan).await {
            Ok(world) => {
                let user = world.user.clone();
                (world.play(plan).await, user)
            }
            Err(error) => crate::fail(&format!(
                "cannot start the simulated cluster: {}",
                evenkeel::chain(&*error)
            )),
        }
    });
    run.exposed.extend(logs.iter().flat_map(logs::Watched::exposed));
    (run, user.has_discovered())
}

pub(crate) struct World<'a> {
    config: Cow<'a, Config>,
    cluster: Arc<Cluster>,
    clock: Clock,
    recorder: Recorder,
    gate: Arc<Gate>,
    commands: mpsc::Receiver<Command>,
    user: User,
    /// The running processes of the operator.
    incarnations: Vec<Incarnation>,
    /// How many of them there should be.
    replicas: usize,
    /// Whether they compete for a lease.
    elects: bool,
    quiet: Duration,
    /// The choices between deliveries and reconciles, if they are made by a schedule.
    schedule: Option<Schedule>,
    /// Whether controllers are paused after each reconcile.
    stepped: bool,
    /// Whether the previous version of the operator runs.
    is_previous: bool,
    revision: u64,
    /// The objects that were written since the start of the operator and exist, as indexes of changes
    /// by path.
    live: BTreeMap<String, usize>,
    /// The state of the application when it was last seen.
    application: Option<Value>,
    step: usize,
    run: Run,
}

impl<'a> World<'a> {
    pub(crate) async fn start(config: Cow<'a, Config>, plan: &Plan) -> Result<Self, BoxError> {
        let clock = Clock::starting_at(Timestamp::from_second(EPOCH)?);
        // Objects of the template have the uids that follow from the seed itself.
        let seed = config.seed.wrapping_add(config.template.is_some().into());
        let mut options: ClusterOptions = config.cluster.clone();
        options.seed = Some(seed);
        options.clock = Some(clock.clone());
        let mut builder = options.server().seed(seed);
        if let Some(template) = &config.template {
            builder = builder.snapshot(template.clone());
        }
        if config.rules.is_some() {
            builder = builder.record_access(AccessTrail::default());
        }
        let cluster = Arc::new(Cluster::with_server(builder.build().await?, &options)?);
        let user = User::new(cluster.server().service(), &config.kinds);
        let recorder = Recorder::start();
        if config.template.is_none() {
            template::create(&config, &user).await?;
        }
        let identity = Identity::authenticated(config.user(), ["system:masters"]);
        let server = cluster.server().service_as(identity);
        let application = config.application.as_ref().map(|make| make());
        let (gate, commands) = Gate::new(
            cluster.clone(),
            server,
            application,
            recorder.clone(),
            &plan.faults,
            user.clone(),
        );
        gate.set_canaries(config.canaries());
        if plan.schedule.is_some() {
            gate.hold_all();
        }
        if plan.faults.iter().any(|fault| fault.effect == Effect::Mutate) {
            gate.install_mutator().await?;
        }
        let run = Run {
            trace: Vec::new(),
            requests: Requests::default(),
            changes: Vec::new(),
            changes_before: 0,
            steps: usize::MAX,
            states: Vec::new(),
            baseline: State::default(),
            emptied: None,
            reconciled: Vec::new(),
            idle_writes: 0..0,
            idle_changes: Vec::new(),
            idle_counts: [Counts::default(), Counts::default()],
            unused: Vec::new(),
            rejected: Vec::new(),
            aborted: None,
            broken: Vec::new(),
            terminating: Vec::new(),
            healed: None,
            access: None,
            exposed: Vec::new(),
            decisions: Vec::new(),
        };
        let revision = cluster.server().revision();
        let quiet = quiet(&config, plan);
        Ok(Self {
            config,
            cluster,
            clock,
            recorder,
            gate,
            commands,
            user,
            incarnations: Vec::new(),
            replicas: plan.replicas.max(1) as usize,
            elects: plan.replicas > 0,
            quiet,
            schedule: plan.schedule.clone().map(Schedule::new),
            stepped: plan.schedule.is_some(),
            is_previous: plan.workload.contains(&Step::Upgrade),
            revision,
            live: BTreeMap::new(),
            application: None,
            step: 0,
            run,
        })
    }

    async fn play(mut self, plan: &Plan) -> Run {
        if let Err(abort) = self.steps(plan).await {
            self.run.aborted = Some(abort);
        }
        for incarnation in std::mem::take(&mut self.incarnations) {
            self.run.exposed.extend(incarnation.exposed_metrics(&self.config.canaries()));
            self.run.reconciled.extend(incarnation.kill().await);
        }
        // Time in which a task that has outlived its manager shows itself.
        tokio::time::sleep(AFTERMATH).await;
        self.run.unused = self.gate.unused_faults();
        self.run.exposed.extend(self.gate.exposed());
        self.run.access = self.cluster.server().access_report(&self.config.user());
        self.run.requests = self.gate.take_requests();
        self.run.trace = self.recorder.take();
        self.run.decisions = self.schedule.map(Schedule::decisions).unwrap_or_default();
        self.run
    }

    async fn steps(&mut self, plan: &Plan) -> Result<(), Abort> {
        self.begin().await?;
        let workload = plan.steps(&self.config.workload).to_vec();
        self.run.steps = workload.len();
        for (index, step) in workload.iter().enumerate() {
            self.step = index;
            self.gate.begin_step(index);
            self.recorder.record(Lane::User, step.to_string());
            self.perform(index, step).await?;
            self.rest().await?;
            let state = self.state();
            self.run.states.push(state);
            self.note_terminating(index);
            // A poisoned object need not be reconciled yet.
            if self.gate.poisoned_until().is_none() {
                self.check_invariants(false);
            }
        }
        self.await_healing().await?;
        self.check_idle().await?;
        if self.config.checks_deletion {
            self.delete_all(&workload).await?;
        }
        Ok(())
    }

    /// Starts the operator.
    pub(crate) async fn begin(&mut self) -> Result<(), Abort> {
        for _ in 0..self.replicas {
            self.start_operator().await?;
        }
        self.rest().await?;
        self.gate.begin_workload();
        self.run.changes_before = self.run.changes.len();
        self.run.baseline = self.state();
        // Objects of before, too: the operator may change them.
        for object in self.cluster.server().stored_objects() {
            let path = state::path(&object.resource, &object.namespace, &object.name);
            self.run.baseline.0.entry(path).or_default();
        }
        Ok(())
    }

    pub(crate) async fn perform(&mut self, index: usize, step: &Step) -> Result<(), Abort> {
        let mut performed = self.user.perform(step).await;
        // Webhooks that are unreachable for a while are no reason to give up.
        for _ in 0..STEP_RETRIES {
            if !performed.as_ref().is_err_and(|refused| refused.code >= 500) {
                break;
            }
            self.tick().await?;
            performed = self.user.perform(step).await;
        }
        if let Err(Refused { code, message }) = performed {
            self.recorder.record(Lane::User, format!("is rejected with {code}: {message}"));
            self.run.rejected.push((index, message));
            return Ok(());
        }
        match step {
            Step::Recreate(object) => {
                self.rest().await?;
                // While requests for it fail, its finalizers remain.
                self.await_healing().await?;
                if let Err(Refused { message, .. }) = self.user.create(object).await {
                    self.run.rejected.push((index, message));
                }
            }
            Step::Upgrade => self.upgrade().await?,
            Step::Wait(seconds) => {
                let end = Duration::from_secs((*seconds).into());
                let mut passed = Duration::ZERO;
                while passed < end {
                    self.tick().await?;
                    passed += CHECK_INTERVAL;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits until the cluster has not changed for some time.
    pub(crate) async fn rest(&mut self) -> Result<(), Abort> {
        self.rest_for(self.quiet).await
    }

    async fn rest_for(&mut self, quiet: Duration) -> Result<(), Abort> {
        let (mut unchanged, mut passed) = (Duration::ZERO, Duration::ZERO);
        while unchanged < quiet {
            let changes = self.tick().await? || self.gate.is_disturbed();
            unchanged = if changes { Duration::ZERO } else { unchanged + CHECK_INTERVAL };
            passed += CHECK_INTERVAL;
            if self.gate.is_out_of_control() {
                return Err(Abort::OutOfControl { step: self.step });
            }
            if passed > self.config.bound {
                return Err(Abort::Unsettled { step: self.step });
            }
        }
        Ok(())
    }

    /// Records the commits since the last call; returns whether one is significant.
    fn collect(&mut self) -> bool {
        let application = self.gate.application().map(|it| it.state());
        let mut significant = application != self.application;
        self.application = application;
        let server = self.cluster.server();
        let current = server.revision();
        if current == self.revision {
            return significant;
        }
        let commits = server.commits_after(self.revision);
        self.revision = current;
        for commit in commits.iter().filter(|commit| !state::is_ignored(&commit.object.resource)) {
            significant = true;
            self.record(commit);
            self.check_invariants(true);
        }
        significant
    }

    fn record(&mut self, commit: &Commit) {
        let object = Decoded::of(&commit.object, &self.config.bodies);
        let what = match (commit.created, commit.deleted) {
            (true, _) => "created",
            (_, true) => "deleted",
            _ => "changed",
        };
        let path = object.path();
        self.recorder.record(Lane::Server, format!("{what} {path}"));
        match commit.deleted {
            true => self.live.remove(&path),
            false => self.live.insert(path, self.run.changes.len()),
        };
        self.run.changes.push(Change {
            revision: commit.object.revision,
            object,
            deleted: commit.deleted,
            step: self.step,
        });
    }

    /// Returns the gate.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Returns the user.
    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    /// Returns what has happened so far.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Crashes the operator and starts it again.
    pub(crate) async fn crash(&mut self) -> Result<(), Abort> {
        let numbers: Vec<u32> = self.incarnations.iter().map(|it| it.number).collect();
        for number in numbers {
            self.restart(Command::Crash(number)).await?;
        }
        Ok(())
    }

    /// Returns the state of what was written since the operator was started.
    fn state(&self) -> State {
        let application = self.gate.application().map(|it| it.state());
        State::of(&self.objects(), application.as_ref())
    }

    /// Returns the objects that were written since the operator was started, except by-products.
    fn objects(&self) -> Vec<&Decoded> {
        self.live.values().map(|index| &self.run.changes[*index].object).collect()
    }

    /// Checks the invariants of every moment, or those of the cluster at rest.
    fn check_invariants(&mut self, always: bool) {
        if !self.config.invariants.iter().any(|it| it.always == always) {
            return;
        }
        let objects: Vec<&Value> = self.objects().iter().map(|it| &*it.value).collect();
        let invariants = self.config.invariants.iter().filter(|it| it.always == always);
        let broken: Vec<(String, String)> = invariants
            .filter_map(|it| Some((it.name.clone(), (it.test)(&objects).err()?)))
            .collect();
        self.run.broken.extend(broken);
    }

    fn note_terminating(&mut self, step: usize) {
        let objects = self.objects().into_iter();
        let deleting = objects.filter(|it| !it.value["metadata"]["deletionTimestamp"].is_null());
        let deleting: Vec<_> = deleting.map(|object| (step, object.path())).collect();
        self.run.terminating.extend(deleting);
    }

    /// Waits until requests for a poisoned object succeed again; the last state is that after it.
    async fn await_healing(&mut self) -> Result<(), Abort> {
        let Some(until) = self.gate.poisoned_until() else { return Ok(()) };
        while Instant::now() < until {
            self.tick().await?;
        }
        let healed = until + POISONED_RETRY;
        while Instant::now() < healed {
            self.tick().await?;
        }
        self.rest().await?;
        self.run.healed = Some(self.state());
        self.check_invariants(false);
        Ok(())
    }

    /// Reconciles every object once more, and notes what the operator writes.
    async fn check_idle(&mut self) -> Result<(), Abort> {
        let before = self.gate.writes_so_far();
        let application = self.gate.application().map(|it| it.state());
        self.run.idle_counts[0] = self.counts();
        self.recorder.record(Lane::Operator, "every object is reconciled once more");
        for decoded in self.objects() {
            let kind = decoded.value["kind"].as_str().unwrap_or_default();
            let key = match &*decoded.namespace {
                "" => Key::cluster(&decoded.name),
                namespace => Key::namespaced(namespace, &decoded.name),
            };
            for incarnation in &self.incarnations {
                incarnation.enqueue(kind, &key);
            }
        }
        // The faults are over: nothing is repeated late. An operator may act in a longer time.
        self.rest_for(QUIET.max(self.config.quiet)).await?;
        self.run.idle_writes = before..self.gate.writes_so_far();
        self.run.idle_counts[1] = self.counts();
        let state = |value: Option<&Value>| State::of(&[], value);
        let after = self.gate.application().map(|it| it.state());
        let changes = state(after.as_ref()).differences(&state(application.as_ref()));
        self.run.idle_changes = changes;
        Ok(())
    }

    /// Returns what must not grow at rest.
    fn counts(&self) -> Counts {
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        Counts { tasks, watches: self.gate.open_watches() }
    }

    /// Deletes the objects of the workload.
    async fn delete_all(&mut self, workload: &[Step]) -> Result<(), Abort> {
        self.recorder.record(Lane::User, "deletes all objects of the workload");
        self.step = workload.len();
        self.gate.begin_step(self.step);
        for object in workload.iter().filter_map(Step::created) {
            if let Ok(path) = self.user.path(&ObjectRef::of(object), false).await {
                // Absent objects were deleted by a step.
                let _ = self.user.delete(&path).await;
            }
        }
        self.rest().await?;
        self.note_terminating(self.step);
        self.run.emptied = Some(self.state());
        Ok(())
    }
}

/// Parses the objects of a YAML or JSON text.
pub(crate) fn sample(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}
