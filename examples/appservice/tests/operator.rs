//! What the operator promises, on a cluster per test and in virtual time.

#![expect(clippy::unwrap_used, reason = "that is how a test fails")]

use std::fs;
use std::path::PathBuf;

use appservice::dns::{Zone, host};
use appservice::operator::{AppService, AppServices};
use appservice::scenario::{self, Line, Stage};
use evenkeel::client::Patch;
use evenkeel::prelude::*;
use evenkeel_test::{Rule, TestCluster};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::events::v1::Event;
use serde_json::json;
use tokio::time::Instant;

const WEB: &str = "metadata: {name: web}\nspec: {replicas: 2, image: 'shop:1'}";

/// A cluster with the operator on it, and the folder of its records.
struct Bench {
    cluster: TestCluster,
    zone: Zone,
    folder: PathBuf,
}

impl Bench {
    async fn start(test: &str) -> Self {
        let mut bench = Self::without_operator(test).await;
        let manager = bench.cluster.manager("appservice-operator");
        AppServices { zone: bench.zone.clone() }.register(&manager).unwrap();
        bench.cluster.run(&manager);
        bench
    }

    async fn without_operator(test: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&folder);
        let zone = Zone::new(&folder).unwrap();
        let cluster = TestCluster::builder().virtual_time(1).start().await;
        cluster.install::<AppService>().await.unwrap();
        Self { cluster, zone, folder }
    }

    async fn create(&self, text: &str) -> Key {
        let app = self.cluster.parse::<AppService>(text);
        self.cluster.client().create(&app).await.unwrap();
        Key::of(&app)
    }

    async fn stated(&self, key: &Key, reason: &str) -> Arc<AppService> {
        let said = |app: &AppService| {
            let ready = app.status.as_ref().and_then(|status| status.conditions.get("Ready"));
            ready.is_some_and(|ready| ready.reason == reason)
        };
        self.cluster.eventually::<AppService>(key, said).await
    }

    /// The reason that an `AppService` has come to where all is well.
    fn in_the_end(&self) -> &'static str {
        if self.cluster.runs_pods() { "AllReplicasReady" } else { "ReplicasStarting" }
    }

    async fn stop(self) {
        self.cluster.stop().await;
        fs::remove_dir_all(self.folder).unwrap();
    }
}

#[tokio::test]
async fn the_story_is_seen_from_its_beginning_to_its_end() {
    let bench = Bench::start("story").await;
    let stage = Stage {
        client: bench.cluster.manager("story").client().clone(),
        namespace: bench.cluster.namespace().to_owned(),
        zone: bench.zone.clone(),
        controllers: bench.cluster.runs_controllers(),
        kubelets: bench.cluster.runs_pods(),
    };
    let mut lines = Vec::new();
    let played = scenario::play(&stage, &mut |line| lines.push(line)).await;
    assert!(played.is_ok(), "{}\n{lines:#?}", played.unwrap_err());
    let skipped = lines.iter().filter(|line| matches!(line, Line::Skipped(_))).count();
    let unseen = if stage.kubelets { 0 } else { 2 } + usize::from(!stage.controllers);
    assert_eq!(skipped, unseen, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| matches!(line, Line::Did(_))).count(), 6);
    stage.client.cache().stop().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_secret_that_is_missing_is_waited_for() {
    let bench = Bench::start("secret").await;
    let text = "metadata: {name: web}\nspec: {replicas: 2, image: 'shop:1', secret: keys}";
    let key = bench.create(text).await;
    bench.stated(&key, "WaitingForSecret").await;
    let live = bench.cluster.client().live();
    assert!(live.get::<Deployment>(&key).await.unwrap().is_none());

    let secret = bench.cluster.parse::<Secret>("metadata: {name: keys}\nstringData: {A: b}");
    bench.cluster.client().create(&secret).await.unwrap();
    let there = Instant::now();
    let made = bench.cluster.eventually::<Deployment>(&key, |_| true).await;
    assert!(there.elapsed() <= Duration::from_secs(6), "{:?}", there.elapsed());
    let expected = json!({"spec": {"template": {"spec": {"containers": [
        {"envFrom": [{"secretRef": {"name": "keys"}}]}
    ]}}}});
    assert_eq!(evenkeel_test::diff(&expected, &*made), "");
    bench.stop().await;
}

