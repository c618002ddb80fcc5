//! The operator: the `AppService` type and its reconciler.
//!
//! The reconciler gets the key of an object, compares the desired state with the actual state, and
//! writes the difference. It keeps no state in memory, so it can be restarted at any time.

use std::collections::BTreeMap;

use evenkeel::prelude::*;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvFromSource, PodSpec, PodTemplateSpec, Secret, SecretEnvSource,
    Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dns::{Zone, address, host};

/// Keeps a deleted `AppService` until its DNS record is removed.
const FINALIZER: &str = "apps.example.com/dns-record";
/// The requeue interval while a dependency is missing.
const DEPENDENCY_RETRY: Duration = Duration::from_secs(5);
const PORT: i32 = 8080;
/// The label that names the `AppService` of an object.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";

/// A web application: pods with one image behind a Service and a DNS name.
#[derive(CheckedSchema, Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "apps.example.com", version = "v1", kind = "AppService", namespaced)]
#[kube(status = "AppServiceStatus")]
#[kube(printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.image"}"#)]
#[kube(printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}"#)]
#[kube(printcolumn = r#"{"name": "Up", "type": "integer", "jsonPath": ".status.readyReplicas"}"#)]
#[serde(rename_all = "camelCase")]
pub struct AppServiceSpec {
    /// The number of pods. A single pod could not be replaced without downtime.
    #[schemars(range(min = 2))]
    pub replicas: i32,
    /// The container image, which listens on port 8080.
    #[schemars(length(min = 1))]
    pub image: String,
    /// A Secret of the same namespace to set environment variables from. The operator waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The status of an `AppService`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppServiceStatus {
    /// The conditions; `Ready` is the only type.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// The generation of the spec that was last reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of ready pods.
    #[serde(default)]
    pub ready_replicas: i32,
}

/// Reconciles `AppService` objects.
pub struct AppServices {
    /// The DNS zone of the records.
    pub zone: Zone,
}

impl AppServices {
    /// Registers the webhooks and the controller with `manager`.
    ///
    /// # Errors
    /// If the manager already has them, or has stopped.
    pub fn register(self, manager: &Manager) -> Result<ControllerHandle, RegisterError> {
        manager.webhook::<AppService>().defaulter(default).validator(validate).register()?;
        manager.controller(self).owns::<Deployment>().owns::<Service>().workers(4).register()
    }
}

/// Defaulting webhook: an image without a tag gets the tag `latest`.
fn default(app: &mut AppService, _: &AdmissionRequest) -> Result<()> {
    let (_, name) = app.spec.image.rsplit_once('/').unwrap_or(("", &app.spec.image));
    if !name.is_empty() && !name.contains([':', '@']) {
        app.spec.image += ":latest";
    }
    Ok(())
}

/// Validating webhook: what the schema of the CRD cannot express.
fn validate(app: &AppService, request: &AdmissionRequest) -> Result<Warnings> {
    let mut invalid = Invalid::of::<AppService>(&request.name);
    let (image, secret) = (&app.spec.image, app.spec.secret.as_deref());
    if image.contains(char::is_whitespace) {
        invalid.value("spec.image", image, "must not contain spaces");
    }
    let old = request.old_object::<AppService>()?.and_then(|old| old.spec.secret);
    if old.is_some() && secret.is_none() {
        invalid.forbidden("spec.secret", "may be changed but not removed");
    }
    invalid.into_result()?;
    let latest = image.ends_with(":latest").then(|| format!("spec.image: {image} may change"));
    Ok(latest.into_iter().collect())
}

impl Reconciler for AppServices {
    type Object = AppService;

