//! One planted bug for each kind of fault: the fault finds it, and a correct operator survives it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel::webhook::{AdmissionRequest, Validator, Warnings};
use evenkeel_sim::{At, Effect, Fault, Oracle, Plan, Report, Simulation};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::operators::{App, part, simulate, simulate_with};
use crate::planted::{lost_lease_is_only_logged, retries_in_place};

/// Why an oracle is disabled.
const OTHER: &str = "the planted bug is another one";

/// Returns a plan with one fault.
fn one(verb: &str, resource: &str, object: &str, nth: u32, effect: Effect) -> Plan {
    let mut plan = Plan::default();
    plan.faults.push(Fault::new(At::new(verb, resource, object, nth), effect));
    plan
}

/// Runs plans, whose faults must happen.
#[track_caller]
fn run(simulation: Simulation, plans: impl IntoIterator<Item = Plan>) -> Report {
    let report = simulation.budget(Duration::from_secs(300)).replay(plans).explore();
    assert_eq!(report.coverage.missed, 0, "{report}");
    report
}

/// Expects that a plan finds a violation of this oracle.
#[track_caller]
fn finds(simulation: Simulation, plan: Plan, oracle: Oracle) {
    let report = run(simulation, [plan]);
    let found = report.finding.as_ref().map(|finding| finding.violation.oracle);
    assert_eq!(found, Some(oracle), "{report}");
}

/// Expects that plans find nothing.
#[track_caller]
fn survives(simulation: Simulation, plans: impl IntoIterator<Item = Plan>) {
    let report = run(simulation, plans);
    assert!(report.finding.is_none(), "{report}");
}

/// Applies one part: a correct operator.
async fn correct(app: Arc<App>, cx: Context<App>) -> Result<Action> {
    cx.apply_owned(part(&app, 0)).force().await?;
    Ok(Action::done())
}

fn good() -> Simulation {
    simulate("good", || reconciler_fn(correct))
}

const FIRST_PART: [&str; 3] = ["apply", "configmaps", "default/a-0"];

fn at_first_part(effect: Effect) -> Plan {
    let [verb, resource, object] = FIRST_PART;
    one(verb, resource, object, 1, effect)
}

/// The part is created if it is absent, and never compared.
#[test]
fn edit_of_a_child_that_is_not_compared() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let generation = app.metadata.generation.unwrap_or_default();
        let done = app.status.as_ref().map(|status| i64::from(status.count)) == Some(generation);
        let key = cx.key().sibling("a-0");
        if !done || cx.client().get::<ConfigMap>(&key).await?.is_none() {
            cx.apply_owned(part(&app, 0)).force().await?;
            let count = i32::try_from(generation).unwrap_or_default();
            cx.status(&app).set(|status| status.count = count).write().await?;
        }
        Ok(Action::done())
    }
    let simulation = || simulate("edited", || reconciler_fn(reconcile));
    finds(simulation(), at_first_part(Effect::EditObject), Oracle::Convergence);
    survives(simulation(), [at_first_part(Effect::DeleteObject)]);
    survives(good(), [at_first_part(Effect::EditObject)]);
}

/// Whether an error is taken for final.
type IsFinal = fn(&str) -> bool;

/// An operator that gives up for good when a write fails with an error that `is_final` accepts.
fn gives_up(is_final: IsFinal) -> Simulation {
    struct GivesUp {
        is_final: IsFinal,
        given_up: AtomicBool,
    }
    impl Reconciler for GivesUp {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let Some(app) = cx.object() else { return Ok(Action::done()) };
            if self.given_up.load(Ordering::Relaxed) {
                return Ok(Action::done());
            }
            match cx.apply_owned(part(&app, 0)).force().await {
                Err(error) if (self.is_final)(&evenkeel::chain(&error)) => {
                    self.given_up.store(true, Ordering::Relaxed);
                    Ok(Action::done())
                }
                Err(error) => Err(error.into()),
                Ok(_) => Ok(Action::done()),
            }
        }
    }
    simulate("gives-up", move || GivesUp { is_final, given_up: AtomicBool::new(false) })
}

#[test]
fn operator_that_gives_up_after_an_error() {
    let gives_up_at: [(IsFinal, Effect); 3] = [
        (|error| error.contains("orbidden"), Effect::Forbid(30)),
        (|error| error.contains("denied the request"), Effect::Deny),
        (|error| error.contains("nauthorized"), Effect::Unauthorize(30)),
    ];
    for (is_final, effect) in gives_up_at {
        finds(gives_up(is_final), at_first_part(effect), Oracle::Convergence);
    }
    survives(good(), gives_up_at.map(|(_, effect)| at_first_part(effect)));
}

