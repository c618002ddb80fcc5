//! The responses of webhooks to reviews.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::error::Result;
use crate::metrics::Metrics;
use crate::serve::{self, Handler as _};

#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
struct WidgetSpec {
    size: Option<u32>,
    #[serde(default)]
    color: String,
}

#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1beta1", kind = "Widget", root = "OldWidget")]
#[kube(namespaced)]
struct OldWidgetSpec {
    width: Option<u32>,
    #[serde(default)]
    colour: String,
}

impl From<OldWidget> for Widget {
    fn from(old: OldWidget) -> Self {
        let spec = WidgetSpec { size: old.spec.width, color: old.spec.colour };
        Self { metadata: old.metadata, spec }
    }
}

impl TryFrom<Widget> for OldWidget {
    type Error = String;

    fn try_from(new: Widget) -> Result<Self, String> {
        if new.spec.color == "infrared" {
            return Err("v1beta1 has no infrared".to_owned());
        }
        let spec = OldWidgetSpec { width: new.spec.size, colour: new.spec.color };
        Ok(Self { metadata: new.metadata, spec })
    }
}

fn webhooks() -> Arc<Webhooks> {
    let metrics = Arc::new(Metrics::new());
    Webhooks::new("op".into(), WebhookOptions::new(), "op-system", metrics)
}

fn widget(webhooks: &Webhooks) -> WebhookBuilder<'_, Widget> {
    WebhookBuilder::new(webhooks, || Ok(()))
}

async fn post_raw(webhooks: &Webhooks, path: &str, content_type: &str, body: String) -> Value {
    let request = Request::post(path).header("content-type", content_type);
    let request = request.body(serve::boxed(Full::from(body))).unwrap();
    let response = webhooks.handle(request).await;
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// Sends a v1 review and returns the response in it.
async fn admit(webhooks: &Webhooks, path: &str, request: Value) -> Value {
    let review = review("admission.k8s.io/v1", request);
    let answer = post_raw(webhooks, path, "application/json", review.to_string()).await;
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], "u1");
    answer["response"].clone()
}

fn review(version: &str, fields: Value) -> Value {
    let mut request = json!({
        "uid": "u1", "operation": "CREATE", "name": "a", "namespace": "default",
        "kind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "resource": {"group": "example.com", "version": "v1", "resource": "widgets"},
        "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
        "object": null, "oldObject": null, "dryRun": false,
    });
    let Value::Object(fields) = fields else { panic!("{fields}") };
    for (name, value) in fields {
        request[name] = value;
    }
    json!({"kind": "AdmissionReview", "apiVersion": version, "request": request})
}

fn object(spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a", "namespace": "default", "managedFields": [{"future": 1}]},
    });
    object["spec"] = spec;
    object
}

fn patch(response: &Value) -> Value {
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    serde_json::from_slice(&patch).unwrap()
}

fn size(widget: &mut Widget, _: &AdmissionRequest) -> Result<()> {
    widget.spec.size.get_or_insert(3);
    Ok(())
}

const MUTATE: &str = "/mutate-example-com-v1-widget";
const VALIDATE: &str = "/validate-example-com-v1-widget";

#[tokio::test]
async fn defaults_are_a_patch_of_the_object_as_it_was_sent() {
    let webhooks = webhooks();
    widget(&webhooks).defaulter(size).register().unwrap();
    let response =
        admit(&webhooks, MUTATE, json!({"object": object(json!({"future": {"x": 1}}))})).await;
    assert_eq!(response["allowed"], true);
    // Neither the unknown field nor the colour, which the type prints, is touched.
    assert_eq!(patch(&response), json!([{"op": "add", "path": "/spec/size", "value": 3}]));

    let unchanged = admit(&webhooks, MUTATE, json!({"object": object(json!({"size": 1}))})).await;
    assert_eq!(unchanged["allowed"], true);
    assert!(unchanged.get("patch").is_none());
    let old = json!({"operation": "DELETE", "oldObject": object(json!({}))});
    assert!(admit(&webhooks, MUTATE, old).await.get("patch").is_none());
}

