//! What people do with an operator, step by step, and whether it answers.
//!
//! The story is a user of the cluster like any other: it edits objects as `kubectl` would and looks
//! at what becomes of them. It never asks the operator. A step that is not seen to come true ends it.

mod wait;

use std::time::Duration;

use evenkeel::Key;
use evenkeel::client::{Client, Patch};
use evenkeel::owner::is_controller;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Resource as _;
use kube::core::{Expression, Selector};
use serde_json::json;
use tokio::time::Instant;

use crate::dns::{Zone, address, host};
use crate::operator::{AppService, AppServiceSpec, LABEL};
use wait::Eyes;
pub use wait::Unseen;

const NAME: &str = "web";
const IMAGE: &str = "registry.example.com/shop:1.0";
const TAMPERED: &str = "registry.example.com/miner:6.6";

/// Where the story plays.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The cluster.
    pub client: Client,
    /// The namespace that the `AppService` is in; there is no other one.
    pub namespace: String,
    /// The records that the operator keeps.
    pub zone: Zone,
    /// Whether a cluster's own controllers run here; without them nothing is collected.
    pub controllers: bool,
    /// Whether something runs pods here; without kubelets none ever becomes ready.
    pub kubelets: bool,
}

/// What the story tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// What is done now.
    Did(String),
    /// What was seen to come of it, and after how long.
    Saw(String, Duration),
    /// What cannot be seen here, and why.
    Skipped(String),
}

/// Plays all of it.
///
/// # Errors
/// With the first thing that was not seen, or a request that failed.
pub async fn play(stage: &Stage, tell: &mut (dyn FnMut(Line) + Send)) -> Result<(), Unseen> {
    let key = Key::namespaced(&stage.namespace, NAME);
    let eyes = Eyes::new(stage.client.clone());
    let mut story = Story { stage, key, eyes, tell, since: Instant::now() };
    story.declare().await?;
    story.become_ready(2).await?;
    story.tamper().await?;
    story.scale().await?;
    story.become_ready(4).await?;
    story.delete_the_child().await?;
    story.ask_for_too_little().await?;
    story.delete().await
}

struct Story<'a> {
    stage: &'a Stage,
    key: Key,
    eyes: Eyes,
    tell: &'a mut (dyn FnMut(Line) + Send),
    /// When the last thing was done.
    since: Instant,
}