#[test]
fn correct_operator_survives_faults_of_the_server() {
    let effects = [
        Effect::Untrust(30),
        Effect::RestartServer,
        Effect::Restore(60),
        Effect::Mutate,
        Effect::Outage(20),
    ];
    let mut plans = effects.map(at_first_part).to_vec();
    for resource in ["apps.sim.test", "configmaps"] {
        plans.push(one("watch", resource, "", 1, Effect::ExpireContinue));
        plans.push(one("event", resource, "", 2, Effect::Bookmark));
        plans.push(one("event", resource, "", 1, Effect::Reorder));
    }
    survives(good(), plans);
}

/// The whole object is compared, and a webhook adds an annotation to it.
#[test]
fn comparison_of_what_a_webhook_changes() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let maps = Api::<ConfigMap>::namespaced(cx.client().kube().clone(), "default");
        let mut map = part(&app, 0);
        evenkeel::owner::set_controller_reference(&*app, &mut map).map_err(evenkeel::terminal)?;
        match maps.get_opt("a-0").await? {
            None => drop(maps.create(&PostParams::default(), &map).await?),
            Some(found) if found.data != map.data || found.metadata.annotations.is_some() => {
                map.metadata.resource_version = found.metadata.resource_version;
                maps.replace("a-0", &PostParams::default(), &map).await?;
                return Ok(Action::requeue_after(Duration::from_secs(1)));
            }
            Some(_) => {}
        }
        Ok(Action::done())
    }
    let simulation = simulate("compares", || reconciler_fn(reconcile));
    let plan = one("create", "configmaps", "", 1, Effect::Mutate);
    finds(simulation, plan, Oracle::WriteBudget);
}

/// A ServiceAccount is expected to be seen after the ConfigMap that was created before it.
#[test]
fn order_of_events_of_different_kinds() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let kube = cx.client().kube().clone();
        let key = cx.key().sibling("a-0");
        let map = cx.client().get::<ConfigMap>(&key).await?;
        let account = cx.client().get::<ServiceAccount>(&key).await?;
        assert!(map.is_some() || account.is_none(), "an account without its ConfigMap");
        if map.is_none() {
            let mut map = part(&app, 0);
            let mut account =
                ServiceAccount { metadata: map.metadata.clone(), ..ServiceAccount::default() };
            evenkeel::owner::set_controller_reference(&*app, &mut map)
                .map_err(evenkeel::terminal)?;
            evenkeel::owner::set_controller_reference(&*app, &mut account)
                .map_err(evenkeel::terminal)?;
            let params = PostParams::default();
            let maps = Api::<ConfigMap>::namespaced(kube.clone(), "default");
            let _ = maps.create(&params, &map).await;
            let _ =
                Api::<ServiceAccount>::namespaced(kube, "default").create(&params, &account).await;
        }
        Ok(Action::done())
    }
    let simulation = simulate_with("ordered", |manager| {
        let controller = manager.controller(reconciler_fn(reconcile));
        controller.owns::<ConfigMap>().owns::<ServiceAccount>().register().map(drop)
    });
    let simulation = simulation.disable(Oracle::Convergence, OTHER);
    let plan = one("event", "configmaps", "default/a-0", 1, Effect::Reorder);
    finds(simulation, plan, Oracle::Panics);
}

struct Anything;

impl Validator<ConfigMap> for Anything {
    async fn validate_create(&self, _: &ConfigMap, _: &AdmissionRequest) -> Result<Warnings> {
        Ok(Warnings::new())
    }
}

/// An operator with a webhook for its own children.
fn with_webhook(name: &str, ignores: bool) -> Simulation {
    evenkeel_sim::operator(name, move |manager| -> Result<(), evenkeel::BoxError> {
        manager.webhook::<ConfigMap>().validator(Anything).register()?;
        let reconcile = move |app: Arc<App>, cx: Context<App>| async move {
            let applied = cx.apply_owned(part(&app, 0)).force().await;
            if !ignores {
                applied?;
            }
            Ok(Action::done())
        };
        manager.controller(reconciler_fn(reconcile)).owns::<ConfigMap>().register()?;
        Ok(())
    })
    .install::<App>()
    .sample("{apiVersion: sim.test/v1, kind: App, metadata: {name: a}, spec: {size: 1, text: x}}")
    .patch::<App>("a", json!({"spec": {"text": "y"}}))
}

