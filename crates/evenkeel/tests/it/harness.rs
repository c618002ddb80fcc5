//! A server, a client with faults on the way, and a reconciler that tells what it is asked.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use evenkeel::kube::api::PostParams;
use evenkeel::kube::client::Body;
use evenkeel::kube::{Api, Client};
use evenkeel::manager::RunError;
use evenkeel::prelude::*;
use evenkeel_apiserver::ApiServer;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower_service::Service;

/// Longer than anything takes in virtual time, resyncs aside.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// What becomes of a request.
pub(crate) enum Fate {
    Pass,
    /// The server is not asked; this is the answer.
    Answer(u16, &'static str),
    /// The server is asked, and its answer is lost.
    Lose,
    /// The server is asked, and nobody answers.
    Mute,
    /// The server is never asked and nobody answers.
    Hang,
}

type Rule = Box<dyn Fn(&Request<Body>) -> Fate + Send + Sync>;

/// A server that a test can make behave badly.
#[derive(Clone)]
pub(crate) struct World {
    /// The server behind the client's address at present.
    server: Arc<Mutex<Arc<ApiServer>>>,
    rule: Arc<Mutex<Rule>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let server = ApiServer::builder().seed(1).build().await.unwrap();
        let rule: Rule = Box::new(|_| Fate::Pass);
        let rule = Arc::new(Mutex::new(rule));
        let server = Arc::new(Mutex::new(Arc::new(server)));
        Self { server, rule, seen: Arc::default() }
    }

    pub(crate) fn server(&self) -> Arc<ApiServer> {
        self.server.lock().clone()
    }

    /// Puts an empty server in the place of the one that runs, which ends its watches.
    pub(crate) async fn replace_server(&self) {
        let fresh = Arc::new(ApiServer::builder().seed(2).build().await.unwrap());
        let former = std::mem::replace(&mut *self.server.lock(), fresh);
        former.stop();
    }

    /// Decides on every request from now on.
    pub(crate) fn rule(&self, rule: impl Fn(&Request<Body>) -> Fate + Send + Sync + 'static) {
        *self.rule.lock() = Box::new(rule);
    }

    /// Lists are answered, watches never tell anything: caches stay as they begin.
    pub(crate) fn freeze(&self) {
        self.rule(Self::frozen);
    }

    /// What becomes of requests while the world is frozen.
    pub(crate) fn frozen(request: &Request<Body>) -> Fate {
        match request.uri().query() {
            Some(query) if query.contains("sendInitialEvents") => Fate::Answer(422, "{}"),
            Some(query) if query.contains("watch") => Fate::Hang,
            _ => Fate::Pass,
        }
    }

    /// The requests of the client under test since last asked, as `METHOD path?query`.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock())
    }

    /// The client under test: the rule applies to it.
    pub(crate) fn client(&self) -> Client {
        Client::new(Road { world: self.clone() }, "default")
    }

    /// A client that nothing stands in the way of.
    pub(crate) fn admin(&self) -> Client {
        Client::new(self.server().service(), "default")
    }

    pub(crate) fn manager(&self) -> Manager {
        Manager::builder("test").seed(1).build(self.client())
    }

    pub(crate) async fn create_map(&self, name: &str) -> ConfigMap {
        let api: Api<ConfigMap> = Api::namespaced(self.admin(), "default");
        api.create(&PostParams::default(), &map(name)).await.unwrap()
    }
}

/// A manager that runs.
pub(crate) struct Running(JoinSet<Result<(), RunError>>);

impl Running {
    /// How it ended.
    pub(crate) async fn ended(mut self) -> Result<(), RunError> {
        self.0.join_next().await.unwrap().unwrap()
    }
}

/// Runs a manager until it is stopped.
pub(crate) fn start(manager: &Manager) -> Running {
    let mut running = JoinSet::new();
    running.spawn(manager.clone().run_until(std::future::pending()));
    Running(running)
}

/// Ends a manager in order.
pub(crate) async fn stop(manager: &Manager, running: Running) {
    manager.stop();
    running.ended().await.unwrap();
}

pub(crate) fn map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

pub(crate) fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

/// The next item, which must come.
pub(crate) async fn next<T>(receiver: &mut mpsc::Receiver<T>) -> T {
    timeout(PATIENCE, receiver.recv()).await.expect("nothing came").expect("nobody is left")
}

/// Nothing comes for a while.
pub(crate) async fn quiet<T: std::fmt::Debug>(receiver: &mut mpsc::Receiver<T>) {
    if let Ok(Some(item)) = timeout(Duration::from_secs(60), receiver.recv()).await {
        panic!("{item:?} came");
    }
}

/// Waits until `holds`, looking again whenever time has passed.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let check = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, check).await.expect("it never came true");
}

/// A reconciler made of a function.
pub(crate) struct Each<K, F>(F, std::marker::PhantomData<fn() -> K>);

pub(crate) fn each<K, F, Fut>(f: F) -> Each<K, F>
where
    K: evenkeel::Object,
    F: Fn(Key, Option<Arc<K>>, evenkeel::client::Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action>> + Send,
{
    Each(f, std::marker::PhantomData)
}

impl<K, F, Fut> Reconciler for Each<K, F>
where
    K: evenkeel::Object,
    F: Fn(Key, Option<Arc<K>>, evenkeel::client::Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action>> + Send,
{
    type Object = K;

    async fn reconcile(&self, cx: &Context<K>) -> Result<Action> {
        (self.0)(cx.key().clone(), cx.object(), cx.client().clone()).await
    }
}

/// A reconciler that tells which keys it is asked for, and does nothing.
pub(crate) fn telling<K: evenkeel::Object>() -> (impl Reconciler<Object = K>, mpsc::Receiver<Key>) {
    let (sender, receiver) = mpsc::channel(4096);
    let reconciler = each::<K, _, _>(move |key, _, _| {
        let _ = sender.try_send(key);
        async { Ok(Action::done()) }
    });
    (reconciler, receiver)
}

/// The way to the server, with the world's rule on it.
#[derive(Clone)]
struct Road {
    world: World,
}

type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;

impl Service<Request<Body>> for Road {
    type Response = Response<AnswerBody>;
    type Error = std::io::Error;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.world.seen.lock().push(format!("{} {}", request.method(), request.uri()));
        let fate = (self.world.rule.lock())(&request);
        let mut server = self.world.server().service();
        Box::pin(async move {
            let lost = || std::io::Error::new(std::io::ErrorKind::ConnectionReset, "lost");
            match fate {
                Fate::Pass => {}
                Fate::Answer(code, body) => {
                    let body = Full::new(Bytes::from_static(body.as_bytes())).boxed_unsync();
                    return Ok(Response::builder().status(code).body(body).unwrap());
                }
                Fate::Lose => {
                    let _ = server.call(request).await;
                    return Err(lost());
                }
                Fate::Mute => {
                    let _ = server.call(request).await;
                    return std::future::pending().await;
                }
                Fate::Hang => return std::future::pending().await,
            }
            let Ok(answer) = server.call(request).await;
            Ok(answer.map(BodyExt::boxed_unsync))
        })
    }
}
