//! Writes without an end.

use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Oracle, Simulation};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PatchParams;
use serde_json::json;

use super::{OTHER, Planted};
use crate::operators::{App, part, simulate, simulate_with};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "unstable-rendering",
        rows: &[29],
        after: "OLM #1816",
        class: BugClass::HotLoop,
        prevented_by: "nothing; `evenkeel-test` fails a test whose controller spins",
        simulation: unstable_rendering,
    },
    Planted {
        name: "status-each-time",
        rows: &[30],
        after: "zookeeper-operator #389, moco #449",
        class: BugClass::HotLoop,
        prevented_by: "`cx.status(..)` sends nothing if nothing differs",
        simulation: status_each_time,
    },
    Planted {
        name: "transition-time",
        rows: &[31],
        after: "keycloak-operator #121",
        class: BugClass::HotLoop,
        prevented_by: "`cx.status(..)` sets the time when the condition changes",
        simulation: transition_time,
    },
    Planted {
        name: "two-owners-fight",
        rows: &[32],
        after: "cert-manager 1.12",
        class: BugClass::HotLoop,
        prevented_by: "`cx.apply_owned(..)` rejects a child that another object controls",
        simulation: two_owners_fight,
    },
];

/// A child is rendered differently each time.
fn unstable_rendering() -> Simulation {
    #[derive(Default)]
    struct Rendering(AtomicU32);
    impl Reconciler for Rendering {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let Some(app) = cx.object() else { return Ok(Action::done()) };
            let mut map = part(&app, 0);
            // The order of an unordered map.
            let flip = self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            let order = if flip { "a,b" } else { "b,a" };
            map.data = Some([("members".to_owned(), order.to_owned())].into());
            cx.apply_owned(map).force().await?;
            Ok(Action::done())
        }
    }
    simulate("unstable-rendering", Rendering::default)
}

/// The status is rewritten in each reconcile.
fn status_each_time() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let count = app.status.as_ref().map_or(0, |status| status.count);
        cx.status(&app).set(|status| status.count = count + 1).write().await?;
        Ok(Action::done())
    }
    simulate("status-each-time", || reconciler_fn(reconcile))
}

/// The time of a condition is set in each reconcile, by a raw patch.
fn transition_time() -> Simulation {
    async fn reconcile(_: Arc<App>, cx: Context<App>) -> Result<Action> {
        let now = cx.clock().now().to_string();
        let ready = json!({"type": "Ready", "status": "True", "reason": "Done", "message": "",
            "lastTransitionTime": now});
        let patch = Patch::Merge(json!({"status": {"conditions": [ready]}}));
        let apps = Api::<App>::namespaced(cx.client().kube().clone(), "default");
        apps.patch_status(cx.key().name(), &PatchParams::default(), &patch).await?;
        Ok(Action::requeue_after(Duration::from_secs(5)))
    }
    simulate("transition-time", || reconciler_fn(reconcile)).disable(Oracle::Status, OTHER)
}

/// Two objects share one child and fight for it.
fn two_owners_fight() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let mut map = part(&app, 0);
        map.metadata.name = Some("shared".to_owned());
        let key = cx.key().sibling("shared");
        if cx.client().get::<ConfigMap>(&key).await?.is_none_or(|found| found.data != map.data) {
            cx.client().apply(&map).force().await?;
        }
        Ok(Action::done())
    }
    let second =
        "{apiVersion: sim.test/v1, kind: App, metadata: {name: b}, spec: {size: 1, text: z}}";
    simulate_with("two-owners-fight", |manager| {
        let all = |_: &ConfigMap, _: &evenkeel::MapContext| {
            vec![Key::namespaced("default", "a"), Key::namespaced("default", "b")]
        };
        let controller = manager.controller(reconciler_fn(reconcile));
        controller.watches::<ConfigMap>(all).register().map(drop)
    })
    .sample(second)
}
