//! Operators with one planted bug each, after real ones: the simulation must find and name it with at
//! most two faults.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{Oracle, Simulation};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PatchParams, PostParams};
use serde_json::json;

use crate::operators::{App, FINALIZER, part, parts, simulate, simulate_with};

/// Why an oracle is disabled.
const OTHER: &str = "the planted bug is another one";

/// Expects that a simulation finds a violation of one of these oracles.
#[track_caller]
fn finds(simulation: Simulation, oracles: &[Oracle]) {
    let report = simulation.budget(Duration::from_secs(300)).explore();
    assert!(report.finding.is_some(), "nothing was found: {}", report.coverage);
    let finding = report.finding.as_ref().unwrap();
    assert!(oracles.contains(&finding.violation.oracle), "{report}");
    assert!(finding.plan.faults.len() <= 2, "{report}");
}

/// Returns the child with the owner set.
fn owned(app: &App, number: i32) -> ConfigMap {
    let mut map = part(app, number);
    evenkeel::owner::set_controller_reference(app, &mut map).unwrap();
    map
}

/// Returns a client that bypasses the cache, as operators without Evenkeel do.
fn raw(cx: &Context<App>) -> Api<ConfigMap> {
    Api::namespaced(cx.client().kube().clone(), "default")
}

/// k0smotron #1534: children with generated names, counted in the status.
#[test]
fn generated_names_with_a_counter() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let count = app.status.as_ref().map_or(0, |status| status.count);
        if count < app.spec.size {
            let mut map = owned(&app, 0);
            map.metadata.name = None;
            map.metadata.generate_name = Some("a-".to_owned());
            cx.client().create(&map).await?;
            cx.status(&app).set(|status| status.count = count + 1).write().await?;
        }
        Ok(Action::done())
    }
    finds(
        simulate("counter", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER),
        &[Oracle::Lifecycle, Oracle::Convergence],
    );
}

/// kubernetes #129795: a ReplicaSet controller that does not see its own writes.
#[test]
fn replicas_counted_in_a_cache_without_own_writes() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let found = parts(&cx, &app).await?;
        for _ in found.len()..usize::try_from(app.spec.size).unwrap_or_default() {
            let mut map = owned(&app, 0);
            map.metadata.name = None;
            map.metadata.generate_name = Some("a-".to_owned());
            raw(&cx).create(&PostParams::default(), &map).await?;
        }
        for (_, map) in found.iter().skip(usize::try_from(app.spec.size).unwrap_or_default()) {
            raw(&cx).delete(&map.name_any(), &DeleteParams::default()).await?;
        }
        Ok(Action::done())
    }
    finds(
        simulate("blind", || reconciler_fn(reconcile)),
        &[Oracle::Lifecycle, Oracle::Convergence],
    );
}

/// rabbitmq cluster-operator #782: the guard checks only the first of two writes.
#[test]
fn guard_on_the_first_of_two_writes() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let first = cx.client().get::<ConfigMap>(&cx.key().sibling("a-0")).await?;
        if first.is_some_and(|map| map.data == part(&app, 0).data) {
            return Ok(Action::done());
        }
        cx.apply_owned(part(&app, 0)).force().await?;
        cx.apply_owned(part(&app, 1)).force().await?;
        Ok(Action::done())
    }
    finds(simulate("guard", || reconciler_fn(reconcile)), &[Oracle::Convergence]);
}

/// cert-manager #6837: a create that was committed is taken for a failure.
#[test]
fn committed_create_that_counts_as_failed() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        if app.status.as_ref().is_some_and(|status| status.phase.is_some()) {
            return Ok(Action::done());
        }
        if let Err(error) = cx.client().create(&owned(&app, 0)).await {
            return Err(evenkeel::terminal(error));
        }
        let phase = Some("Created".to_owned());
        cx.status(&app).set(|status| status.phase = phase.clone()).write().await?;
        Ok(Action::done())
    }
    finds(
        simulate("committed", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER),
        &[Oracle::Convergence],
    );
}

/// azure-service-operator #2719: a conflict counts as harmless.
#[test]
fn swallowed_conflict() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let key = cx.key().sibling("a-0");
        match cx.client().live().get::<ConfigMap>(&key).await? {
            None => drop(cx.client().create(&owned(&app, 0)).await?),
            Some(found) if found.data != part(&app, 0).data => {
                let mut map = ConfigMap::clone(&found);
                map.data = part(&app, 0).data;
                match raw(&cx).replace("a-0", &PostParams::default(), &map).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    other => drop(other?),
                }
            }
            Some(_) => {}
        }
        Ok(Action::done())
    }
    // A watch of the child would repair it.
    let simulation = simulate_with("conflict", |manager| {
        manager.controller(reconciler_fn(reconcile)).reads::<ConfigMap>().register().map(drop)
    });
    finds(simulation, &[Oracle::Convergence]);
}

