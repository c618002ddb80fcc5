//! Secret values appear in nothing that the runtime emits: logs, errors, events, metrics, journal.
//!
//! Values are planted in Secrets, tokens and kubeconfigs; everything emitted is collected at the
//! most verbose level and searched for them, as text, in base64 and as a list of bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use evenkeel::client::Patch;
use evenkeel::k8s_openapi::ByteString;
use evenkeel::k8s_openapi::api::core::v1::{Event, Secret};
use evenkeel::k8s_openapi::api::events;
use evenkeel::kube::api::ListParams;
use evenkeel::kube::{Api, ResourceExt as _};
use evenkeel::prelude::*;
use evenkeel::{Redacted, chain};
use evenkeel_apiserver::ApiServer;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::harness::{Fault, World, each, key, start, stop, until};

/// Collects log lines.
#[derive(Clone, Default)]
struct Emitted(Arc<Mutex<Vec<u8>>>);

impl io::Write for Emitted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Emitted {
    /// Logs everything of all crates to this, until the guard is dropped.
    fn log_everything(&self) -> tracing::subscriber::DefaultGuard {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn add(&self, text: &str) {
        self.0.lock().extend_from_slice(text.as_bytes());
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }

    fn assert_lacks(&self, canary: &str) {
        let text = self.text();
        let encoded = serde_json::to_value(ByteString(canary.as_bytes().to_vec())).unwrap();
        let bytes = format!("{:?}", canary.as_bytes());
        let forms = [canary, encoded.as_str().unwrap(), bytes.trim_matches(['[', ']'])];
        for form in forms {
            if let Some(place) = text.find(form) {
                let start = text[..place].rfind('\n').map_or(0, |line| line + 1);
                let end = text[place..].find('\n').map_or(text.len(), |end| place + end);
                panic!("{canary} was emitted: {}", &text[start..end]);
            }
        }
    }
}

fn secret(name: &str, value: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.namespace = Some("default".to_owned());
    let value = ByteString(value.as_bytes().to_vec());
    secret.data = Some(BTreeMap::from([("password".to_owned(), value)]));
    secret
}

/// A type that no Secret decodes as.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Numbers {
    data: BTreeMap<String, u32>,
}

#[tokio::test(start_paused = true)]
async fn data_of_secrets_is_emitted_nowhere() {
    const STORED: &str = "canary-stored-7d1f";
    const WRITTEN: &str = "canary-written-93b2";
    let emitted = Emitted::default();
    let _logs = emitted.log_everything();
    let world = World::new().await;
    let api: Api<Secret> = Api::namespaced(world.admin(), "default");
    api.create(&Default::default(), &secret("stored", STORED)).await.unwrap();

    let manager = world.manager();
    let errors = emitted.clone();
    let reconciler = each::<Secret, _, _>(move |key, object, client| {
        let errors = errors.clone();
        async move {
            let Some(stored) = object.filter(|_| key.name() == "stored") else {
                return Ok(Action::done());
            };
            let report = |what: &str, error: &evenkeel::client::Error| {
                errors.add(&format!("{what}: {error} {error:?} {}\n", chain(error)));
            };
            // Writes that succeed, and each kind of failure.
            let mut written = secret("written", WRITTEN);
            client.apply(&written).force().await?;
            written.type_ = Some("changed".to_owned());
            report("immutable", &client.update(&written).await.unwrap_err());
            let mut stale = (*stored).clone();
            stale.metadata.resource_version = Some("1".to_owned());
            stale.string_data = Some([("password".to_owned(), WRITTEN.to_owned())].into());
            report("conflict", &client.update(&stale).await.unwrap_err());
            let patch = Patch::Merge(json!({ "data": { "password": [WRITTEN] } }));
            report("invalid", &client.patch::<Secret>(&key, &patch).await.unwrap_err());
            report("exists", &client.create(&secret("stored", WRITTEN)).await.unwrap_err());
            let numbers = client.live().get::<Secret>(&key).await?;
            let entry = client.peek::<Secret>(&key).await?;
            errors.add(&format!("{:?}\n", numbers.map(|secret| secret.name_any())));
            if let Some(entry) = entry {
                errors.add(&format!("{entry:?} {}\n", entry.decode::<Numbers>().unwrap_err()));
            }
            Err("failed as planned".into())
        }
    });
    let controller = manager
        .controller(reconciler)
        .named("secrets")
        .cached(TypeOptions::new().namespaces(["default"]))
        .register()
        .unwrap();
    let running = start(&manager);
    until(|| controller.reconcile_counts().error >= 2).await;
    world.rule(|request| match request.method().as_str() {
        "PATCH" => Fault::LoseResponse,
        _ => Fault::None,
    });
    until(|| controller.reconcile_counts().error >= 3).await;
    world.rule(|_| Fault::None);
    let recorder = manager.event_recorder("secrets");
    let stored = api.get("stored").await.unwrap();
    recorder.event(&evenkeel::object_reference(&stored), "Seen", "The Secret was seen");
    tokio::time::sleep(Duration::from_secs(5)).await;

    let mut text = manager.metrics().encode();
    for record in controller.journal().records() {
        writeln!(text, "{record} {record:?}").unwrap();
    }
    writeln!(text, "{:?} {:?}", controller.journal().alarms(), manager).unwrap();
    writeln!(text, "{:?} {:?}", manager.readiness(), manager.cache().stats()).unwrap();
    emitted.add(&text);
    let events: Api<Event> = Api::all(world.admin());
    let listed = events.list(&ListParams::default()).await.unwrap();
    assert!(!listed.items.is_empty(), "an event was recorded");
    emitted.add(&serde_json::to_string(&listed).unwrap());
    let events: Api<events::v1::Event> = Api::all(world.admin());
    let listed = events.list(&ListParams::default()).await.unwrap();
    emitted.add(&serde_json::to_string(&listed).unwrap());
    stop(&manager, running).await;

    let text = emitted.text();
    for expected in ["failed as planned", "immutable: ", "conflict: ", "invalid: ", "exists: "] {
        assert!(text.contains(expected), "{expected} is part of what is searched");
    }
    emitted.assert_lacks(STORED);
    emitted.assert_lacks(WRITTEN);
}

