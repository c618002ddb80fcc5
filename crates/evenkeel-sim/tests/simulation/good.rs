//! Correct operators: no oracle may be violated.

use evenkeel::prelude::*;

use crate::operators::{App, FINALIZER, part, parts, simulate};

/// Applies as many parts as declared and deletes the others.
struct Parts;

impl Reconciler for Parts {
    type Object = App;

    async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
        let Some(app) = cx.object() else { return Ok(Action::done()) };
        for number in 0..app.spec.size {
            cx.apply_owned(part(&app, number)).force().await?;
        }
        for (number, map) in parts(cx, &app).await? {
            if number >= app.spec.size {
                cx.client().delete(&*map).await?;
            }
        }
        let ready = Condition::new("Ready", true, "AllParts", "all parts exist");
        cx.status(&app).condition(ready).write().await?;
        Ok(Action::done())
    }
}

/// Like [`Parts`], with a finalizer.
struct Finalized;

impl Reconciler for Finalized {
    type Object = App;

    async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
        let clean_up = async |_| Ok(());
        let Some(_) = cx.finalize(FINALIZER, clean_up).await? else { return Ok(Action::done()) };
        Parts.reconcile(cx).await
    }
}

#[test]
fn parts_survive_every_single_fault() {
    let report = simulate("parts", || Parts).explore();
    assert!(report.finding.is_none(), "{report}");
    assert!(report.coverage.run > 0, "{}", report.coverage);
}

#[test]
fn finalized_parts_survive_every_single_fault() {
    let report = simulate("finalized", || Finalized).explore();
    assert!(report.finding.is_none(), "{report}");
}
