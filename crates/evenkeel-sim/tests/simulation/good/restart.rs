//! The fixed form of the planted `pod-not-restarted`, which `docs/from-report-to-fix.md` describes: the
//! pod names the configuration that it has loaded, so that each reconcile can compare.

use evenkeel::owner::is_controller;
use evenkeel::prelude::*;
use evenkeel::reconciler_fn;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodSpec};
use serde_json::json;

use crate::operators::{App, part, simulate_with};

/// The annotation with the configuration that the pod was started with.
const LOADED: &str = "sim.test/loaded";

async fn reconcile(app: Arc<App>, cx: Context<App>) -> Result<Action> {
    cx.apply_owned(part(&app, 0)).force().await?;
    if let Some(pod) = cx.client().get::<Pod>(cx.key()).await?
        && is_controller(&*app, &*pod)
        && (pod.annotations().get(LOADED) != Some(&app.spec.text) || is_failed(&pod))
    {
        if pod.metadata.deletion_timestamp.is_none() {
            cx.client().delete(&*pod).await?;
        }
        return Ok(Action::done());
    }
    let container = Container {
        name: "main".to_owned(),
        image: Some("database:1".to_owned()),
        ..Container::default()
    };
    let mut pod = Pod::default();
    pod.metadata.name = Some(app.name_any());
    pod.metadata.annotations = Some([(LOADED.to_owned(), app.spec.text.clone())].into());
    pod.spec = Some(PodSpec {
        containers: vec![container],
        termination_grace_period_seconds: Some(1),
        ..PodSpec::default()
    });
    cx.apply_owned(pod).force().await?;
    Ok(Action::done())
}

/// Whether the pod was evicted: a kubelet never restarts it.
fn is_failed(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed")
}

#[test]
fn restart_survives_faults() {
    simulate_with("restart", |manager| {
        let controller = manager.controller(reconciler_fn(reconcile));
        controller.owns::<ConfigMap>().owns::<Pod>().register().map(drop)
    })
    .allow_recreate::<Pod>("with an older list of Apps, the pod is restarted once more")
    .expect(|app: &App, _| {
        let (name, text) = (app.name_any(), &app.spec.text);
        let containers = json!([{"name": "main", "image": "database:1"}]);
        let spec = json!({"containers": containers, "terminationGracePeriodSeconds": 1});
        [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text},
                "metadata": {"name": format!("{name}-0"), "labels": {"app": name}}}),
            json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {"name": name, "annotations": {"sim.test/loaded": text}}}),
        ]
    })
    .check();
}