#[tokio::test]
async fn several_defaulters_run_in_order_and_raw_handlers_add_to_the_patch() {
    let webhooks = webhooks();
    let double = |widget: &mut Widget, _: &AdmissionRequest| {
        widget.spec.size = widget.spec.size.map(|size| size * 2);
        Ok(())
    };
    let label = |request: &AdmissionRequest| {
        let before: Value = request.object().unwrap().unwrap();
        let mut after = before.clone();
        after["metadata"]["labels"] = json!({"user": request.user_info.username});
        AdmissionResponse::allowed().patched(&before, &after).audit_annotation("by", "test")
    };
    let builder = widget(&webhooks).defaulter(size).defaulter(double);
    builder.mutating_handler(label).register().unwrap();
    let response = admit(&webhooks, MUTATE, json!({"object": object(json!({}))})).await;
    let expected = json!([
        {"op": "add", "path": "/spec/size", "value": 6},
        {"op": "add", "path": "/metadata/labels", "value": {"user": "ada"}},
    ]);
    assert_eq!(patch(&response), expected);
    assert_eq!(response["auditAnnotations"], json!({"by": "test"}));
}

/// Denies in several ways.
struct Sizes;

impl Validator<Widget> for Sizes {
    async fn validate_create(&self, widget: &Widget, _: &AdmissionRequest) -> Result<Warnings> {
        match widget.spec.size {
            Some(0) => {
                let mut invalid = Invalid::of::<Widget>("a");
                invalid.value("spec.size", &0, "must be positive").required("spec.color", "");
                invalid.into_result()?;
                Ok(Warnings::new())
            }
            Some(7) => panic!("seven"),
            Some(13) => Err("thirteen is unlucky".into()),
            Some(100..) => Ok(vec!["that is large".to_owned()]),
            _ => Ok(Warnings::new()),
        }
    }

    async fn validate_update(
        &self,
        old: &Widget,
        new: &Widget,
        _: &AdmissionRequest,
    ) -> Result<Warnings> {
        if old.spec.size > new.spec.size {
            return Err("a widget cannot shrink".into());
        }
        Ok(Warnings::new())
    }

    async fn validate_delete(&self, old: &Widget, _: &AdmissionRequest) -> Result<Warnings> {
        match old.spec.color.as_str() {
            "gold" => Err("gold is kept".into()),
            _ => Ok(Warnings::new()),
        }
    }
}

#[tokio::test]
async fn validators_decide_by_operation() {
    let webhooks = webhooks();
    widget(&webhooks).validator(Sizes).on_delete().register().unwrap();
    let ask = async |fields: Value| admit(&webhooks, VALIDATE, fields).await;
    let create = |size: u32| json!({"object": object(json!({"size": size}))});

    assert_eq!(ask(create(1)).await["status"]["code"], 200);
    let warned = ask(create(100)).await;
    assert_eq!(
        (&warned["allowed"], &warned["warnings"]),
        (&json!(true), &json!(["that is large"]))
    );
    let denied = ask(create(13)).await;
    assert_eq!(denied["allowed"], false);
    let status = &denied["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")));
    assert_eq!(status["message"], "thirteen is unlucky");

    let invalid = ask(create(0)).await;
    let status = &invalid["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    let message = "Widget.example.com \"a\" is invalid: [spec.size: Invalid value: 0: must be \
                   positive, spec.color: Required value]";
    assert_eq!(status["message"], message);
    assert_eq!(status["details"]["causes"][0]["field"], "spec.size");

    let (small, large) = (object(json!({"size": 1})), object(json!({"size": 2})));
    let update = json!({"operation": "UPDATE", "oldObject": large, "object": small});
    assert_eq!(ask(update).await["status"]["message"], "a widget cannot shrink");
    let update = json!({"operation": "UPDATE", "oldObject": small, "object": large});
    assert_eq!(ask(update).await["allowed"], true);
    let delete = json!({"operation": "DELETE", "oldObject": object(json!({"color": "gold"}))});
    assert_eq!(ask(delete).await["status"]["message"], "gold is kept");
    let connect = json!({"operation": "CONNECT", "object": {"kind": "PodExecOptions"}});
    assert_eq!(ask(connect).await["allowed"], true);
}

#[tokio::test]
async fn the_first_denial_wins_and_keeps_the_warnings_before_it() {
    let webhooks = webhooks();
    let warn = |_: &Widget, _: &AdmissionRequest| Ok(vec!["first".to_owned()]);
    let deny = |_: &Widget, _: &AdmissionRequest| Err("second".into());
    let panics = |_: &Widget, _: &AdmissionRequest| panic!("third");
    widget(&webhooks).validator(warn).validator(deny).validator(panics).register().unwrap();
    let response = admit(&webhooks, VALIDATE, json!({"object": object(json!({}))})).await;
    assert_eq!(response["status"]["message"], "second");
    assert_eq!(response["warnings"], json!(["first"]));
}

