//! One connection, from the handshake to its last stream.

use std::{
    convert::Infallible,
    error::Error as StdError,
    mem,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, rt::Executor};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
    task::JoinSet,
    time,
};
use tower_service::Service;

use super::{Options, Phase};
use crate::listen::{
    peer::{Peer, PeerIdentity},
    tls::{Protocol, Tls},
};

/// Room for one API object in a frame and in a stream's window: upstream found 99 % of objects to
/// be smaller.
const OBJECT_SIZE: u32 = 256 * 1024;
/// Upload windows of a whole connection: many writers at once, yet bounded memory.
const CONNECTION_WINDOW: u32 = 64 * OBJECT_SIZE;
/// Go's limit for a request's header; hyper's own would be 16 KiB.
const HEADER_SIZE_MAX: u32 = 1 << 20;

/// A connection just accepted.
pub(super) struct Connection<S> {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Tls>,
    pub(super) service: S,
    pub(super) options: Arc<Options>,
    pub(super) phase: watch::Receiver<Phase>,
}

/// The tasks of a connection's HTTP/2 streams, which end with it.
#[derive(Clone, Default)]
struct StreamTasks(Arc<Mutex<JoinSet<()>>>);

/// Tells the service who is calling.
struct WithPeer<S> {
    service: TowerToHyperService<S>,
    peer: Peer,
}

// === impl Connection ===

impl<S, B> Connection<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    /// Serves the connection until either side has had enough, following the server's phases.
    pub(super) async fn run(mut self, stream: TcpStream) {
        let address = self.address;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "cannot switch off Nagle's algorithm");
        }
        let Some(tls) = self.tls.take() else {
            return self.converse(stream, PeerIdentity::Absent, None).await;
        };
        let handshake = time::timeout(self.options.handshake_timeout, tls.accept(stream));
        let handshake = tokio::select! {
            biased;
            // No request has been made yet, so none is lost.
            _ = self.phase.changed() => return,
            handshake = handshake => handshake,
        };
        match handshake {
            Ok(Ok((stream, identity, protocol))) => {
                self.converse(stream, identity, Some(protocol)).await;
            }
            Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake error"),
            Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
        }
    }

    /// Speaks HTTP over `stream`: `protocol`, or whichever the client begins with.
    async fn converse(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        identity: PeerIdentity,
        protocol: Option<Protocol>,
    ) {
        let streams = StreamTasks::default();
        let builder = builder(&self.options, protocol, streams.clone());
        let service = WithPeer {
            service: TowerToHyperService::new(self.service),
            peer: Peer::new(self.address, identity),
        };
        {
            let mut http = pin!(builder.serve_connection(TokioIo::new(stream), service));
            loop {
                tokio::select! {
                    ended = http.as_mut() => {
                        if let Err(error) = ended {
                            // Clients hang up in the middle of things all the time.
                            tracing::trace!(error, "connection ended early");
                        }
                        break;
                    }
                    changed = self.phase.changed() => {
                        let phase = *self.phase.borrow_and_update();
                        if changed.is_err() || phase == Phase::Cut {
                            break;
                        }
                        http.as_mut().graceful_shutdown();
                    }
                }
            }
        }
        streams.end().await;
    }
}

fn builder(
    options: &Options,
    protocol: Option<Protocol>,
    streams: StreamTasks,
) -> auto::Builder<StreamTasks> {
    let mut builder = auto::Builder::new(streams);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(options.idle_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.streams_max)
        // A client that drops all its watches at once is no attacker.
        .max_pending_accept_reset_streams(Some(options.streams_max as usize))
        .initial_stream_window_size(OBJECT_SIZE)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(OBJECT_SIZE)
        .max_header_list_size(HEADER_SIZE_MAX);
    match protocol {
        Some(Protocol::Http1) => builder.http1_only(),
        Some(Protocol::Http2) => builder.http2_only(),
        None => builder,
    }
}

// === impl StreamTasks ===

impl StreamTasks {
    /// Ends the streams that are left, if any, and waits until they are gone.
    async fn end(self) {
        let mut tasks = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
    }
}

impl<F> Executor<F> for StreamTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Forget the finished ones here, or a connection that lives for days would collect them.
        while let Some(ended) = tasks.try_join_next() {
            super::report(ended);
        }
        tasks.spawn(stream);
    }
}

// === impl WithPeer ===

impl<S> hyper::service::Service<Request<Incoming>> for WithPeer<S>
where
    S: Service<Request<Incoming>> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = <TowerToHyperService<S> as hyper::service::Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer.clone());
        self.service.call(request)
    }
}
