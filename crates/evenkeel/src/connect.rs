//! The way to a cluster: a dead connection is noticed, and changed credentials are read again.
//!
//! `kube`'s own client keeps its connections for ever, as far as TCP is concerned, and the kubeconfig
//! as it was at the start. Here sockets are probed by the system, idle connections are not kept for
//! long, and after a failure to connect, a failure of TLS or a 401 the configuration is read again:
//! a cluster that comes back with another certificate authority is reached as soon as the kubeconfig
//! says so.

#[cfg(test)]
mod tests;

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

pub(crate) use self::transport::Transport;

use crate::error::{BoxError, chain};
use crate::manager::{Access, ConfigError};

/// A connection on which nothing was heard for this long is probed by the system.
const PROBE_AFTER: Duration = Duration::from_secs(15);

/// Then every so often, and it is dead when this many probes were not answered.
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// A connection is dead when what was sent is not acknowledged for this long.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// An unused connection is closed after this long, so that one that died unnoticed is not used again.
const UNUSED: Duration = Duration::from_secs(15);

/// The configuration is read again at most this often.
const PAUSE: Duration = Duration::from_secs(1);

type Stack = BoxCloneService<Request<Body>, Response<Answer>, BoxError>;

/// The body of an answer.
pub(crate) type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// The way to the cluster that `access` leads to.
pub(crate) async fn connect(access: Access) -> Result<Transport, ConfigError> {
    let config = access.load().await?;
    let failed = |error| ConfigError::Client(Box::new(error));
    let namespace = config.default_namespace.clone();
    match stack(&config).map_err(failed)? {
        Some(stack) => {
            let current = Mutex::new(Current { stack, number: 0 });
            let reloading = Reloading(Arc::new(Shared { access, current, read: <_>::default() }));
            Ok(Transport::direct(reloading, namespace))
        }
        None => kube::Client::try_from(config).map(Transport::from).map_err(failed),
    }
}

/// Requests as `config` says; none where only `kube` knows how to connect.
fn stack(config: &kube::Config) -> Result<Option<Stack>, kube::Error> {
    if config.proxy_url.is_some() {
        return Ok(None);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_keepalive(Some(PROBE_AFTER));
    connector.set_keepalive_interval(Some(PROBE_EVERY));
    connector.set_keepalive_retries(Some(PROBES));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    #[cfg(feature = "rustls-tls")]
    let connector = config.rustls_https_connector_with_connector(connector)?;
    #[cfg(all(not(feature = "rustls-tls"), feature = "openssl-tls"))]
    let connector = config.openssl_https_connector_with_connector(connector)?;
    #[cfg(not(any(feature = "rustls-tls", feature = "openssl-tls")))]
    if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
        return Ok(None);
    }
    let client: hyper_util::client::legacy::Client<_, Body> =
        hyper_util::client::legacy::Builder::new(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(UNUSED)
            .build(connector);
    let client = client
        .map_err(BoxError::from)
        .map_response(|answer| answer.map(|body| body.map_err(BoxError::from).boxed_unsync()));
    let client = config.extra_headers_layer()?.layer(client);
    let base = config.base_uri_layer();
    Ok(Some(match config.auth_layer()? {
        Some(auth) => BoxCloneService::new(base.layer(auth.layer(client))),
        None => BoxCloneService::new(base.layer(client)),
    }))
}

/// Sends requests as the configuration said when it was last read.
#[derive(Clone)]
struct Reloading(Arc<Shared>);

struct Shared {
    access: Access,
    current: Mutex<Current>,
    /// When the configuration was last read again; locked while it is.
    read: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Current {
    stack: Stack,
    /// How often the configuration has been read again.
    number: u64,
}

impl Service<Request<Body>> for Reloading {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.send(request).await })
    }
}

impl Reloading {
    /// Sends a request, and reads the configuration again if the answer is that of an outdated one.
    async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let Current { stack, number } = self.0.current.lock().clone();
        let answer = stack.oneshot(request).await;
        let outdated = match &answer {
            Ok(answer) => answer.status() == StatusCode::UNAUTHORIZED,
            Err(error) => is_connection(&**error),
        };
        if outdated {
            self.0.reload(number).await;
        }
        answer
    }
}

impl Shared {
    /// Reads the configuration again, unless that was done since it was read for the `number`th
    /// time, or a moment ago.
    async fn reload(&self, number: u64) {
        let mut read = self.read.lock().await;
        let recent = read.is_some_and(|last| last.elapsed() < PAUSE);
        if recent || self.current.lock().number != number {
            return;
        }
        *read = Some(Instant::now());
        let stack = match self.access.load().await {
            Ok(config) => stack(&config).map_err(|error| ConfigError::Client(Box::new(error))),
            Err(error) => Err(error),
        };
        match stack {
            Ok(Some(stack)) => {
                tracing::debug!("the configuration of the cluster has been read again");
                *self.current.lock() = Current { stack, number: number + 1 };
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(
                    "the configuration of the cluster cannot be read again: {}",
                    chain(&error)
                );
            }
        }
    }
}

/// Whether the server could not be reached, or TLS failed.
fn is_connection(error: &(dyn StdError + 'static)) -> bool {
    std::iter::successors(Some(error), |&cause| cause.source()).any(|cause| {
        let connect = cause
            .downcast_ref::<hyper_util::client::legacy::Error>()
            .is_some_and(hyper_util::client::legacy::Error::is_connect);
        // A client certificate is refused only after the connection was made.
        let tls = cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::InvalidData);
        connect || tls
    })
}