/// An error of the server counts as success.
#[test]
fn swallowed_server_error() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let _ = cx.apply_owned(part(&app, 0)).force().await;
        Ok(Action::done())
    }
    finds(simulate("swallowed", || reconciler_fn(reconcile)), &[Oracle::Convergence]);
}

/// zookeeper-operator #389: the status is rewritten in each reconcile.
#[test]
fn status_that_changes_each_time() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let count = app.status.as_ref().map_or(0, |status| status.count);
        cx.status(&app).set(|status| status.count = count + 1).write().await?;
        Ok(Action::done())
    }
    let oracles = [Oracle::WriteBudget, Oracle::Idempotency];
    finds(simulate("hot-status", || reconciler_fn(reconcile)), &oracles);
}

/// OLM #1816: a child is rendered differently each time.
#[test]
fn unstable_rendering() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        static RENDERED: AtomicU32 = AtomicU32::new(0);
        let mut map = part(&app, 0);
        let number = RENDERED.fetch_add(1, Ordering::Relaxed) % 2;
        map.data = Some([("number".to_owned(), number.to_string())].into());
        cx.apply_owned(map).force().await?;
        Ok(Action::done())
    }
    let oracles = [Oracle::WriteBudget, Oracle::Idempotency, Oracle::Determinism];
    finds(simulate("unstable", || reconciler_fn(reconcile)), &oracles);
}

/// cert-manager 1.12: two objects share one child and fight for it.
#[test]
fn two_objects_fight_for_one_child() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let mut map = part(&app, 0);
        map.metadata.name = Some("shared".to_owned());
        let key = cx.key().sibling("shared");
        if cx.client().get::<ConfigMap>(&key).await?.is_none_or(|found| found.data != map.data) {
            cx.client().apply(&map).force().await?;
        }
        Ok(Action::done())
    }
    let simulation = simulate_with("fight", |manager| {
        let all = |_: &ConfigMap, _: &evenkeel::MapContext| {
            vec![Key::namespaced("default", "a"), Key::namespaced("default", "b")]
        };
        let controller = manager.controller(reconciler_fn(reconcile));
        controller.watches::<ConfigMap>(all).register().map(drop)
    });
    let second =
        "{apiVersion: sim.test/v1, kind: App, metadata: {name: b}, spec: {size: 1, text: z}}";
    finds(simulation.sample(second), &[Oracle::WriteBudget]);
}

/// knative #1226: Ready is reported before the work is done.
#[test]
fn ready_before_the_work_is_done() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let ready = Condition::new("Ready", true, "Done", "done");
        cx.status(&app).condition(ready).write().await?;
        cx.apply_owned(part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    finds(simulate("early-ready", || reconciler_fn(reconcile)), &[Oracle::Status]);
}

/// cass-operator #657: observedGeneration is not advanced if the status stays the same.
#[test]
fn observed_generation_that_stays_behind() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.apply_owned(part(&app, 0)).force().await?;
        if app.status.is_none() {
            let ready = Condition::new("Ready", true, "Done", "done");
            cx.status(&app).condition(ready).write().await?;
        }
        Ok(Action::done())
    }
    finds(simulate("generation", || reconciler_fn(reconcile)), &[Oracle::Status]);
}

/// controller-runtime #797: one valid object makes the reconciler panic.
#[test]
fn panic_on_a_valid_object() {
    async fn reconcile(app: Arc<App>, _: Context<App>) -> Result<Action> {
        let weights = [1, 2, 3];
        let _ = weights[usize::try_from(app.spec.size).unwrap_or_default()];
        Ok(Action::done())
    }
    finds(simulate("panic", || reconciler_fn(reconcile)), &[Oracle::Panics]);
}

/// A finalizer whose cleanup needs a child that may be gone.
#[test]
fn cleanup_that_cannot_be_repeated() {
    struct Cleanup;
    impl Reconciler for Cleanup {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let clean_up = async |_| {
                let key = cx.key().sibling("a-0");
                let Some(map) = cx.client().live().get::<ConfigMap>(&key).await? else {
                    return Err("the part is gone".into());
                };
                Ok(cx.client().delete(&map).await.map(drop)?)
            };
            let Some(app) = cx.finalize(FINALIZER, clean_up).await? else {
                return Ok(Action::done());
            };
            cx.apply_owned(part(&app, 0)).force().await?;
            Ok(Action::done())
        }
    }
    finds(simulate("cleanup", || Cleanup), &[Oracle::Deletion]);
}

