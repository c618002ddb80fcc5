//! What every request of a manager passes: the client-side rate limit and the metrics.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::ResponseBody;
use crate::error::BoxError;
use crate::metrics::{self, Histogram, RestClientMetrics};
use crate::queue::{TokenBucket, Tokens};

/// Limits and measures requests to one host. Clones share the limit and the metrics.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    metrics: RestClientMetrics,
    host: Arc<str>,
    limit: Option<Arc<RateLimit>>,
}

impl Observer {
    /// Creates an observer without a host, which the connection sets.
    pub(crate) fn new(metrics: RestClientMetrics, limit: Option<TokenBucket>) -> Self {
        let limit = limit.map(|bucket| Arc::new(RateLimit::new(bucket)));
        Self { metrics, host: "unknown".into(), limit }
    }

    /// Creates an observer whose metrics are not exported.
    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        Self::new(metrics::Metrics::new().rest_client, None)
    }

    /// Returns the same observer without the rate limit.
    pub(super) fn unlimited(&self) -> Self {
        Self { limit: None, ..self.clone() }
    }

    pub(super) fn with_host(self, host: &str) -> Self {
        Self { host: host.into(), ..self }
    }

    pub(super) fn resolved(&self, host: &str, duration: Duration) {
        self.metrics.resolved(host, duration);
    }

    /// Sends a request with `send`.
    pub(super) async fn send<E, F>(
        &self,
        request: Request<Body>,
        send: impl FnOnce(Request<Body>) -> F,
    ) -> Result<Response<ResponseBody>, E>
    where
        F: Future<Output = Result<Response<ResponseBody>, E>>,
    {
        let method = request.method().clone();
        let watch = is_watch(request.uri().query().unwrap_or_default());
        let size = request.body().size_hint().exact().filter(|size| *size > 0);
        if let Some(limit) = &self.limit {
            let waited = limit.wait().await;
            self.metrics.limited(&method, &self.host, waited);
        }
        let begun = Instant::now();
        let response = send(request).await;
        let duration = (!watch).then(|| begun.elapsed());
        let status = response.as_ref().ok().map(Response::status);
        let host = &*self.host;
        self.metrics.observe(metrics::Request { method: &method, host, status, duration, size });
        if watch {
            return response;
        }
        let sizes = self.metrics.response_size(&method, host);
        response.map(|response| {
            response.map(|inner| Measured { inner, read: 0, sizes: Some(sizes) }.boxed_unsync())
        })
    }
}

fn is_watch(query: &str) -> bool {
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// A client-side limit of requests per second.
struct RateLimit {
    tokens: Mutex<Tokens>,
    start: Instant,
}

impl RateLimit {
    fn new(bucket: TokenBucket) -> Self {
        Self { tokens: Mutex::new(Tokens::new(bucket)), start: Instant::now() }
    }

    /// Waits until a request may be sent; returns how long that took.
    async fn wait(&self) -> Duration {
        let now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let delay = self.tokens.lock().reserve(now);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        delay
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tokens.lock().fmt(f)
    }
}

/// A body that measures its length when it has been read to the end.
struct Measured {
    inner: ResponseBody,
    read: usize,
    sizes: Option<Histogram>,
}

impl http_body::Body for Measured {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.inner).poll_frame(cx);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                this.read += frame.data_ref().map_or(0, Bytes::len);
                // Not every reader polls again at the end.
                if this.inner.is_end_stream() {
                    this.end();
                }
            }
            Poll::Ready(None) => this.end(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Measured {
    fn end(&mut self) {
        if let Some(sizes) = self.sizes.take() {
            sizes.observe(self.read as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_limit_wait() {
        let limit = RateLimit::new(TokenBucket { every: Duration::from_millis(100), burst: 2 });
        let start = Instant::now();
        for _ in 0..12 {
            limit.wait().await;
        }
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[test]
    fn watches_are_recognized_by_their_query() {
        assert!(is_watch("watch=true") && is_watch("limit=1&watch=1"));
        assert!(!is_watch("") && !is_watch("labelSelector=watch%3Dtrue"));
    }
}