#[test]
fn webhook_that_is_unreachable_or_late() {
    let plan = |effect| one("review", "configmaps", "", 1, effect);
    let broken = [Effect::WebhookDown(20), Effect::SlowWebhook(11)];
    for effect in broken {
        finds(with_webhook("ignores", true), plan(effect), Oracle::Convergence);
    }
    survives(with_webhook("reviews", false), broken.map(plan));
    survives(with_webhook("ignores", true), [plan(Effect::SlowWebhook(9))]);
}

/// Every replica writes what only the leader should write.
#[test]
fn work_of_the_leader_on_every_replica() {
    let simulation = simulate_with("every-replica", |manager| {
        let client = manager.client().clone();
        let elections = manager.leader_elections();
        let writer = elections.first().map_or("only", |election| election.identity()).to_owned();
        manager.spawn_without_leader_election("writer", move |stop| async move {
            for _ in 0..10 {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "writer", "namespace": "default"},
                    "data": {"writer": writer}});
                let map: ConfigMap = serde_json::from_value(map)?;
                client.apply(&map).force().await?;
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            stop.requested().await;
            Ok(())
        })?;
        manager.controller(reconciler_fn(correct)).owns::<ConfigMap>().register().map(drop)
    });
    let mut plan = Plan::default();
    plan.replicas = 2;
    finds(simulation, plan, Oracle::Leadership);
}

/// Work of the leader that continues without the lease, whichever way it was lost.
#[test]
fn work_that_outlives_the_term() {
    for effect in [Effect::PartitionLease(60), Effect::SlowRenew(6)] {
        let mut plan = one("apply", "configmaps", "default/a-0", 2, effect);
        plan.replicas = 2;
        finds(lost_lease_is_only_logged(), plan, Oracle::Leadership);
    }
}

/// A check of the lease before a write is no protection: the process may be paused between them.
#[test]
fn lease_that_is_checked_before_a_write() {
    let simulation = simulate_with("checks", |manager| {
        let (client, elections) = (manager.client().clone(), manager.leader_elections());
        let writer = elections.first().map_or("only", |it| it.identity()).to_owned();
        manager.spawn_without_leader_election("writer", move |stop| async move {
            while !stop.is_requested() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if elections.iter().any(|election| !election.is_leader()) {
                    continue;
                }
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "writer", "namespace": "default"},
                    "data": {"writer": writer}});
                let map: ConfigMap = serde_json::from_value(map)?;
                client.apply(&map).force().await?;
            }
            Ok(())
        })?;
        manager.controller(reconciler_fn(correct)).owns::<ConfigMap>().register().map(drop)
    });
    let simulation = simulation.disable(Oracle::Convergence, OTHER);
    let mut plan = one("apply", "configmaps", "default/writer", 1, Effect::Pause(30));
    plan.replicas = 2;
    finds(simulation, plan, Oracle::Leadership);
}

#[test]
fn correct_operator_survives_handovers() {
    let mut plans = Vec::new();
    for effect in [
        Effect::Pause(40),
        Effect::CrashAfter,
        Effect::PartitionLease(60),
        Effect::SlowRenew(6),
        Effect::Restart,
    ] {
        for replicas in [2, 3] {
            let mut plan = at_first_part(effect);
            plan.replicas = replicas;
            plans.push(plan);
        }
    }
    let mut plan = at_first_part(Effect::ClockRate(140));
    plan.faults.push(Fault::new(
        At::new("apply", "configmaps", "default/a-0", 2),
        Effect::PartitionLease(60),
    ));
    plan.replicas = 2;
    plans.push(plan);
    survives(good(), plans);
}

const SECOND: &str =
    "{apiVersion: sim.test/v1, kind: App, metadata: {name: b}, spec: {size: 1, text: z}}";

/// A failing object is retried within its reconcile, while the others wait.
#[test]
fn retries_within_a_reconcile() {
    let poison = || at_first_part(Effect::Poison(300));
    finds(retries_in_place(), poison(), Oracle::Isolation);
    survives(good().sample(SECOND), [poison()]);
}