#[tokio::test]
async fn drift_is_mended_and_told() {
    let bench = Bench::start("drift").await;
    let key = bench.create(WEB).await;
    // Once there is nothing else to do: what is mended in passing, before it was seen, is not told.
    let settled = |found: &Deployment| {
        let status = found.status.as_ref();
        status.is_some_and(|status| {
            status.observed_generation == found.metadata.generation
                && status.updated_replicas == Some(2)
        })
    };
    let controllers = bench.cluster.runs_controllers();
    let begun = |found: &Deployment| settled(found) || !controllers;
    bench.cluster.eventually::<Deployment>(&key, begun).await;
    bench.stated(&key, bench.in_the_end()).await;
    let change = json!({"spec": {"replicas": 7, "template": {"spec": {"containers": [
        {"name": "app", "image": "other:9"}
    ]}}}});
    let client = bench.cluster.client();
    let write = client.patch::<Deployment>(&key, &Patch::Strategic(change));
    let drifted = write.field_manager("kubectl-edit").await.unwrap();
    let declared = json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [
        {"name": "app", "image": "shop:1"}
    ]}}}});
    let mended = |found: &Deployment| {
        found.metadata.generation > drifted.metadata.generation
            && evenkeel_test::diff(&declared, found).is_empty()
    };
    bench.cluster.eventually::<Deployment>(&key, mended).await;
    let told = |events: &[Arc<Event>]| {
        ["replicas is 7, declared is 2", "image is other:9, declared is shop:1"].iter().all(
            |text| {
                events.iter().any(|event| {
                    event.reason.as_deref() == Some("DriftDetected")
                        && event.note.as_deref() == Some(text)
                })
            },
        )
    };
    bench.cluster.eventually_all::<Event>(told).await;
    bench.stop().await;
}

#[tokio::test]
async fn what_is_somebody_elses_is_left_alone() {
    let bench = Bench::start("foreign").await;
    let client = bench.cluster.client();
    let text = "
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: theirs}}
  template:
    metadata: {labels: {app: theirs}}
    spec: {containers: [{name: theirs, image: theirs}]}
";
    let theirs = client.create(&bench.cluster.parse::<Deployment>(text)).await.unwrap();
    let key = bench.create(WEB).await;
    let untouched = |found: &Deployment| {
        found.metadata.uid == theirs.metadata.uid
            && found.metadata.generation == theirs.metadata.generation
            && found.metadata.owner_references.is_none()
    };
    bench.stated(&key, "NameTaken").await;
    bench.cluster.consistently::<Deployment>(&key, Duration::from_secs(5), untouched).await;
    // Out of the way, it makes room.
    client.delete(&*theirs).await.unwrap();
    let ours = |found: &Deployment| found.metadata.owner_references.is_some();
    bench.cluster.eventually::<Deployment>(&key, ours).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_record_that_cannot_be_removed_keeps_the_appservice() {
    let bench = Bench::start("finalizer").await;
    let key = bench.create(WEB).await;
    bench.cluster.eventually::<Service>(&key, |_| true).await;
    bench.cluster.eventually::<AppService>(&key, |app| app.status.is_some()).await;
    let record = bench.folder.join(host(&key));
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();

    bench.cluster.client().delete_by_key::<AppService>(&key).await.unwrap();
    let kept = |app: &AppService| app.metadata.deletion_timestamp.is_some();
    bench.cluster.eventually::<AppService>(&key, kept).await;
    bench.cluster.consistently::<AppService>(&key, Duration::from_secs(2), kept).await;
    fs::remove_dir(&record).unwrap();
    bench.cluster.eventually_gone::<AppService>(&key).await;
    bench.stop().await;
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let mut bench = Bench::without_operator("permissions").await;
    let keep: &[&str] = &["get", "list", "watch", "create", "patch"];
    let rules = [
        Rule::new("apps.example.com", &["appservices"], &["get", "list", "watch", "patch"]),
        Rule::new("apps.example.com", &["appservices/status"], &["patch"]),
        Rule::new("apps", &["deployments"], keep),
        Rule::new("", &["services"], keep),
        Rule::new("", &["secrets"], &["get"]),
        Rule::new("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    let manager = bench.cluster.manager_with("appservice-operator", &rules).await;
    AppServices { zone: bench.zone.clone() }.register(&manager).unwrap();
    bench.cluster.run(&manager);
    let text = "metadata: {name: web}\nspec: {replicas: 2, image: 'shop:1', secret: keys}";
    let key = bench.create(text).await;
    bench.stated(&key, "WaitingForSecret").await;
    let secret = bench.cluster.parse::<Secret>("metadata: {name: keys}");
    bench.cluster.client().create(&secret).await.unwrap();
    bench.stated(&key, bench.in_the_end()).await;
    bench.cluster.client().delete_by_key::<AppService>(&key).await.unwrap();
    bench.cluster.eventually_gone::<AppService>(&key).await;
    bench.stop().await;
}
