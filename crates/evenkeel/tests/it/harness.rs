//! The test environment: a server, a client with fault injection, and recording reconcilers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use evenkeel::kube::api::{DeleteParams, ListParams, PostParams};
use evenkeel::kube::client::Body;
use evenkeel::kube::{Api, Client};
use evenkeel::manager::RunError;
use evenkeel::prelude::*;
use evenkeel_apiserver::ApiServer;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower_service::Service;

/// The timeout of waits, in virtual time.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);

/// The fault to inject into a request.
pub(crate) enum Fault {
    None,
    /// Responds with this without sending the request.
    Respond(u16, &'static str),
    /// Sends the request and loses the response.
    LoseResponse,
    /// Sends the request and never responds.
    HangAfterRequest,
    /// Never sends the request and never responds.
    Hang,
    /// Fails to connect.
    Refuse,
}

type Rule = Box<dyn Fn(&Request<Body>) -> Fault + Send + Sync>;

/// A server with fault injection.
#[derive(Clone)]
pub(crate) struct World {
    /// The current server behind the client.
    server: Arc<Mutex<Arc<ApiServer>>>,
    rule: Arc<Mutex<Rule>>,
    seen: Arc<Mutex<Vec<String>>>,
    /// Cancelled to break the open connections.
    connected: Arc<Mutex<CancellationToken>>,
    /// The number of requests and responses of the client under test that are not completed.
    open: Arc<AtomicUsize>,
}

/// Starts a server without ConfigMaps: the tests watch those of all namespaces.
pub(crate) async fn start_server(seed: u64) -> ApiServer {
    let server = ApiServer::builder().seed(seed).build().await.unwrap();
    let client = Client::new(server.service(), "kube-system");
    let maps = Api::<ConfigMap>::default_namespaced(client);
    for map in maps.list(&ListParams::default()).await.unwrap() {
        maps.delete(&map.name_any(), &DeleteParams::default()).await.unwrap();
    }
    server
}

impl World {
    pub(crate) async fn new() -> Self {
        let server = start_server(1).await;
        let rule: Rule = Box::new(|_| Fault::None);
        let rule = Arc::new(Mutex::new(rule));
        let server = Arc::new(Mutex::new(Arc::new(server)));
        let (connected, open) = (Arc::default(), Arc::default());
        Self { server, rule, seen: Arc::default(), connected, open }
    }

    pub(crate) fn server(&self) -> Arc<ApiServer> {
        self.server.lock().clone()
    }

    /// Replaces the running server by an empty one, which ends its watches.
    pub(crate) async fn replace_server(&self) {
        let fresh = Arc::new(start_server(2).await);
        let former = std::mem::replace(&mut *self.server.lock(), fresh);
        former.stop();
    }

    /// Breaks the open connections of the client under test.
    pub(crate) fn break_connections(&self) {
        std::mem::take(&mut *self.connected.lock()).cancel();
    }

    /// Returns the number of requests and responses of the client under test that are not completed.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Sets the fault of each further request.
    pub(crate) fn rule(&self, rule: impl Fn(&Request<Body>) -> Fault + Send + Sync + 'static) {
        *self.rule.lock() = Box::new(rule);
    }

    /// Serves lists but no watch events, so that caches keep their initial state.
    pub(crate) fn freeze(&self) {
        self.rule(Self::frozen);
    }

    /// The rule of a frozen environment.
    pub(crate) fn frozen(request: &Request<Body>) -> Fault {
        match request.uri().query() {
            Some(query) if query.contains("sendInitialEvents") => Fault::Respond(422, "{}"),
            Some(query) if query.contains("watch") => Fault::Hang,
            _ => Fault::None,
        }
    }

    /// Returns the requests of the client under test since the last call, as `METHOD path?query`.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock())
    }

    /// Returns the client under test, to which the rule applies.
    pub(crate) fn client(&self) -> Client {
        Client::new(FaultyService { world: self.clone() }, "default")
    }

    /// Returns a client without faults.
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

/// A running manager.
pub(crate) struct Running(JoinSet<Result<(), RunError>>);

impl Running {
    /// Waits for its result.
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

/// Stops a manager gracefully.
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

/// Waits for the next item.
pub(crate) async fn next<T>(receiver: &mut mpsc::Receiver<T>) -> T {
    timeout(TIMEOUT, receiver.recv())
        .await
        .expect("no item within the timeout")
        .expect("all senders dropped")
}

/// Checks that no item arrives for a minute.
pub(crate) async fn quiet<T: std::fmt::Debug>(receiver: &mut mpsc::Receiver<T>) {
    if let Ok(Some(item)) = timeout(Duration::from_secs(60), receiver.recv()).await {
        panic!("unexpected {item:?}");
    }
}

/// Waits until `holds` returns true, for state without notifications, such as phases and counts. In
/// virtual time: it is called again whenever everything else is idle. Objects are awaited with
/// `client.wait_for`.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let check = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(TIMEOUT, check).await.expect("condition not met within the timeout");
}

/// A reconciler from a function.
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

/// Returns a reconciler that sends the keys it receives and does nothing.
pub(crate) fn recording<K: evenkeel::Object>() -> (impl Reconciler<Object = K>, mpsc::Receiver<Key>)
{
    let (sender, receiver) = mpsc::channel(4096);
    let reconciler = each::<K, _, _>(move |key, _, _| {
        let _ = sender.try_send(key);
        async { Ok(Action::done()) }
    });
    (reconciler, receiver)
}

/// The service of the client under test, with fault injection.
#[derive(Clone)]
struct FaultyService {
    world: World,
}

type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// Counts while it exists.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A response body that breaks off with the connection.
struct Connected {
    body: ResponseBody,
    broken: Pin<Box<WaitForCancellationFutureOwned>>,
    _open: Open,
}

impl http_body::Body for Connected {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.broken.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
}

impl Service<Request<Body>> for FaultyService {
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<ResponseBody>>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.world.seen.lock().push(format!("{} {}", request.method(), request.uri()));
        let fault = (self.world.rule.lock())(&request);
        let mut server = self.world.server().service();
        let open = Open::new(&self.world.open);
        let broken = Box::pin(self.world.connected.lock().clone().cancelled_owned());
        Box::pin(async move {
            let lost = || io::Error::new(io::ErrorKind::ConnectionReset, "lost");
            match fault {
                Fault::None => {}
                Fault::Refuse => return Err(io::ErrorKind::ConnectionRefused.into()),
                Fault::Respond(code, body) => {
                    let body = Full::new(Bytes::from_static(body.as_bytes()));
                    let body = body.map_err(|never| match never {}).boxed_unsync();
                    return Ok(Response::builder().status(code).body(body).unwrap());
                }
                Fault::LoseResponse => {
                    let _ = server.call(request).await;
                    return Err(lost());
                }
                Fault::HangAfterRequest => {
                    let _ = server.call(request).await;
                    return std::future::pending().await;
                }
                Fault::Hang => return std::future::pending().await,
            }
            let Ok(response) = server.call(request).await;
            Ok(response.map(|body| {
                let body = body.map_err(|never| match never {}).boxed_unsync();
                Connected { body, broken, _open: open }.boxed_unsync()
            }))
        })
    }
}
