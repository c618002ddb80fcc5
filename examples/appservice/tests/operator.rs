//! Tests of the operator, on a cluster per test and in virtual time.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::PathBuf;

use appservice::dns::{Zone, host};
use appservice::operator::{AppService, AppServices};
use appservice::scenario::{self, Environment, Progress};
use evenkeel::prelude::*;
use evenkeel_test::{Rule, TestCluster};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::events::v1::Event;
use serde_json::json;
use tokio::time::Instant;

const WEB: &str = "metadata: {name: web}\nspec: {replicas: 2, image: 'shop:1'}";

/// A cluster with the operator, and the directory of its DNS records.
struct Fixture {
    cluster: TestCluster,
    zone: Zone,
    dir: PathBuf,
}

impl Fixture {
    async fn start(test: &str) -> Self {
        let mut fixture = Self::without_operator(test).await;
        let manager = fixture.cluster.manager("appservice-operator");
        AppServices { zone: fixture.zone.clone() }.register(&manager).unwrap();
        fixture.cluster.run(&manager);
        fixture
    }

    async fn without_operator(test: &str) -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&dir);
        let zone = Zone::new(&dir).unwrap();
        let cluster = TestCluster::builder().virtual_time(1).start().await;
        cluster.install::<AppService>().await.unwrap();
        Self { cluster, zone, dir }
    }

    async fn create(&self, text: &str) -> Key {
        let app = self.cluster.parse::<AppService>(text);
        self.cluster.client().create(&app).await.unwrap();
        Key::of(&app)
    }

    async fn wait_for_reason(&self, key: &Key, reason: &str) -> Arc<AppService> {
        let has_reason = |app: &AppService| {
            let ready = app.status.as_ref().and_then(|status| status.conditions.get("Ready"));
            ready.is_some_and(|ready| ready.reason == reason)
        };
        self.cluster.eventually::<AppService>(key, has_reason).await
    }

    /// Returns the reason of the `Ready` condition that a reconciled `AppService` reaches.
    fn final_reason(&self) -> &'static str {
        if self.cluster.runs_pods() { "AllReplicasReady" } else { "ReplicasStarting" }
    }

    async fn stop(self) {
        self.cluster.stop().await;
        fs::remove_dir_all(self.dir).unwrap();
    }
}

#[tokio::test]
async fn scenario_completes() {
    let fixture = Fixture::start("scenario").await;
    let environment = Environment {
        client: fixture.cluster.manager("scenario").client().clone(),
        namespace: fixture.cluster.namespace().to_owned(),
        zone: fixture.zone.clone(),
        controllers: fixture.cluster.runs_controllers(),
        kubelets: fixture.cluster.runs_pods(),
    };
    let mut lines = Vec::new();
    let result = scenario::run(&environment, &mut |line| lines.push(line)).await;
    assert!(result.is_ok(), "{}\n{lines:#?}", result.unwrap_err());
    let skipped = lines.iter().filter(|line| matches!(line, Progress::Skipped(_))).count();
    let expected = if environment.kubelets { 0 } else { 2 } + usize::from(!environment.controllers);
    assert_eq!(skipped, expected, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| matches!(line, Progress::Step(_))).count(), 6);
    environment.client.cache().stop().await;
    fixture.stop().await;
}

#[tokio::test]
async fn missing_secret_is_waited_for() {
    let fixture = Fixture::start("secret").await;
    let text = "metadata: {name: web}\nspec: {replicas: 2, image: 'shop:1', secret: keys}";
    let key = fixture.create(text).await;
    fixture.wait_for_reason(&key, "WaitingForSecret").await;
    let live = fixture.cluster.client().live();
    assert!(live.get::<Deployment>(&key).await.unwrap().is_none());

    let secret = fixture.cluster.parse::<Secret>("metadata: {name: keys}\nstringData: {A: b}");
    fixture.cluster.client().create(&secret).await.unwrap();
    let there = Instant::now();
    let created = fixture.cluster.eventually::<Deployment>(&key, |_| true).await;
    assert!(there.elapsed() <= Duration::from_secs(6), "{:?}", there.elapsed());
    let expected = json!({"spec": {"template": {"spec": {"containers": [
        {"envFrom": [{"secretRef": {"name": "keys"}}]}
    ]}}}});
    assert_eq!(evenkeel_test::diff(&expected, &*created), "");
    fixture.stop().await;
}

#[tokio::test]
async fn drift_is_corrected_and_recorded_as_events() {
    let fixture = Fixture::start("drift").await;
    let key = fixture.create(WEB).await;
    // Wait until the rollout is done: drift that an earlier reconcile corrects records no event.
    let rolled_out = |found: &Deployment| {
        let status = found.status.as_ref();
        status.is_some_and(|status| {
            status.observed_generation == found.metadata.generation
                && status.updated_replicas == Some(2)
        })
    };
    let controllers = fixture.cluster.runs_controllers();
    let ready = |found: &Deployment| rolled_out(found) || !controllers;
    fixture.cluster.eventually::<Deployment>(&key, ready).await;
    fixture.wait_for_reason(&key, fixture.final_reason()).await;
    let change = json!({"spec": {"replicas": 7, "template": {"spec": {"containers": [
        {"name": "app", "image": "other:9"}
    ]}}}});
    let client = fixture.cluster.client();
    let write = client.patch::<Deployment>(&key, &Patch::Strategic(change));
    let drifted = write.field_manager("kubectl-edit").await.unwrap();
    let declared = json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [
        {"name": "app", "image": "shop:1"}
    ]}}}});
    let restored = |found: &Deployment| {
        found.metadata.generation > drifted.metadata.generation
            && evenkeel_test::diff(&declared, found).is_empty()
    };
    fixture.cluster.eventually::<Deployment>(&key, restored).await;
    let recorded = |events: &[Arc<Event>]| {
        ["replicas is 7, expected 2", "image is other:9, expected shop:1"].iter().all(|text| {
            events.iter().any(|event| {
                event.reason.as_deref() == Some("DriftDetected")
                    && event.note.as_deref() == Some(text)
            })
        })
    };
    fixture.cluster.eventually_all::<Event>(recorded).await;
    fixture.stop().await;
}

