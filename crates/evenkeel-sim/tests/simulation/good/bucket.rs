//! Buckets of a cloud: what the operator manages is not in the API server. The name of a bucket is
//! derived from its object, so that a call can be repeated, and a finalizer deletes it.

use std::collections::BTreeMap;

use bytes::Bytes;
use evenkeel::prelude::*;
use evenkeel_sim::{
    Application, ApplicationHandle, At, Effect, Fault, ObjectRef, Plan, Simulation,
};
use http::{Request, Response};
use serde_json::{Value, json};

use crate::operators::{App, FINALIZER};

/// A cloud: buckets with their texts.
#[derive(Default)]
pub(crate) struct Cloud {
    pub(crate) buckets: BTreeMap<String, String>,
    /// Answers to requests over HTTP.
    pub(crate) served: u32,
}

impl Application for Cloud {
    fn state(&self) -> Value {
        json!(self.buckets)
    }

    fn serve(&mut self, target: &ObjectRef, request: Request<Bytes>) -> Response<Bytes> {
        assert_eq!((&*target.kind, &*target.name), ("Service", "cloud"));
        self.served += 1;
        let found = self.buckets.get(request.uri().path().trim_matches('/'));
        Response::new(Bytes::from(found.cloned().unwrap_or_default()))
    }
}

struct Buckets(ApplicationHandle<Cloud>);

impl Buckets {
    async fn delete(&self, name: &str) -> Result<()> {
        self.0.call("delete-bucket", name, |cloud| cloud.buckets.remove(name)).await?;
        Ok(())
    }
}

impl Reconciler for Buckets {
    type Object = App;

    async fn reconcile(&self, cx: &Context<App>) -> Result<Action> {
        let name = cx.key().name().to_owned();
        // After a restart, an older list may have shown the object once more, and its bucket was made.
        if cx.object().is_none() {
            self.delete(&name).await?;
        }
        let clean_up = async |_| self.delete(&name).await;
        let Some(app) = cx.finalize(FINALIZER, clean_up).await? else { return Ok(Action::done()) };
        let text = app.spec.text.clone();
        let insert = |cloud: &mut Cloud| cloud.buckets.insert(name.clone(), text.clone());
        self.0.call("put-bucket", &name, insert).await?;
        let path = format!("/api/v1/namespaces/default/services/cloud/proxy/{name}");
        let request = Request::get(path).body(Vec::new())?;
        let found = cx.client().kube().request_text(request).await?;
        let ready = Condition::new("Ready", found == text, "BucketExists", "the bucket exists");
        cx.status(&app).condition(ready).write().await?;
        Ok(Action::done())
    }
}

/// Returns a simulation of an operator that uses a cloud.
pub(crate) fn simulate<R: Reconciler<Object = App>>(
    name: &str,
    make: impl Fn(ApplicationHandle<Cloud>) -> R + Send + Sync + 'static,
) -> Simulation {
    evenkeel_sim::operator_with(name, Cloud::default, move |manager, cloud| {
        manager.controller(make(cloud)).register()
    })
    .install::<App>()
    .sample("{apiVersion: sim.test/v1, kind: App, metadata: {name: a}, spec: {size: 1, text: x}}")
    .patch::<App>("a", json!({"spec": {"text": "y"}}))
}

#[test]
fn bucket_survives_faults() {
    simulate("bucket", Buckets).check();
}

#[test]
fn faults_hit_calls() {
    let places = [
        At::new("call", "put-bucket", "a", 2),
        At::new("get", "services/proxy", "default/cloud", 1),
        At::new("call", "delete-bucket", "a", 1),
    ];
    let effects =
        [Effect::CrashBefore, Effect::CrashAfter, Effect::LoseResponse, Effect::Reject(503)];
    let faults = places.iter().flat_map(|at| effects.map(|effect| Fault::new(at.clone(), effect)));
    let plans = faults.map(|fault| {
        let mut plan = Plan::default();
        plan.faults.push(fault);
        plan
    });
    let report = simulate("bucket-calls", Buckets).replay(plans).explore();
    let coverage = &report.coverage;
    assert!(report.finding.is_none(), "{report}");
    assert_eq!((coverage.run, coverage.missed, coverage.calls_hit), (12, 0, 3), "{coverage}");
}
