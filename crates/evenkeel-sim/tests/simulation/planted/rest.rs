//! Data of Secrets in other places, objects that delay others, and operators that run differently each
//! time.

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Simulation};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::Planted;
use crate::operators::{App, part, simulate, simulate_one};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "copied-secret",
        rows: &[],
        after: "Argo CD GO-2025-3433",
        class: BugClass::ExposedSecret,
        prevented_by: "nothing; `Redacted` has no text",
        simulation: copied_secret,
    },
    Planted {
        name: "retries-in-place",
        rows: &[],
        after: "controller-runtime with one worker, and a client that retries",
        class: BugClass::Isolation,
        prevented_by: "a returned error is retried with a delay; a reconcile has a timeout",
        simulation: retries_in_place,
    },
    Planted {
        name: "clock-of-the-machine",
        rows: &[],
        after: "a name made from the time",
        class: BugClass::Nondeterminism,
        prevented_by: "`cx.clock()`",
        simulation: clock_of_the_machine,
    },
];

/// Data of a Secret is copied into a ConfigMap.
fn copied_secret() -> Simulation {
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
    simulate("copied-secret", || reconciler_fn(reconcile)).existing(secret)
}

/// A request that fails is repeated within its reconcile, while other objects wait for the worker.
pub(crate) fn retries_in_place() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        for _ in 0..60 {
            if cx.apply_owned(part(&app, 0)).force().await.is_ok() {
                return Ok(Action::done());
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        Err("the part cannot be applied".into())
    }
    simulate_one("retries-in-place", |manager| {
        let controller = manager.controller(reconciler_fn(reconcile)).owns::<ConfigMap>();
        controller.reconcile_timeout(Duration::from_secs(600)).register().map(drop)
    })
    .sample("{apiVersion: sim.test/v1, kind: App, metadata: {name: b}, spec: {size: 1, text: z}}")
}

/// A name is made from the clock of the machine.
fn clock_of_the_machine() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let maps = cx.client().list::<ConfigMap>().in_namespace("default").await?;
        if !maps.iter().any(|map| evenkeel::owner::is_controller(&*app, &**map)) {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_nanos();
            let mut map = part(&app, 0);
            map.metadata.name = Some(format!("a-{now}"));
            cx.apply_owned(map).force().await?;
        }
        Ok(Action::done())
    }
    simulate("clock-of-the-machine", || reconciler_fn(reconcile))
}
