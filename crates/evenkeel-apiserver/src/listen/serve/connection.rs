//! One connection, from the handshake to its last stream.

use std::{
    convert::Infallible,
    error::Error as StdError,
    future::poll_fn,
    mem,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Body;
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
    task::JoinSet,
    task_local,
    time::{self, Instant},
};
use tower_service::Service;

use super::{
    ListenOptions, Phase,
    connections::{CloseMode, ConnectionGuard},
};
use crate::listen::{
    peer::{Abort, Peer, PeerIdentity},
    tls::{ClientCertificate, Protocol, Tls},
};

/// Room for one API object in a frame and in a stream's window: according to upstream, 99 % of
/// objects are smaller.
const OBJECT_SIZE: u32 = 256 * 1024;
/// The upload window of a whole connection: bounds memory with many concurrent writers.
const CONNECTION_WINDOW: u32 = 64 * OBJECT_SIZE;
/// Go's limit for the header of a request; hyper's default is 16 KiB.
const HEADER_SIZE_MAX: u32 = 1 << 20;

/// How long a draining connection may take to finish its requests.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle HTTP/2 client may take to react to GOAWAY on a stop.
const GOAWAY_TIMEOUT: Duration = Duration::from_millis(100);

task_local! {
    /// Whether the request of an HTTP/2 stream is long-running.
    static LONG_RUNNING: Arc<AtomicBool>;
}

/// The service sends no response.
#[derive(Debug, thiserror::Error)]
#[error("the response was aborted")]
struct Aborted;

/// An accepted connection.
pub(super) struct Connection<S> {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Tls>,
    pub(super) service: S,
    pub(super) options: Arc<ListenOptions>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) guard: ConnectionGuard,
}

/// The tasks of a connection's HTTP/2 streams, which end with it.
#[derive(Clone)]
struct StreamTasks {
    tasks: Arc<Mutex<JoinSet<()>>>,
    /// How long a stream may take, unless its request is long-running.
    limit: Duration,
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
    /// Serves the connection until either side closes it, following the server's phases.
    pub(super) async fn run(mut self, stream: TcpStream) {
        let address = self.address;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "cannot set TCP_NODELAY");
        }
        let Some(tls) = self.tls.take() else {
            return self.serve_http(stream, None, None).await;
        };
        let tracked = self.guard.tracked().clone();
        let handshake = time::timeout(self.options.handshake_timeout, tls.accept(stream));
        let handshake = tokio::select! {
            biased;
            // There is no request yet, so none is lost.
            _ = self.phase.changed() => return,
            _ = tracked.close_mode_changed(CloseMode::KeepOpen) => return,
            handshake = handshake => handshake,
        };
        match handshake {
            Ok(Ok((stream, certificate, protocol))) => {
                self.serve_http(stream, certificate, Some(protocol)).await;
            }
            Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake error"),
            Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
        }
    }

    /// Serves HTTP over `stream`, with `protocol` or the one the client starts with.
    async fn serve_http(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        certificate: Option<ClientCertificate>,
        protocol: Option<Protocol>,
    ) {
        let options = self.options.clone();
        let tracked = self.guard.tracked().clone();
        let identity = certificate.as_ref().map(ClientCertificate::identity);
        let streams_max = match identity.as_deref() {
            Some(PeerIdentity::Verified(identity)) => {
                tracked.assign_user(&identity.user.as_str().into());
                options.streams_max
            }
            _ => options.anonymous_streams_max,
        };
        let streams = StreamTasks { tasks: Arc::default(), limit: options.request_timeout };
        let builder = builder(&options, streams_max, protocol, streams.clone());
        let peer = Peer::new(self.address, certificate, tracked.clone());
        let served = tracked.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (mut service, peer, tracked) = (self.service.clone(), peer.clone(), served.clone());
            async move {
                let long_running = LONG_RUNNING.try_with(Arc::clone).unwrap_or_default();
                let http1 = request.version() < Version::HTTP_2;
                let running = tracked.begin_request(http1.then(|| long_running.clone()));
                request.extensions_mut().insert(peer.with_request(long_running));
                let Ok(()) = poll_fn(|cx| service.poll_ready(cx)).await;
                let Ok(response) = service.call(request).await;
                if response.extensions().get::<Abort>().is_some() {
                    return Err(Aborted);
                }
                // The request counts as running until its response is sent, that is, until the body
                // and this closure are dropped.
                let hold_guard = move |error| {
                    let _running = &running;
                    error
                };
                Ok(response.map(|body| body.map_err(hold_guard)))
            }
        });
        {
            let mut http = pin!(builder.serve_connection(TokioIo::new(stream), service));
            let mut due = pin!(time::sleep_until(Instant::now()));
            let (mut mode, mut draining) = (CloseMode::KeepOpen, false);
            loop {
                tokio::select! {
                    ended = http.as_mut() => {
                        if let Err(error) = ended {
                            // Clients often disconnect early.
                            tracing::trace!(error, "connection ended early");
                        }
                        break;
                    }
                    changed = self.phase.changed() => {
                        let phase = *self.phase.borrow_and_update();
                        if changed.is_err() || phase == Phase::Aborting {
                            break;
                        }
                        http.as_mut().graceful_shutdown();
                        draining = true;
                        due.as_mut().reset(Instant::now() + GOAWAY_TIMEOUT);
                    }
                    new = tracked.close_mode_changed(mode) => {
                        mode = new;
                        if mode == CloseMode::Close {
                            break;
                        }
                        http.as_mut().graceful_shutdown();
                        if !draining {
                            due.as_mut().reset(Instant::now() + DRAIN_TIMEOUT);
                        }
                    }
                    () = due.as_mut() => match (mode, tracked.check_timeouts(&options)) {
                        // An idle client that ignores GOAWAY has no request to lose.
                        _ if draining && tracked.is_idle() => break,
                        _ if draining => due.as_mut().reset(Instant::now() + GOAWAY_TIMEOUT),
                        (CloseMode::KeepOpen, Ok(mode)) => tracked.request_close(mode),
                        (CloseMode::KeepOpen, Err(later)) => due.as_mut().reset(later),
                        (_, Ok(_)) => break,
                        (_, Err(_)) if tracked.is_anonymous() => break,
                        // Watches of a user may continue to their end.
                        (_, Err(later)) => due.as_mut().reset(later),
                    },
                }
            }
        }
        streams.shutdown().await;
    }
}

fn builder(
    options: &ListenOptions,
    streams_max: u32,
    protocol: Option<Protocol>,
    streams: StreamTasks,
) -> auto::Builder<StreamTasks> {
    let mut builder = auto::Builder::new(streams);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(options.idle_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams_max)
        // A client may drop all its watches at the same time.
        .max_pending_accept_reset_streams(Some(streams_max as usize))
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
    /// Aborts the remaining streams and waits until they have ended.
    async fn shutdown(self) {
        let mut tasks = mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }
}

impl<F> Executor<F> for StreamTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let mut tasks = self.tasks.lock();
        // Finished tasks are removed here, or a long-lived connection would accumulate them.
        while let Some(ended) = tasks.try_join_next() {
            super::report(ended);
        }
        let long_running = Arc::new(AtomicBool::new(false));
        let limit = self.limit;
        tasks.spawn(LONG_RUNNING.scope(long_running.clone(), async move {
            let mut stream = pin!(stream);
            let completed = time::timeout(limit, stream.as_mut()).await.is_ok();
            if !completed && long_running.load(Ordering::Relaxed) {
                stream.await;
            }
        }));
    }
}
