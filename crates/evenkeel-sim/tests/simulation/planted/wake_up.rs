//! Missed events, ignored errors, changes that cause no reconcile.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Simulation};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{PatchParams, PostParams};

use super::{Planted, owned, raw};
use crate::operators::{App, part, simulate, simulate_one, simulate_with};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "transient-state",
        rows: &[14],
        after: "cassandra-operator #398, rabbitmq #758, casskop #342",
        class: BugClass::LostWakeUp,
        prevented_by: "nothing; a reconcile has no event to depend on, only a state",
        simulation: transient_state,
    },
    Planted {
        name: "filter-for-own-writes",
        rows: &[15],
        after: "java-operator-sdk #3398, #3394, #3484, #1006",
        class: BugClass::LostWakeUp,
        prevented_by: "own writes are recognized by their version, not by a flag",
        simulation: filter_for_own_writes,
    },
    Planted {
        name: "swallowed-conflict",
        rows: &[16],
        after: "azure-service-operator #2719",
        class: BugClass::LostWakeUp,
        prevented_by: "a returned conflict is always retried",
        simulation: swallowed_conflict,
    },
    Planted {
        name: "swallowed-server-error",
        rows: &[16],
        after: "the same with an error of the server",
        class: BugClass::LostWakeUp,
        prevented_by: "a returned error is always retried",
        simulation: swallowed_server_error,
    },
    Planted {
        name: "throttled-counts-as-done",
        rows: &[16],
        after: "the same with a request that is throttled",
        class: BugClass::LostWakeUp,
        prevented_by: "an error with `Retry-After` is retried after that time",
        simulation: throttled_counts_as_done,
    },
    Planted {
        name: "child-not-watched",
        rows: &[14],
        after: "an operator without `owns`",
        class: BugClass::LostWakeUp,
        prevented_by: "`.owns::<K>()`",
        simulation: child_not_watched,
    },
    Planted {
        name: "generation-as-content",
        rows: &[14],
        after: "an operator that compares generations only",
        class: BugClass::LostWakeUp,
        prevented_by: "nothing; `cx.apply_owned(..)` is free if nothing differs",
        simulation: generation_as_content,
    },
];

/// What has to be done while a pod starts is done if the operator sees it start.
fn transient_state() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let pod = cx.client().get::<Pod>(&cx.key().sibling("seed")).await?;
        let phase = pod.as_ref().and_then(|pod| pod.status.as_ref()?.phase.as_deref());
        if phase == Some("Pending") {
            cx.apply_owned(part(&app, 0)).force().await?;
        }
        Ok(Action::done())
    }
    simulate_one("transient-state", |manager| {
        let app = |_: &Pod, _: &evenkeel::MapContext| vec![Key::namespaced("default", "a")];
        let controller = manager.controller(reconciler_fn(reconcile));
        controller.reads::<ConfigMap>().watches::<Pod>(app).register().map(drop)
    })
    .sample(
        "{apiVersion: v1, kind: Pod, metadata: {name: seed}, \
         spec: {containers: [{name: main, image: 'database:1'}]}}",
    )
}

/// The reconcile after an own write is skipped: it counts as the echo of that write.
fn filter_for_own_writes() -> Simulation {
    #[derive(Default)]
    struct Filter(AtomicBool);
    impl Reconciler for Filter {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let Some(app) = cx.object() else { return Ok(Action::done()) };
            if self.0.swap(false, Ordering::Relaxed) {
                return Ok(Action::done());
            }
            let found = raw(cx).get_opt("a-0").await?;
            if found.is_none_or(|found| found.data != part(&app, 0).data) {
                cx.client().apply(&owned(&app, 0)).force().await?;
                self.0.store(true, Ordering::Relaxed);
            }
            Ok(Action::done())
        }
    }
    simulate("filter-for-own-writes", Filter::default)
}

/// A conflict counts as harmless.
fn swallowed_conflict() -> Simulation {
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
    simulate_with("swallowed-conflict", |manager| {
        manager.controller(reconciler_fn(reconcile)).reads::<ConfigMap>().register().map(drop)
    })
}

/// An error of the server counts as success.
fn swallowed_server_error() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let _ = cx.apply_owned(part(&app, 0)).force().await;
        Ok(Action::done())
    }
    simulate("swallowed-server-error", || reconciler_fn(reconcile))
}

/// A request that is throttled is left to the next event, which never comes.
fn throttled_counts_as_done() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let params = PatchParams::apply("throttled").force();
        let patched = raw(&cx).patch("a-0", &params, &Patch::Apply(owned(&app, 0))).await;
        match patched {
            Err(kube::Error::Api(status)) if status.code == 429 => {}
            other => drop(other?),
        }
        Ok(Action::done())
    }
    simulate("throttled-counts-as-done", || reconciler_fn(reconcile))
}

/// The type of the children is not watched.
fn child_not_watched() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.apply_owned(part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    simulate_with("child-not-watched", |manager| {
        manager.controller(reconciler_fn(reconcile)).reads::<ConfigMap>().register().map(drop)
    })
}

/// The generation counts as the content: a child that another client deletes is not restored.
fn generation_as_content() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        let generation = app.metadata.generation.and_then(|it| i32::try_from(it).ok());
        if app.status.as_ref().map(|status| status.count) != generation {
            cx.apply_owned(part(&app, 0)).force().await?;
            let count = generation.unwrap_or_default();
            cx.status(&app).set(|status| status.count = count).write().await?;
        }
        Ok(Action::done())
    }
    simulate("generation-as-content", || reconciler_fn(reconcile))
}
