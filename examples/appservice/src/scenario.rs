//! A scenario that uses the operator step by step and checks the results.
//!
//! It is an ordinary user of the cluster: it writes objects as `kubectl` does and watches the
//! results. It never calls the operator. The first step whose result is not observed ends it.

mod wait;

use evenkeel::prelude::*;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::{Expression, Selector};
use serde_json::json;
use tokio::time::Instant;

use crate::dns::{Zone, address, host};
use crate::operator::{AppService, AppServiceSpec, NAME_LABEL};
pub use wait::ScenarioError;
use wait::Waiter;

const NAME: &str = "web";
const IMAGE: &str = "registry.example.com/shop:1.0";
const TAMPERED: &str = "registry.example.com/miner:6.6";

/// Where the scenario runs.
#[derive(Clone, Debug)]
pub struct Environment {
    /// A client of the cluster.
    pub client: Client,
    /// The namespace of the `AppService`; it contains no other one.
    pub namespace: String,
    /// The DNS zone that the operator writes.
    pub zone: Zone,
    /// Whether the built-in controllers run; without them there is no garbage collection.
    pub controllers: bool,
    /// Whether kubelets run; without them pods do not become ready.
    pub kubelets: bool,
}

/// The progress of the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A step starts.
    Step(String),
    /// A result of the step was observed after this duration.
    Verified(String, Duration),
    /// A result cannot be observed in this environment, and why.
    Skipped(String),
}

/// Runs all steps.
///
/// # Errors
/// On the first result that is not observed, or the first request that fails.
pub async fn run(
    environment: &Environment,
    report: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), ScenarioError> {
    let key = Key::namespaced(&environment.namespace, NAME);
    let waiter = Waiter::new(environment.client.clone());
    let mut scenario = Scenario { environment, key, waiter, report, since: Instant::now() };
    scenario.declare().await?;
    scenario.wait_until_ready(2).await?;
    scenario.tamper().await?;
    scenario.scale().await?;
    scenario.wait_until_ready(4).await?;
    scenario.delete_deployment().await?;
    scenario.patch_invalid_replicas().await?;
    scenario.delete().await
}

struct Scenario<'a> {
    environment: &'a Environment,
    key: Key,
    waiter: Waiter,
    report: &'a mut (dyn FnMut(Progress) + Send),
    /// When the current step started.
    since: Instant,
}