    async fn reconcile(&self, cx: &Context<AppService>) -> Result<Action> {
        let host = host(cx.key());
        // After a restart, an older list may have shown the object once more, and its record was set.
        if cx.object().is_none() {
            self.zone.remove(&host)?;
        }
        let clean_up = async |_| Ok(self.zone.remove(&host)?);
        let Some(app) = cx.finalize(FINALIZER, clean_up).await? else { return Ok(Action::done()) };

        if let Some(name) = app.spec.secret.as_deref()
            && cx.client().live().get::<Secret>(&cx.key().sibling(name)).await?.is_none()
        {
            return wait(cx, &app, "WaitingForSecret", &format!("waiting for Secret {name}")).await;
        }
        let found = cx.client().get::<Deployment>(cx.key()).await?;
        if found.as_ref().is_some_and(|found| !is_controller(&*app, &**found)) {
            let message = format!("Deployment {} is owned by another object", cx.key().name());
            return wait(cx, &app, "NameTaken", &message).await;
        }
        // A difference caused by a change of the AppService itself is not drift.
        let observed = app.status.as_ref().and_then(|status| status.observed_generation);
        let unchanged = found.iter().filter(|_| observed == app.metadata.generation);
        for difference in unchanged.flat_map(|found| drift(&app, found)) {
            tracing::info!(difference, "drift detected");
            cx.event("DriftDetected", &difference);
        }
        let deployment = cx.apply_owned(deployment_for(&app)).force().await?;
        if found.is_none() {
            cx.event("Created", &format!("created Deployment {}", cx.key().name()));
        }
        cx.apply_owned(service_for(&app)).force().await?;
        self.zone.set(&host, &address(cx.key()))?;

        let (up, wanted) = (ready_replicas(&deployment), app.spec.replicas);
        let message = format!("{up}/{wanted} replicas are ready");
        let ready = match up >= wanted {
            true => Condition::new("Ready", true, "AllReplicasReady", &message),
            false => Condition::new("Ready", false, "ReplicasStarting", &message),
        };
        let status = cx.status(&app).set(|status| status.ready_replicas = up);
        status.condition(ready).write().await?;
        Ok(Action::done())
    }
}

/// Reports why the `AppService` cannot be reconciled now, and requeues it.
async fn wait(cx: &Context<AppService>, app: &AppService, why: &str, text: &str) -> Result<Action> {
    tracing::info!(why, text, "cannot reconcile now");
    cx.event(why, text);
    cx.status(app).condition(Condition::new("Ready", false, why, text)).write().await?;
    Ok(Action::requeue_after(DEPENDENCY_RETRY))
}

/// Returns the fields of the Deployment that differ from the spec, for events. The apply corrects
/// them.
fn drift(app: &AppService, found: &Deployment) -> Vec<String> {
    let spec = found.spec.as_ref();
    let replicas = spec.and_then(|spec| spec.replicas).unwrap_or_default();
    let pod = spec.and_then(|spec| spec.template.spec.as_ref());
    let container = pod.and_then(|pod| pod.containers.iter().find(|found| found.name == "app"));
    let image = container.and_then(|container| container.image.as_deref()).unwrap_or_default();
    let mut differences = Vec::new();
    if replicas != app.spec.replicas {
        differences.push(format!("replicas is {replicas}, expected {}", app.spec.replicas));
    }
    if image != app.spec.image {
        differences.push(format!("image is {image}, expected {}", app.spec.image));
    }
    differences
}

/// Returns the ready replicas, or zero if the Deployment status is of an older generation.
fn ready_replicas(deployment: &Deployment) -> i32 {
    let status = deployment.status.as_ref();
    let current =
        status.filter(|status| status.observed_generation == deployment.metadata.generation);
    current.and_then(|status| status.ready_replicas).unwrap_or_default()
}

fn labels(app: &AppService) -> BTreeMap<String, String> {
    [(NAME_LABEL.to_owned(), app.name_any())].into()
}

fn child(app: &AppService) -> ObjectMeta {
    ObjectMeta { name: Some(app.name_any()), labels: Some(labels(app)), ..Default::default() }
}

fn deployment_for(app: &AppService) -> Deployment {
    let secret = |name: &String| EnvFromSource {
        secret_ref: Some(SecretEnvSource { name: name.clone(), ..Default::default() }),
        ..Default::default()
    };
    let container = Container {
        name: "app".to_owned(),
        image: Some(app.spec.image.clone()),
        ports: Some(vec![ContainerPort { container_port: PORT, ..Default::default() }]),
        env_from: app.spec.secret.as_ref().map(|name| vec![secret(name)]),
        ..Default::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels(app)), ..Default::default() }),
        spec: Some(PodSpec { containers: vec![container], ..Default::default() }),
    };
    let spec = DeploymentSpec {
        replicas: Some(app.spec.replicas),
        selector: LabelSelector { match_labels: Some(labels(app)), ..Default::default() },
        template,
        ..Default::default()
    };
    Deployment { metadata: child(app), spec: Some(spec), ..Default::default() }
}

fn service_for(app: &AppService) -> Service {
    let target = Some(IntOrString::Int(PORT));
    let spec = ServiceSpec {
        selector: Some(labels(app)),
        ports: Some(vec![ServicePort { port: 80, target_port: target, ..Default::default() }]),
        ..Default::default()
    };
    Service { metadata: child(app), spec: Some(spec), ..Default::default() }
}
