//! Decisions from a cache that lags behind or from an older list.

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Oracle, Simulation, Step};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::{OTHER, Planted, generated, owned, raw, size};
use crate::operators::{App, part, parts, simulate, simulate_one};

const OWN_WRITES: &str = "reads of `cx.client()` include its own writes";
const DERIVED_NAMES: &str = "`cx.apply_owned(..)` with a name derived from the owner";
const BY_UID: &str = "`cx.client().delete(..)` deletes by the uid that was read";

/// Waits after an error, in which time the cache becomes current.
async fn later() -> Result<Action> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(Action::requeue_after(Duration::from_secs(1)))
}

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "identity-after-restart",
        rows: &[1],
        after: "kubernetes #59848",
        class: BugClass::StaleView,
        prevented_by: DERIVED_NAMES,
        simulation: identity_after_restart,
    },
    Planted {
        name: "orphans-by-label",
        rows: &[2],
        after: "cassandra-operator #402",
        class: BugClass::StaleView,
        prevented_by: BY_UID,
        simulation: orphans_by_label,
    },
    Planted {
        name: "children-of-another-uid",
        rows: &[3],
        after: "Percona K8SPSMDB-430",
        class: BugClass::StaleView,
        prevented_by: BY_UID,
        simulation: children_of_another_uid,
    },
    Planted {
        name: "blind-to-own-writes",
        rows: &[4],
        after: "kubernetes #129795, k0smotron #1534",
        // A create that is not known to have succeeded is repeated before the cache has it.
        class: BugClass::LostResponse,
        prevented_by: OWN_WRITES,
        simulation: blind_to_own_writes,
    },
    Planted {
        name: "six-machines-for-one",
        rows: &[4],
        after: "k0smotron #1534",
        class: BugClass::StaleView,
        prevented_by: OWN_WRITES,
        simulation: six_machines_for_one,
    },
    Planted {
        name: "surplus-workers",
        rows: &[5],
        after: "kuberay #715",
        class: BugClass::StaleView,
        prevented_by: OWN_WRITES,
        simulation: surplus_workers,
    },
    Planted {
        name: "duplicate-requests",
        rows: &[6],
        after: "cert-manager #3603, #4956, #7828",
        class: BugClass::StaleView,
        prevented_by: OWN_WRITES,
        simulation: duplicate_requests,
    },
    Planted {
        name: "committed-create",
        rows: &[7],
        after: "cert-manager #6837",
        class: BugClass::LostResponse,
        prevented_by: "a timeout is never terminal; `cx.apply_owned(..)` can be repeated",
        simulation: committed_create,
    },
];

/// Members join five minutes after each other, each with an identity, and are found in the cache by their
/// label. A restarted process whose first list is older creates the last one once more.
fn identity_after_restart() -> Simulation {
    const PERIOD: i64 = 300;
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let created = app.metadata.creation_timestamp.as_ref().map_or(cx.clock().now(), |it| it.0);
        let age = cx.clock().now().duration_since(created).as_secs();
        let joined = app.spec.size.min(i32::try_from(age / PERIOD + 1)?);
        let found = parts(&cx, &app).await?;
        for identity in 0..joined {
            let identity = identity.to_string();
            let has = |map: &ConfigMap| map.labels().get("identity") == Some(&identity);
            if found.iter().any(|(_, map)| has(map)) {
                continue;
            }
            let mut map = generated(&app, &format!("a-{identity}"));
            map.metadata.labels = Some([("identity".to_owned(), identity)].into());
            cx.client().create(&map).await?;
        }
        let next = Duration::from_secs(u64::try_from(PERIOD - age % PERIOD)?);
        Ok(if joined < app.spec.size { Action::requeue_after(next) } else { Action::done() })
    }
    simulate_one("identity-after-restart", |manager| {
        manager.controller(reconciler_fn(reconcile)).owns::<ConfigMap>().register().map(drop)
    })
    .step(Step::Wait(400))
}

/// Children are found by label, and deleted if their owner is not in the cache.
fn orphans_by_label() -> Simulation {
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
    simulate("orphans-by-label", || Labels).sample(other)
}

