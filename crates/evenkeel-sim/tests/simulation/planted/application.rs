//! Bugs in the use of what the operator manages besides objects.

use evenkeel::prelude::*;
use evenkeel_sim::{ApplicationHandle, BugClass, Simulation};

use super::Planted;
use crate::good::bucket::{Cloud, simulate};
use crate::operators::{App, FINALIZER};

pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "forgotten-bucket",
        rows: &[9],
        after: "kong-operator #733",
        class: BugClass::CrashBetweenWrites,
        prevented_by: "nothing; a name that is derived from the object finds the bucket again",
        simulation: forgotten_bucket,
    },
    Planted {
        name: "bucket-of-a-lost-response",
        rows: &[7],
        after: "cert-manager #6837",
        class: BugClass::LostResponse,
        prevented_by: "nothing; the name of the bucket must be known before the call",
        simulation: bucket_of_a_lost_response,
    },
    Planted {
        name: "leaked-bucket",
        rows: &[11],
        after: "casskop #370",
        class: BugClass::Ownership,
        prevented_by: "`cx.finalize(..)`",
        simulation: leaked_bucket,
    },
];

/// Creates a bucket with a new name, unless the status has one.
async fn ensure(app: &App, cx: &Context<App>, cloud: &ApplicationHandle<Cloud>) -> Result<()> {
    let known = app.status.as_ref().and_then(|status| status.phase.clone());
    let name = match known {
        Some(name) => name,
        None => {
            let create = |cloud: &mut Cloud| {
                let name = format!("bucket-{}", cloud.buckets.len());
                cloud.buckets.insert(name.clone(), String::new());
                name
            };
            cloud.call("create-bucket", &cx.key().to_string(), create).await?
        }
    };
    cx.status(app).set(|status| status.phase = Some(name)).write().await?;
    Ok(())
}

/// The name of the bucket is stored after it was created: a crash in between creates another one.
struct Forgetful(ApplicationHandle<Cloud>);

impl Reconciler for Forgetful {
    type Object = App;

    async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
        let cloud = self.0.clone();
        let clean_up = async move |app: Arc<App>| {
            let name = app.status.as_ref().and_then(|status| status.phase.clone());
            if let Some(name) = name {
                cloud.call("delete-bucket", &name, |cloud| cloud.buckets.remove(&name)).await?;
            }
            Ok(())
        };
        let Some(app) = cx.finalize(FINALIZER, clean_up).await? else { return Ok(Action::done()) };
        ensure(&app, cx, &self.0).await?;
        Ok(Action::done())
    }
}

fn forgotten_bucket() -> Simulation {
    simulate("forgotten-bucket", Forgetful)
}

/// The same, where crashes are excluded.
fn bucket_of_a_lost_response() -> Simulation {
    let reason = "the planted bug is another one";
    simulate("bucket-of-a-lost-response", Forgetful)
        .without_fault(evenkeel_sim::Effect::CrashAfter, reason)
        .without_fault(evenkeel_sim::Effect::CrashBefore, reason)
}

/// Nothing deletes the bucket.
fn leaked_bucket() -> Simulation {
    struct Leaking(ApplicationHandle<Cloud>);

    impl Reconciler for Leaking {
        type Object = App;

        async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
            let Some(app) = cx.object() else { return Ok(Action::done()) };
            ensure(&app, cx, &self.0).await?;
            Ok(Action::done())
        }
    }
    simulate("leaked-bucket", Leaking)
}
