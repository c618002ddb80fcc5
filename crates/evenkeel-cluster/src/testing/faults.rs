//! A client of the API server whose requests fail at random, from a seed: with a conflict, with a
//! connection error before or after they were processed, or delayed.

use std::convert::Infallible;
use std::future::Future;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::BoxError;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use kube::client::Body;
use serde_json::json;
use tower_service::Service;

/// Pseudorandom numbers from a seed.
#[derive(Debug)]
pub(crate) struct Random {
    seed: u64,
    count: AtomicU64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&self, bound: usize) -> usize {
        let at = self.count.fetch_add(1, Ordering::Relaxed);
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((self.seed, at));
        usize::try_from(hash % bound.max(1) as u64).unwrap_or_default()
    }

    pub(crate) fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    pub(crate) fn time(&self, most: Duration) -> Duration {
        most / 1000 * u32::try_from(self.below(1000)).unwrap_or_default()
    }
}

/// What happens to a request.
enum Fault {
    None,
    Conflict,
    Reset,
    ResetAfterProcessing,
    Delay(Duration),
}

/// The response of the server, or an injected one.
type FaultyResponse = Response<Either<evenkeel_apiserver::Body, Full<Bytes>>>;

/// The API server behind injected faults.
#[derive(Clone)]
pub(crate) struct FaultyService {
    server: evenkeel_apiserver::Service,
    random: Arc<Random>,
    over: Arc<AtomicBool>,
}

impl FaultyService {
    pub(crate) fn new(server: evenkeel_apiserver::Service, seed: u64) -> Self {
        Self { server, random: Arc::new(Random::new(seed)), over: Arc::default() }
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Stops injecting faults.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn fault(&self, method: &Method) -> Fault {
        if self.over.load(Ordering::Relaxed) {
            return Fault::None;
        }
        match (method == Method::GET, self.random.below(100)) {
            (true, 0..4) => Fault::Reset,
            (true, _) => Fault::None,
            (false, 0..15) => Fault::Conflict,
            (false, 15..20) => Fault::Reset,
            (false, 20..28) => Fault::ResetAfterProcessing,
            (false, 28..40) => Fault::Delay(self.random.time(Duration::from_secs(3))),
            (false, _) => Fault::None,
        }
    }
}

impl Service<Request<Body>> for FaultyService {
    type Response = FaultyResponse;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<FaultyResponse, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fault = self.fault(request.method());
        let mut server = self.server.clone();
        let reset = || BoxError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        Box::pin(async move {
            match fault {
                Fault::None | Fault::ResetAfterProcessing => {}
                Fault::Conflict => return Ok(conflict()),
                Fault::Reset => return Err(reset()),
                Fault::Delay(time) => tokio::time::sleep(time).await,
            }
            let response: Result<_, Infallible> = server.call(request).await;
            match (response, fault) {
                (Ok(_), Fault::ResetAfterProcessing) => Err(reset()),
                (Ok(response), _) => Ok(response.map(Either::Left)),
            }
        })
    }
}

fn conflict() -> FaultyResponse {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409,
        "reason": "Conflict", "message": "the object has been modified",
    });
    let mut response = Response::new(Either::Right(Full::from(status.to_string())));
    *response.status_mut() = StatusCode::CONFLICT;
    response
        .headers_mut()
        .insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}
