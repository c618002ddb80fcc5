//! Runs a simulation: the calm run, stored plans, the plans of the tier; then shrinks and reports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::explore::{self, Coverage, Tier};
use crate::oracle::{self, Oracle, Violation};
use crate::plan::{At, Plan};
use crate::report::{Finding, Report};
use crate::simulation::{Config, Simulation};
use crate::world::{self, Run};
use crate::{fail, shrink, subprocess, trace};

/// The time that replayed plans may take.
const UNLIMITED: Duration = Duration::from_secs(24 * 60 * 60);

/// How many plans are run before each of them is run again, if there are so many: with a short budget,
/// another plan is worth more than a repetition.
const REPEATED: usize = 4_000;

/// Runs the simulation and fails with its report.
#[track_caller]
#[expect(clippy::print_stdout, reason = "the output of a test")]
pub(crate) fn check(simulation: &Simulation) {
    let report = explore(simulation);
    report.store();
    match &report.finding {
        Some(finding) => {
            let stored = store(simulation, finding);
            fail(&report.render(stored.as_deref()));
        }
        None => println!("simulation of {}: {}", simulation.config.name, report.coverage),
    }
}

/// Runs the simulation.
pub(crate) fn explore(simulation: &Simulation) -> Report {
    if subprocess::is_of_another_simulation(&simulation.config) {
        return Report::new(&simulation.config.name);
    }
    let start = explore::now();
    let deadline = start + explore::budget(simulation);
    let calm_plan = Plan::default();
    let whole = &simulation.config;
    let calm = world::run(whole, &calm_plan);
    let mut report = Report::new(&whole.name);
    report.coverage.writes =
        calm.requests.writes.iter().filter(|write| write.revision.is_some()).count();
    report.coverage.calls = calm.requests.calls.len();
    report.coverage.watched = calm.requests.watches.len();
    if simulation.tier > Tier::T0 {
        let properties = crate::workload::schema::properties(&whole.crds, &whole.workload);
        (report.coverage.properties_changed, report.coverage.properties) = properties;
    }
    if let Some(violation) = twice(whole, &calm_plan, &calm, None).into_iter().next() {
        // A run without an end takes long; its first step shows enough.
        let (plan, violations, trace) = match calm.aborted {
            Some(_) => (calm_plan, vec![violation], calm.trace),
            None => shrink::shrink(whole, calm_plan, violation),
        };
        report.finding = Finding::new(plan, violations, trace, &whole.workload);
        report.coverage.seconds = start.elapsed().as_secs_f64();
        return report;
    }
    let mut config = whole.clone();
    config.cluster = world::reduced(&whole.cluster, &calm);
    config.template = world::template(&config, whole);
    let reduced = config.template.is_some().then(|| world::run(&config, &calm_plan));
    let calm = match reduced.filter(|run| twice(&config, &calm_plan, run, None).is_empty()) {
        Some(reduced) => reduced,
        // Without a template, or the operator needs a part of the cluster that does nothing visible.
        None => {
            config = whole.clone();
            calm
        }
    };
    let events_before = calm.requests.events_before.clone();
    let worlds = &Worlds { whole, reduced: &config, events_before };
    let config = &config;
    let mut plans = Vec::new();
    let replays = match simulation.replay.is_empty() {
        true => stored_plans(simulation),
        false => simulation.replay.clone(),
    };
    // What was stored or given is run in any case.
    let unlimited = start + UNLIMITED;
    let found = search(worlds, &replays, &calm, unlimited, &mut report.coverage);
    if simulation.replay.is_empty() {
        let explored = explore::plans(simulation, &calm);
        report.coverage.pruned = explored.pruned;
        report.coverage.skipped = skipped(simulation, &calm);
        plans = explored.plans;
    }
    let found = found.or_else(|| search_orders(worlds, simulation, &calm, deadline, &mut report));
    let found = found.or_else(|| search(worlds, &plans, &calm, deadline, &mut report.coverage));
    let found = found
        .or_else(|| search_workloads(worlds, simulation, &calm, deadline, &mut report.coverage));
    let found =
        found.or_else(|| search_upgrade(worlds, simulation, &calm, deadline, &mut report.coverage));
    let found = found.or_else(|| search_again(worlds, deadline, &mut report.coverage));
    report.coverage.found = found.is_some();
    let pairs = explore::cancelling_pairs(&calm);
    report.coverage.pairs = pairs.len();
    let gaps = &report.coverage.gaps;
    report.coverage.pairs_hit = pairs.iter().filter(|at| gaps.contains(at)).count();
    if let Some((plan, violation)) = found {
        // An upgrade is compared with another workload.
        let (plan, violations, trace) = match plan.workload.contains(&crate::Step::Upgrade) {
            true => {
                let trace = world::run(whole, &plan).trace;
                (plan, vec![violation], trace)
            }
            false => shrink::shrink(config, plan, violation),
        };
        report.finding = Finding::new(plan, violations, trace, &whole.workload);
    }
    report.coverage.seconds = start.elapsed().as_secs_f64();
    report
}

