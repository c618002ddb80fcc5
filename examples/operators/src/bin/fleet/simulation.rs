//! The fleet under simulated faults.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll};

use evenkeel_apiserver::{ApiServer, Service, StoredObject};
use evenkeel_sim::{Application, ApplicationHandle, Oracle};
use futures_util::FutureExt as _;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: motd, \
                   labels: {fleet.example.com/distribute: 'true'}}, data: {text: hello}}";

#[test]
fn fleet_survives_faults() {
    let secret = |name: &str| {
        let labels = format!("{{{KUBECONFIG}: 'true'}}");
        format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, labels: {labels}}}}}")
    };
    evenkeel_sim::operator_with("fleet", Fleet::new, |manager, fleet| {
        register(manager, InFleet(fleet))
    })
    .sample(MAP)
    .sample(&secret("east"))
    .sample(&secret("west"))
    .patch::<ConfigMap>("motd", json!({"data": {"text": "bye"}}))
    .delete::<ConfigMap>("motd")
    .delete::<Secret>("west")
    .disable(Oracle::Leftovers, "a cluster keeps its labels when it is disengaged")
    .check();
}

/// The clusters of the fleet: API servers that outlive crashes of the operator.
struct Fleet {
    servers: BTreeMap<&'static str, ApiServer>,
    /// The last state, and the revisions that it is of.
    state: RefCell<(Vec<u64>, Value)>,
}

impl Fleet {
    fn new() -> Self {
        // In memory, nothing waits.
        let server = |seed| ApiServer::builder().seed(seed).build().now_or_never();
        let servers = [("east", 2), ("west", 3)].map(|(it, seed)| (it, server(seed)));
        let servers = servers.map(|(name, built)| (name, built.unwrap().unwrap()));
        Self { servers: servers.into(), state: RefCell::default() }
    }
}

impl Application for Fleet {
    /// Returns the copies and the labels of the namespaces in each cluster.
    fn state(&self) -> Value {
        let revisions: Vec<u64> = self.servers.values().map(ApiServer::revision).collect();
        let mut state = self.state.borrow_mut();
        if state.0 != revisions {
            let content = |server: &ApiServer| -> BTreeMap<String, Value> {
                server.stored_objects().iter().filter_map(relevant).collect()
            };
            let clusters = self.servers.iter().map(|(name, server)| (name, content(server)));
            *state = (revisions, json!(clusters.collect::<BTreeMap<_, _>>()));
        }
        state.1.clone()
    }
}

/// Returns the name and what the operator writes of an object.
fn relevant(object: &StoredObject) -> Option<(String, Value)> {
    let content: Value = serde_json::from_slice(&object.body).ok()?;
    match &*object.resource {
        "configmaps" => Some((object.name.clone(), content["data"].clone())),
        "namespaces" => Some((object.name.clone(), content["metadata"]["labels"][CLUSTER].clone())),
        _ => None,
    }
}

/// Connects to the cluster with the name of the Secret.
struct InFleet(ApplicationHandle<Fleet>);

impl Connect for InFleet {
    async fn connect(&self, secret: &Secret) -> Result<kube::Client, BoxError> {
        let name = secret.name_any();
        let connect = |fleet: &mut Fleet| fleet.servers.get(&*name).map(ApiServer::service);
        let server = self.0.call("connect", &name, connect).await?.ok_or("no such cluster")?;
        Ok(kube::Client::new(Member { fleet: self.0.clone(), name, server }, "default"))
    }
}

/// Sends requests to a cluster of the fleet. Writes pass the gate, where faults happen.
#[derive(Clone)]
struct Member {
    fleet: ApplicationHandle<Fleet>,
    name: String,
    server: Service,
}

impl tower_service::Service<Request<Body>> for Member {
    type Response = Response<evenkeel_apiserver::Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { fleet, name, mut server } = self.clone();
        Box::pin(async move {
            if request.method() == Method::GET {
                return server.call(request).await.map_err(|never| match never {});
            }
            let (operation, path) = (request.method().to_string(), request.uri().path().to_owned());
            let send = |_: &mut Fleet| server.call(request).now_or_never();
            let sent = fleet.call(&operation, &format!("{name}{path}"), send).await?;
            let response = sent.ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))?;
            response.map_err(|never| match never {})
        })
    }
}
