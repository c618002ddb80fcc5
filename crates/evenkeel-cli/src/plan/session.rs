//! The embedded API server with the copy, and the operator that runs on it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::Context as _;
use evenkeel_apiserver::audit::{self, Policy};
use evenkeel_apiserver::{ApiServer, ServerHandle};
use evenkeel_cluster::Cluster;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::activity::{Activity, Idle};
use super::changes::{self, Change, Id, Request, State};
use super::copy;
use super::redact::Redactor;
use crate::manifests::model::Model;
use crate::manifests::settings::Settings;
use crate::operator::socket::{self, Operator};
use crate::output::progress;
use crate::process::Running;
use crate::target::Connection;
use crate::{account, apply};

/// The time between two checks of the operator.
const INTERVAL: Duration = Duration::from_millis(50);

/// The number of requests that are kept between two checks.
const REQUESTS: usize = 100_000;

/// How a run ended.
pub(super) enum End {
    /// The operator was idle.
    Idle,
    /// The operator was busy, or not ready for these reasons.
    Busy(Vec<String>),
    /// The operator exited.
    Exited(ExitStatus),
}

/// A copy of a cluster and an operator.
pub(super) struct Session {
    name: String,
    cluster: Cluster,
    serving: ServerHandle,
    /// The state that the operator starts with.
    before: State,
    audit: audit::Receiver,
    requests: Vec<Request>,
    /// Objects that the operator writes because it runs outside of the cluster.
    ignored: BTreeSet<Id>,
    socket: PathBuf,
    credentials: PathBuf,
    operator: Option<Running>,
}

impl Session {
    /// Starts an API server with objects, and prepares it for the operator: its CRDs, its service
    /// account and its permissions.
    ///
    /// # Errors
    /// If the server rejects one of them.
    pub(super) async fn start(
        objects: Vec<Value>,
        model: &Model,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let user = format!("system:serviceaccount:{}:{}", settings.namespace, model.name);
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [
                {"level": "Metadata", "users": [user], "verbs": changes::WRITES},
                {"level": "None"},
            ],
        });
        let (sink, audit) = audit::channel(REQUESTS);
        let builder =
            ApiServer::builder().rbac().audit(Policy::from_yaml(&policy.to_string())?, sink);
        let server = builder.load(objects).build().await.context("cannot load the copy")?;
        let cluster = Cluster::api_only(server);
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let serving = cluster.server().serve(address).await.context("cannot listen")?;
        let admin = Connection {
            client: cluster.client(),
            namespace: "default".to_owned(),
            context: "copy".to_owned(),
            url: serving.url(),
        };
        let report = |line: &str| progress(&format!("In the copy: {line}"));
        apply::apply_with(&admin, &model.crds, report).await?;
        account::prepare(&admin, model, settings).await?;
        let kubeconfig = account::kubeconfig(&admin, serving.kubeconfig(), model).await?;
        let socket = socket::path(&model.name)?;
        let credentials = socket.with_extension("kubeconfig");
        evenkeel_pki::kubeconfig::write_atomically(&credentials, kubeconfig.as_bytes(), 0o600)?;
        let before = State::of(cluster.server());
        Ok(Self {
            name: model.name.clone(),
            cluster,
            serving,
            before,
            audit,
            requests: Vec::new(),
            ignored: ignored(model),
            socket,
            credentials,
            operator: None,
        })
    }

    /// Runs the operator until it is idle, but not longer than `deadline`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) async fn run(
        &mut self,
        executable: &Path,
        arguments: &[String],
        deadline: Duration,
    ) -> anyhow::Result<End> {
        let mut command = Command::new(executable);
        command.args(arguments).env("KUBECONFIG", &self.credentials);
        command.env(socket::VARIABLE, &self.socket).env("EVENKEEL_DEVELOPMENT", "1");
        // Without these variables no client finds the cluster of a pod.
        command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBERNETES_SERVICE_PORT");
        if std::env::var_os("RUST_LOG").is_none() {
            command.env("RUST_LOG", "error");
        }
        self.operator = Some(Running::start_operator(&mut command)?);
        let started = Instant::now();
        let mut idle = Idle::default();
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.collect();
            if let Some(status) = self.operator.as_mut().and_then(Running::ended) {
                return Ok(End::Exited(status));
            }
            let operator = Operator::at(&self.name, self.socket.clone());
            let activity = tokio::task::spawn_blocking(move || Activity::of(&operator)).await?;
            if idle.is_over(&activity, self.requests.len(), Instant::now()) {
                return Ok(End::Idle);
            }
            if started.elapsed() >= deadline {
                return Ok(End::Busy(activity.problems));
            }
        }
    }

    fn collect(&mut self) {
        while let Some(event) = self.audit.try_next() {
            self.requests.extend(Request::of(&event));
        }
    }

    /// Returns what the operator wrote, without values of Secrets.
    pub(super) fn changes(&mut self, redactor: &Redactor) -> Vec<Change> {
        self.collect();
        let after = State::of(self.cluster.server());
        let mut changes = changes::between(&self.before, &after, &self.requests);
        changes.retain(|change| !self.ignored.contains(&change.id));
        for object in changes.iter_mut().flat_map(|it| [&mut it.before, &mut it.after]).flatten() {
            redactor.redact_printed(object);
        }
        changes
    }

    /// Returns the objects whose last reconcile failed, with the error.
    pub(super) fn failures(&self) -> Vec<String> {
        let operator = Operator::at(&self.name, self.socket.clone());
        // An operator that has ended has no records.
        let records = operator.request(&json!({"method": "records"})).unwrap_or_default();
        let mut last = BTreeMap::new();
        for record in &records {
            let text =
                |pointer| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let object = match text("/object/namespace") {
                "" => text("/object/name").to_owned(),
                namespace => format!("{namespace}/{}", text("/object/name")),
            };
            let key = (text("/controller"), text("/kind"), object);
            last.insert(key, text("/error"));
        }
        let failed = last.into_iter().filter(|(_, error)| !error.is_empty());
        failed.map(|((_, kind, object), error)| format!("{kind} {object}: {error}")).collect()
    }

    /// Stops the operator and the API server.
    pub(super) async fn stop(self) {
        if let Some(operator) = self.operator {
            operator.stop().await;
        }
        // An error means that it is deleted already.
        let _ = std::fs::remove_file(&self.credentials);
        self.cluster.stop().await;
        self.serving.stop().await;
    }
}

/// Returns the objects with which the operator serves its webhooks outside of a cluster: in a
/// cluster they are part of its manifests.
fn ignored(model: &Model) -> BTreeSet<Id> {
    let Some(webhooks) = &model.webhooks else { return BTreeSet::new() };
    let (namespace, name) = copy::own_secret(model);
    let mut ignored = BTreeSet::from([Id::new("secrets", &namespace, &name)]);
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for object in &webhooks.configurations {
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let resource = format!("{kind}s.admissionregistration.k8s.io");
        ignored.insert(Id::new(&resource, "", &name(object)));
    }
    for crd in &model.crds {
        ignored.insert(Id::new("customresourcedefinitions.apiextensions.k8s.io", "", &name(crd)));
    }
    ignored
}
