//! One connection of a server.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::slots::Slot;
use super::{Handler, Limits, boxed, text};

/// An accepted connection.
pub(super) struct Connection<H> {
    pub(super) handler: Arc<H>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Arc<Limits>,
    pub(super) draining: CancellationToken,
    pub(super) slot: Slot,
}

impl<H: Handler> Connection<H> {
    /// Serves the connection until it ends, or until its current request has ended while draining.
    pub(super) async fn run(self, stream: TcpStream) {
        // Responses are written at once; a failure only costs latency.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.serve(stream).await };
        let handshake = time::timeout(self.limits.handshake, tls.accept(stream));
        let accepted = tokio::select! {
            biased;
            () = self.draining.cancelled() => return,
            () = self.slot.closed() => return,
            accepted = handshake => accepted,
        };
        match accepted {
            Ok(Ok(stream)) => self.serve(stream).await,
            // Port scans and health checks of load balancers end here.
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
        }
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let used = AtomicBool::new(false);
        let service = service_fn(async |request| {
            used.store(true, Ordering::Relaxed);
            Ok::<_, Infallible>(self.respond(request).await)
        });
        let http = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle)
            .serve_connection(TokioIo::new(stream), service);
        let mut http = pin!(http);
        let mut first_request = pin!(time::sleep(self.limits.first_request));
        let mut draining = false;
        loop {
            tokio::select! {
                biased;
                () = self.slot.closed() => break,
                () = self.draining.cancelled(), if !draining => {
                    draining = true;
                    http.as_mut().graceful_shutdown();
                }
                ended = http.as_mut() => {
                    if let Err(error) = ended {
                        // Clients often disconnect early.
                        tracing::trace!(%error, "connection ended early");
                    }
                    break;
                }
                () = first_request.as_mut(), if !used.load(Ordering::Relaxed) => break,
            }
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let _busy = self.slot.begin_request();
        let response = AssertUnwindSafe(self.handler.handle(request.map(boxed))).catch_unwind();
        match time::timeout(self.limits.request, response).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => text(StatusCode::INTERNAL_SERVER_ERROR, "internal error"),
            Err(_) => text(StatusCode::REQUEST_TIMEOUT, "request timed out"),
        }
    }
}
