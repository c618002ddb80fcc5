//! Health checks, and their endpoints in the format of Kubernetes.
//!
//! `/healthz` and `/readyz` run all checks and respond with `ok`, or with 500 with a line per check and the
//! reasons withheld. `?verbose` prints the lines in any case, `?exclude=NAME` skips a check, and
//! `/healthz/NAME` runs one check and prints the reason of its failure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::error::{Result, chain};
use crate::serve::{Body, Handler, text};

/// The timeout of a check.
const TIMEOUT: Duration = Duration::from_secs(10);

type Run = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;

/// The checks that an operator adds to one endpoint, by name.
#[derive(Default)]
pub(crate) struct Checks(Mutex<BTreeMap<String, Run>>);

impl Checks {
    /// Adds a check; returns false if the name is taken.
    pub(crate) fn add<F>(&self, name: &str, check: impl Fn() -> F + Send + Sync + 'static) -> bool
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let mut checks = self.0.lock();
        let free = !checks.contains_key(name);
        if free {
            checks.insert(name.to_owned(), Arc::new(move || Box::pin(check())));
        }
        free
    }

    /// Runs the checks that `wanted` selects, concurrently; returns their names and problems.
    async fn run(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, Option<String>)> {
        let checks: Vec<(String, Run)> = {
            let checks = self.0.lock();
            let wanted = checks.iter().filter(|(name, _)| wanted(name));
            wanted.map(|(name, run)| (name.clone(), run.clone())).collect()
        };
        let runs = checks.into_iter().map(|(name, run)| async move {
            let problem = match timeout(TIMEOUT, run()).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(chain(&*error)),
                Err(_) => Some(format!("no result within {} seconds", TIMEOUT.as_secs())),
            };
            (name, problem)
        });
        join_all(runs).await
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }
}

/// An endpoint: the checks of the manager and those of the operator.
pub(crate) struct Endpoint {
    /// Without the slash.
    pub(crate) name: &'static str,
    /// Returns the manager's checks and their problems.
    pub(crate) own: Box<dyn Fn() -> Vec<(String, Option<String>)> + Send + Sync>,
    pub(crate) added: Arc<Checks>,
}

/// Responds to health probes.
pub(crate) struct HealthHandler(pub(crate) Vec<Endpoint>);

impl Handler for HealthHandler {
    async fn handle(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
        }
        let path = request.uri().path().trim_start_matches('/');
        let (first, check) = path.split_once('/').unwrap_or((path, ""));
        let endpoint = self.0.iter().find(|endpoint| endpoint.name == first);
        let result = match endpoint {
            None => None,
            Some(endpoint) if check.trim_matches('/').is_empty() => {
                let query = Query::parse(request.uri().query().unwrap_or_default());
                Some(endpoint.all(&query).await)
            }
            Some(endpoint) => endpoint.one(&decode(check)).await,
        };
        match result {
            Some((status, body)) => text(status, body),
            None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }
}

/// The parameters of an endpoint.
#[derive(Debug, Default, PartialEq, Eq)]
struct Query {
    verbose: bool,
    excluded: Vec<String>,
}

impl Query {
    fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        for pair in query.split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("verbose", _) => parsed.verbose = true,
                ("exclude", name) => parsed.excluded.push(decode(name)),
                _ => {}
            }
        }
        parsed
    }
}

