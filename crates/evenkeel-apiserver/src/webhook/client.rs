//! Sends a review to a webhook and returns its response.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_types::go::Quoted;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time;

use super::connection::{Connection, Failure, Response};
use super::registered::{Registered, Services};
use super::target::{Place, Target};
use super::{error, resolve, tls};
use crate::body::Body;
use crate::storage::Store;

/// What webhooks the server calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those registered in process: connections do not follow a virtual clock.
    InProcess,
    /// Also those on loopback addresses.
    Loopback,
    Anywhere,
}

/// The caller of webhooks.
pub(crate) struct Client {
    services: Services,
    /// Converters in this process, by CRD.
    converters: RwLock<HashMap<String, Converter>>,
    store: Store,
    reach: Reach,
}

/// Converts an object to an API version. The error is the reason only.
pub(crate) type Converter = Arc<dyn Fn(Value, &str) -> Result<Value, String> + Send + Sync>;

/// One call of a webhook.
pub(crate) struct Call<'a> {
    pub(crate) target: &'a Target,
    pub(crate) body: Bytes,
    pub(crate) timeout: Duration,
    pub(crate) max_response: usize,
}

impl Client {
    pub(crate) fn new(store: Store, reach: Reach) -> Self {
        Self { services: Services::default(), converters: RwLock::default(), store, reach }
    }

    /// Calls `service` in place of the Service `namespace/name` on `port`.
    pub(crate) fn register_service<S, B>(&self, namespace: &str, name: &str, port: u16, service: S)
    where
        S: tower_service::Service<Request<Body>, Response = http::Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.services.insert(namespace, name, port, Registered::service(service));
    }

    /// Connects to `address` in place of the Service `namespace/name` on `port`.
    pub(crate) fn register_listener(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
        address: SocketAddr,
    ) {
        self.services.insert(namespace, name, port, Registered::Listener(address));
    }

    /// Calls `converter` in place of the conversion webhook of a CRD.
    pub(crate) fn register_converter(&self, crd: &str, converter: Converter) {
        self.converters.write().insert(crd.to_owned(), converter);
    }

    /// Returns the converter that stands for the conversion webhook of a CRD.
    pub(crate) fn converter(&self, crd: &str) -> Option<Converter> {
        self.converters.read().get(crd).cloned()
    }

    /// Calls a webhook and returns the body of its response. The error is the reason only.
    pub(crate) async fn post(&self, call: Call<'_>) -> Result<Bytes, String> {
        let target = call.target;
        let seconds = call.timeout.as_millis().div_ceil(1000) as u64;
        let path = target.path_and_query(seconds);
        let authority = target.authority();
        let timeout = call.timeout;
        let outcome = time::timeout(timeout, self.send(target, &path, &authority, call)).await;
        let outcome = outcome.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        let response = outcome.map_err(|why| {
            let url = format!("https://{authority}{path}");
            format!("Post {}: {why}", Quoted(&url))
        })?;
        match response.status.as_u16() {
            code @ 200..=206 if response.body.is_empty() => {
                let given = response.headers.get(CONTENT_TYPE);
                let content_type = given.and_then(|value| value.to_str().ok());
                Err(format!(
                    "0-length response with status code: {code} and content type: {}",
                    content_type.unwrap_or("application/json")
                ))
            }
            200..=206 => Ok(response.body),
            _ => Err(error::message(&response)),
        }
    }

    async fn send(
        &self,
        target: &Target,
        path: &str,
        authority: &str,
        call: Call<'_>,
    ) -> Result<Response, String> {
        let registered = match &target.place {
            Place::Service { namespace, name, port } => self.services.get(namespace, name, *port),
            Place::Url { .. } => None,
        };
        if let Some(Registered::Service(service)) = registered {
            let request = request(path, authority, call.body.len(), Body::full(call.body))?;
            return service(request, call.max_response).await;
        }
        if self.reach == Reach::InProcess {
            return Err(format!(
                "{authority} is not registered in process, and a server in virtual time calls no \
                 other webhooks"
            ));
        }
        let make = || request(path, authority, call.body.len(), Full::new(call.body.clone()));
        if let Some(mut idle) = target.take_idle() {
            match idle.send(make()?, call.max_response).await {
                Ok(response) => {
                    target.keep_idle(idle);
                    return Ok(response);
                }
                // Closed while it was idle: a new connection may work.
                Err(Failure::Closed(_)) => {}
                Err(Failure::Other(why)) => return Err(why),
            }
        }
        let address = match (&target.place, registered) {
            (_, Some(Registered::Listener(address))) => address,
            (Place::Url { host, port, .. }, _) => resolve::host(host, *port, self.reach).await?,
            (Place::Service { namespace, name, port }, _) => {
                resolve::service(&self.store, namespace, name, *port, self.reach).await?
            }
        };
        let connector = target.connector.get_or_init(|| tls::connector(&target.ca_bundle));
        let connector = connector.as_ref().map_err(String::clone)?;
        let mut connection = Connection::open(address, connector, target.server_name()).await?;
        match connection.send(make()?, call.max_response).await {
            Ok(response) => {
                target.keep_idle(connection);
                Ok(response)
            }
            Err(Failure::Closed(why) | Failure::Other(why)) => Err(why),
        }
    }
}

fn request<B>(path: &str, authority: &str, length: usize, body: B) -> Result<Request<B>, String> {
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, authority)
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, length)
        .body(body)
        .map_err(|error| error.to_string())
}
