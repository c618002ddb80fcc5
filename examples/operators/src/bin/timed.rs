//! Requeues periodically: a `Mirror` copies a file outside of the cluster into a ConfigMap.
//!
//! The file is not watched, so it is read at an interval: each reconcile requeues the object.
//! Changes in the cluster, of the spec or of the ConfigMap, are reconciled immediately.
//!
//! `cargo run -p operators --bin timed -- --kubeconfig FILE` mirrors files of the directory
//! `mirrored`.

use std::io::ErrorKind;
use std::path::PathBuf;

use evenkeel::prelude::*;
use k8s_openapi::api::core::v1::ConfigMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file to mirror into a ConfigMap.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "files.example.com", version = "v1", kind = "Mirror", namespaced)]
#[kube(status = "MirrorStatus")]
#[serde(rename_all = "camelCase")]
struct MirrorSpec {
    /// The name of a file in the operator's directory. Paths are not allowed: users who can create
    /// a `Mirror` must not be able to read every file that the operator can read.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$"))]
    file: String,
    /// The interval in seconds. Signed, because OpenAPI has no format for unsigned numbers.
    #[schemars(range(min = 1))]
    every_seconds: i32,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct MirrorStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
}

struct Mirrors {
    dir: PathBuf,
}

impl Reconciler for Mirrors {
    type Object = Mirror;

    async fn reconcile(&self, cx: &Context<Mirror>) -> Result<Action> {
        let Some(mirror) = cx.object() else { return Ok(Action::done()) };
        let MirrorSpec { file, every_seconds } = &mirror.spec;
        let fresh = match std::fs::read_to_string(self.dir.join(file)) {
            Ok(content) => {
                cx.apply_owned(config_map_for(&mirror, content)).force().await?;
                Condition::new("Fresh", true, "Mirrored", &format!("mirrored {file}"))
            }
            // The ConfigMap keeps the last content.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Condition::new("Fresh", false, "NoSuchFile", &format!("file {file} does not exist"))
            }
            Err(error) => return Err(error.into()),
        };
        cx.status(&mirror).condition(fresh).write().await?;
        Ok(Action::requeue_after(Duration::from_secs(every_seconds.unsigned_abs().into())))
    }
}

fn config_map_for(mirror: &Mirror, content: String) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(mirror.name_any());
    map.data = Some([(mirror.spec.file.clone(), content)].into());
    map
}

fn register(manager: &Manager, dir: PathBuf) -> Result<(), RegisterError> {
    manager.controller(Mirrors { dir }).owns::<ConfigMap>().register()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = Manager::from_args("timed").await?;
    manager.client().install_crd::<Mirror>().await?;
    register(&manager, "mirrored".into())?;
    Ok(manager.run().await?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use evenkeel_test::TestCluster;
    use tokio::time::Instant;

    use super::*;

    const MIRROR: &str = "metadata: {name: motd}\nspec: {file: motd.txt, everySeconds: 3}";

    async fn cluster(test: &str) -> (TestCluster, PathBuf) {
        let name = format!("evenkeel-timed-{}-{test}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        let mut cluster = TestCluster::builder().virtual_time(1).start().await;
        cluster.install::<Mirror>().await.unwrap();
        let manager = cluster.manager("timed");
        register(&manager, dir.clone()).unwrap();
        cluster.run(&manager);
        (cluster, dir)
    }

    fn has_text<'a>(text: &'a str) -> impl Fn(&ConfigMap) -> bool + 'a {
        move |map| map.data.as_ref().is_some_and(|data| data["motd.txt"] == text)
    }

    #[tokio::test]
    async fn external_change_is_mirrored_at_the_next_requeue() {
        let (cluster, dir) = cluster("change").await;
        fs::write(dir.join("motd.txt"), "hello").unwrap();
        let mirror = cluster.parse::<Mirror>(MIRROR);
        cluster.client().create(&mirror).await.unwrap();
        let key = Key::of(&mirror);
        cluster.eventually::<ConfigMap>(&key, has_text("hello")).await;
        for text in ["good day", "good night"] {
            fs::write(dir.join("motd.txt"), text).unwrap();
            let written = Instant::now();
            cluster.eventually::<ConfigMap>(&key, has_text(text)).await;
            assert!(written.elapsed() < Duration::from_secs(5), "{:?}", written.elapsed());
        }
        // A deleted ConfigMap is recreated without waiting for the interval.
        let map = cluster.client().live().get::<ConfigMap>(&key).await.unwrap().unwrap();
        let deleted = Instant::now();
        cluster.client().delete(&map).await.unwrap();
        let again = |found: &ConfigMap| found.metadata.uid != map.metadata.uid;
        cluster.eventually::<ConfigMap>(&key, again).await;
        assert!(deleted.elapsed() < Duration::from_secs(3), "{:?}", deleted.elapsed());
        cluster.stop().await;
        fs::remove_dir_all(dir).unwrap();
    }

    #[tokio::test]
    async fn missing_file_is_reported_and_retried() {
        let (cluster, dir) = cluster("missing").await;
        let mirror = cluster.parse::<Mirror>(MIRROR);
        cluster.client().create(&mirror).await.unwrap();
        let key = Key::of(&mirror);
        let reason = |mirror: &Mirror| {
            let fresh = mirror.status.as_ref()?.conditions.get("Fresh")?;
            Some(fresh.reason.clone())
        };
        let missing = |mirror: &Mirror| reason(mirror).as_deref() == Some("NoSuchFile");
        cluster.eventually::<Mirror>(&key, missing).await;
        fs::write(dir.join("motd.txt"), "hello").unwrap();
        let mirrored = |mirror: &Mirror| reason(mirror).as_deref() == Some("Mirrored");
        cluster.eventually::<Mirror>(&key, mirrored).await;
        cluster.eventually::<ConfigMap>(&key, has_text("hello")).await;
        cluster.stop().await;
        fs::remove_dir_all(dir).unwrap();
    }

    #[tokio::test]
    async fn schema_rejects_paths() {
        let (cluster, dir) = cluster("path").await;
        for file in ["../secret", "/etc/passwd", ".."] {
            let text = format!("metadata: {{name: x}}\nspec: {{file: {file}, everySeconds: 3}}");
            let mirror = cluster.parse::<Mirror>(&text);
            let error = cluster.client().create(&mirror).await.unwrap_err();
            assert!(error.is_invalid(), "{file}: {error}");
        }
        cluster.stop().await;
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn timed_survives_faults() {
        let mirror = |name: &str, file: &str| {
            format!(
                "{{apiVersion: files.example.com/v1, kind: Mirror, metadata: {{name: {name}}}, \
                 spec: {{file: {file}, everySeconds: 3}}}}"
            )
        };
        evenkeel_sim::operator("timed", |manager| {
            register(manager, env!("CARGO_MANIFEST_DIR").into())
        })
        .install::<Mirror>()
        .sample(&mirror("manifest", "Cargo.toml"))
        .sample(&mirror("absent", "absent.txt"))
        .patch::<Mirror>("manifest", serde_json::json!({"spec": {"everySeconds": 5}}))
        .check();
    }
}