/// Decodes `%` and `+`; other text stays.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |byte: &u8| (*byte as char).to_digit(16).and_then(|it| u8::try_from(it).ok());
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) if hex(high).is_some() && hex(low).is_some() => {
                bytes.push(hex(high).unwrap_or_default() << 4 | hex(low).unwrap_or_default());
                rest = after;
            }
            (b'+', _) => bytes.push(b' '),
            (other, _) => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Endpoint {
    /// Runs all checks.
    async fn all(&self, query: &Query) -> (StatusCode, String) {
        let excluded = |name: &str| query.excluded.iter().any(|excluded| excluded == name);
        let mut results: BTreeMap<String, Option<String>> = (self.own)().into_iter().collect();
        results.insert("ping".to_owned(), None);
        let skipped = self.added.names().into_iter().filter(|name| excluded(name));
        results.extend(skipped.map(|name| (name, None)));
        results.extend(self.added.run(|name| !excluded(name)).await);
        let failed: Vec<&String> = results
            .iter()
            .filter(|(name, problem)| problem.is_some() && !excluded(name))
            .map(|(name, _)| name)
            .collect();
        if !failed.is_empty() {
            tracing::debug!(endpoint = self.name, checks = ?failed, "health check failed");
        }
        if failed.is_empty() && !query.verbose {
            return (StatusCode::OK, "ok".to_owned());
        }
        let mut lines = String::new();
        for (name, problem) in &results {
            // Writing to a String cannot fail.
            let _ = match problem {
                _ if excluded(name) => writeln!(lines, "[+]{name} excluded: ok"),
                None => writeln!(lines, "[+]{name} ok"),
                // The endpoint is open, so the reason is only returned for a single check.
                Some(_) => writeln!(lines, "[-]{name} failed: reason withheld"),
            };
        }
        let mut unknown = query.excluded.iter().filter(|name| !results.contains_key(*name));
        if let Some(first) = unknown.next() {
            let unknown =
                unknown.fold(format!("{first:?}"), |text, name| format!("{text},{name:?}"));
            let _ = writeln!(
                lines,
                "warn: some health checks cannot be excluded: no matches for {unknown}"
            );
        }
        let (status, result) = match failed.is_empty() {
            true => (StatusCode::OK, "passed"),
            false => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        let _ = writeln!(lines, "{} check {result}", self.name);
        (status, lines)
    }

    /// Runs one check; `None` if there is none of that name.
    async fn one(&self, name: &str) -> Option<(StatusCode, String)> {
        let own = (self.own)().into_iter().find(|(own, _)| own == name);
        let problem = match own {
            Some((_, problem)) => problem,
            None if name == "ping" => None,
            None => self.added.run(|added| added == name).await.pop()?.1,
        };
        Some(match problem {
            None => (StatusCode::OK, "ok".to_owned()),
            Some(problem) => {
                let text = format!("internal server error: {problem}\n");
                (StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(own: &'static [(&'static str, Option<&'static str>)]) -> Endpoint {
        let owned = |(name, problem): &(&str, Option<&str>)| {
            ((*name).to_owned(), problem.map(str::to_owned))
        };
        let own = Box::new(move || own.iter().map(owned).collect());
        Endpoint { name: "readyz", own, added: Arc::default() }
    }

    async fn get(endpoint: Endpoint, uri: &str) -> (u16, String) {
        use http_body_util::BodyExt as _;
        let body = crate::serve::boxed(Full::new(Bytes::new()));
        let request = Request::builder().uri(uri).body(body).unwrap();
        let response = HealthHandler(vec![endpoint]).handle(request).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    const FAILING: &[(&str, Option<&str>)] =
        &[("informer/Pod", None), ("controller/shop", Some("not started"))];

    #[tokio::test(start_paused = true)]
    async fn answers_have_the_format_of_kubernetes() {
        assert_eq!(get(endpoint(&[]), "/readyz").await, (200, "ok".to_owned()));
        let verbose = "[+]ping ok\nreadyz check passed\n";
        assert_eq!(get(endpoint(&[]), "/readyz?verbose").await, (200, verbose.to_owned()));
        let failed = "[-]controller/shop failed: reason withheld\n[+]informer/Pod ok\n[+]ping ok\n\
                      readyz check failed\n";
        assert_eq!(get(endpoint(FAILING), "/readyz").await, (500, failed.to_owned()));
        let excluded = "[+]controller/shop excluded: ok\n[+]informer/Pod ok\n[+]ping ok\n\
                        warn: some health checks cannot be excluded: no matches for \"x\",\"y\"\n\
                        readyz check passed\n";
        let uri = "/readyz/?verbose=true&exclude=controller%2Fshop&exclude=x&exclude=y";
        assert_eq!(get(endpoint(FAILING), uri).await, (200, excluded.to_owned()));
        let uri = "/readyz?exclude=controller/shop";
        assert_eq!(get(endpoint(FAILING), uri).await, (200, "ok".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_check_gives_its_reason() {
        let reason = "internal server error: not started\n".to_owned();
        assert_eq!(get(endpoint(FAILING), "/readyz/controller/shop").await, (500, reason));
        let ok = (200, "ok".to_owned());
        assert_eq!(get(endpoint(FAILING), "/readyz/informer%2FPod").await, ok);
        assert_eq!(get(endpoint(FAILING), "/readyz/ping").await, ok);
        for unknown in ["/readyz/other", "/healthz", "/", "/metrics"] {
            assert_eq!(get(endpoint(FAILING), unknown).await.0, 404, "{unknown}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn added_checks_run_concurrently_with_a_timeout() {
        let endpoint = endpoint(&[]);
        assert!(endpoint.added.add("db", || async { Err("no connection".into()) }));
        assert!(endpoint.added.add("slow", || async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            Ok(())
        }));
        assert!(endpoint.added.add("stuck", std::future::pending));
        assert!(!endpoint.added.add("db", || async { Ok(()) }), "the name is taken");
        let begun = tokio::time::Instant::now();
        let (status, text) = endpoint.all(&Query::default()).await;
        assert!(begun.elapsed() < TIMEOUT + Duration::from_secs(1));
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        let lines = "[-]db failed: reason withheld\n[+]ping ok\n[+]slow ok\n[-]stuck failed: reason \
                     withheld\nreadyz check failed\n";
        assert_eq!(text, lines);
        let (_, text) = endpoint.one("db").await.unwrap();
        assert_eq!(text, "internal server error: no connection\n");
        let query = Query::parse("exclude=db&exclude=stuck");
        assert_eq!(endpoint.all(&query).await.0, StatusCode::OK, "excluded checks are not run");
    }
}
