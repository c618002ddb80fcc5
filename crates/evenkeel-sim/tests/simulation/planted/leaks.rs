//! Tasks and watches that each reconcile leaves behind.

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Simulation};
use futures_util::StreamExt as _;
use kube::api::WatchParams;

use super::{Planted, owned, raw};
use crate::operators::{App, simulate_one};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "task-per-reconcile",
        rows: &[43],
        after: "controller-runtime PR 1163",
        class: BugClass::Leak,
        prevented_by: "`Action::requeue_after`, which needs no task",
        simulation: task_per_reconcile,
    },
    Planted {
        name: "watch-per-reconcile",
        rows: &[43],
        after: "kubernetes #114066",
        class: BugClass::Leak,
        prevented_by: "`.owns(..)` and `.watches(..)`, which share one watch",
        simulation: watch_per_reconcile,
    },
];

/// A task waits for hours in place of a requeue.
fn task_per_reconcile() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.apply_owned(owned(&app, 0)).force().await?;
        #[expect(clippy::disallowed_methods, reason = "this is the bug")]
        tokio::spawn(tokio::time::sleep(std::time::Duration::from_secs(24 * 60 * 60)));
        Ok(Action::done())
    }
    simulate_one("task-per-reconcile", |manager| {
        manager.controller(reconciler_fn(reconcile)).register().map(drop)
    })
}

/// Each reconcile watches the children once more.
fn watch_per_reconcile() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.apply_owned(owned(&app, 0)).force().await?;
        let maps = raw(&cx);
        let mut events = Box::pin(maps.watch(&WatchParams::default(), "0").await?);
        #[expect(clippy::disallowed_methods, reason = "this is the bug")]
        tokio::spawn(async move { while events.next().await.is_some() {} });
        Ok(Action::done())
    }
    simulate_one("watch-per-reconcile", |manager| {
        manager.controller(reconciler_fn(reconcile)).register().map(drop)
    })
}