#[tokio::test]
async fn api_status_errors_are_passed_through() {
    let webhooks = webhooks();
    let deny = |_: &Widget, _: &AdmissionRequest| {
        let status = kube::core::Status::failure("no such size", "NotFound").with_code(404);
        Err(kube::Error::Api(status.boxed()).into())
    };
    widget(&webhooks).validator(deny).register().unwrap();
    let response = admit(&webhooks, VALIDATE, json!({"object": object(json!({}))})).await;
    let status = &response["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(404), &json!("NotFound")));
    assert_eq!(status["message"], "no such size");
}

#[tokio::test]
async fn malformed_requests_are_denied_with_their_uid_and_a_code() {
    let webhooks = webhooks();
    widget(&webhooks).defaulter(size).validator(Sizes).register().unwrap();
    let deny = async |content_type: &str, body: String| {
        let answer = post_raw(&webhooks, VALIDATE, content_type, body).await;
        let response = &answer["response"];
        assert_eq!(response["allowed"], false);
        (response["uid"].clone(), response["status"]["code"].clone())
    };
    let v1 = "admission.k8s.io/v1";
    let create = |fields: Value| review(v1, fields).to_string();
    let good = create(json!({"object": object(json!({}))}));
    assert_eq!(deny("text/plain", good.clone()).await, (json!("u1"), json!(400)));
    assert_eq!(deny("application/json", String::new()).await, (json!(""), json!(400)));
    assert_eq!(deny("application/json", "{".to_owned()).await, (json!(""), json!(400)));
    let kind = good.replace("AdmissionReview", "TokenReview");
    assert_eq!(deny("application/json", kind).await, (json!("u1"), json!(400)));
    let wrong = create(json!({"object": object(json!({"size": "large"}))}));
    assert_eq!(deny("application/json", wrong).await, (json!("u1"), json!(400)));
    let none = create(json!({}));
    assert_eq!(deny("application/json", none).await, (json!("u1"), json!(400)));
    let pod = json!({"kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": object(json!({}))});
    assert_eq!(deny("application/json", create(pod)).await, (json!("u1"), json!(400)));
    let panic = create(json!({"object": object(json!({"size": 7}))}));
    assert_eq!(deny("application/json", panic).await, (json!("u1"), json!(500)));

    let padding = |length: usize| {
        let body = create(json!({"object": object(json!({"color": ""}))}));
        let padding = " ".repeat(length - body.len());
        body + &padding
    };
    let largest = post_raw(&webhooks, VALIDATE, "application/json", padding(7 << 20)).await;
    assert_eq!(largest["response"]["allowed"], true);
    let larger = padding((7 << 20) + 1);
    assert_eq!(deny("application/json", larger).await, (json!("u1"), json!(413)));
}

#[tokio::test]
async fn reviews_are_answered_in_their_version() {
    let webhooks = webhooks();
    widget(&webhooks).validator(Sizes).register().unwrap();
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let body = review(version, json!({"object": object(json!({}))})).to_string();
        let json = "application/json; charset=utf-8";
        let answer = post_raw(&webhooks, VALIDATE, json, body).await;
        assert_eq!(answer["apiVersion"], version);
        assert_eq!(answer["response"]["allowed"], true);
    }
}

#[tokio::test]
async fn requests_and_panics_are_counted_by_path() {
    let webhooks = webhooks();
    widget(&webhooks).validator(Sizes).register().unwrap();
    for size in [1, 7] {
        admit(&webhooks, VALIDATE, json!({"object": object(json!({"size": size}))})).await;
    }
    let text = webhooks.metrics.registry.encode();
    let requests =
        "controller_runtime_webhook_requests_total{webhook=\"/validate-example-com-v1-widget\"";
    assert!(text.contains(&format!("{requests},code=\"200\"}} 2")), "{text}");
    assert!(text.contains("controller_runtime_webhook_panics_total 1"), "{text}");
}

#[tokio::test]
async fn unknown_paths_are_not_found() {
    let request = Request::post("/mutate-v1-pod").body(serve::boxed(Full::from(""))).unwrap();
    assert_eq!(webhooks().handle(request).await.status(), 404);
}

