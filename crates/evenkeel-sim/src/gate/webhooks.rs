//! Webhooks: calls of the operator's webhooks pass the gate, and a webhook of another owner changes
//! objects when a plan requires it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel::BoxError;
use evenkeel::webhook::WebhookService;
use evenkeel_apiserver::Body;
use evenkeel_types::base64;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::{Gate, connection_refused};
use crate::plan::Effect;
use crate::state;
use crate::trace::Lane;

/// The namespace and name of the Service of the webhook that changes objects.
const NAMESPACE: &str = "sim-webhooks";
const NAME: &str = "mutator";

type ReviewResult = Result<Response<Full<Bytes>>, BoxError>;

/// A webhook that runs in this process.
trait Review: Clone + Send + 'static {
    fn review(self, request: Request<Body>) -> impl Future<Output = ReviewResult> + Send;
}

/// A [`Review`] as the service that the API server calls.
#[derive(Clone)]
pub(crate) struct ReviewService<R>(R);

impl<R: Review> tower_service::Service<Request<Body>> for ReviewService<R> {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = ReviewResult> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.clone().review(request))
    }
}

/// The webhooks of one incarnation, as the API server reaches them.
#[derive(Clone)]
pub(crate) struct Reviews {
    gate: Arc<Gate>,
    incarnation: u32,
    /// The user name of the operator.
    user: Arc<str>,
    service: WebhookService,
}

impl Reviews {
    pub(crate) fn new(
        gate: Arc<Gate>,
        incarnation: u32,
        user: &str,
        service: WebhookService,
    ) -> ReviewService<Self> {
        ReviewService(Self { gate, incarnation, user: user.into(), service })
    }
}

impl Review for Reviews {
    async fn review(mut self, request: Request<Body>) -> ReviewResult {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.map_err(Into::<BoxError>::into)?.to_bytes();
        let review: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let (delay, down) = {
            let mut state = self.gate.state.lock();
            if let Some((resource, object)) = reviewed(&review) {
                *state.requests.reviews.entry(resource.clone()).or_default() += 1;
                if let Some(effect) = state.faults.at_review(&resource, &object) {
                    let text = format!("review of {resource} {object}");
                    match effect {
                        Effect::SlowWebhook(seconds) => {
                            state.conditions.slow_webhooks(seconds);
                            let text = format!("{text}: webhooks are {seconds} s late");
                            self.gate.recorder.fault(Lane::Operator, text);
                        }
                        Effect::WebhookDown(seconds) => {
                            state.conditions.stop_webhooks(seconds);
                            let text = format!("{text}: webhooks are unreachable");
                            self.gate.recorder.fault(Lane::Operator, text);
                        }
                        _ => {}
                    }
                }
            }
            (state.conditions.webhook_delay(), state.conditions.are_webhooks_down())
        };
        if down || !self.gate.is_open(self.incarnation) {
            return Err(connection_refused());
        }
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        let request = Request::from_parts(parts, Full::new(bytes));
        let Ok(response) = tower_service::Service::call(&mut self.service, request).await;
        if review["request"]["userInfo"]["username"] == *self.user {
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await?.to_bytes();
            self.note_own(&review, &bytes);
            return Ok(Response::from_parts(parts, Full::new(bytes)));
        }
        Ok(response)
    }
}

impl Reviews {
    /// Notes whether a write of the operator itself is rejected.
    fn note_own(&self, review: &Value, response: &[u8]) {
        let Some((resource, object)) = reviewed(review) else { return };
        let response: Value = serde_json::from_slice(response).unwrap_or_default();
        let response = &response["response"];
        let object = format!("{resource} {object}");
        let mut state = self.gate.state.lock();
        if response["allowed"] == true {
            state.requests.blocked.remove(&object);
        } else {
            let message = response["status"]["message"].as_str().unwrap_or_default();
            state.requests.blocked.insert(object, message.to_owned());
        }
    }
}

/// Returns the resource and the object of an admission review.
fn reviewed(review: &Value) -> Option<(String, String)> {
    let request = review.get("request").filter(|request| request.get("operation").is_some())?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let [group, plural] = [&request["resource"]["group"], &request["resource"]["resource"]];
    let resource = state::resource(&text(group), &text(plural));
    let [namespace, name] = [&request["namespace"], &request["name"]].map(text);
    let object = match &*namespace {
        "" => name,
        namespace => format!("{namespace}/{name}"),
    };
    Some((resource, object))
}

/// A webhook of another owner that adds an annotation to objects.
#[derive(Clone)]
struct Mutator(Arc<Gate>);

impl Review for Mutator {
    async fn review(self, request: Request<Body>) -> ReviewResult {
        let bytes = request.into_body().collect().await.map_err(Into::<BoxError>::into)?.to_bytes();
        let review: Value = serde_json::from_slice(&bytes)?;
        let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
        if let Some((resource, _)) = reviewed(&review)
            && self.0.state.lock().conditions.is_mutated(&resource)
        {
            let annotations = &review["request"]["object"]["metadata"]["annotations"];
            let patch = match annotations.is_object() {
                true => json!([{"op": "add", "value": "yes",
                    "path": format!("/metadata/annotations/{}", state::MUTATED.replace('/', "~1"))}]),
                false => json!([{"op": "add", "path": "/metadata/annotations",
                    "value": {state::MUTATED: "yes"}}]),
            };
            response["patchType"] = "JSONPatch".into();
            response["patch"] = base64::encode(patch.to_string().as_bytes()).into();
        }
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": response});
        let mut response = Response::new(Full::new(review.to_string().into()));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        Ok(response)
    }
}

impl Gate {
    /// Installs the webhook that changes objects.
    pub(crate) async fn install_mutator(self: &Arc<Self>) -> Result<(), BoxError> {
        let server = self.cluster.server();
        let mutator = ReviewService(Mutator(self.clone()));
        server.register_webhook_service(NAMESPACE, NAME, 443, mutator);
        let service = json!({"namespace": NAMESPACE, "name": NAME, "port": 443});
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": NAME},
            "webhooks": [{
                "name": "mutator.sim.evenkeel.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "clientConfig": {"service": service},
                "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
                    "operations": ["CREATE", "UPDATE"]}],
            }],
        });
        let created = self.user.create(&configuration).await;
        created.map(drop).map_err(|refused| refused.message.into())
    }
}