/// Returns the kinds of faults that are not injected, and why.
fn skipped(simulation: &Simulation, calm: &Run) -> Vec<String> {
    let disabled = simulation.config.disabled_faults.iter();
    let mut skipped: Vec<String> =
        disabled.map(|(effect, reason)| format!("{effect:?} ({reason})")).collect();
    if let Some(only) = &simulation.config.only_faults {
        skipped.push(format!("faults other than {only:?}"));
    } else if calm.requests.reviews.is_empty() {
        skipped.push("faults of webhooks (the operator has none)".to_owned());
    }
    if calm.requests.writes.is_empty() {
        skipped.push("faults at writes (the operator writes nothing)".to_owned());
    }
    let objects = simulation.config.workload.iter().filter_map(crate::Step::created).count();
    if objects < 2 && simulation.tier == Tier::T0 {
        skipped.push("poisoned objects (there is no other one)".to_owned());
    }
    skipped
}

/// The simulated clusters.
struct Worlds<'a> {
    /// As configured.
    whole: &'a Config,
    /// With the controllers that the workload needs, in which plans are run.
    reduced: &'a Config,
    /// The events before the workload in the latter, by resource.
    events_before: BTreeMap<String, u32>,
}

impl Worlds<'_> {
    /// Returns the violation of a plan in the whole cluster, if there is one: its absence shows that
    /// a part of the cluster was missing, or that more time has passed than without faults.
    fn confirm(&self, plan: &Plan) -> Option<Violation> {
        let calm = (!plan.is_calm()).then(|| world::run_calm(self.whole, plan));
        let plan = &match &calm {
            Some(calm) => self.in_whole(plan, &calm.requests.events_before),
            None => plan.clone(),
        };
        let run = world::run(self.whole, plan);
        twice(self.whole, plan, &run, calm.as_ref()).into_iter().next()
    }

    /// Returns the plan with the same events in the whole cluster, where there may be more of them
    /// before the workload: the ConfigMaps of its controllers, for example.
    fn in_whole(&self, plan: &Plan, whole: &BTreeMap<String, u32>) -> Plan {
        let mut plan = plan.clone();
        for fault in &mut plan.faults {
            let at = &mut fault.at;
            let before = |events: &BTreeMap<String, u32>| events.get(&at.resource).copied();
            let [reduced, whole] =
                [before(&self.events_before), before(whole)].map(Option::unwrap_or_default);
            if at.is_event() && at.object.is_empty() && at.nth > reduced {
                at.nth = at.nth - reduced + whole;
            }
        }
        plan
    }
}

/// Runs the plans until one violates an oracle; returns the first of them. After many plans, those
/// that were run are repeated.
fn search(
    worlds: &Worlds<'_>,
    plans: &[Plan],
    calm: &Run,
    deadline: Instant,
    coverage: &mut Coverage,
) -> Option<(Plan, Violation)> {
    coverage.plans += plans.len();
    plans.chunks(REPEATED).find_map(|plans| {
        let found = search_once(worlds, plans, calm, deadline, coverage);
        let repeats = found.is_none() && coverage.ran.len() >= REPEATED;
        if repeats { search_again(worlds, deadline, coverage) } else { found }
    })
}

