//! Accepts connections, serves them, and closes them.
//!
//! [`Listener::serve`] owns a task for each connection, and each connection owns a task for each
//! HTTP/2 stream. A stop has three phases: while *serving*, connections accept requests; while
//! *draining*, they finish the current ones; while *aborting*, they drop the rest. No task is
//! detached, so once `serve` returns no code of the service runs.

mod connection;
pub(super) mod connections;

use std::{
    convert::Infallible, error::Error as StdError, io, net::SocketAddr, pin::pin, sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::{JoinError, JoinSet},
    time::{self, Instant},
};
use tower_service::Service;

use self::connection::Connection;
use self::connections::Connections;
use super::files::open_files_limit;
use super::tls::Tls;

/// A bound socket, ready to serve.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    /// `None`: plain HTTP.
    tls: Option<Tls>,
    options: ListenOptions,
}

/// Options of a [`Listener`]. The limits of requests are in [`Limits`](crate::Limits).
///
/// A connection is *anonymous* until credentials on it were accepted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenOptions {
    /// Whether non-loopback addresses may be bound.
    pub allow_non_loopback: bool,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a connection may be without a request. Includes the time until the head of the
    /// request is complete.
    pub idle_timeout: Duration,
    /// The same for anonymous connections.
    pub anonymous_idle_timeout: Duration,
    /// How long a connection may stay anonymous, even if it is in use.
    pub anonymous_lifetime: Duration,
    /// How long a request may take until the client has its response, unless it is a watch.
    /// Slightly longer than [`Limits::request_timeout`](crate::Limits::request_timeout), after
    /// which the server responds with 504; this timeout also ends clients that do not read.
    pub request_timeout: Duration,
    /// The concurrent requests on an HTTP/2 connection with a valid client certificate.
    pub streams_max: u32,
    /// The same for other connections: upstream's `--http2-max-streams-per-connection`.
    pub anonymous_streams_max: u32,
    /// Connections in total, and half as many for each user. Beyond that the longest idle one is
    /// closed. The default is what the limit of open files allows, up to 16,384; see
    /// [`raise_open_files_limit`](super::raise_open_files_limit).
    pub connections_max: usize,
    /// Anonymous connections, at most a quarter of all. Beyond that the oldest one is closed.
    pub anonymous_connections_max: usize,
    /// How long a stop waits for responses in flight before it aborts them.
    pub grace: Duration,
}

/// Why a [`Listener`] could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address is reachable from other machines, which was not allowed.
    #[error(
        "refusing to listen on {0}: it is not a loopback address, and this server is made for \
         tests and development and is not protected from the network\n\
         hint: listen on 127.0.0.1 or [::1], or allow it (flag --allow-non-loopback, of the drop-in \
         --evenkeel-allow-non-loopback, field `allow_non_loopback`)"
    )]
    NonLoopback(SocketAddr),
    /// The system call failed.
    #[error("failed to listen on {address}")]
    Io {
        /// The requested address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
}

/// The result of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Connections that still had a response in flight when the grace period ended.
    pub connections_aborted: usize,
}

/// The phase of the server; it only advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    Draining,
    Aborting,
}

// === impl Listener ===

impl Listener {
    /// Binds `address` to serve HTTPS. Port 0 takes any free port.
    ///
    /// Must be called from within a tokio runtime.
    pub fn bind(address: SocketAddr, tls: Tls, options: ListenOptions) -> Result<Self, BindError> {
        Self::bind_with(address, Some(tls), options)
    }

    /// Binds `address` to serve HTTP without TLS. Callers have no identity then.
    ///
    /// Must be called from within a tokio runtime.
    pub fn bind_plain(address: SocketAddr, options: ListenOptions) -> Result<Self, BindError> {
        Self::bind_with(address, None, options)
    }

    fn bind_with(
        address: SocketAddr,
        tls: Option<Tls>,
        options: ListenOptions,
    ) -> Result<Self, BindError> {
        if !address.ip().to_canonical().is_loopback() && !options.allow_non_loopback {
            return Err(BindError::NonLoopback(address));
        }
        let (socket, address) =
            listen(address).map_err(|source| BindError::Io { address, source })?;
        Ok(Self { socket, address, tls, options })
    }