#[tokio::test]
async fn credentials_of_a_kubeconfig_are_emitted_nowhere() {
    const TOKEN: &str = "canary-token-51c8";
    let emitted = Emitted::default();
    let _logs = emitted.log_everything();
    let server = ApiServer::builder().seed(1).build().await.unwrap();
    let handle = server.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let folder = std::env::temp_dir().join(format!("evenkeel-canaries-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("kubeconfig");
    let mut config: serde_json::Value = serde_saphyr::from_str(handle.kubeconfig()).unwrap();
    for user in config["users"].as_array_mut().unwrap() {
        user["user"] = json!({ "token": TOKEN });
    }
    std::fs::write(&path, config.to_string()).unwrap();

    let manager = Manager::builder("test").kubeconfig(path.clone()).connect().await.unwrap();
    let unauthorized = manager.client().live().get::<Secret>(&key("any")).await.unwrap_err();
    assert!(unauthorized.is_unauthorized(), "{unauthorized}");
    emitted.add(&format!("{unauthorized} {unauthorized:?} {manager:?} {:?}\n", manager.client()));
    emitted.add(&manager.metrics().encode());
    // A kubeconfig that cannot be used.
    config["clusters"][0]["cluster"]["certificate-authority-data"] = json!(TOKEN);
    std::fs::write(&path, config.to_string()).unwrap();
    let refused = Manager::builder("test").kubeconfig(path).connect().await.unwrap_err();
    emitted.add(&format!("{} {refused:?}\n", chain(&refused)));
    std::fs::remove_dir_all(&folder).unwrap();
    handle.stop().await;
    assert!(emitted.text().contains("Unauthorized"));
    emitted.assert_lacks(TOKEN);
}

#[test]
fn redacted_values_are_not_printed() {
    let token = Redacted::new("canary-redacted".to_owned());
    let emitted = Emitted::default();
    let logs = emitted.log_everything();
    tracing::info!(%token, other = ?token, "logged");
    drop(logs);
    emitted.add(&format!("{token} {token:?} {token:#?} {:?}", Some(&token)));
    emitted.assert_lacks("canary-redacted");
    assert!(emitted.text().contains("token=[redacted]"), "{}", emitted.text());
}
