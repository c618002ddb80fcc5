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
pub(crate) struct Dice {
    seed: u64,
    rolls: AtomicU64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, rolls: AtomicU64::new(0) }
    }

    /// Returns a number below `sides`.
    pub(crate) fn roll(&self, sides: usize) -> usize {
        let at = self.rolls.fetch_add(1, Ordering::Relaxed);
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((self.seed, at));
        usize::try_from(hash % sides.max(1) as u64).unwrap_or_default()
    }

    pub(crate) fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.roll(items.len()))
    }

    pub(crate) fn time(&self, most: Duration) -> Duration {
        most / 1000 * u32::try_from(self.roll(1000)).unwrap_or_default()
    }
}

/// What happens to a request.
enum Fate {
    Passes,
    Conflict,
    Lost,
    CarriedOutAndLost,
    Late(Duration),
}

/// The response of the server, or an injected one.
type Answer = Response<Either<evenkeel_apiserver::Body, Full<Bytes>>>;

/// The API server behind injected faults.
#[derive(Clone)]
pub(crate) struct Storm {
    server: evenkeel_apiserver::Service,
    dice: Arc<Dice>,
    over: Arc<AtomicBool>,
}

impl Storm {
    pub(crate) fn new(server: evenkeel_apiserver::Service, seed: u64) -> Self {
        Self { server, dice: Arc::new(Dice::new(seed)), over: Arc::default() }
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Stops injecting faults.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn fate(&self, method: &Method) -> Fate {
        if self.over.load(Ordering::Relaxed) {
            return Fate::Passes;
        }
        match (method == Method::GET, self.dice.roll(100)) {
            (true, 0..4) => Fate::Lost,
            (true, _) => Fate::Passes,
            (false, 0..15) => Fate::Conflict,
            (false, 15..20) => Fate::Lost,
            (false, 20..28) => Fate::CarriedOutAndLost,
            (false, 28..40) => Fate::Late(self.dice.time(Duration::from_secs(3))),
            (false, _) => Fate::Passes,
        }
    }
}

impl Service<Request<Body>> for Storm {
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fate = self.fate(request.method());
        let mut server = self.server.clone();
        let reset = || BoxError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        Box::pin(async move {
            match fate {
                Fate::Passes | Fate::CarriedOutAndLost => {}
                Fate::Conflict => return Ok(conflict()),
                Fate::Lost => return Err(reset()),
                Fate::Late(time) => tokio::time::sleep(time).await,
            }
            let answer: Result<_, Infallible> = server.call(request).await;
            match (answer, fate) {
                (Ok(_), Fate::CarriedOutAndLost) => Err(reset()),
                (Ok(answer), _) => Ok(answer.map(Either::Left)),
            }
        })
    }
}

fn conflict() -> Answer {
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
