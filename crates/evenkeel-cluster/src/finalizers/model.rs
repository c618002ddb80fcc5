//! Deletion always completes: random runs of every controller that uses a finalizer.
//!
//! In each run objects are created, changed and deleted, pods take any phase in any order, the
//! controllers' requests fail in every way, and the controllers are stopped and restarted at any
//! point. Then the faults end, everything is deleted, and no object may remain terminating.
//!
//! `EVENKEEL_SEEDS=100..200` replaces the few default seeds;
//! `cargo run -p xtask -- campaign finalizers` sets it.

mod jobs;

mod namespaces;

mod owners;

mod volumes;

use std::fmt::Debug;
use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use evenkeel::manager::RunError;
use evenkeel::{Clock, Manager, Object};
use evenkeel_apiserver::ApiServer;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::testing::faults::{FaultyService, Random};
use crate::{ClusterOptions, run_controllers};

/// The namespaces of all objects.
const NAMESPACES: [&str; 2] = ["a", "b"];

/// The timeout of deletion once the faults have ended, in virtual time.
const TIMEOUT: Duration = Duration::from_secs(2 * 3600);

/// Returns the seeds of this run: a few, unless the environment sets them.
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_SEEDS") else { return 1..4 };
    let parsed = text.split_once("..").map(|(from, to)| (from.parse(), to.parse()));
    let Some((Ok(from), Ok(to))) = parsed else {
        panic!("EVENKEEL_SEEDS is not a range FROM..TO: {text}")
    };
    from..to
}

/// Runs a model with each seed, and reports the seed that fails.
async fn run<F: Future<Output = Result<(), String>>>(model: impl Fn(u64) -> F) {
    for seed in seeds() {
        if let Err(error) = model(seed).await {
            panic!("seed {seed}: {error}");
        }
    }
}

/// A server, controllers whose requests fail at random, and a client without faults.
struct Model {
    random: Random,
    client: kube::Client,
    faulty: FaultyService,
    options: ClusterOptions,
    controllers: Option<(Manager, JoinSet<Result<(), RunError>>)>,
    made: usize,
    server: ApiServer,
}

impl Model {
    /// Starts these controllers and takes random steps with pauses in between.
    async fn after(seed: u64, only: &[&str], steps: usize, step: impl AsyncFn(&mut Self)) -> Self {
        let mut model = Self::start(seed, only).await;
        for _ in 0..steps {
            model.pause().await;
            step(&mut model).await;
        }
        model
    }

    /// Starts these controllers with empty namespaces.
    async fn start(seed: u64, only: &[&str]) -> Self {
        let server = ApiServer::builder().seed(seed).build().await.unwrap();
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let options = ClusterOptions {
            seed: Some(seed),
            clock: Some(clock),
            ..crate::testing::options(only)
        };
        let client = kube::Client::new(server.service(), "default");
        let faulty = FaultyService::new(server.service(), seed);
        let random = Random::new(!seed);
        let mut model =
            Self { random, client, faulty, options, controllers: None, made: 0, server };
        for name in NAMESPACES {
            let namespace = json!({"metadata": {"name": name}});
            model.create_in(&Api::<Namespace>::all(model.client.clone()), namespace).await;
        }
        model.restart();
        model
    }

    /// Aborts the controllers and restarts them.
    fn restart(&mut self) {
        // Dropping the tasks aborts them.
        self.controllers = None;
        let started = run_controllers(self.faulty.client(), &self.options);
        self.controllers = Some(started.unwrap());
    }

    /// Advances time, mostly by little.
    async fn pause(&self) {
        let most = [1, 100, 5_000, 60_000][self.random.below(4)];
        tokio::time::sleep(self.random.time(Duration::from_millis(most))).await;
    }

    fn chance(&self, one_in: usize) -> bool {
        self.random.below(one_in) == 0
    }

