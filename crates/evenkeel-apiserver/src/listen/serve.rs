//! Accepting connections, serving them, and letting them go.
//!
//! [`Listener::serve`] owns a task for each connection, and each connection owns a task for each
//! HTTP/2 stream. A stop walks through three phases that every connection follows by itself: while
//! *serving* they take requests, while *draining* they finish those at hand, and when *cut* they
//! drop what is left. Nothing is detached, so once `serve` returns no code of the service runs.

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
    options: Options,
}

/// How a [`Listener`] behaves. What requests may take is in [`Limits`](crate::Limits).
///
/// A connection is *anonymous* until credentials on it were accepted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Whether other machines may reach the server.
    pub allow_non_loopback: bool,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a connection may go without a request, the time until its head is complete
    /// included.
    pub idle_timeout: Duration,
    /// The same for anonymous connections.
    pub anonymous_idle_timeout: Duration,
    /// How long a connection may stay anonymous, whatever it does.
    pub anonymous_lifetime: Duration,
    /// How long a request may take until the client has its response, unless it is a watch. A
    /// little longer than [`Limits::request_timeout`](crate::Limits::request_timeout), which lets
    /// the server answer 504; this one also ends clients that do not read.
    pub request_timeout: Duration,
    /// The requests that may be open at once on an HTTP/2 connection whose client certificate was
    /// accepted.
    pub streams_max: u32,
    /// The same for other connections: upstream's `--http2-max-streams-per-connection`.
    pub anonymous_streams_max: u32,
    /// Connections in all; half as many for each user. Beyond that the one that has been idle for
    /// longest is closed. The default is what the limit of open files allows, up to 16,384; see
    /// [`raise_open_files_limit`](super::raise_open_files_limit).
    pub connections_max: usize,
    /// Anonymous connections, and at most a quarter of all. Beyond that the oldest is closed.
    pub anonymous_connections_max: usize,
    /// How long a stop waits for responses in flight before it cuts them.
    pub grace: Duration,
}

/// Why a [`Listener`] could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address is reachable from other machines, and nobody said it may be.
    #[error(
        "refusing to listen on {0}: it is not a loopback address, and this server is made for \
         tests and development, where nothing guards it from the network\n\
         hint: listen on 127.0.0.1 or [::1], or allow it (flag --allow-non-loopback, of the drop-in \
         --evenkeel-allow-non-loopback, field `allow_non_loopback`)"
    )]
    NonLoopback(SocketAddr),
    /// The system refused.
    #[error("failed to listen on {address}")]
    Io {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// How a stop went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Connections that still had a response in flight when the grace ended.
    pub connections_aborted: usize,
}

/// Where the server is in its life; it never goes back.
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
    pub fn bind(address: SocketAddr, tls: Tls, options: Options) -> Result<Self, BindError> {
        Self::bind_with(address, Some(tls), options)
    }

    /// Binds `address` to serve HTTP without TLS, where no caller has an identity.
    ///
    /// Must be called from within a tokio runtime.
    pub fn bind_plain(address: SocketAddr, options: Options) -> Result<Self, BindError> {
        Self::bind_with(address, None, options)
    }

    fn bind_with(
        address: SocketAddr,
        tls: Option<Tls>,
        options: Options,
    ) -> Result<Self, BindError> {
        if !address.ip().to_canonical().is_loopback() && !options.allow_non_loopback {
            return Err(BindError::NonLoopback(address));
        }
        let (socket, address) =
            listen(address).map_err(|source| BindError::Io { address, source })?;
        Ok(Self { socket, address, tls, options })
    }

    /// The address bound, with its actual port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until `shutdown` completes, then stops.
    ///
    /// Each request carries a [`Peer`](super::Peer) in its extensions. A stop closes the socket and
    /// idle connections at once and waits up to [`Options::grace`] for the rest, so a service with
    /// endless responses should end them on the same signal.
    ///
    /// Dropping the future cuts everything at once; its tasks are then aborted but not joined.
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
                        tracing::warn!(%peer, "too many connections, and none is idle");
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
        // An error means that the grace is over.
        let _ = time::timeout(options.grace, join(&mut connections)).await;
        let connections_aborted = connections.len();
        phase.send_replace(Phase::Aborting);
        join(&mut connections).await;
        tracing::debug!(%address, connections_aborted, "stopped listening");
        Stopped { connections_aborted }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_non_loopback: false,
            handshake_timeout: Duration::from_secs(10),
            // Longer than the 90 s after which the usual clients drop an idle connection, so that
            // theirs is the side that closes and no request runs into a closing one.
            idle_timeout: Duration::from_secs(120),
            anonymous_idle_timeout: Duration::from_secs(10),
            anonymous_lifetime: Duration::from_secs(60),
            request_timeout: Duration::from_secs(65),
            // Not Go's 100 or 250: each watch holds a stream, and a hyper client out of streams
            // waits where a Go client dials again.
            streams_max: 1000,
            anonymous_streams_max: 100,
            connections_max: connections_max(),
            anonymous_connections_max: 512,
            grace: Duration::from_secs(1),
        }
    }
}

/// As many connections as there may be open files, but for those the server itself needs.
fn connections_max() -> usize {
    let files = usize::try_from(open_files_limit()).unwrap_or(usize::MAX);
    files.saturating_sub((files / 16).max(64)).clamp(16, 16_384)
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit it; a peer that vanished is noticed even if it only watched.
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
        tracing::error!(%error, "a connection's task failed");
    }
}

/// Waits longer and longer while the system refuses connections, as it does when out of files.
#[derive(Debug, Default)]
struct Backoff {
    /// The last delay, and when it ends.
    pending: Option<(Duration, Instant)>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(5);
    const MAX: Duration = Duration::from_secs(1);

    /// The next connection, or `None` after a refusal.
    ///
    /// Cancel safe: an interrupted wait ends when it would have ended.
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

/// Whether the peer gave up before its connection was taken, which says nothing about the next.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests;