#[test]
fn a_path_is_registered_once() {
    let webhooks = webhooks();
    widget(&webhooks).defaulter(size).register().unwrap();
    let taken = widget(&webhooks).defaulter(size).register();
    assert!(matches!(taken, Err(RegisterError::PathTaken(path)) if path == MUTATE));
    let elsewhere = widget(&webhooks).defaulter(size).mutating_path("/again");
    elsewhere.register().unwrap();
    let relative = widget(&webhooks).defaulter(size).mutating_path("again").register();
    assert!(matches!(relative, Err(RegisterError::Path(_))));
    assert!(matches!(widget(&webhooks).register(), Err(RegisterError::NoHandler(_))));
}

/// Accepts one token.
struct Tokens;

impl TokenAuthenticator for Tokens {
    async fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<AuthenticatedUser>> {
        match token {
            "good" => {
                let mut user = AuthenticatedUser::default();
                user.user.username = Some("ada".to_owned());
                user.audiences = audiences.to_vec();
                Ok(Some(user))
            }
            "down" => Err("directory is down".into()),
            "panic" => panic!("a bug"),
            _ => Ok(None),
        }
    }
}

#[tokio::test]
async fn tokens_are_reviewed() {
    let webhooks = webhooks();
    webhooks.add_authenticator("/authenticate", Tokens).unwrap();
    let status = async |token: &str| {
        let review = json!({"apiVersion": "authentication.k8s.io/v1beta1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": ["api"]}});
        let body = review.to_string();
        let answer = post_raw(&webhooks, "/authenticate", "application/json", body).await;
        assert_eq!(answer["apiVersion"], "authentication.k8s.io/v1beta1");
        answer["status"].clone()
    };
    let good = json!({"authenticated": true, "user": {"username": "ada"}, "audiences": ["api"]});
    assert_eq!(status("good").await, good);
    assert_eq!(status("bad").await, json!({"authenticated": false}));
    let error = |text: &str| json!({"authenticated": false, "error": text});
    assert_eq!(status("").await, error("token is empty"));
    assert_eq!(status("down").await, error("directory is down"));
    assert_eq!(status("panic").await, error("panic: a bug [recovered]"));
    let large = "x".repeat((1 << 20) + 1);
    let answer = post_raw(&webhooks, "/authenticate", "application/json", large).await;
    assert_eq!(answer["status"], error("request body is larger than 1048576 bytes"));
}

async fn convert(webhooks: &Webhooks, to: &str, objects: Value) -> Value {
    let mut request = json!({"uid": "u1", "desiredAPIVersion": to});
    request["objects"] = objects;
    let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": request});
    let answer = post_raw(webhooks, "/convert", "application/json", review.to_string()).await;
    assert_eq!(answer["response"]["uid"], "u1");
    answer["response"].clone()
}

#[tokio::test]
async fn objects_are_converted_through_the_hub_and_keep_their_metadata() {
    let webhooks = webhooks();
    webhooks.add_conversion(Conversion::hub::<Widget>().spoke::<OldWidget>()).unwrap();
    let new = object(json!({"size": 2, "color": "red"}));
    let response = convert(&webhooks, "example.com/v1beta1", json!([new.clone()])).await;
    assert_eq!(response["result"]["status"], "Success");
    let old = &response["convertedObjects"][0];
    assert_eq!(old["spec"], json!({"width": 2, "colour": "red"}));
    assert_eq!(old["metadata"], new["metadata"], "also fields that the type does not know");
    let back = convert(&webhooks, "example.com/v1", json!([old.clone()])).await;
    assert_eq!(back["convertedObjects"][0], new);
}

#[tokio::test]
async fn conversions_that_fail_name_the_object_and_the_cause() {
    let webhooks = webhooks();
    webhooks.add_conversion(Conversion::hub::<Widget>().spoke::<OldWidget>()).unwrap();
    let fail = async |to: &str, object: Value| {
        let response = convert(&webhooks, to, json!([object])).await;
        assert_eq!(response["convertedObjects"], json!([]));
        assert_eq!(response["result"]["status"], "Failure");
        response["result"]["message"].as_str().unwrap().to_owned()
    };
    let infrared = object(json!({"color": "infrared"}));
    assert_eq!(
        fail("example.com/v1beta1", infrared).await,
        "failed to convert Widget \"a\" to example.com/v1beta1: v1beta1 has no infrared",
    );
    let same = fail("example.com/v1", object(json!({}))).await;
    assert!(same.ends_with("conversion is not allowed from example.com/v1 to itself"), "{same}");
    let unknown = fail("example.com/v2", object(json!({}))).await;
    assert!(
        unknown.ends_with("example.com/v2 of Widget has no registered conversion"),
        "{unknown}"
    );
    let other = fail("example.com/v1", json!({"apiVersion": "v1", "kind": "Pod"})).await;
    assert_eq!(other, "v1, Kind=Pod has no registered conversion");
}

