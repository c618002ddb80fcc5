//! A small HTTP server, for webhooks, metrics and health.
//!
//! ```text
//! let server = Server::bind(address, Some(tls)).await?;   // or None: plain HTTP
//! server.run(handler, stop.cancelled_owned()).await;      // returns once all connections ended
//! ```
//!
//! It serves HTTP/1.1 only: HTTP/2 has been a source of denial of service, and none of the callers
//! needs it. TLS is 1.2 or later; a certificate is replaced without a restart
//! ([`ServingCertificate`](evenkeel_pki::tls::ServingCertificate)). Connections are bounded: beyond
//! the bound the one that has been idle for longest is closed. A stop closes the socket and idle
//! connections, and waits for requests in flight. All tasks belong to [`Server::run`]: once it
//! returns, or is dropped, none of them runs.

mod body;

mod connection;

mod files;

mod slots;

mod tls;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub(crate) use body::{Body, ReadError, boxed, read};
pub(crate) use files::keep as keep_certificate;
pub(crate) use tls::Tls;

use connection::Connection;
use slots::Slots;

/// The delay after a failed `accept`, for example for lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Responds to requests. [`boxed`] makes the body of any request a [`Body`], so that requests also come
/// from within the process.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Responds to a request. The body has not been read: see [`read`]. A panic becomes the status 500.
    fn handle(&self, request: Request<Body>) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// A bound socket.
pub(crate) struct Server {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    limits: Limits,
}

/// The limits of a server.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Open connections.
    pub(crate) connections: usize,
    /// How long a TLS handshake may take.
    pub(crate) handshake: Duration,
    /// How long a new connection may be without a request.
    pub(crate) first_request: Duration,
    /// How long a connection may be without a further request, until the head of that request is
    /// complete. Longer than the 90 seconds after which Go clients close an idle connection, so that
    /// no request is sent on a connection that the server is closing.
    pub(crate) idle: Duration,
    /// How long a request may take, including its body.
    pub(crate) request: Duration,
    /// How long a stop waits for requests in flight.
    pub(crate) drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(32),
            idle: Duration::from_secs(120),
            request: Duration::from_secs(60),
            drain: Duration::from_secs(60),
        }
    }
}

impl Server {
    /// Binds `address`; port 0 takes any free port. All addresses of IPv6 are those of IPv4, too, and
    /// only those on a system without IPv6, as many containers are. Without `tls` it serves plain
    /// HTTP.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) async fn bind(address: SocketAddr, tls: Option<Tls>) -> io::Result<Self> {
        let all = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let socket = match TcpListener::bind(address).await {
            Err(error) if all && error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await?
            }
            bound => bound?,
        };
        let address = socket.local_addr()?;
        Ok(Self { socket, address, tls: tls.map(Tls::into_acceptor), limits: Limits::default() })
    }

    /// Sets other limits than the default.
    pub(crate) fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the bound address, with its actual port.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes, then drains. Returns the number of connections that still had
    /// a request in flight at the end of the drain.
    pub(crate) async fn run<H: Handler>(
        self,
        handler: Arc<H>,
        stop: impl Future<Output = ()>,
    ) -> usize {
        let Self { socket, address, tls, limits } = self;
        let slots = Slots::new(limits.connections);
        let limits = Arc::new(limits);
        let draining = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(ended) = tasks.join_next() => report(ended),
                accepted = socket.accept() => match accepted {
                    Ok((stream, peer)) => match slots.open() {
                        Some(slot) => {
                            let connection = Connection {
                                handler: handler.clone(),
                                tls: tls.clone(),
                                limits: limits.clone(),
                                draining: draining.clone(),
                                slot,
                            };
                            tasks.spawn(connection.run(stream));
                        }
                        None => tracing::warn!(%address, %peer, "too many connections, none idle"),
                    },
                    Err(error) => {
                        tracing::warn!(%address, %error, "cannot accept a connection");
                        // A stop during this short delay is noticed after it.
                        time::sleep(ACCEPT_RETRY).await;
                    }
                },
            }
        }
        drop(socket);
        draining.cancel();
        let joined = async {
            while let Some(ended) = tasks.join_next().await {
                report(ended);
            }
        };
        let _ = time::timeout(limits.drain, joined).await;
        let aborted = tasks.len();
        tasks.shutdown().await;
        tracing::debug!(%address, aborted, "stopped serving");
        aborted
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "connection task failed");
    }
}

/// Returns a response with a text, such as an error.
pub(crate) fn text(status: http::StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests;