/// Children of an object of the same name that was deleted are removed; with an older list, the
/// children of the present object look like them.
fn children_of_another_uid() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let selected = ListParams::default().labels(&format!("app={}", app.name_any()));
        for map in raw(&cx).list(&selected).await? {
            if !evenkeel::owner::is_controller(&*app, &map) {
                raw(&cx).delete(&map.name_any(), &DeleteParams::default()).await?;
            }
        }
        cx.apply_owned(part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    let again = json!({"apiVersion": "sim.test/v1", "kind": "App", "metadata": {"name": "a"},
        "spec": {"size": 2, "text": "again"}});
    simulate("children-of-another-uid", || reconciler_fn(reconcile)).step(Step::Recreate(again))
}

/// A ReplicaSet controller that counts in a cache without its own writes.
fn blind_to_own_writes() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let found = parts(&cx, &app).await?;
        for _ in found.len()..size(&app) {
            raw(&cx).create(&PostParams::default(), &generated(&app, "a")).await?;
        }
        for (_, map) in found.iter().skip(size(&app)) {
            raw(&cx).delete(&map.name_any(), &DeleteParams::default()).await?;
        }
        let count = i32::try_from(found.len()).unwrap_or_default();
        cx.status(&app).set(|status| status.count = count).write().await?;
        Ok(Action::done())
    }
    simulate("blind-to-own-writes", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER)
}

/// A machine with a random name is created if the cache has none, and waited for: each time the wait
/// is over, another one, as long as the cache lags. The status is written after the create.
fn six_machines_for_one() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let machines = parts(&cx, &app).await?;
        let is_complete = !machines.is_empty();
        if !is_complete && raw(&cx).create(&PostParams::default(), &machine(&app)).await.is_err() {
            return later().await;
        }
        let phase = if is_complete { "Running" } else { "Provisioning" };
        cx.status(&app).set(|status| status.phase = Some(phase.to_owned())).write().await?;
        Ok(if is_complete { Action::done() } else { Action::requeue_after(POLL) })
    }
    const POLL: Duration = Duration::from_secs(5);
    fn machine(app: &App) -> ConfigMap {
        let mut machine = generated(app, "machine");
        machine.data = None;
        machine
    }
    simulate("six-machines-for-one", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER)
}

/// The difference to the declared number is created or deleted: workers that hold state are deleted
/// because of a surplus that never existed.
fn surplus_workers() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let found = parts(&cx, &app).await?;
        match found.len() {
            count if count < size(&app) => {
                let mut worker = generated(&app, "worker");
                worker.data = None;
                match raw(&cx).create(&PostParams::default(), &worker).await {
                    Ok(_) => Ok(Action::requeue_after(Duration::from_millis(100))),
                    Err(_) => later().await,
                }
            }
            count if count > size(&app) => {
                let (_, worker) = &found[0];
                raw(&cx).delete(&worker.name_any(), &DeleteParams::default()).await?;
                Ok(Action::requeue_after(Duration::from_millis(100)))
            }
            _ => Ok(Action::done()),
        }
    }
    simulate("surplus-workers", || reconciler_fn(reconcile))
}

/// A request to an external authority, with a generated name, if the cache has none for this spec.
fn duplicate_requests() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let wanted = part(&app, 0).data;
        let requests = parts(&cx, &app).await?;
        if !requests.iter().any(|(_, request)| request.data == wanted) {
            let request = generated(&app, "request");
            return match raw(&cx).create(&PostParams::default(), &request).await {
                // The authority responds soon.
                Ok(_) => Ok(Action::requeue_after(Duration::from_secs(1))),
                Err(_) => later().await,
            };
        }
        Ok(Action::done())
    }
    simulate("duplicate-requests", || reconciler_fn(reconcile))
}

/// A create whose response is lost counts as failed for good, although it was committed.
fn committed_create() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let text = &app.spec.text;
        let phase = app.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        if phase == format!("issued {text}") || phase == format!("failed {text}") {
            return Ok(Action::done());
        }
        let mut map = owned(&app, 0);
        map.metadata.name = Some(format!("a-{text}"));
        let phase = match raw(&cx).create(&PostParams::default(), &map).await {
            Ok(_) => format!("issued {text}"),
            Err(kube::Error::Api(status)) if status.code == 409 => format!("issued {text}"),
            Err(_) => format!("failed {text}"),
        };
        cx.status(&app).set(|status| status.phase = Some(phase.clone())).write().await?;
        Ok(Action::done())
    }
    simulate("committed-create", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER)
}