#[test]
fn conversions_must_be_versions_of_one_resource() {
    let webhooks = webhooks();
    webhooks.add_conversion(Conversion::hub::<Widget>().spoke::<OldWidget>()).unwrap();
    let twice = webhooks.add_conversion(Conversion::hub::<Widget>().spoke::<OldWidget>());
    assert!(matches!(twice, Err(RegisterError::Conversion(_))));
    let crd = Conversion::hub::<Widget>().spoke::<OldWidget>().crd().unwrap();
    let mut stored: Vec<(&str, bool)> =
        crd.spec.versions.iter().map(|version| (&*version.name, version.storage)).collect();
    stored.sort_unstable();
    assert_eq!(stored, [("v1", true), ("v1beta1", false)]);
}

#[test]
fn configurations_follow_the_registered_webhooks() {
    let webhooks = webhooks();
    widget(&webhooks).defaulter(size).validator(Sizes).on_delete().register().unwrap();
    let pods = WebhookBuilder::<Pod>::new(&webhooks, || Ok(()));
    let allow = |_: &Pod, _: &AdmissionRequest| Ok(Warnings::new());
    pods.validator(allow).ignore_failures().register().unwrap();
    let rendered = serde_json::to_value(webhooks.configurations().mutating).unwrap();
    assert_eq!(rendered["metadata"]["name"], "op-mutating-webhook-configuration");
    let expected = json!({
        "name": "mwidget-v1.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {
            "namespace": "op-system", "name": "op-webhook-service", "port": 443, "path": MUTATE,
        }},
        "rules": [{
            "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"],
            "operations": ["CREATE", "UPDATE"],
        }],
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None",
        "namespaceSelector": {"matchExpressions": [{
            "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["op-system"],
        }]},
    });
    assert_eq!(rendered["webhooks"], json!([expected]));
    let rendered = serde_json::to_value(webhooks.configurations().validating).unwrap();
    let [widgets, pods] = rendered["webhooks"].as_array().unwrap().as_slice() else {
        panic!("{rendered}")
    };
    assert_eq!(widgets["rules"][0]["operations"], json!(["CREATE", "UPDATE", "DELETE"]));
    assert_eq!(pods["name"], "vpod-v1.core.k8s.io");
    assert_eq!(pods["clientConfig"]["service"]["path"], "/validate--v1-pod");
    assert_eq!(pods["failurePolicy"], "Ignore");
}

#[test]
fn own_namespace_is_matched_on_request_only() {
    let webhooks = webhooks();
    let selector = |path: &str, own: bool| {
        let builder = WebhookBuilder::<ConfigMap>::new(&webhooks, || Ok(()));
        let allow = |_: &ConfigMap, _: &AdmissionRequest| Ok(Warnings::new());
        let builder = builder.validator(allow).validating_path(path);
        let builder = if own { builder.in_own_namespace() } else { builder };
        builder.register().unwrap();
        let all = webhooks.configurations().validating.unwrap().webhooks.unwrap();
        all.into_iter().next_back().unwrap().namespace_selector
    };
    assert!(selector("/a", false).is_some());
    assert!(selector("/b", true).is_none());
}

#[test]
fn permissions_are_restricted_to_names() {
    let webhooks = webhooks();
    widget(&webhooks).validator(Sizes).register().unwrap();
    webhooks.add_conversion(Conversion::hub::<Widget>().spoke::<OldWidget>()).unwrap();
    let rules = webhooks.rules();
    assert_eq!(rules.role.metadata.namespace.as_deref(), Some("op-system"));
    let role = serde_json::to_value(&rules.role.rules).unwrap();
    let secrets =
        |verbs: Value| json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs});
    let mut named = secrets(json!(["get", "update"]));
    named["resourceNames"] = json!(["op-webhook-ca"]);
    assert_eq!(role, json!([named, secrets(json!(["create"]))]));
    let cluster_role = serde_json::to_value(&rules.cluster_role.rules).unwrap();
    let names: Vec<&Value> =
        cluster_role.as_array().unwrap().iter().map(|rule| &rule["resourceNames"][0]).collect();
    assert_eq!(names, ["op-validating-webhook-configuration", "widgets.example.com"]);
}