#[tokio::test]
async fn deployment_owned_by_another_is_not_modified() {
    let fixture = Fixture::start("foreign").await;
    let client = fixture.cluster.client();
    let text = "
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: theirs}}
  template:
    metadata: {labels: {app: theirs}}
    spec: {containers: [{name: theirs, image: theirs}]}
";
    let theirs = client.create(&fixture.cluster.parse::<Deployment>(text)).await.unwrap();
    let key = fixture.create(WEB).await;
    let untouched = |found: &Deployment| {
        found.metadata.uid == theirs.metadata.uid
            && found.metadata.generation == theirs.metadata.generation
            && found.metadata.owner_references.is_none()
    };
    fixture.wait_for_reason(&key, "NameTaken").await;
    fixture.cluster.consistently::<Deployment>(&key, Duration::from_secs(5), untouched).await;
    // Once it is deleted, the operator creates its own.
    client.delete(&*theirs).await.unwrap();
    let ours = |found: &Deployment| found.metadata.owner_references.is_some();
    fixture.cluster.eventually::<Deployment>(&key, ours).await;
    fixture.stop().await;
}

#[tokio::test]
async fn failing_cleanup_keeps_the_finalizer() {
    let fixture = Fixture::start("finalizer").await;
    let key = fixture.create(WEB).await;
    fixture.cluster.eventually::<Service>(&key, |_| true).await;
    fixture.cluster.eventually::<AppService>(&key, |app| app.status.is_some()).await;
    let record = fixture.dir.join(host(&key));
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();

    fixture.cluster.client().delete_by_key::<AppService>(&key).await.unwrap();
    let kept = |app: &AppService| app.metadata.deletion_timestamp.is_some();
    fixture.cluster.eventually::<AppService>(&key, kept).await;
    fixture.cluster.consistently::<AppService>(&key, Duration::from_secs(2), kept).await;
    fs::remove_dir(&record).unwrap();
    fixture.cluster.eventually_gone::<AppService>(&key).await;
    fixture.stop().await;
}

#[tokio::test]
async fn webhooks_default_and_validate() {
    let mut fixture = Fixture::without_operator("webhooks").await;
    let manager = fixture.cluster.manager("appservice-operator");
    AppServices { zone: fixture.zone.clone() }.register(&manager).unwrap();
    fixture.cluster.run(&manager);
    manager.wait_until_synced().await.unwrap();
    let client = fixture.cluster.client();
    let app = |spec: &str| fixture.cluster.parse(&format!("metadata: {{name: web}}\nspec: {spec}"));
    let spaces: AppService = app("{replicas: 2, image: 'my shop'}");
    let error = client.create(&spaces).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    let untagged: AppService = app("{replicas: 2, image: 'localhost:5000/shop', secret: keys}");
    let created = client.create(&untagged).await.unwrap();
    assert_eq!(created.spec.image, "localhost:5000/shop:latest");
    let without = json!({"spec": {"secret": null}});
    let removal = client.patch::<AppService>(&Key::of(&untagged), &Patch::Merge(without)).await;
    let error = evenkeel::chain(&removal.unwrap_err());
    assert!(error.contains("spec.secret: Forbidden: may be changed but not removed"), "{error}");
    fixture.stop().await;
}

#[tokio::test]
async fn documented_rbac_rules_are_sufficient() {
    let mut fixture = Fixture::without_operator("permissions").await;
    let keep: &[&str] = &["get", "list", "watch", "create", "patch"];
    let rules = [
        Rule::new("apps.example.com", &["appservices"], &["get", "list", "watch", "patch"]),
        Rule::new("apps.example.com", &["appservices/status"], &["patch"]),
        Rule::new("apps", &["deployments"], keep),
        Rule::new("", &["services"], keep),
        Rule::new("", &["secrets"], &["get"]),
        Rule::new("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    let manager = fixture.cluster.manager_with("appservice-operator", &rules).await;
    AppServices { zone: fixture.zone.clone() }.register(&manager).unwrap();
    fixture.cluster.run(&manager);
    let text = "metadata: {name: web}\nspec: {replicas: 2, image: 'shop:1', secret: keys}";
    let key = fixture.create(text).await;
    fixture.wait_for_reason(&key, "WaitingForSecret").await;
    let secret = fixture.cluster.parse::<Secret>("metadata: {name: keys}");
    fixture.cluster.client().create(&secret).await.unwrap();
    fixture.wait_for_reason(&key, fixture.final_reason()).await;
    fixture.cluster.client().delete_by_key::<AppService>(&key).await.unwrap();
    fixture.cluster.eventually_gone::<AppService>(&key).await;
    fixture.cluster.assert_least_privilege("appservice-operator");
    fixture.stop().await;
}
