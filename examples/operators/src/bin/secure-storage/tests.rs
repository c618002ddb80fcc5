//! Tests of the phases, also with provider faults.

use std::io;

use evenkeel_sim::{Application, ApplicationHandle, CallError};
use evenkeel_test::TestCluster;
use http::{Response, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::fake::Fault;

/// Virtual time on the embedded cluster, real time on other back ends.
const IDENTITY_AFTER: Duration = Duration::from_secs(20);

async fn cluster(provider: &FakeProvider) -> TestCluster {
    let builder = TestCluster::builder().virtual_time(1).timeout(Duration::from_secs(120));
    let mut cluster = builder.start().await;
    cluster.install::<SecureStorage>().await.unwrap();
    let manager = cluster.manager("secure-storage");
    register(&manager, Provider::fake(provider)).unwrap();
    cluster.run(&manager);
    cluster
}

async fn create(cluster: &TestCluster, vault: &str) -> Key {
    let text = format!("metadata: {{name: data}}\nspec: {{vault: {vault}, key: mine}}");
    let storage = cluster.parse::<SecureStorage>(&text);
    cluster.client().create(&storage).await.unwrap();
    Key::of(&storage)
}

async fn wait_for_reason(cluster: &TestCluster, key: &Key, reason: &str) -> Arc<SecureStorage> {
    let has_reason = |storage: &SecureStorage| {
        let ready = storage.status.as_ref().and_then(|status| status.conditions.get("Ready"));
        ready.is_some_and(|ready| ready.reason == reason)
    };
    cluster.eventually::<SecureStorage>(key, has_reason).await
}

#[tokio::test]
async fn each_phase_waits_for_the_previous_one() {
    let provider = FakeProvider::new(IDENTITY_AFTER);
    let cluster = cluster(&provider).await;
    let start = Instant::now();
    let key = create(&cluster, "vault").await;
    wait_for_reason(&cluster, &key, "WaitingForIdentity").await;
    assert!(provider.calls().iter().all(|call| call.starts_with("PUT /accounts/")));

    let ready = wait_for_reason(&cluster, &key, "Encrypted").await;
    assert!(start.elapsed() >= RETRY_INTERVAL, "retried after {:?}", start.elapsed());
    let name = key.as_str().replace('/', "-");
    let principal = format!("id-of-{name}");
    assert_eq!(ready.status.as_ref().unwrap().principal.as_ref(), Some(&principal));
    assert_eq!(provider.accounts()[&name].as_deref(), Some("vault/mine"));

    cluster.client().delete_by_key::<SecureStorage>(&key).await.unwrap();
    cluster.eventually_gone::<SecureStorage>(&key).await;
    assert!(provider.accounts().is_empty());
    cluster.stop().await;
}

#[tokio::test]
async fn completed_phases_are_not_repeated() {
    let provider = FakeProvider::new(Duration::ZERO);
    let cluster = cluster(&provider).await;
    let key = create(&cluster, "vault").await;
    wait_for_reason(&cluster, &key, "Encrypted").await;
    let patch = evenkeel::client::Patch::Merge(serde_json::json!({"spec": {"key": "other"}}));
    cluster.client().patch::<SecureStorage>(&key, &patch).await.unwrap();
    let current = |storage: &SecureStorage| {
        storage.status.as_ref().is_some_and(|status| status.observed_generation == Some(2))
    };
    cluster.eventually::<SecureStorage>(&key, current).await;
    let encrypted = provider.calls().iter().filter(|call| call.ends_with("/encryption")).count();
    assert_eq!(encrypted, 2, "once per key: {:?}", provider.calls());
    cluster.stop().await;
}

#[tokio::test]
async fn unavailable_or_busy_provider_is_retried() {
    let provider = FakeProvider::new(Duration::ZERO);
    for fault in [Fault::Down, Fault::Down, Fault::Busy(7)] {
        provider.fail(fault);
    }
    let cluster = cluster(&provider).await;
    let start = Instant::now();
    let key = create(&cluster, "vault").await;
    wait_for_reason(&cluster, &key, "Encrypted").await;
    assert!(start.elapsed() >= Duration::from_secs(7), "{:?}", start.elapsed());
    assert!(start.elapsed() < RETRY_INTERVAL, "{:?}", start.elapsed());

    // The finalizer keeps the object until the account is removed.
    provider.fail(Fault::BusyOnDelete(7));
    let deleted = Instant::now();
    cluster.client().delete_by_key::<SecureStorage>(&key).await.unwrap();
    cluster.eventually_gone::<SecureStorage>(&key).await;
    assert!(deleted.elapsed() >= Duration::from_secs(7), "{:?}", deleted.elapsed());
    assert!(provider.accounts().is_empty());
    cluster.stop().await;
}

#[tokio::test]
async fn rejection_is_reported_in_the_ready_condition() {
    let provider = FakeProvider::new(Duration::ZERO);
    let cluster = cluster(&provider).await;
    let key = create(&cluster, "nowhere").await;
    let storage = wait_for_reason(&cluster, &key, "RejectedByProvider").await;
    let status = storage.status.as_ref().unwrap();
    let message = &status.conditions.get("Ready").unwrap().message;
    assert_eq!(message, "404 Not Found: there is no vault nowhere");
    cluster.stop().await;
}

/// The provider is the application of the simulation: its requests fail and lose their responses.
impl Application for FakeProvider {
    fn state(&self) -> Value {
        json!(self.accounts())
    }
}

/// Returns a client of the provider of a run.
fn simulated(provider: &ApplicationHandle<FakeProvider>) -> Provider {
    let connections: Mutex<JoinSet<()>> = Mutex::default();
    let provider = provider.clone();
    Provider::connected(move || {
        let provider = provider.clone();
        let (near, connection) = fake::accept(move |head, body| {
            let provider = provider.clone();
            async move {
                let operation = format!("{} {}", head.method, head.uri.path());
                let perform = |provider: &mut FakeProvider| provider.respond(&head, &body);
                match provider.call("request", &operation, perform).await {
                    Err(CallError::Rejected(code)) => {
                        let mut response = Response::new(Full::from("rejected"));
                        *response.status_mut() = StatusCode::from_u16(code).unwrap();
                        Ok(response)
                    }
                    called => called.map_err(io::Error::other),
                }
            }
        });
        let mut connections = connections.lock();
        while connections.try_join_next().is_some() {}
        connections.spawn(connection);
        Ok(near)
    })
}

#[test]
fn secure_storage_survives_faults() {
    let identity_after = Duration::from_secs(20);
    evenkeel_sim::operator_with(
        "secure-storage",
        move || FakeProvider::new(identity_after),
        |manager, provider| register(manager, simulated(&provider)),
    )
    .install::<SecureStorage>()
    .sample(
        "{apiVersion: storage.example.com/v1, kind: SecureStorage, metadata: {name: data}, \
         spec: {vault: vault, key: first}}",
    )
    .patch::<SecureStorage>("data", json!({"spec": {"key": "second"}}))
    // A phase that failed is repeated after an interval.
    .quiet(RETRY_INTERVAL * 3)
    .check();
}
