//! Webhooks: which are called, and those that run in the same process as the server.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;

use super::{ApiServer, ApiServerBuilder};
use crate::body::Body;
use crate::webhook::Reach;

impl ApiServer {
    /// Calls `service` for webhooks whose `clientConfig` refers to the Service `namespace/name` on
    /// `port`: without a socket, a certificate or DNS, and also in virtual time. The Service need
    /// not exist.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_apiserver::{ApiServer, Body};
    /// use http_body_util::BodyExt as _;
    /// use tower_service::Service as _;
    ///
    /// /// Denies every request.
    /// #[derive(Clone)]
    /// struct Deny;
    ///
    /// impl tower_service::Service<http::Request<Body>> for Deny {
    ///     type Response = http::Response<String>;
    ///     type Error = Box<dyn std::error::Error + Send + Sync>;
    ///     type Future = std::pin::Pin<
    ///         Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>,
    ///     >;
    ///
    ///     fn poll_ready(
    ///         &mut self,
    ///         _: &mut std::task::Context<'_>,
    ///     ) -> std::task::Poll<Result<(), Self::Error>> {
    ///         std::task::Poll::Ready(Ok(()))
    ///     }
    ///
    ///     fn call(&mut self, request: http::Request<Body>) -> Self::Future {
    ///         Box::pin(async move {
    ///             let body = request.into_body().collect().await?.to_bytes();
    ///             let review: serde_json::Value = serde_json::from_slice(&body)?;
    ///             let response = serde_json::json!({
    ///                 "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
    ///                 "response": {
    ///                     "uid": review["request"]["uid"], "allowed": false,
    ///                     "status": {"message": "not today"},
    ///                 },
    ///             });
    ///             Ok(http::Response::new(response.to_string()))
    ///         })
    ///     }
    /// }
    ///
    /// let server = ApiServer::builder().build().await?;
    /// server.register_webhook_service("default", "deny", 443, Deny);
    ///
    /// async fn post(
    ///     server: &ApiServer,
    ///     path: &str,
    ///     object: serde_json::Value,
    /// ) -> Result<String, Box<dyn std::error::Error>> {
    ///     let request = http::Request::post(path)
    ///         .header("content-type", "application/json")
    ///         .body(object.to_string())?;
    ///     let body = server.service().call(request).await?.into_body().collect().await?;
    ///     Ok(String::from_utf8(body.to_bytes().to_vec())?)
    /// }
    ///
    /// let group = "/apis/admissionregistration.k8s.io/v1";
    /// let configurations = format!("{group}/validatingwebhookconfigurations");
    /// post(&server, &configurations, serde_json::json!({
    ///     "apiVersion": "admissionregistration.k8s.io/v1",
    ///     "kind": "ValidatingWebhookConfiguration",
    ///     "metadata": {"name": "deny"},
    ///     "webhooks": [{
    ///         "name": "deny.example.com",
    ///         "admissionReviewVersions": ["v1"],
    ///         "sideEffects": "None",
    ///         "clientConfig": {"service": {"namespace": "default", "name": "deny"}},
    ///         "rules": [{
    ///             "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
    ///             "resources": ["configmaps"],
    ///         }],
    ///     }],
    /// }))
    /// .await?;
    /// let object = serde_json::json!({"metadata": {"name": "a"}});
    /// let response = post(&server, "/api/v1/namespaces/default/configmaps", object).await?;
    /// assert!(response.contains("denied the request: not today"), "{response}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn register_webhook_service<S, B>(&self, namespace: &str, name: &str, port: u16, service: S)
    where
        S: tower_service::Service<Request<Body>, Response = Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.core.webhooks.register_service(namespace, name, port, service);
    }

    /// Calls `converter` in place of the conversion webhook of a CRD, with an object and the API
    /// version to convert it to. The CRD must have the conversion strategy `Webhook`; its
    /// `clientConfig` is not used. As with a webhook, only labels and annotations of the metadata
    /// may change.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = evenkeel_apiserver::ApiServer::builder().build().await?;
    /// server.register_converter("widgets.example.com", |mut object, to| {
    ///     let (from, into) = match to {
    ///         "example.com/v2" => ("colour", "color"),
    ///         _ => ("color", "colour"),
    ///     };
    ///     object["spec"][into] = object["spec"][from].take();
    ///     object["apiVersion"] = to.into();
    ///     Ok(object)
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn register_converter(
        &self,
        crd: &str,
        converter: impl Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    ) {
        self.core.webhooks.register_converter(crd, Arc::new(converter));
    }

    /// Connects to `address` for webhooks whose `clientConfig` refers to the Service
    /// `namespace/name` on `port`. The listener must have a certificate for the name
    /// `<name>.<namespace>.svc`, of an authority in the `caBundle`. The Service need not exist.
    pub fn register_webhook_listener(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
        address: SocketAddr,
    ) {
        self.core.webhooks.register_listener(namespace, name, port, address);
    }
}

impl ApiServerBuilder {
    /// Allows webhooks on other machines. By default only those on loopback addresses and those
    /// registered in process are called.
    pub fn allow_remote_webhooks(mut self) -> Self {
        self.remote_webhooks = true;
        self
    }

    /// Returns what webhooks the server calls.
    pub(super) fn webhook_reach(&self) -> Reach {
        match (self.seed, self.remote_webhooks) {
            (Some(_), _) => Reach::InProcess,
            (None, false) => Reach::Loopback,
            (None, true) => Reach::Anywhere,
        }
    }
}
