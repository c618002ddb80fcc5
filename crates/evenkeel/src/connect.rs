//! Connections to a cluster, with detection of dead connections and reload of credentials.
//!
//! The client of `kube` keeps connections without TCP keepalive, and never reads the kubeconfig
//! again. Here sockets use TCP keepalive, idle connections are closed soon, and the configuration
//! is read again after a connection error, a TLS error or a 401, so that a cluster with a new
//! certificate authority is reachable once the kubeconfig is updated.

#[cfg(test)]
mod tests;

mod config;

mod observe;

mod resolve;

mod transport;

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::util::BoxCloneService;
use tower::{Layer as _, Service, ServiceExt as _};

use self::config::Access;
pub use self::config::ConfigError;
pub(crate) use self::config::{connect, uses_service_account};
pub(crate) use self::observe::Observer;
use self::resolve::TimedResolver;
pub(crate) use self::transport::Transport;

use crate::error::{BoxError, causes, chain};
use crate::fence::{FencedBody, Term};

/// The idle time before the first TCP keepalive probe.
const KEEPALIVE_TIME: Duration = Duration::from_secs(15);

/// The interval and number of keepalive probes before the connection is closed.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// The TCP user timeout: how long sent data may be unacknowledged.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);

/// The idle timeout of pooled connections, so that a dead one is not reused.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// The minimum interval between reloads of the configuration.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) type Stack = BoxCloneService<Request<Body>, Response<ResponseBody>, BoxError>;

/// A response body.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Connects to the cluster of `access`.
async fn open(access: Access, observer: Observer) -> Result<Transport, ConfigError> {
    let config = access.load().await?;
    let observer = observer.with_host(config.cluster_url.authority().map_or("", |it| it.as_str()));
    let failed = |error: kube::Error| ConfigError::Client(error.into());
    let namespace = config.default_namespace.clone();
    match stack(&config, &observer).map_err(failed)? {
        Some(stack) => Ok(Transport::direct(Reloading::new(access, stack, observer), &namespace)),
        None => {
            let client = kube::Client::try_from(config).map_err(failed)?;
            Ok(Transport::observed(client, observer))
        }
    }
}

/// Creates the service of `config`; `None` if only `kube` supports the configuration.
fn stack(config: &kube::Config, observer: &Observer) -> Result<Option<Stack>, kube::Error> {
    if config.proxy_url.is_some() {
        return Ok(None);
    }
    let mut connector = HttpConnector::new_with_resolver(TimedResolver::new(observer.clone()));
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_keepalive(Some(KEEPALIVE_TIME));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    connector.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT));
    #[cfg(feature = "rustls-tls")]
    let connector = config.rustls_https_connector_with_connector(connector)?;
    #[cfg(all(not(feature = "rustls-tls"), feature = "openssl-tls"))]
    let connector = config.openssl_https_connector_with_connector(connector)?;
    #[cfg(not(any(feature = "rustls-tls", feature = "openssl-tls")))]
    if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
        return Ok(None);
    }
    let client: hyper_util::client::legacy::Client<_, FencedBody<Body>> =
        hyper_util::client::legacy::Builder::new(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .build(connector);
    let client = client
        .map_request(fenced)
        .map_err(BoxError::from)
        .map_response(|response| response.map(|body| body.map_err(BoxError::from).boxed_unsync()));
    let client = config.extra_headers_layer()?.layer(client);
    let base = config.base_uri_layer();
    Ok(Some(match config.auth_layer()? {
        Some(auth) => BoxCloneService::new(base.layer(auth.layer(client))),
        None => BoxCloneService::new(base.layer(client)),
    }))
}

/// Fences the body of a request of leader-bound work.
fn fenced(mut request: Request<Body>) -> Request<FencedBody<Body>> {
    let term = request.extensions_mut().remove::<Term>();
    request.map(|body| FencedBody::new(body, term))
}

/// Returns a service for requests to another server than the API server, by `endpoint`'s scheme and
/// authority.
#[cfg(feature = "otel")]
pub(crate) fn service_of(endpoint: &http::Uri, observer: &Observer) -> Result<Stack, crate::Error> {
    let mut parts = endpoint.clone().into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    let config = kube::Config::new(http::Uri::from_parts(parts)?);
    Ok(stack(&config, observer)?.ok_or("no TLS: enable a TLS feature of evenkeel")?)
}

/// A service that reloads its configuration.
#[derive(Clone)]
struct Reloading(Arc<Shared>);

struct Shared {
    access: Access,
    current: Mutex<Current>,
    /// When the configuration was last reloaded; locked during a reload.
    read: tokio::sync::Mutex<Option<Instant>>,
    observer: Observer,
}

#[derive(Clone)]
struct Current {
    stack: Stack,
    /// The number of reloads.
    number: u64,
}

impl Service<Request<Body>> for Reloading {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.send(request).await })
    }
}

impl Reloading {
    /// Sends a request, and reloads the configuration if the response shows that it is outdated.
    async fn send(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        self.0.observer.send(request, |request| self.send_now(request)).await
    }

    async fn send_now(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let Current { stack, number } = self.0.current.lock().clone();
        let response = stack.oneshot(request).await;
        let outdated = match &response {
            Ok(response) => response.status() == StatusCode::UNAUTHORIZED,
            Err(error) => is_connection(&**error),
        };
        if outdated {
            self.0.reload(number).await;
        }
        response
    }
}

impl Reloading {
    /// Returns a service with its own connections.
    async fn separate(&self) -> Result<Option<Self>, ConfigError> {
        let access = self.0.access.clone();
        let config = access.load().await?;
        let observer = self.0.observer.unlimited();
        let stack = stack(&config, &observer).map_err(|error| ConfigError::Client(error.into()))?;
        Ok(stack.map(|stack| Self::new(access, stack, observer)))
    }

    fn new(access: Access, stack: Stack, observer: Observer) -> Self {
        let current = Mutex::new(Current { stack, number: 0 });
        Self(Arc::new(Shared { access, current, read: <_>::default(), observer }))
    }
}

impl Shared {
    /// Reloads the configuration, unless it was reloaded after `number` or within the interval.
    async fn reload(&self, number: u64) {
        let mut read = self.read.lock().await;
        let recent = read.is_some_and(|last| last.elapsed() < RELOAD_INTERVAL);
        if recent || self.current.lock().number != number {
            return;
        }
        *read = Some(Instant::now());
        let stack = match self.access.load().await {
            Ok(config) => {
                stack(&config, &self.observer).map_err(|error| ConfigError::Client(error.into()))
            }
            Err(error) => Err(error),
        };
        match stack {
            Ok(Some(stack)) => {
                tracing::debug!("cluster configuration reloaded");
                *self.current.lock() = Current { stack, number: number + 1 };
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(error = chain(&error), "failed to reload cluster configuration");
            }
        }
    }
}

/// Returns whether the connection or TLS failed.
fn is_connection(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|cause| {
        let connect = cause
            .downcast_ref::<hyper_util::client::legacy::Error>()
            .is_some_and(hyper_util::client::legacy::Error::is_connect);
        // A client certificate is rejected only after the connection is established.
        let tls = cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::InvalidData);
        connect || tls
    })
}