/// Runs the plans until one violates an oracle, and notes those that were run.
fn search_once(
    worlds: &Worlds<'_>,
    plans: &[Plan],
    calm: &Run,
    deadline: Instant,
    coverage: &mut Coverage,
) -> Option<(Plan, Violation)> {
    let found = First::default();
    let missed = AtomicUsize::new(0);
    let hit = Mutex::new(BTreeSet::new());
    let ran = Mutex::new(BTreeMap::new());
    coverage.run += explore::in_parallel(plans.len(), deadline, |index| {
        let plan = &plans[index];
        let run = world::run(worlds.reduced, plan);
        ran.lock().insert(index, trace::hash(&run.trace));
        if run.unused.is_empty() {
            hit.lock().extend(plan.faults.iter().map(|it| (it.at.clone(), it.effect)));
        } else {
            missed.fetch_add(1, Ordering::Relaxed);
        }
        let is_violated = !oracle::violations(worlds.reduced, plan, &run, Some(calm)).is_empty();
        !(is_violated && found.confirm(worlds, plan, index))
    });
    let ran = ran.into_inner().into_iter();
    coverage.ran.extend(ran.map(|(index, trace)| (plans[index].clone(), trace)));
    coverage.missed += missed.into_inner();
    let hit = hit.into_inner();
    let gaps = hit.iter().filter(|(_, effect)| *effect == crate::Effect::Gap);
    coverage.gaps.extend(gaps.map(|(at, _)| at.clone()));
    let places: BTreeSet<&At> = hit.iter().map(|(at, _)| at).collect();
    let is_write = |at: &&&At| !matches!(&*at.verb, "event" | "review" | "watch");
    let (calls, writes): (Vec<&At>, Vec<&At>) =
        places.iter().filter(is_write).partition(|at| at.is_call());
    coverage.writes_hit = coverage.writes_hit.max(writes.len());
    coverage.calls_hit = coverage.calls_hit.max(calls.len());
    found.of(plans)
}

/// Runs the plans again that were run, until one has another trace: the operator is not deterministic.
fn search_again(
    worlds: &Worlds<'_>,
    deadline: Instant,
    coverage: &mut Coverage,
) -> Option<(Plan, Violation)> {
    let (plans, traces): (Vec<Plan>, Vec<u64>) = coverage.ran.drain(..).unzip();
    if worlds.reduced.disabled.contains(&Oracle::Determinism) {
        return None;
    }
    let found = First::default();
    coverage.repeated += explore::in_parallel(plans.len(), deadline, |index| {
        let plan = &plans[index];
        let differs = trace::hash(&world::run(worlds.reduced, plan).trace) != traces[index];
        !(differs && found.confirm(worlds, plan, index))
    });
    found.of(&plans)
}

/// The violation of the first of many plans that has one.
#[derive(Default)]
struct First(Mutex<Option<(usize, Violation)>>);

impl First {
    /// Whether the plan violates an oracle in the whole cluster, too.
    fn confirm(&self, worlds: &Worlds<'_>, plan: &Plan, index: usize) -> bool {
        let Some(violation) = worlds.confirm(plan) else { return false };
        let mut found = self.0.lock();
        if found.as_ref().is_none_or(|(first, _)| index < *first) {
            *found = Some((index, violation));
        }
        true
    }

    fn of(self, plans: &[Plan]) -> Option<(Plan, Violation)> {
        self.0.into_inner().map(|(index, violation)| (plans[index].clone(), violation))
    }
}

/// Replaces the previous version of the operator by the current one, without faults and with a crash
/// after each write of the current one. The last state must be that of the current version alone.
fn search_upgrade(
    worlds: &Worlds<'_>,
    simulation: &Simulation,
    calm: &Run,
    deadline: Instant,
    coverage: &mut Coverage,
) -> Option<(Plan, Violation)> {
    let config = worlds.reduced;
    if config.previous.is_none() || !simulation.replay.is_empty() {
        return None;
    }
    let mut workload = config.workload.clone();
    let upgraded = workload.len();
    workload.push(crate::Step::Upgrade);
    let upgrade = Plan { workload, ..Plan::default() };
    let check = |plan: &Plan| {
        let run = world::run(config, plan);
        let expected = calm.states.last();
        let violation = oracle::upgraded(config, plan, &run, expected);
        (run, violation)
    };
    coverage.plans += 1;
    coverage.run += 1;
    let (run, violation) = check(&upgrade);
    if let Some(violation) = violation {
        return Some((upgrade, violation));
    }
    let of_upgrade =
        |write: &&crate::gate::Write| write.revision.is_some() && write.step == upgraded;
    let writes = run.requests.writes.iter().filter(of_upgrade);
    for write in writes {
        coverage.plans += 1;
        if explore::now() > deadline {
            continue;
        }
        coverage.run += 1;
        let fault = crate::Fault::new(write.call.at(write.nth), crate::Effect::CrashAfter);
        let plan = Plan { faults: vec![fault], ..upgrade.clone() };
        if let (_, Some(violation)) = check(&plan) {
            return Some((plan, violation));
        }
    }
    None
}

/// Runs every order of deliveries and reconciles, if it is required and the world is small.
fn search_orders(
    worlds: &Worlds<'_>,
    simulation: &Simulation,
    calm: &Run,
    deadline: Instant,
    report: &mut Report,
) -> Option<(Plan, Violation)> {
    if !simulation.exhaustive || !simulation.replay.is_empty() {
        return None;
    }
    if !explore::is_small(worlds.whole, calm) {
        let text = "exhaustive exploration (more than one object or 8 writes)";
        report.coverage.skipped.push(text.to_owned());
        return None;
    }
    let (explored, found) = explore::exhaustive(worlds.reduced, calm, deadline);
    report.coverage.exhaustive = Some(explored);
    // Not confirmed in the whole cluster: there are other choices.
    found
}

