//! Specs that are not reconciled because of what was before.

use std::collections::BTreeSet;

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Simulation, Step};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use super::Planted;
use crate::operators::{App, part, simulate, simulate_one};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "memory-by-name",
        rows: &[17],
        after: "kube-rs #1830",
        class: BugClass::StateTransition,
        prevented_by: "predicates of the runtime compare uids",
        simulation: memory_by_name,
    },
    Planted {
        name: "rollback-waits-for-stable",
        rows: &[47],
        after: "kubernetes #67250, TiDB (Acto)",
        class: BugClass::StateTransition,
        prevented_by: "nothing; each reconcile gets the newest spec only",
        simulation: rollback_waits_for_stable,
    },
];

/// What was done is remembered by name: an object that is deleted and created again is filtered out.
fn memory_by_name() -> Simulation {
    #[derive(Default)]
    struct Memory(parking_lot::Mutex<BTreeSet<String>>);
    impl Reconciler for Memory {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let Some(app) = cx.object() else { return Ok(Action::done()) };
            let generation = app.metadata.generation.unwrap_or_default();
            let seen = format!("{} {generation}", app.name_any());
            if self.0.lock().contains(&seen) {
                return Ok(Action::done());
            }
            cx.apply_owned(part(&app, 0)).force().await?;
            self.0.lock().insert(seen);
            Ok(Action::done())
        }
    }
    let again = json!({"apiVersion": "sim.test/v1", "kind": "App", "metadata": {"name": "a"},
        "spec": {"size": 1, "text": "y"}});
    simulate("memory-by-name", Memory::default).step(Step::Recreate(again))
}

/// A new spec is accepted only when the old one is stable: a spec that never is blocks the rollback
/// that would repair it.
fn rollback_waits_for_stable() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        if let Some(found) = cx.client().get::<Deployment>(cx.key()).await? {
            let status = found.status.as_ref();
            let ready = status.and_then(|status| status.ready_replicas).unwrap_or_default();
            let updated = status.and_then(|status| status.updated_replicas).unwrap_or_default();
            let observed = status.and_then(|status| status.observed_generation);
            if ready < 1 || updated < 1 || observed != found.metadata.generation {
                return Ok(Action::requeue_after(Duration::from_secs(30)));
            }
        }
        let labels = json!({"app": app.name_any()});
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": app.name_any()},
            "spec": {
                "selector": {"matchLabels": labels},
                "strategy": {"type": "Recreate"},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "containers": [{"name": "main", "image": app.spec.text}],
                }},
            },
        }))?;
        cx.apply_owned(deployment).force().await?;
        Ok(Action::done())
    }
    simulate_one("rollback-waits-for-stable", |manager| {
        manager.controller(reconciler_fn(reconcile)).owns::<Deployment>().register().map(drop)
    })
    .patch::<App>("a", json!({"spec": {"text": "registry.invalid/typo:1"}}))
    .patch::<App>("a", json!({"spec": {"text": "x"}}))
}
