//! A webhook server that both servers call, over TLS on loopback. The path of a request determines
//! the response.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use evenkeel_pki::certificates::{self, Authority};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A running webhook server. It stops when it is dropped.
#[derive(Debug)]
pub struct WebhookServer {
    address: WebhookAddress,
    _tasks: JoinSet<()>,
}

/// Where the webhooks of a sequence are: `${webhook}` and `${ca}` in its requests.
#[derive(Clone, Debug, Default)]
pub struct WebhookAddress {
    /// The URL without a path.
    pub url: String,
    /// The `caBundle`.
    pub ca_bundle: String,
}

/// Why the server cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookServerError {
    /// The address cannot be bound.
    #[error("cannot listen for webhook requests")]
    Listen(#[from] std::io::Error),
    /// A certificate cannot be issued.
    #[error(transparent)]
    Certificates(#[from] certificates::Error),
    /// The certificate cannot be used.
    #[error("cannot serve webhooks with TLS")]
    Tls(#[from] rustls::Error),
}

impl WebhookServer {
    /// Starts a server on a free port.
    ///
    /// # Errors
    ///
    /// If no port can be bound or no certificate can be issued.
    pub async fn start(now_unix: u64) -> Result<Self, WebhookServerError> {
        let authority = Authority::generate("webhooks", now_unix)?;
        let certificate = authority.issue_serving([])?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificate.chain().to_vec(), certificate.key().clone_key())?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let connection = http1::Builder::new();
                    let served = connection
                        .serve_connection(TokioIo::new(stream), service_fn(respond))
                        .await;
                    // A client that closes its connection is no error.
                    drop(served);
                });
                while connections.try_join_next().is_some() {}
            }
        });
        let ca_bundle = STANDARD.encode(authority.certificate_pem());
        Ok(Self { address: WebhookAddress { url, ca_bundle }, _tasks: tasks })
    }

    /// Returns where the webhooks are.
    pub fn address(&self) -> &WebhookAddress {
        &self.address
    }
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let review = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (code, content_type, body) = answer(&path, &review);
    let response = Response::builder().status(code).header("content-type", content_type);
    let response = response.body(Full::new(body.into()));
    Ok(response.unwrap_or_else(|_| Response::new(Full::default())))
}

/// Returns the code, the content type and the body of a response.
fn answer(path: &str, review: &Value) -> (StatusCode, &'static str, String) {
    let json = |body: Value| (StatusCode::OK, "application/json", body.to_string());
    let text = |code, body: &str| (code, "text/plain", body.to_owned());
    match path {
        "/convert" => json(convert(review)),
        "/error" => text(StatusCode::INTERNAL_SERVER_ERROR, "broken"),
        "/missing" => text(StatusCode::NOT_FOUND, "no such webhook"),
        "/garbage" => text(StatusCode::OK, "not a review"),
        "/half" => text(StatusCode::OK, "{\"kind\":"),
        "/empty" => text(StatusCode::OK, ""),
        "/second" => {
            let review = admitted(review, json!({"allowed": true}));
            (StatusCode::OK, "application/json", format!("{review}{review}"))
        }
        path => json(admitted(review, admission(path, &review["request"]))),
    }
}

fn admitted(review: &Value, mut response: Value) -> Value {
    if response.get("uid").is_none() {
        response["uid"] = review["request"]["uid"].clone();
    }
    json!({
        "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response,
    })
}

/// Returns the response of an AdmissionReview.
fn admission(path: &str, request: &Value) -> Value {
    let patch = |operations: Value| {
        let patch = STANDARD.encode(operations.to_string());
        json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"})
    };
    match path {
        "/deny" => json!({"allowed": false}),
        "/deny-status" => json!({"allowed": false, "status": {
            "code": 403, "reason": "Forbidden", "message": "not here",
            "details": {"name": "x", "causes": [{"reason": "r", "message": "m", "field": "f"}]},
        }}),
        // What the webhook receives is compared, too.
        "/echo" => json!({"allowed": false, "status": {"message": seen(request)}}),
        "/warn" => json!({"allowed": true, "warnings": ["first \"one\"", "second", ""]}),
        "/uid" => json!({"allowed": true, "uid": "other"}),
        "/type" => json!({"allowed": "yes"}),
        "/patch" => patch(json!([
            {"op": "add", "path": "/metadata/labels", "value": {"by": "webhook"}},
        ])),
        "/patch-unknown" => patch(json!([{"op": "add", "path": "/unknown", "value": 1}])),
        "/patch-type" => patch(json!([{"op": "add", "path": "/data", "value": 1}])),
        "/patch-path" => patch(json!([{"op": "remove", "path": "/missing"}])),
        "/patch-kind" => patch(json!([{"op": "replace", "path": "/kind", "value": "Pod"}])),
        "/patch-version" => {
            patch(json!([{"op": "replace", "path": "/apiVersion", "value": "other.test/v1"}]))
        }
        "/patch-namespace" => {
            patch(json!([{"op": "replace", "path": "/metadata/namespace", "value": "other"}]))
        }
        "/patch-invalid" => {
            patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}}]))
        }
        "/patch-without-type" => json!({"allowed": true, "patch": "W10="}),
        _ => json!({"allowed": true}),
    }
}

/// Returns a review without the identity of the user, which differs between the servers.
fn seen(request: &Value) -> String {
    let mut request = request.clone();
    if let Some(request) = request.as_object_mut() {
        request.remove("uid");
        request.remove("userInfo");
    }
    request.to_string()
}

/// Returns the response of a ConversionReview: `spec.size` ("2x3") in v1 is `spec.width` and
/// `spec.height` in other versions. The label `convert` of an object makes its conversion to v1
/// fail.
fn convert(review: &Value) -> Value {
    let request = &review["request"];
    let to = request["desiredAPIVersion"].as_str().unwrap_or("");
    let objects: Vec<Value> = request["objects"].as_array().cloned().unwrap_or_default();
    let mut failure = String::new();
    let objects: Vec<Value> = objects
        .into_iter()
        .map(|mut object| {
            let spec = object["spec"].take();
            let side = |name: &str| spec[name].as_str().unwrap_or("0").to_owned();
            let first = to.ends_with("/v1");
            object["spec"] = if first {
                json!({"size": format!("{}x{}", side("width"), side("height"))})
            } else {
                let size = spec["size"].as_str().unwrap_or("0x0");
                let (width, height) = size.split_once('x').unwrap_or((size, "0"));
                json!({"width": width, "height": height})
            };
            object["apiVersion"] = to.into();
            let how = object["metadata"]["labels"]["convert"].as_str().unwrap_or("").to_owned();
            match &*how {
                "fail" if first => failure.push_str("cannot convert"),
                "name" if first => object["metadata"]["name"] = "other".into(),
                "labels" if first => object["metadata"]["labels"]["more"] = "yes".into(),
                "kind" if first => object["kind"] = "Other".into(),
                _ => {}
            }
            object
        })
        .collect();
    let result = match failure.is_empty() {
        true => json!({"status": "Success"}),
        false => json!({"status": "Failure", "message": failure}),
    };
    json!({
        "apiVersion": review["apiVersion"], "kind": "ConversionReview",
        "response": {"uid": request["uid"], "result": result, "convertedObjects": objects},
    })
}