/// Runs workloads from the schema, each without faults and with a crash after each write.
fn search_workloads(
    worlds: &Worlds<'_>,
    simulation: &Simulation,
    calm: &Run,
    deadline: Instant,
    coverage: &mut Coverage,
) -> Option<(Plan, Violation)> {
    if !simulation.replay.is_empty() {
        return None;
    }
    for workload in explore::workloads(worlds.whole, calm, simulation.tier) {
        if explore::now() > deadline {
            coverage.plans += 1;
            continue;
        }
        coverage.workloads += 1;
        let plan = Plan { workload, ..Plan::default() };
        let calm = world::run(worlds.reduced, &plan);
        coverage.plans += 1;
        coverage.run += 1;
        if !twice(worlds.reduced, &plan, &calm, None).is_empty() {
            match worlds.confirm(&plan) {
                Some(violation) => return Some((plan, violation)),
                None => continue,
            }
        }
        let mut workload = worlds.reduced.clone();
        workload.workload = plan.workload.clone();
        let singles = explore::singles(&workload, &calm, simulation.tier);
        coverage.pruned += singles.pruned;
        let faults = singles.faults.into_iter();
        let plans: Vec<Plan> = faults
            .map(|fault| Plan { workload: plan.workload.clone(), ..Plan::single(fault) })
            .filter(|plan| !worlds.whole.disables(plan))
            .collect();
        // The coverage is about the writes and calls of the workload of the simulation.
        let hit = (coverage.writes_hit, coverage.calls_hit);
        let found = search(worlds, &plans, &calm, deadline, coverage);
        (coverage.writes_hit, coverage.calls_hit) = hit;
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Checks a run, and a second run of the same plan, which must be the same.
pub(crate) fn twice(config: &Config, plan: &Plan, run: &Run, calm: Option<&Run>) -> Vec<Violation> {
    let mut violations = oracle::violations(config, plan, run, calm);
    if violations.is_empty() && !config.disabled.contains(&Oracle::Determinism) {
        let second = world::run(config, plan);
        if trace::hash(&run.trace) != trace::hash(&second.trace) {
            let differs = |(a, b): &(&trace::TraceEvent, &trace::TraceEvent)| a != b;
            let first = run.trace.iter().zip(&second.trace).find(differs);
            let (expected, found) = match first {
                Some((one, two)) => (one.text.clone(), two.text.clone()),
                None => ("the same number of events".to_owned(), "another one".to_owned()),
            };
            violations.push(
                Violation::new(Oracle::Determinism, "operator")
                    .field("first event that differs")
                    .expected(expected)
                    .found(found),
            );
        }
    }
    violations
}

/// Returns the directory of stored plans.
fn directory(simulation: &Simulation) -> Option<PathBuf> {
    let of_crate =
        || Some(PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?).join("tests/plans"));
    simulation.plans.clone().or_else(of_crate)
}

/// Reads the stored plans of a simulation, by name; `SIM_PLAN` names one file.
fn stored_plans(simulation: &Simulation) -> Vec<Plan> {
    let mut files = Vec::new();
    if let Some(file) = std::env::var_os("SIM_PLAN") {
        files.push(PathBuf::from(file));
    } else if let Some(directory) = directory(simulation)
        && let Ok(entries) = std::fs::read_dir(directory)
    {
        let prefix = format!("{}-", simulation.config.name);
        files.extend(entries.flatten().map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".json")
        }));
        files.sort();
    }
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> Plan {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
    let plan = text.and_then(|text| serde_json::from_str(&text).map_err(|it| it.to_string()));
    plan.unwrap_or_else(|error| fail(&format!("cannot read the plan {}: {error}", file.display())))
}

/// Stores the plan of a finding; returns its file.
fn store(simulation: &Simulation, finding: &Finding) -> Option<PathBuf> {
    let directory = directory(simulation)?;
    std::fs::create_dir_all(&directory).ok()?;
    let oracle = format!("{:?}", finding.violation.oracle).to_lowercase();
    let text = serde_json::to_string_pretty(&finding.plan).ok()?;
    let hash = evenkeel_types::hash::fnv1a(text.bytes());
    let file = directory.join(format!("{}-{oracle}-{hash:08x}.json", simulation.config.name));
    std::fs::write(&file, text + "\n").ok()?;
    Some(file)
}
