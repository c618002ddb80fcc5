//! What the operators under test have in common: one type, and how a simulation of it is set up.

use evenkeel::prelude::*;
use evenkeel_sim::Simulation;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// An application with several parts.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "sim.test", version = "v1", kind = "App", namespaced, status = "AppStatus")]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppSpec {
    /// The number of parts.
    #[schemars(range(min = 0, max = 5))]
    pub(crate) size: i32,
    /// The text in each part.
    pub(crate) text: String,
}

/// The status of an [`App`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub(crate) conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// What an operator remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    /// A number that an operator remembers.
    #[serde(default)]
    pub(crate) count: i32,
}

pub(crate) const FINALIZER: &str = "sim.test/finalizer";

/// Returns a simulation of an operator with one App that is created, changed and changed back.
pub(crate) fn simulate<R>(name: &str, make: impl Fn() -> R + Send + Sync + 'static) -> Simulation
where
    R: Reconciler<Object = App>,
{
    simulate_with(name, move |manager| {
        manager.controller(make()).owns::<ConfigMap>().register().map(drop)
    })
}

/// Like [`simulate`], with a function that registers the controller.
pub(crate) fn simulate_with(
    name: &str,
    build: impl Fn(&Manager) -> Result<(), RegisterError> + Send + Sync + 'static,
) -> Simulation {
    simulate_one(name, build)
        .patch::<App>("a", json!({"spec": {"size": 3, "text": "y"}}))
        .patch::<App>("a", json!({"spec": {"size": 1}}))
}

/// Like [`simulate_with`], with an App that is only created.
pub(crate) fn simulate_one(
    name: &str,
    build: impl Fn(&Manager) -> Result<(), RegisterError> + Send + Sync + 'static,
) -> Simulation {
    evenkeel_sim::operator(name, build).install::<App>().sample(
        "{apiVersion: sim.test/v1, kind: App, metadata: {name: a}, spec: {size: 2, text: x}}",
    )
}

/// Returns the ConfigMap of a part.
pub(crate) fn part(app: &App, number: i32) -> ConfigMap {
    let name = format!("{}-{number}", app.name_any());
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: app.namespace(),
            labels: Some([("app".to_owned(), app.name_any())].into()),
            ..ObjectMeta::default()
        },
        data: Some([("text".to_owned(), app.spec.text.clone())].into()),
        ..ConfigMap::default()
    }
}

/// Returns the numbers of the parts that are controlled by an App.
pub(crate) async fn parts(cx: &Context<App>, app: &App) -> Result<Vec<(i32, Arc<ConfigMap>)>> {
    let all = cx.client().list::<ConfigMap>().in_namespace(&app.namespace().unwrap_or_default());
    let mut parts = Vec::new();
    for map in all.await? {
        if evenkeel::owner::is_controller(app, &*map) {
            let number = map.name_any().rsplit('-').next().and_then(|it| it.parse().ok());
            parts.push((number.unwrap_or(-1), map));
        }
    }
    parts.sort_by_key(|(number, map)| (*number, map.name_any()));
    Ok(parts)
}
