//! The webhooks of a manager: their paths, their configurations and the state of their server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use evenkeel_types::watch;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use kube::CustomResourceExt;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use super::authentication::{self, Authenticate};
use super::builder::RegisterError;
use super::certificates::Target;
use super::configuration::{self, Entry};
use super::conversion::{self, Conversions};
use super::endpoint::Endpoint;
use super::options::{Serving, WebhookOptions};
use super::review;
use super::typed::{self, Handle};
use super::{AdmissionHandler, Conversion, TokenAuthenticator};
use crate::kind::Object;
use crate::metrics::{Metrics, WebhookMetrics};
use crate::serve::{self, Body, Handler, ReadError};

/// The path of all conversions.
pub(super) const CONVERT: &str = "/convert";

/// The webhooks of a manager.
pub(crate) struct Webhooks {
    manager: Arc<str>,
    pub(super) options: WebhookOptions,
    /// The namespace of the operator.
    pub(super) namespace: String,
    routes: RwLock<BTreeMap<String, (Route, WebhookMetrics)>>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) conversions: Conversions,
    entries: Mutex<Vec<Entry>>,
    started: AtomicBool,
    pub(super) state: watch::Sender<State>,
}

/// What is behind a path.
#[derive(Clone)]
pub(super) enum Route {
    Admission(Handle),
    Authentication(Authenticate),
    Conversion,
}

/// The state of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The address, once it is bound.
    pub(super) address: Option<SocketAddr>,
    /// Whether there was an attempt to get a certificate and to publish its authority.
    pub(super) attempted: bool,
    /// Why the server cannot be reached, as of the last probe.
    pub(super) problem: Option<String>,
}

impl Webhooks {
    pub(crate) fn new(
        manager: Arc<str>,
        options: WebhookOptions,
        namespace: &str,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let namespace = options.service_namespace.as_deref().unwrap_or(namespace).to_owned();
        let state = State { problem: Some("not started".to_owned()), ..State::default() };
        Arc::new(Self {
            manager,
            options,
            namespace,
            routes: RwLock::default(),
            metrics,
            conversions: Conversions::default(),
            entries: Mutex::default(),
            started: AtomicBool::new(false),
            state: watch::Sender::new(state),
        })
    }

    pub(super) fn manager(&self) -> &str {
        &self.manager
    }

