//! Watches objects it does not own: restarts Deployments when a ConfigMap that they use changes.
//!
//! There is no CRD. A Deployment with the annotation `reloader.example.com/reload: "true"` gets a
//! fingerprint of its ConfigMaps as an annotation in its pod template. When a ConfigMap changes,
//! the fingerprint changes and the Deployment rolls out. An index of Deployments by the ConfigMaps
//! they use maps a changed ConfigMap to its Deployments without a scan.
//!
//! `cargo run -p operators --bin config-reloader -- --kubeconfig FILE`

use evenkeel::BoxError;
use evenkeel::prelude::*;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

/// The annotation of a Deployment that enables the restart.
const RELOAD: &str = "reloader.example.com/reload";
/// The annotation of its pod template with the fingerprint of the ConfigMaps.
const FINGERPRINT: &str = "reloader.example.com/fingerprint";
/// The index of Deployments by the ConfigMaps they use.
const CONFIG_MAP_INDEX: &str = "uses-config-map";

struct Reloader;

impl Reconciler for Reloader {
    type Object = Deployment;

    async fn reconcile(&self, cx: &Context<Deployment>) -> Result<Action> {
        let Some(deployment) = cx.object() else { return Ok(Action::done()) };
        let used = config_maps(&deployment);
        if used.is_empty() {
            return Ok(Action::done());
        }
        let mut fingerprint = Fingerprint::default();
        for key in &used {
            fingerprint.add(key.as_str());
            // A missing ConfigMap is skipped; its creation triggers another reconcile.
            if let Some(map) = cx.client().get::<ConfigMap>(key).await? {
                fingerprint.add(&serde_json::to_string(&(&map.data, &map.binary_data))?);
            }
        }
        let fingerprint = fingerprint.text();
        let template = deployment.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        let present = template.and_then(|meta| meta.annotations.as_ref()?.get(FINGERPRINT));
        if present == Some(&fingerprint) {
            return Ok(Action::done());
        }
        let annotations = json!({ FINGERPRINT: fingerprint });
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        cx.client().patch::<Deployment>(cx.key(), &Patch::Merge(patch)).await?;
        if present.is_some() {
            cx.event("Reloaded", "restarted because a ConfigMap changed");
        }
        Ok(Action::done())
    }
}