/// A task that the manager does not know continues after it.
#[test]
fn task_that_outlives_its_manager() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.apply_owned(part(&app, 0)).force().await?;
        let kube = cx.client().kube().clone();
        #[expect(clippy::disallowed_methods, reason = "this is the bug")]
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                let _ = Api::<ConfigMap>::namespaced(kube.clone(), "default").get_opt("a-0").await;
            }
        });
        Ok(Action::done())
    }
    finds(simulate("spawns", || reconciler_fn(reconcile)), Plan::default(), Oracle::Escapes);
}

#[test]
fn request_without_a_permission() {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| {
        serde_json::from_value(
            json!({"apiGroups": [group], "resources": resources, "verbs": verbs}),
        )
        .unwrap()
    };
    let read = ["get", "list", "watch"];
    let apps = || rule("sim.test", &["apps"], &read);
    let some = rule("", &["configmaps"], &read);
    let all = rule("", &["configmaps"], &["get", "list", "watch", "create", "patch"]);
    finds(good().rules([apps(), some]), Plan::default(), Oracle::Permissions);
    survives(good().rules([apps(), all]), [at_first_part(Effect::CrashAfter)]);
}

const SECRET: &str = "{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: default}, \
                      stringData: {password: correct-horse-battery}}";

async fn password(cx: &Context<App>) -> Result<String> {
    let key = cx.key().sibling("password");
    let secret = cx.client().live().get::<Secret>(&key).await?.ok_or("no Secret")?;
    let bytes = secret.data.as_ref().and_then(|data| data.get("password"));
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default())
}

#[test]
fn secret_in_an_event() {
    async fn reconcile(_: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.event("Connected", &format!("connected with {}", password(&cx).await?));
        Ok(Action::done())
    }
    let simulation = simulate("event", || reconciler_fn(reconcile)).existing(SECRET);
    finds(simulation, Plan::default(), Oracle::Secrets);
}

#[test]
fn secret_in_a_log_line() {
    async fn reconcile(_: Arc<App>, cx: Context<App>) -> Result<Action> {
        let password = password(&cx).await?;
        tracing::debug!(password, "connecting");
        Ok(Action::done())
    }
    let simulation = simulate("log", || reconciler_fn(reconcile)).existing(SECRET);
    finds(simulation, Plan::default(), Oracle::Secrets);
}

#[test]
fn secret_in_a_metric() {
    let simulation = simulate_with("metric", |manager| {
        let connections = manager.metrics().counters("connections_total", "Connections.", ["url"]);
        let connections = Arc::new(connections.unwrap());
        let reconcile = move |_: Arc<App>, cx: Context<App>| {
            let connections = connections.clone();
            async move {
                connections.with([&format!("db:{}@host", password(&cx).await?)]).inc();
                Ok(Action::done())
            }
        };
        manager.controller(reconciler_fn(reconcile)).register().map(drop)
    });
    finds(simulation.existing(SECRET), Plan::default(), Oracle::Secrets);
}

/// A disabled fault is not injected, and the coverage gives the reason.
#[test]
fn disabled_fault_is_skipped_with_its_reason() {
    let simulation = good().without_fault(Effect::Pause(0), "the operator has one replica");
    let report = simulation.explore();
    let reason = "Pause(0) (the operator has one replica)";
    assert!(report.coverage.skipped.iter().any(|it| it == reason), "{}", report.coverage);
}

/// Counts in a static, which all runs share.
fn counting(name: &str) -> evenkeel_sim::Simulation {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        if cx.client().live().get::<ConfigMap>(&cx.key().sibling("a-0")).await?.is_none() {
            let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let mut map = part(&app, 0);
            map.data = Some([("number".to_owned(), number.to_string())].into());
            cx.apply_owned(map).force().await?;
        }
        Ok(Action::done())
    }
    crate::operators::simulate_one(name, |manager| {
        manager.controller(reconciler_fn(reconcile)).owns::<ConfigMap>().register().map(drop)
    })
}

fn lost_response_of_the_part() -> Plan {
    one("apply", "configmaps", "default/a-0", 1, Effect::LoseResponse)
}

#[test]
fn static_that_runs_share() {
    let report = counting("static").replay([lost_response_of_the_part()]).explore();
    assert!(report.finding.is_some(), "two runs have the same number: {report}");
}

#[test]
fn static_of_a_process_of_its_own() {
    let simulation = counting("static-alone").subprocesses();
    let report = simulation.replay([lost_response_of_the_part()]).explore();
    assert!(report.finding.is_none(), "{report}");
    assert_eq!((report.coverage.run, report.coverage.missed), (1, 0), "{}", report.coverage);
}