/// A child without an owner reference.
#[test]
fn child_without_an_owner() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.client().apply(&part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    finds(simulate("orphan", || reconciler_fn(reconcile)), &[Oracle::Leftovers]);
}

/// The type of the children is not watched.
#[test]
fn child_that_is_not_watched() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.apply_owned(part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    let simulation = simulate_with("unwatched", |manager| {
        manager.controller(reconciler_fn(reconcile)).reads::<ConfigMap>().register().map(drop)
    });
    finds(simulation, &[Oracle::Convergence]);
}

/// What was done is remembered in memory, by name: kube-rs #1830.
#[test]
fn memory_by_name_instead_of_uid() {
    #[derive(Default)]
    struct Memory(parking_lot::Mutex<BTreeSet<String>>);
    impl Reconciler for Memory {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let Some(app) = cx.object() else { return Ok(Action::done()) };
            let text = format!("{} {}", app.name_any(), app.spec.text);
            if self.0.lock().contains(&text) {
                return Ok(Action::done());
            }
            cx.apply_owned(part(&app, 0)).force().await?;
            self.0.lock().insert(text);
            Ok(Action::done())
        }
    }
    finds(simulate("memory", Memory::default), &[Oracle::Convergence]);
}

/// cassandra-operator #398: the logic needs to see a state that passes.
#[test]
fn edge_triggered_logic() {
    #[derive(Default)]
    struct Edges(parking_lot::Mutex<Option<String>>);
    impl Reconciler for Edges {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let Some(app) = cx.object() else { return Ok(Action::done()) };
            let before = self.0.lock().replace(app.spec.text.clone());
            // Only a change that this process has seen.
            if before.as_ref() != Some(&app.spec.text) && before.is_some() || app.status.is_none() {
                cx.apply_owned(part(&app, 0)).force().await?;
            }
            let phase = Some("Seen".to_owned());
            cx.status(&app).set(|status| status.phase = phase.clone()).write().await?;
            Ok(Action::done())
        }
    }
    finds(simulate("edges", Edges::default), &[Oracle::Convergence, Oracle::Lifecycle]);
}

/// cassandra-operator #402: children are found by label and deleted if their owner is not in the
/// cache.
#[test]
fn orphans_by_label_and_cache() {
    struct Labels;
    impl Reconciler for Labels {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let listed = raw(cx).list(&ListParams::default().match_any().labels("app")).await?;
            for map in listed {
                let name = map.labels().get("app").cloned().unwrap_or_default();
                if cx.client().get::<App>(&cx.key().sibling(&name)).await?.is_none() {
                    raw(cx).delete(&map.name_any(), &DeleteParams::default()).await?;
                }
            }
            let Some(app) = cx.object() else { return Ok(Action::done()) };
            cx.apply_owned(part(&app, 0)).force().await?;
            Ok(Action::done())
        }
    }
    let other =
        "{apiVersion: sim.test/v1, kind: App, metadata: {name: b}, spec: {size: 1, text: z}}";
    finds(simulate("labels", || Labels).sample(other), &[Oracle::Lifecycle, Oracle::Convergence]);
}

/// Data of a Secret is copied into a ConfigMap.
#[test]
fn copied_secret() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let key = cx.key().sibling("password");
        let Some(secret) = cx.client().live().get::<Secret>(&key).await? else {
            return Ok(Action::done());
        };
        let mut map = part(&app, 0);
        let text = secret.data.as_ref().and_then(|data| data.get("password"));
        let text = text.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
        map.data = Some([("password".to_owned(), text.unwrap_or_default())].into());
        cx.apply_owned(map).force().await?;
        Ok(Action::done())
    }
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: default}, \
                  stringData: {password: correct-horse-battery}}";
    finds(simulate("secret", || reconciler_fn(reconcile)).existing(secret), &[Oracle::Secrets]);
}