    /// Returns the bound address, with its actual port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until `shutdown` completes, then stops.
    ///
    /// Each request carries a [`Peer`](super::Peer) in its extensions. A stop immediately closes
    /// the socket and idle connections and waits up to [`ListenOptions::grace`] for the rest, so a
    /// service with endless responses should end them on the same signal.
    ///
    /// Dropping the future aborts all connections; their tasks are aborted but not joined.
    pub async fn serve<S, B>(self, service: S, shutdown: impl Future<Output = ()>) -> Stopped
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let Self { socket, address, tls, options } = self;
        let options = Arc::new(options);
        let (phase, follow) = watch::channel(Phase::Serving);
        let mut connections = JoinSet::new();
        let all = Connections::new(&options);
        let mut shutdown = pin!(shutdown);
        let mut backoff = Backoff::default();
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => report(ended),
                accepted = backoff.accept(&socket) => if let Some((stream, peer)) = accepted {
                    let Some(guard) = all.open() else {
                        tracing::warn!(
                            %peer,
                            "rejecting a connection: too many connections, none idle"
                        );
                        continue;
                    };
                    let connection = Connection {
                        address: peer,
                        tls: tls.clone(),
                        service: service.clone(),
                        options: options.clone(),
                        phase: follow.clone(),
                        guard,
                    };
                    connections.spawn(connection.run(stream));
                },
            }
        }
        drop(socket);

        phase.send_replace(Phase::Draining);
        // An error means that the grace period is over.
        let _ = time::timeout(options.grace, join(&mut connections)).await;
        let connections_aborted = connections.len();
        phase.send_replace(Phase::Aborting);
        join(&mut connections).await;
        tracing::debug!(%address, connections_aborted, "stopped listening");
        Stopped { connections_aborted }
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            allow_non_loopback: false,
            handshake_timeout: Duration::from_secs(10),
            // Longer than the 90 s after which common clients close an idle connection, so that the
            // client closes first and no request is sent on a connection that the server is
            // closing.
            idle_timeout: Duration::from_secs(120),
            anonymous_idle_timeout: Duration::from_secs(10),
            anonymous_lifetime: Duration::from_secs(60),
            request_timeout: Duration::from_secs(65),
            // More than Go's 100 or 250: each watch uses a stream, and a hyper client without free
            // streams waits where a Go client opens another connection.
            streams_max: 1000,
            anonymous_streams_max: 100,
            connections_max: connections_max(),
            anonymous_connections_max: 512,
            grace: Duration::from_secs(1),
        }
    }
}

/// Returns the limit of open files minus those that the server itself needs.
fn connections_max() -> usize {
    let files = usize::try_from(open_files_limit()).unwrap_or(usize::MAX);
    files.saturating_sub((files / 16).max(64)).clamp(16, 16_384)
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit it, so that a vanished peer is detected even if it only watches.
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    let socket = socket.listen(1024)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

async fn join(connections: &mut JoinSet<()>) {
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "connection task failed");
    }
}

/// Exponential backoff while accepting fails, for example for lack of file descriptors.
#[derive(Debug, Default)]
struct Backoff {
    /// The last delay, and when it ends.
    pending: Option<(Duration, Instant)>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(5);
    const MAX: Duration = Duration::from_secs(1);

    /// Returns the next connection, or `None` after an error.
    ///
    /// Cancel safe: an interrupted wait keeps its deadline.
    async fn accept(&mut self, socket: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
        if let Some((_, end)) = self.pending {
            time::sleep_until(end).await;
        }
        let refused = match socket.accept().await {
            Ok(accepted) => {
                self.pending = None;
                return Some(accepted);
            }
            Err(error) => error,
        };
        if !is_connection_error(&refused) {
            let delay = self.refused();
            tracing::warn!(error = %refused, ?delay, "cannot accept connections");
        }
        None
    }

    fn refused(&mut self) -> Duration {
        let delay = self.pending.map_or(Self::FIRST, |(last, _)| (last * 2).min(Self::MAX));
        self.pending = Some((delay, Instant::now() + delay));
        delay
    }
}

/// Returns whether the error concerns only the connection that was to be accepted.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests;
