//! DNS lookups with a metric of their duration.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use tokio::time::Instant;
use tower::Service;

use super::Observer;

/// The resolver of the system.
#[derive(Clone)]
pub(super) struct TimedResolver {
    inner: GaiResolver,
    observer: Observer,
}

impl TimedResolver {
    pub(super) fn new(observer: Observer) -> Self {
        Self { inner: GaiResolver::new(), observer }
    }
}

impl Service<Name> for TimedResolver {
    type Response = GaiAddrs;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<GaiAddrs, io::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (host, observer) = (name.as_str().to_owned(), self.observer.clone());
        let (begun, lookup) = (Instant::now(), self.inner.call(name));
        Box::pin(async move {
            let addresses = lookup.await;
            observer.resolved(&host, begun.elapsed());
            addresses
        })
    }
}