impl Story<'_> {
    async fn declare(&mut self) -> Result<(), Unseen> {
        self.did(format!("AppService {} is declared: 2 × {IMAGE}", self.key));
        let spec = AppServiceSpec { replicas: 2, image: IMAGE.to_owned(), secret: None };
        let mut app = AppService::new(NAME, spec);
        app.meta_mut().namespace = Some(self.stage.namespace.clone());
        let app = self.client().create(&app).field_manager("kubectl-create").await?;

        let ours = |found: &Deployment| is_controller(&*app, found) && is(found, 2, IMAGE);
        self.eyes.see("a Deployment of two that the AppService controls", &self.key, ours).await?;
        self.saw(format!("Deployment {NAME} with 2 replicas, controlled by AppService {NAME}"));

        let ours = |found: &Service| is_controller(&*app, found);
        self.eyes.see("a Service that the AppService controls", &self.key, ours).await?;
        self.saw(format!("Service {NAME}, controlled by AppService {NAME}"));

        // The status is written last.
        let told = |found: &AppService| found.status.is_some();
        self.eyes.see("a status", &self.key, told).await?;
        let (host, address) = (host(&self.key), address(&self.key));
        let record = self.stage.zone.get(&host).ok().flatten();
        if record.as_ref() != Some(&address) {
            return Err(Unseen::new(&format!("the record {host} → {address}"), &record));
        }
        self.saw(format!("DNS record {host}, and a finalizer that will remove it"));
        Ok(())
    }

    async fn become_ready(&mut self, replicas: i32) -> Result<(), Unseen> {
        if !self.stage.kubelets {
            let skipped = format!("Ready=True, {replicas}/{replicas}: no kubelet runs pods here");
            (self.tell)(Line::Skipped(skipped));
            return Ok(());
        }
        let ready = |found: &AppService| {
            found.status.as_ref().is_some_and(|status| {
                status.conditions.is_true("Ready")
                    && status.ready_replicas == replicas
                    && status.observed_generation == found.metadata.generation
            })
        };
        let app = self.eyes.see("Ready=True", &self.key, ready).await?;
        let ready = app.status.as_ref().and_then(|status| status.conditions.get("Ready"));
        let message = ready.map(|ready| ready.message.clone()).unwrap_or_default();
        self.saw(format!("Ready=True: {message}"));
        Ok(())
    }

    async fn tamper(&mut self) -> Result<(), Unseen> {
        self.did(format!("somebody edits the Deployment by hand: image {TAMPERED}"));
        let containers = json!([{"name": "app", "image": TAMPERED}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let tampered = self
            .client()
            .patch::<Deployment>(&self.key, &Patch::Strategic(patch))
            .field_manager("kubectl-edit")
            .await?;
        let healed = |found: &Deployment| {
            found.metadata.generation > tampered.metadata.generation && is(found, 2, IMAGE)
        };
        self.eyes.see("the declared image again", &self.key, healed).await?;
        self.saw(format!("healed: image {IMAGE} again"));
        Ok(())
    }

    async fn scale(&mut self) -> Result<(), Unseen> {
        self.did("the AppService is scaled: replicas 2 → 4".to_owned());
        let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
        let write = self.client().patch::<AppService>(&self.key, &patch);
        write.field_manager("kubectl-patch").await?;
        let scaled = |found: &Deployment| is(found, 4, IMAGE);
        self.eyes.see("a Deployment of four", &self.key, scaled).await?;
        self.saw(format!("Deployment {NAME} with 4 replicas"));
        Ok(())
    }

    async fn delete_the_child(&mut self) -> Result<(), Unseen> {
        let Some(child) = self.client().live().get::<Deployment>(&self.key).await? else {
            return Err(Unseen::new("the Deployment", &None::<Deployment>));
        };
        self.did("somebody deletes the Deployment".to_owned());
        self.client().delete(&child).await?;
        let recreated =
            |found: &Deployment| found.metadata.uid != child.metadata.uid && is(found, 4, IMAGE);
        self.eyes.see("a new Deployment", &self.key, recreated).await?;
        self.saw(format!("recreated: Deployment {NAME} with 4 replicas and another uid"));
        Ok(())
    }

    async fn ask_for_too_little(&mut self) -> Result<(), Unseen> {
        self.did("somebody asks for replicas: 1, which the schema does not allow".to_owned());
        let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
        let write = self.client().patch::<AppService>(&self.key, &patch);
        match write.field_manager("kubectl-patch").await {
            Err(error) if error.is_invalid() => {
                let message = error.status().map(|status| status.message.clone());
                self.saw(format!("refused by the API server: {}", message.unwrap_or_default()));
                Ok(())
            }
            Err(error) => Err(error.into()),
            Ok(app) => Err(Unseen::new("a refusal", &*app)),
        }
    }

    async fn delete(&mut self) -> Result<(), Unseen> {
        self.did(format!("AppService {} is deleted", self.key));
        self.client().delete_by_key::<AppService>(&self.key).await?;
        let namespace = &self.stage.namespace;
        self.eyes.see_none::<AppService>(namespace, &Selector::default()).await?;
        let host = host(&self.key);
        if let Ok(Some(target)) = self.stage.zone.get(&host) {
            return Err(Unseen::new(&format!("no record {host}"), &target));
        }
        self.saw(format!("the finalizer ran: DNS record {host} is gone, and then the AppService"));
        if !self.stage.controllers {
            let skipped = "collected: no garbage collector runs here".to_owned();
            (self.tell)(Line::Skipped(skipped));
            return Ok(());
        }
        let labels: Selector = Expression::Equal(LABEL.to_owned(), NAME.to_owned()).into();
        self.eyes.see_none::<Deployment>(namespace, &labels).await?;
        self.eyes.see_none::<Service>(namespace, &labels).await?;
        self.eyes.see_none::<ReplicaSet>(namespace, &labels).await?;
        self.eyes.see_none::<Pod>(namespace, &labels).await?;
        self.saw("collected: Deployment, Service, ReplicaSets and Pods".to_owned());
        Ok(())
    }

    fn client(&self) -> &Client {
        &self.stage.client
    }

    fn did(&mut self, what: String) {
        (self.tell)(Line::Did(what));
        self.since = Instant::now();
    }

    fn saw(&mut self, what: String) {
        (self.tell)(Line::Saw(what, self.since.elapsed()));
    }
}

fn is(found: &Deployment, replicas: i32, image: &str) -> bool {
    found.spec.as_ref().is_some_and(|spec| {
        let containers = spec.template.spec.iter().flat_map(|pod| &pod.containers);
        let images: Vec<_> = containers.map(|container| container.image.as_deref()).collect();
        spec.replicas == Some(replicas) && images == [Some(image)]
    })
}