/// A name is made from the clock of the machine.
#[test]
fn clock_of_the_machine() {
    #[expect(clippy::disallowed_methods, reason = "this is the bug")]
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let mut map = part(&app, 0);
        let time = format!("{:?}", std::time::SystemTime::now());
        if cx.client().get::<ConfigMap>(&cx.key().sibling("a-0")).await?.is_none() {
            map.data = Some([("time".to_owned(), time.clone())].into());
            map.metadata.name =
                Some(format!("a-{}", time.len() + time.bytes().map(usize::from).sum::<usize>()));
            cx.apply_owned(map).force().await?;
            return Err("not yet".into());
        }
        Ok(Action::done())
    }
    let oracles = [Oracle::Determinism, Oracle::WriteBudget, Oracle::Convergence];
    finds(simulate("clock", || reconciler_fn(reconcile)), &oracles);
}

/// TiDB (Acto): a new spec is accepted only when the old one is complete.
#[test]
fn rollback_that_waits_for_what_it_would_repair() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let phase = app.status.as_ref().and_then(|status| status.phase.clone());
        if phase.as_deref() == Some("Progressing")
            && cx.client().get::<ConfigMap>(&cx.key().sibling("a-0")).await?.is_none()
        {
            // Waits for the part that a crash prevented.
            return Ok(Action::done());
        }
        let progressing = Some("Progressing".to_owned());
        cx.status(&app).set(|status| status.phase = progressing.clone()).write().await?;
        cx.apply_owned(part(&app, 0)).force().await?;
        let complete = Some("Complete".to_owned());
        let app = cx.client().live().get::<App>(cx.key()).await?.ok_or("gone")?;
        cx.status(&app).set(|status| status.phase = complete.clone()).write().await?;
        Ok(Action::done())
    }
    let oracles = [Oracle::Convergence, Oracle::WriteBudget, Oracle::Idempotency];
    finds(simulate("rollback", || reconciler_fn(reconcile)), &oracles);
}

/// The generation counts as the content: a child that another client deletes is not restored.
#[test]
fn generation_that_counts_as_content() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let generation = app.metadata.generation.and_then(|it| i32::try_from(it).ok());
        if app.status.as_ref().map(|status| status.count) != generation {
            cx.apply_owned(part(&app, 0)).force().await?;
            let count = generation.unwrap_or_default();
            cx.status(&app).set(|status| status.count = count).write().await?;
        }
        Ok(Action::done())
    }
    finds(simulate("content", || reconciler_fn(reconcile)), &[Oracle::Convergence]);
}

/// Percona K8SPXC-896: the phase is written before its work, which a crash then prevents for good.
#[test]
fn phase_before_its_work() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        if app.status.as_ref().is_some_and(|status| status.phase.is_some()) {
            return Ok(Action::done());
        }
        let phase = Some("Initialized".to_owned());
        cx.status(&app).set(|status| status.phase = phase.clone()).write().await?;
        cx.apply_owned(part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    finds(
        simulate("phase", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER),
        &[Oracle::Convergence],
    );
}

/// casskop #370: a removal that was not counted is tried again, and fails for good.
#[test]
fn removal_that_is_not_counted() {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let count = app.status.as_ref().map_or(0, |status| status.count);
        let next = match count.cmp(&app.spec.size) {
            std::cmp::Ordering::Less => {
                cx.apply_owned(part(&app, count)).force().await?;
                count + 1
            }
            std::cmp::Ordering::Equal => return Ok(Action::done()),
            std::cmp::Ordering::Greater => {
                let name = part(&app, count - 1).name_any();
                let deleted = raw(&cx).delete(&name, &DeleteParams::default()).await;
                deleted.map_err(evenkeel::terminal)?;
                count - 1
            }
        };
        cx.status(&app).set(|status| status.count = next).write().await?;
        Ok(Action::done())
    }
    finds(
        simulate("removal", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER),
        &[Oracle::Convergence],
    );
}

/// keycloak-operator #121: the time of a condition is set in each reconcile. `cx.status` sets it when
/// the condition changes; this one uses a raw patch.
#[test]
fn transition_time_of_each_reconcile() {
    async fn reconcile(_: Arc<App>, cx: Context<App>) -> Result<Action> {
        let now = cx.clock().now().to_string();
        let ready = json!({"type": "Ready", "status": "True", "reason": "Done", "message": "",
            "lastTransitionTime": now});
        let patch = Patch::Merge(json!({"status": {"conditions": [ready]}}));
        let apps = Api::<App>::namespaced(cx.client().kube().clone(), "default");
        apps.patch_status(cx.key().name(), &PatchParams::default(), &patch).await?;
        Ok(Action::requeue_after(Duration::from_secs(5)))
    }
    let oracles = [Oracle::WriteBudget, Oracle::Idempotency];
    finds(
        simulate("transition", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER),
        &oracles,
    );
}
