//! A status that is not true.

use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use evenkeel_sim::{BugClass, Simulation};

use super::Planted;
use crate::operators::{App, part, simulate};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "old-ready-looks-current",
        rows: &[33],
        after: "knative/pkg #1226",
        class: BugClass::PrematureStatus,
        prevented_by: "nothing; a condition that is written has its own observedGeneration",
        simulation: old_ready_looks_current,
    },
    Planted {
        name: "ready-before-the-work",
        rows: &[33],
        after: "the same without an error",
        class: BugClass::PrematureStatus,
        prevented_by: "nothing; `cx.status(..)` is to be the last write",
        simulation: ready_before_the_work,
    },
    Planted {
        name: "generation-stays-behind",
        rows: &[34],
        after: "cass-operator #657",
        class: BugClass::PrematureStatus,
        prevented_by: "`cx.status(..)` sets observedGeneration each time",
        simulation: generation_stays_behind,
    },
];

fn ready() -> Condition {
    Condition::new("Ready", true, "Done", "done")
}

/// observedGeneration advances although the work has failed, and Ready is still that of before.
fn old_ready_looks_current() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        if let Err(error) = cx.apply_owned(part(&app, 0)).force().await {
            cx.status(&app).write().await?;
            return Err(error.into());
        }
        cx.status(&app).condition(ready()).write().await?;
        Ok(Action::done())
    }
    simulate("old-ready-looks-current", || reconciler_fn(reconcile))
}

/// Ready is reported before the work is done.
fn ready_before_the_work() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.status(&app).condition(ready()).write().await?;
        cx.apply_owned(part(&app, 0)).force().await?;
        Ok(Action::done())
    }
    simulate("ready-before-the-work", || reconciler_fn(reconcile))
}

/// observedGeneration is not advanced if the status stays the same otherwise.
fn generation_stays_behind() -> Simulation {
    async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
        cx.apply_owned(part(&app, 0)).force().await?;
        if app.status.is_none() {
            cx.status(&app).condition(ready()).write().await?;
        }
        Ok(Action::done())
    }
    simulate("generation-stays-behind", || reconciler_fn(reconcile))
}