/// Returns the ConfigMaps that the Deployment uses as volumes or environment variables, or none if
/// it lacks the annotation.
fn config_maps(deployment: &Deployment) -> Vec<Key> {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let (Some(pod), Some("true")) = (pod, deployment.annotations().get(RELOAD).map(String::as_str))
    else {
        return Vec::new();
    };
    let volumes = pod.volumes.iter().flatten().filter_map(|volume| volume.config_map.as_ref());
    let containers = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    let sources = containers.flat_map(|container| container.env_from.iter().flatten());
    let environments = sources.filter_map(|source| source.config_map_ref.as_ref());
    let names = volumes.map(|volume| &volume.name).chain(environments.map(|source| &source.name));
    let mut keys: Vec<Key> = names.map(|name| Key::of(deployment).sibling(name)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// An FNV-1a hash. It is stored in objects, so it must be the same in every build: the algorithm of the
/// standard library's hasher may change with a release of Rust.
struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    fn add(&mut self, text: &str) {
        // 0xff never occurs in UTF-8 and separates the texts: "a", "b" differs from "ab".
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

fn register(manager: &Manager) -> Result<(), BoxError> {
    manager.index::<Deployment>(CONFIG_MAP_INDEX, |deployment| {
        config_maps(deployment).iter().map(Key::to_string).collect()
    })?;
    manager
        .controller(Reloader)
        .named("config-reloader")
        .filter_object(predicate::generation_changed().or(predicate::annotations_changed()))
        .watches::<ConfigMap>(|map, cx| {
            cx.select::<Deployment>().index(CONFIG_MAP_INDEX, Key::of(map).as_str()).keys()
        })
        .register()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = Manager::from_args("config-reloader").await?;
    register(&manager)?;
    Ok(manager.run().await?)
}

#[cfg(test)]
mod tests {
    use evenkeel_test::TestCluster;

    use super::*;

    const DEPLOYMENT: &str = "
metadata: {name: web, annotations: {reloader.example.com/reload: 'true'}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web, envFrom: [{configMapRef: {name: settings}}]}]
      volumes: [{name: pages, configMap: {name: pages}}]
";

    async fn cluster() -> TestCluster {
        let mut cluster = TestCluster::builder().virtual_time(1).start().await;
        let manager = cluster.manager("config-reloader");
        register(&manager).unwrap();
        cluster.run(&manager);
        cluster
    }

    fn fingerprint(deployment: &Deployment) -> Option<String> {
        let meta = deployment.spec.as_ref()?.template.metadata.as_ref()?;
        meta.annotations.as_ref()?.get(FINGERPRINT).cloned()
    }

    #[tokio::test]
    async fn deployment_rolls_out_when_a_used_config_map_changes() {
        let cluster = cluster().await;
        let client = cluster.client();
        let pages = cluster.parse::<ConfigMap>("metadata: {name: pages}\ndata: {index: hello}");
        client.create(&pages).await.unwrap();
        let web = cluster.parse::<Deployment>(DEPLOYMENT);
        client.create(&web).await.unwrap();
        let key = Key::of(&web);
        let web = cluster.eventually::<Deployment>(&key, |web| fingerprint(web).is_some()).await;
        let first = fingerprint(&web);

        let change = Patch::Merge(json!({"data": {"index": "good day"}}));
        client.patch::<ConfigMap>(&key.sibling("pages"), &change).await.unwrap();
        let web = cluster.eventually::<Deployment>(&key, |web| fingerprint(web) != first).await;
        let second = fingerprint(&web);

        let settings = cluster.parse::<ConfigMap>("metadata: {name: settings}\ndata: {A: b}");
        client.create(&settings).await.unwrap();
        cluster.eventually::<Deployment>(&key, |web| fingerprint(web) != second).await;
        cluster.stop().await;
    }

    #[tokio::test]
    async fn unrelated_config_maps_and_deployments_are_ignored() {
        let cluster = cluster().await;
        let client = cluster.client();
        let web = cluster.parse::<Deployment>(DEPLOYMENT);
        client.create(&web).await.unwrap();
        let mut other = cluster.parse::<Deployment>(DEPLOYMENT);
        other.metadata.name = Some("other".to_owned());
        other.metadata.annotations = None;
        client.create(&other).await.unwrap();
        let key = Key::of(&web);
        let web = cluster.eventually::<Deployment>(&key, |web| fingerprint(web).is_some()).await;
        let before = fingerprint(&web);

        let unused = cluster.parse::<ConfigMap>("metadata: {name: unused}\ndata: {A: b}");
        client.create(&unused).await.unwrap();
        let period = Duration::from_secs(2);
        cluster.consistently::<Deployment>(&key, period, |web| fingerprint(web) == before).await;
        let untouched = |web: &Deployment| fingerprint(web).is_none();
        cluster.eventually::<Deployment>(&key.sibling("other"), untouched).await;
        cluster.stop().await;
    }

    #[test]
    fn fingerprint_separates_texts() {
        let of = |texts: &[&str]| {
            let mut fingerprint = Fingerprint::default();
            texts.iter().for_each(|text| fingerprint.add(text));
            fingerprint.text()
        };
        assert_ne!(of(&["a", "b"]), of(&["ab"]));
        assert_eq!(of(&["a"]), of(&["a"]));
    }

    #[test]
    fn config_reloader_survives_faults() {
        let pages =
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: pages}, data: {index: hello}}";
        let settings =
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {A: b}}";
        evenkeel_sim::operator("config-reloader", register)
            .sample(pages)
            .sample(&format!("apiVersion: apps/v1\nkind: Deployment{DEPLOYMENT}"))
            .patch::<ConfigMap>("pages", json!({"data": {"index": "good day"}}))
            .sample(settings)
            .check();
    }
}