    /// Adds a path.
    pub(super) fn add(&self, path: &str, route: Route) -> Result<(), RegisterError> {
        if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
            return Err(RegisterError::Path(path.to_owned()));
        }
        let mut routes = self.routes.write();
        if routes.contains_key(path) {
            return Err(RegisterError::PathTaken(path.to_owned()));
        }
        routes.insert(path.to_owned(), (route, self.metrics.webhooks.webhook(path)));
        Ok(())
    }

    /// Adds an admission handler that is in no configuration.
    pub(crate) fn add_admission(
        &self,
        path: &str,
        handler: impl AdmissionHandler,
    ) -> Result<(), RegisterError> {
        self.add(path, Route::Admission(typed::raw(handler)))
    }

    pub(crate) fn add_authenticator(
        &self,
        path: &str,
        authenticator: impl TokenAuthenticator,
    ) -> Result<(), RegisterError> {
        self.add(path, Route::Authentication(authentication::authenticator(authenticator)))
    }

    pub(crate) fn add_conversion<Hub: Object + CustomResourceExt>(
        &self,
        conversion: Conversion<Hub>,
    ) -> Result<(), RegisterError> {
        let versions = Arc::new(conversion.into_versions());
        let name = versions.crd_name();
        if let Some(problem) = versions.problem() {
            return Err(RegisterError::Conversion(problem.to_owned()));
        }
        if !self.conversions.add(versions) {
            let problem = format!("{name} has a conversion already");
            return Err(RegisterError::Conversion(problem));
        }
        // All conversions share the path, unless another webhook has it.
        let mut routes = self.routes.write();
        let metrics = || self.metrics.webhooks.webhook(CONVERT);
        let route =
            routes.entry(CONVERT.to_owned()).or_insert_with(|| (Route::Conversion, metrics()));
        match route {
            (Route::Conversion, _) => Ok(()),
            _ => Err(RegisterError::PathTaken(CONVERT.to_owned())),
        }
    }

    pub(super) fn add_entry(&self, entry: Entry) {
        self.entries.lock().push(entry);
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    /// Whether there is a server to start: true once.
    pub(crate) fn starts_server(&self) -> bool {
        self.options.serving == Serving::Tls && !self.started.swap(true, Ordering::Relaxed)
    }

    /// Returns whether there are webhooks.
    pub(crate) fn is_empty(&self) -> bool {
        self.routes.read().is_empty()
    }

    /// Returns where API servers reach the webhooks.
    pub(crate) fn endpoint(&self) -> Endpoint {
        if let Some(url) = &self.options.url {
            let bound = self.state.borrow().address.map(|address| address.port());
            return Endpoint::Url(match (url.strip_suffix(":0"), bound) {
                (Some(host), Some(port)) => format!("{host}:{port}"),
                _ => url.clone(),
            });
        }
        let name = self.options.service_name.clone();
        Endpoint::Service {
            namespace: self.namespace.clone(),
            name: name.unwrap_or_else(|| format!("{}-webhook-service", self.manager)),
            port: self.options.service_port,
        }
    }

    /// Returns the objects with a `caBundle` of this manager.
    pub(super) fn targets(&self) -> Vec<Target> {
        let (entries, endpoint) = (self.entries.lock(), self.endpoint());
        let mut targets = Vec::new();
        if entries.iter().any(|entry| entry.mutating) {
            let name = configuration::name(&self.manager, true);
            targets.push(Target::mutating(name, endpoint.clone()));
        }
        if entries.iter().any(|entry| !entry.mutating) {
            let name = configuration::name(&self.manager, false);
            targets.push(Target::validating(name, endpoint.clone()));
        }
        let conversions = self.conversions.all();
        let crds = conversions.iter().map(|one| Target::crd(one.crd_name(), endpoint.clone()));
        targets.extend(crds);
        targets
    }

    /// Waits until the server listens and there was an attempt to get a certificate; returns at once
    /// if there is no server.
    pub(crate) async fn wait_until_attempted(&self) {
        if self.options.serving != Serving::Tls || self.is_empty() {
            return;
        }
        // The sender lives in `self`.
        let _ = self.state.subscribe().wait_for(|state| state.attempted).await;
    }

    /// Waits until the server can be reached; returns at once if there is no server.
    pub(crate) async fn wait_until_ready(&self) {
        if self.options.serving == Serving::Tls && !self.is_empty() {
            let _ = self.state.subscribe().wait_for(|state| state.problem.is_none()).await;
        }
    }

    /// Returns why webhooks are not served, if they are not; `None` without webhooks.
    pub(crate) fn problem(&self) -> Option<Option<String>> {
        if self.options.serving != Serving::Tls || self.is_empty() {
            return None;
        }
        Some(self.state.borrow().problem.clone())
    }
}

impl Handler for Webhooks {
    async fn handle(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let route = self.routes.read().get(request.uri().path()).cloned();
        let Some((route, metrics)) = route else {
            return serve::text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let _in_flight = metrics.begin();
        let started = Instant::now();
        let response = self.respond(&route, request).await;
        // As in controller-runtime: errors are codes inside of the response.
        metrics.end(true, started.elapsed());
        response
    }
}

impl Webhooks {
    async fn respond(&self, route: &Route, request: Request<Body>) -> Response<Full<Bytes>> {
        let limit = match route {
            Route::Admission(_) => review::LIMIT,
            Route::Authentication(_) => authentication::LIMIT,
            Route::Conversion => conversion::LIMIT,
        };
        let (parts, body) = request.into_parts();
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default();
        let (body, problem) = match serve::read(body, limit).await {
            // As Go's `mime.ParseMediaType`: parameters are ignored.
            Ok(body) if content_type.split(';').next() == Some("application/json") => (body, None),
            Ok(body) => {
                let problem = format!("contentType={content_type}, expected application/json");
                (body, Some((400, problem)))
            }
            Err(ReadError::TooLarge { limit, prefix }) => {
                (prefix, Some((413, format!("request body is larger than {limit} bytes"))))
            }
            Err(ReadError::Broken(error)) => (Bytes::new(), Some((400, error.to_string()))),
        };
        let families = &self.metrics.webhooks;
        let review = match (route, problem) {
            (Route::Admission(_), Some((code, why))) => review::refused(&body, code, why),
            (Route::Admission(handle), None) => {
                review::respond(handle, &body, &families.panics).await
            }
            (Route::Authentication(_), Some((_, why))) => authentication::refused(&why),
            (Route::Authentication(authenticate), None) => {
                authentication::respond(authenticate, &body).await
            }
            (Route::Conversion, Some((_, why))) => conversion::refused(&why),
            (Route::Conversion, None) => {
                self.conversions.respond(&body, &families.conversion_panics)
            }
        };
        let mut response = Response::new(Full::new(review));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}