    fn namespace(&self) -> &'static str {
        NAMESPACES[self.random.below(NAMESPACES.len())]
    }

    fn name(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}-{}", self.made)
    }

    fn api<K: Object + Resource<Scope = NamespaceResourceScope>>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn list<K: Object>(&self) -> Vec<K> {
        Api::<K>::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    /// Returns a random object of a type.
    async fn any<K: Object>(&self) -> Option<K> {
        let all = self.list::<K>().await;
        self.random.pick(&all).cloned()
    }

    async fn create<K: Object + Resource<Scope = NamespaceResourceScope>>(&self, object: Value) {
        let api = self.api::<K>(self.namespace());
        self.create_in(&api, object).await;
    }

    async fn create_in<K: Object>(&self, api: &Api<K>, object: Value) {
        let object: K = serde_json::from_value(object).unwrap();
        accept(api.create(&PostParams::default(), &object).await);
    }

    /// Returns the API of the object's namespace.
    fn of<K: Object + Resource<Scope = NamespaceResourceScope>>(&self, object: &K) -> Api<K> {
        self.api(&object.namespace().unwrap_or_default())
    }

    async fn patch<K: Object>(&self, api: &Api<K>, object: &K, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        accept(api.patch(&object.name_any(), &params, &patch).await);
    }

    async fn delete<K: Object>(&self, api: &Api<K>, object: &K) {
        let policies = [
            None,
            Some(PropagationPolicy::Background),
            Some(PropagationPolicy::Foreground),
            Some(PropagationPolicy::Orphan),
        ];
        let propagation_policy = policies[self.random.below(policies.len())].clone();
        let params = DeleteParams { propagation_policy, ..DeleteParams::default() };
        accept(api.delete(&object.name_any(), &params).await);
    }

    /// Changes an object in a way that affects only its resourceVersion.
    async fn touch<K: Object>(&self, api: &Api<K>, object: &K) {
        let annotations = json!({"touched": self.random.below(1000).to_string()});
        self.patch(api, object, json!({"metadata": {"annotations": annotations}})).await;
    }

    /// Sets a random phase of a pod.
    async fn set_phase(&self, pod: &Pod, phases: &[&str]) {
        let phase = self.random.pick(phases).unwrap();
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        let pods = self.of(pod);
        accept(pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await);
    }

    /// Acts as the kubelet for terminating pods: sets a terminal phase, then deletes them.
    async fn end_pods(&self) {
        for pod in self.list::<Pod>().await {
            let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            if pod.metadata.deletion_timestamp.is_none() || !bound {
                continue;
            }
            self.set_phase(&pod, &["Succeeded", "Failed"]).await;
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            accept(self.of(&pod).delete(&pod.name_any(), &now).await);
        }
    }

    async fn delete_namespaces(&self) {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        for name in NAMESPACES {
            accept(namespaces.delete(name, &DeleteParams::default()).await);
        }
    }

    /// Stops the faults, and acts as a kubelet every 20 seconds until `left` returns no objects.
    async fn wait_until_deleted<F: Future<Output = Vec<String>>>(
        mut self,
        left: impl Fn(kube::Client) -> F,
    ) -> Result<(), String> {
        self.faulty.end();
        let Some((_manager, mut running)) = self.controllers.take() else {
            return Err("not started".to_owned());
        };
        let begin = tokio::time::Instant::now();
        loop {
            self.end_pods().await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            if let Some(ended) = running.try_join_next() {
                return Err(format!("the controllers have ended: {ended:?}"));
            }
            let left = left(self.client.clone()).await;
            if left.is_empty() {
                self.server.stop();
                return Ok(());
            }
            if begin.elapsed() > TIMEOUT {
                return Err(format!("still being deleted: {left:#?}"));
            }
        }
    }
}

/// Returns the terminating objects of a type.
async fn terminating<K: Object>(client: kube::Client) -> Vec<String> {
    let all = Api::<K>::all(client).list(&ListParams::default()).await.unwrap().items;
    let terminating = all.iter().filter(|object| object.meta().deletion_timestamp.is_some());
    terminating.map(|object| serde_json::to_string(object).unwrap_or_default()).collect()
}

/// Accepts rejected requests, since the model does not check beforehand, but no other errors.
fn accept<T: Debug>(result: kube::Result<T>) {
    match result {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {}
        Err(error) => panic!("{error}"),
    }
}