impl Scenario<'_> {
    async fn declare(&mut self) -> Result<(), ScenarioError> {
        self.step(format!("create AppService {}: 2 × {IMAGE}", self.key));
        let spec = AppServiceSpec { replicas: 2, image: IMAGE.to_owned(), secret: None };
        let mut app = AppService::new(NAME, spec);
        app.meta_mut().namespace = Some(self.environment.namespace.clone());
        let app = self.client().create(&app).field_manager("kubectl-create").await?;

        let ours = |found: &Deployment| is_controller(&*app, found) && is(found, 2, IMAGE);
        self.waiter
            .wait_for("a Deployment with 2 replicas owned by the AppService", &self.key, ours)
            .await?;
        self.verified(format!("Deployment {NAME} with 2 replicas, owned by AppService {NAME}"));

        let ours = |found: &Service| is_controller(&*app, found);
        self.waiter.wait_for("a Service owned by the AppService", &self.key, ours).await?;
        self.verified(format!("Service {NAME}, owned by AppService {NAME}"));

        // The status is written last.
        let has_status = |found: &AppService| found.status.is_some();
        self.waiter.wait_for("a status", &self.key, has_status).await?;
        let (host, address) = (host(&self.key), address(&self.key));
        let record = self.environment.zone.get(&host).ok().flatten();
        if record.as_ref() != Some(&address) {
            return Err(ScenarioError::not_observed(
                &format!("the record {host} → {address}"),
                &record,
            ));
        }
        self.verified(format!("DNS record {host}, and a finalizer to remove it"));
        Ok(())
    }

    async fn wait_until_ready(&mut self, replicas: i32) -> Result<(), ScenarioError> {
        if !self.environment.kubelets {
            let skipped = format!("Ready=True, {replicas}/{replicas}: no kubelet in this cluster");
            (self.report)(Progress::Skipped(skipped));
            return Ok(());
        }
        let ready = |found: &AppService| {
            found.status.as_ref().is_some_and(|status| {
                status.conditions.is_true("Ready")
                    && status.ready_replicas == replicas
                    && status.observed_generation == found.metadata.generation
            })
        };
        let app = self.waiter.wait_for("Ready=True", &self.key, ready).await?;
        let ready = app.status.as_ref().and_then(|status| status.conditions.get("Ready"));
        let message = ready.map(|ready| ready.message.clone()).unwrap_or_default();
        self.verified(format!("Ready=True: {message}"));
        Ok(())
    }

    async fn tamper(&mut self) -> Result<(), ScenarioError> {
        self.step(format!("edit the Deployment: image {TAMPERED}"));
        let containers = json!([{"name": "app", "image": TAMPERED}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let tampered = self
            .client()
            .patch::<Deployment>(&self.key, &Patch::Strategic(patch))
            .field_manager("kubectl-edit")
            .await?;
        let restored = |found: &Deployment| {
            found.metadata.generation > tampered.metadata.generation && is(found, 2, IMAGE)
        };
        self.waiter.wait_for("the image of the AppService", &self.key, restored).await?;
        self.verified(format!("drift corrected: image {IMAGE}"));
        Ok(())
    }

    async fn scale(&mut self) -> Result<(), ScenarioError> {
        self.step("scale the AppService: replicas 2 → 4".to_owned());
        let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
        let write = self.client().patch::<AppService>(&self.key, &patch);
        write.field_manager("kubectl-patch").await?;
        let scaled = |found: &Deployment| is(found, 4, IMAGE);
        self.waiter.wait_for("a Deployment with 4 replicas", &self.key, scaled).await?;
        self.verified(format!("Deployment {NAME} with 4 replicas"));
        Ok(())
    }

    async fn delete_deployment(&mut self) -> Result<(), ScenarioError> {
        let Some(child) = self.client().live().get::<Deployment>(&self.key).await? else {
            return Err(ScenarioError::not_observed("the Deployment", &None::<Deployment>));
        };
        self.step("delete the Deployment".to_owned());
        self.client().delete(&child).await?;
        let recreated =
            |found: &Deployment| found.metadata.uid != child.metadata.uid && is(found, 4, IMAGE);
        self.waiter.wait_for("a new Deployment", &self.key, recreated).await?;
        self.verified(format!("recreated: Deployment {NAME} with 4 replicas and a new uid"));
        Ok(())
    }

    async fn patch_invalid_replicas(&mut self) -> Result<(), ScenarioError> {
        self.step("patch replicas: 1, below the minimum in the schema".to_owned());
        let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
        let write = self.client().patch::<AppService>(&self.key, &patch);
        match write.field_manager("kubectl-patch").await {
            Err(error) if error.is_invalid() => {
                let message = error.status().map(|status| status.message.clone());
                self.verified(format!(
                    "rejected by the API server: {}",
                    message.unwrap_or_default()
                ));
                Ok(())
            }
            Err(error) => Err(error.into()),
            Ok(app) => Err(ScenarioError::not_observed("a validation error", &*app)),
        }
    }

    async fn delete(&mut self) -> Result<(), ScenarioError> {
        self.step(format!("delete AppService {}", self.key));
        self.client().delete_by_key::<AppService>(&self.key).await?;
        let namespace = &self.environment.namespace;
        self.waiter.wait_for_none::<AppService>(namespace, &Selector::default()).await?;
        let host = host(&self.key);
        if let Ok(Some(target)) = self.environment.zone.get(&host) {
            return Err(ScenarioError::not_observed(&format!("no record {host}"), &target));
        }
        self.verified(format!("finalizer: DNS record {host} removed, then the AppService"));
        if !self.environment.controllers {
            let skipped = "garbage collection: no garbage collector in this cluster".to_owned();
            (self.report)(Progress::Skipped(skipped));
            return Ok(());
        }
        let labels: Selector = Expression::Equal(NAME_LABEL.to_owned(), NAME.to_owned()).into();
        self.waiter.wait_for_none::<Deployment>(namespace, &labels).await?;
        self.waiter.wait_for_none::<Service>(namespace, &labels).await?;
        self.waiter.wait_for_none::<ReplicaSet>(namespace, &labels).await?;
        self.waiter.wait_for_none::<Pod>(namespace, &labels).await?;
        self.verified("garbage collected: Deployment, Service, ReplicaSets and Pods".to_owned());
        Ok(())
    }

    fn client(&self) -> &Client {
        &self.environment.client
    }

    fn step(&mut self, what: String) {
        (self.report)(Progress::Step(what));
        self.since = Instant::now();
    }

    fn verified(&mut self, what: String) {
        (self.report)(Progress::Verified(what, self.since.elapsed()));
    }
}

fn is(found: &Deployment, replicas: i32, image: &str) -> bool {
    found.spec.as_ref().is_some_and(|spec| {
        let containers = spec.template.spec.iter().flat_map(|pod| &pod.containers);
        let images: Vec<_> = containers.map(|container| container.image.as_deref()).collect();
        spec.replicas == Some(replicas) && images == [Some(image)]
    })
}
