//! Admission webhooks: which are called, with what, and what their responses do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use evenkeel_apiserver::audit::AuditAnnotations;
use evenkeel_apiserver::{ApiServer, Durability, Service};
use http::Method;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::durability::Scratch;
use crate::harness::{CONFIG_MAPS, Cluster, PODS, config_map, pod, request, send, text, widget};
use crate::webhook_service::{
    MUTATING, VALIDATING, Webhook, allow, configuration, deny, hook, install, install_patch,
    patched, response,
};

#[tokio::test(start_paused = true)]
async fn patched_object_is_decoded_and_defaulted_again() {
    let cluster = Cluster::new().await;
    let patch = json!([
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "side:1"}},
        {"op": "add", "path": "/spec/unknown", "value": 1},
        {"op": "add", "path": "/metadata/labels", "value": {"injected": "yes"}},
    ]);
    install_patch(&cluster, "inject", patch, |hook| {
        hook["rules"][0]["resources"] = json!(["pods"])
    })
    .await;
    let pod = cluster.post(PODS, pod("a")).await.expect(201);
    assert_eq!(pod["metadata"]["labels"], json!({"injected": "yes"}));
    assert_eq!(pod["spec"]["containers"][1]["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(pod["spec"].get("unknown"), None);
    // Webhooks are no field managers.
    assert!(!pod["metadata"]["managedFields"].to_string().contains("side"));
}

#[tokio::test(start_paused = true)]
async fn patched_custom_resource_is_defaulted_and_pruned() {
    let cluster = Cluster::with_widgets().await;
    let patch = json!([
        {"op": "remove", "path": "/spec/replicas"},
        {"op": "add", "path": "/spec/unknown", "value": 1},
        {"op": "replace", "path": "/spec/color", "value": "blue"},
    ]);
    install_patch(&cluster, "w", patch, |hook| hook["rules"][0]["resources"] = json!(["widgets"]))
        .await;
    let path = crate::harness::WIDGETS;
    cluster.post(path, widget("a", json!({"color": "red", "replicas": 5}))).await.expect(201);
    let stored = cluster.get(&format!("{path}/a")).await.expect(200);
    assert_eq!(stored["spec"], json!({"color": "blue", "replicas": 1}));
}

#[tokio::test(start_paused = true)]
async fn denial_returns_the_status_of_the_webhook() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(|request| {
        let status = match request["name"].as_str().unwrap_or("") {
            "message" => json!({"message": "no"}),
            "reason" => json!({"reason": "Because", "code": 418}),
            "success" => json!({"code": 200, "status": "Success", "message": "still no"}),
            _ => Value::Null,
        };
        response(request, json!({"allowed": false, "status": status}))
    });
    let client = webhook.register(&cluster, "deny");
    install(&cluster, VALIDATING, "deny", &client, |_| ()).await;
    let denied = "admission webhook \"deny.example.com\" denied the request";
    for (name, code, reason, message) in [
        ("message", 400, "", format!("{denied}: no")),
        ("reason", 418, "Because", format!("{denied}: Because")),
        ("success", 400, "", format!("{denied}: still no")),
        ("none", 400, "", format!("{denied} without explanation")),
    ] {
        let response = cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await;
        response.expect_error(code, reason, &message);
    }
    assert!(cluster.names(CONFIG_MAPS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn review_describes_the_request() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(allow);
    let client = webhook.register(&cluster, "all");
    install(&cluster, VALIDATING, "all", &client, |_| ()).await;
    let path = format!("{CONFIG_MAPS}?fieldManager=me&fieldValidation=Strict");
    cluster.post(&path, config_map("a", json!({"k": "1"}))).await.expect(201);
    cluster.merge(&format!("{CONFIG_MAPS}/a"), json!({"data": {"k": "2"}})).await.expect(200);
    let options = json!({"gracePeriodSeconds": 3, "propagationPolicy": "Background"});
    cluster.delete_with(&format!("{CONFIG_MAPS}/a"), options).await.expect(200);
    let [create, update, delete] = webhook.take().try_into().unwrap();
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    for request in [&create, &update, &delete] {
        assert_eq!(request["kind"], kind);
        assert_eq!(request["requestKind"], kind);
        assert_eq!(request["resource"], resource);
        assert_eq!(request["requestResource"], resource);
        assert_eq!((&request["name"], &request["namespace"]), (&json!("a"), &json!("default")));
        assert_eq!(request["userInfo"]["username"], "admin");
        assert_eq!(request["userInfo"]["groups"][0], "system:masters");
        assert_eq!(request["dryRun"], false);
        assert_eq!(request.get("subResource"), None);
        assert_eq!(text(&request["uid"]).len(), 36);
    }
    assert_eq!(create["operation"], "CREATE");
    assert_eq!(create["oldObject"], Value::Null);
    assert_eq!(create["object"]["kind"], "ConfigMap");
    assert_eq!(create["object"]["metadata"]["namespace"], "default");
    assert!(create["object"]["metadata"]["uid"].is_string());
    assert_eq!(
        create["options"],
        json!({
            "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me",
            "fieldValidation": "Strict",
        })
    );
    assert_eq!(update["operation"], "UPDATE");
    assert_eq!(update["object"]["data"]["k"], "2");
    assert_eq!(update["oldObject"]["data"]["k"], "1");
    assert_eq!(update["options"], json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}));
    assert_eq!(delete["operation"], "DELETE");
    assert_eq!(delete["object"], Value::Null);
    assert_eq!(delete["oldObject"]["data"]["k"], "2");
    assert_eq!(
        delete["options"],
        json!({
            "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 3,
            "propagationPolicy": "Background",
        })
    );
}

#[tokio::test(start_paused = true)]
async fn failed_call_is_decided_by_the_failure_policy() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::raw(|review| {
        let request = &review["request"];
        let reply = |body: Value| (200, body.to_string());
        match request["name"].as_str().unwrap_or("") {
            "error" => (500, "broken".to_owned()),
            "missing" => (404, String::new()),
            "redirect" => (302, String::new()),
            "garbage" => (200, "{".to_owned()),
            "text" => (200, "not json".to_owned()),
            "empty" => (200, String::new()),
            "second" => (200, format!("{}{{}}", allow(request))),
            "absent" => {
                reply(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}))
            }
            "uid" => reply(allow(&json!({"uid": "other"}))),
            "kind" => {
                let mut review = allow(request);
                review.as_object_mut().unwrap().remove("kind");
                reply(review)
            }
            "version" => {
                let mut review = allow(request);
                review["apiVersion"] = "admission.k8s.io/v1beta1".into();
                reply(review)
            }
            "type" => reply(response(request, json!({"allowed": "yes"}))),
            "patch" => reply(patched(request, json!([]))),
            _ => reply(allow(request)),
        }
    });
    let client = webhook.register(&cluster, "v");
    install(&cluster, VALIDATING, "v", &client, |_| ()).await;
    let called = "failed to call webhook: ";
    let invalid = "received invalid webhook response: ";
    for (name, why) in [
        (
            "error",
            format!(
                "{called}an error on the server (\"broken\") has prevented the request from succeeding"
            ),
        ),
        ("missing", format!("{called}the server could not find the requested resource")),
        (
            "redirect",
            format!(
                "{called}the server responded with the status code 302 but did not return more \
             information"
            ),
        ),
        (
            "garbage",
            format!(
                "{called}couldn't get version/kind; json parse error: unexpected end of JSON input"
            ),
        ),
        (
            "text",
            format!(
                "{called}couldn't get version/kind; json parse error: json: cannot unmarshal \
                 string into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }}"
            ),
        ),
        (
            "empty",
            format!(
                "{called}0-length response with status code: 200 and content type: application/json"
            ),
        ),
        (
            "second",
            format!(
                "{called}couldn't get version/kind; json parse error: invalid character '{{' after \
             top-level value"
            ),
        ),
        ("absent", format!("{invalid}webhook response was absent")),
        (
            "version",
            format!(
                "{called}converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown \
             conversion"
            ),
        ),
        (
            "type",
            format!(
                "{called}json: cannot unmarshal string into Go struct field \
             AdmissionResponse.response.allowed of type bool"
            ),
        ),
        ("patch", format!("{invalid}validating webhook may not return response.patch")),
    ] {
        let response = cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await;
        let message =
            format!("Internal error occurred: failed calling webhook \"v.example.com\": {why}");
        response.expect_error(500, "InternalError", &message);
    }
    for (name, part) in [
        ("uid", "received invalid webhook response: expected response.uid=\""),
        (
            "kind",
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got \
                  admission.k8s.io/v1, Kind=",
        ),
    ] {
        let error = cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(500);
        assert!(text(&error["message"]).contains(part), "{error}");
    }
    let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    let path = format!("{VALIDATING}/v");
    cluster.patch(&path, crate::harness::Patch::Json, ignore).await.expect(200);
    for name in ["error", "garbage", "second", "uid", "patch"] {
        let path = request(
            Method::POST,
            CONFIG_MAPS,
            &[("content-type", "application/json")],
            config_map(name, json!({})).to_string(),
        );
        let response = cluster.server.service().call(path).await.unwrap();
        assert_eq!(response.status(), 201, "{name}");
        let annotations = response.extensions().get::<AuditAnnotations>().unwrap();
        let key = "failed-open.validating.webhook.admission.k8s.io/round_0_index_0";
        assert_eq!(annotations.get(key), Some("v.example.com"));
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_webhooks_time_out() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::awaiting(|_| Box::pin(std::future::pending()));
    let client = webhook.register(&cluster, "hang");
    install(&cluster, VALIDATING, "hang", &client, |hook| hook["timeoutSeconds"] = 2.into()).await;
    let started = tokio::time::Instant::now();
    let response = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await;
    response.expect_error(
        500,
        "InternalError",
        "Internal error occurred: failed calling webhook \"hang.example.com\": failed to call \
         webhook: Post \"https://hang.default.svc:443/review?timeout=2s\": context deadline exceeded",
    );
    assert_eq!(started.elapsed().as_secs(), 2);
    cluster.delete(&format!("{VALIDATING}/hang")).await.expect(200);
    // Several mutating webhooks share the time of the request.
    let hooks: Vec<Value> = (0..3)
        .map(|at| {
            let mut hook = hook(&format!("h{at}.example.com"), &client, json!(["configmaps"]));
            hook["timeoutSeconds"] = 30.into();
            hook["failurePolicy"] = "Ignore".into();
            hook
        })
        .collect();
    cluster.post(MUTATING, configuration(MUTATING, "slow", hooks.into())).await.expect(201);
    let started = tokio::time::Instant::now();
    let response = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await;
    response.expect_error(
        504,
        "Timeout",
        "Timeout: request did not complete within requested timeout",
    );
    assert_eq!(started.elapsed().as_secs(), 34);
}

#[tokio::test(start_paused = true)]
async fn dry_run_is_passed_to_webhooks_without_side_effects_on_dry_run() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(allow);
    let client = webhook.register(&cluster, "w");
    install(&cluster, VALIDATING, "w", &client, |hook| {
        hook["sideEffects"] = "NoneOnDryRun".into();
    })
    .await;
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    cluster.post(&path, config_map("a", json!({}))).await.expect(201);
    let [seen] = webhook.take().try_into().unwrap();
    assert_eq!(seen["dryRun"], true);
    assert_eq!(seen["options"]["dryRun"], json!(["All"]));
    // Of v1, a webhook with side effects cannot be configured.
    let mut hook = hook("s.example.com", &client, json!(["configmaps"]));
    hook["sideEffects"] = "Some".into();
    let refused = cluster.post(VALIDATING, configuration(VALIDATING, "s", json!([hook]))).await;
    assert_eq!(
        refused.expect(422)["details"]["causes"][0]["message"],
        "Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\""
    );
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_request_ends_a_call_that_hangs() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::awaiting(|_| Box::pin(std::future::pending()));
    let client = webhook.register(&cluster, "hang");
    install(&cluster, VALIDATING, "hang", &client, |hook| {
        hook["timeoutSeconds"] = 30.into();
        hook["failurePolicy"] = "Ignore".into();
    })
    .await;
    let started = tokio::time::Instant::now();
    let path = format!("{CONFIG_MAPS}?timeout=3s");
    let response = cluster.post(&path, config_map("a", json!({}))).await;
    response.expect_error(
        504,
        "Timeout",
        "Timeout: request did not complete within the allotted timeout",
    );
    assert_eq!(started.elapsed().as_secs(), 3);
    assert!(cluster.names(CONFIG_MAPS).await.is_empty(), "nothing is stored later");
}

#[tokio::test(start_paused = true)]
async fn warnings_and_audit_annotations_are_kept() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(|request| {
        let response_body = json!({
            "allowed": true, "warnings": ["mind the gap"], "auditAnnotations": {"key": "value"},
        });
        response(request, response_body)
    });
    let client = webhook.register(&cluster, "w");
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    let body = config_map("a", json!({})).to_string();
    let sent = request(Method::POST, CONFIG_MAPS, &[("content-type", "application/json")], body);
    let response = cluster.server.service().call(sent).await.unwrap();
    let warnings: Vec<_> = response.headers().get_all("warning").iter().collect();
    assert_eq!(warnings, ["299 - \"mind the gap\""]);
    let annotations = response.extensions().get::<AuditAnnotations>().unwrap();
    assert_eq!(annotations.get("w.example.com/key"), Some("value"));
    // Also for each object of a collection.
    let deleted = cluster.delete(CONFIG_MAPS).await;
    assert!(deleted.warnings().contains(&"299 - \"mind the gap\""));
}

#[tokio::test(start_paused = true)]
async fn webhook_may_read_and_write_the_object_it_reviews() {
    let cluster = Cluster::new().await;
    let service: Arc<OnceLock<Service>> = Arc::default();
    let (own, depth) = (service.clone(), Arc::new(AtomicUsize::new(0)));
    let webhook = Webhook::awaiting(move |review| {
        let (own, depth) = (own.clone(), depth.clone());
        Box::pin(async move {
            let request = &review["request"];
            let path = format!("{CONFIG_MAPS}/a");
            // The first review writes the object, which is reviewed, too.
            if request["operation"] == "UPDATE" && depth.fetch_add(1, Ordering::SeqCst) == 0 {
                let service = own.get().unwrap().clone();
                let read = send(service.clone(), Method::GET, &path, &[], "").await;
                assert_eq!(read.status, 200);
                let headers = [("content-type", "application/merge-patch+json")];
                let body = json!({"data": {"by": "webhook"}}).to_string();
                let written = send(service, Method::PATCH, &path, &headers, body).await;
                assert_eq!(written.status, 200, "{}", written.text());
            }
            (200, allow(request).to_string())
        })
    });
    service.set(cluster.server.service()).ok().unwrap();
    let client = webhook.register(&cluster, "w");
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    let path = format!("{CONFIG_MAPS}/a");
    let stored = cluster.merge(&path, json!({"data": {"by-client": "1"}})).await.expect(200);
    // The write of the webhook came first, so the patch was applied to its result.
    assert_eq!(stored["data"], json!({"by": "webhook", "by-client": "1"}));
    assert_eq!(webhook.take().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn patch_of_a_deleted_object_and_unusable_patches_are_refused() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(|request| match request["name"].as_str().unwrap_or("") {
        "type" => patched(request, json!([{"op": "add", "path": "/data", "value": 1}])),
        "path" => patched(request, json!([{"op": "remove", "path": "/missing"}])),
        "object" => patched(request, json!({"op": "remove"})),
        "other" => {
            response(request, json!({"allowed": true, "patch": "W10x", "patchType": "Merge"}))
        }
        _ => patched(request, json!([{"op": "add", "path": "/data", "value": {"a": "b"}}])),
    });
    let client = webhook.register(&cluster, "w");
    install(&cluster, MUTATING, "w", &client, |_| ()).await;
    let failing = "Internal error occurred: ";
    let calling = "Internal error occurred: failed calling webhook \"w.example.com\": received \
                   undecodable patch in webhook response: ";
    for (name, message) in [
        (
            "path",
            format!(
                "{failing}error in remove for path: '/missing': Unable to remove nonexistent key: missing: \
                 missing value"
            ),
        ),
        (
            "object",
            format!(
                "{calling}json: cannot unmarshal object into Go value of type \
                            jsonpatch.Patch"
            ),
        ),
        ("other", format!("{calling}invalid character '1' after top-level value")),
    ] {
        let response = cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await;
        response.expect_error(500, "InternalError", &message);
    }
    let error = cluster.post(CONFIG_MAPS, config_map("type", json!({}))).await.expect(500);
    assert!(text(&error["message"]).contains("cannot unmarshal number"), "{error}");
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    let response = cluster.delete(&format!("{CONFIG_MAPS}/a")).await;
    response.expect_error(
        500,
        "InternalError",
        "Internal error occurred: admission webhook \"w.example.com\" attempted to modify the \
         object, which is not supported for this operation",
    );
}

#[tokio::test(start_paused = true)]
async fn patch_cannot_move_or_rename_an_object_or_change_its_kind() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(|request| {
        let (path, value) = match request["name"].as_str().unwrap_or("") {
            "moved" => ("/metadata/namespace", "other"),
            "renamed" => ("/metadata/name", "other"),
            _ => ("/kind", "Pod"),
        };
        patched(request, json!([{"op": "replace", "path": path, "value": value}]))
    });
    let client = webhook.register(&cluster, "w");
    install(&cluster, MUTATING, "w", &client, |_| ()).await;
    let why =
        "the namespace of the provided object does not match the namespace sent on the request";
    let response = cluster.post(CONFIG_MAPS, config_map("moved", json!({}))).await;
    response.expect_error(400, "BadRequest", why);
    let path = format!("{CONFIG_MAPS}/renamed");
    let response = cluster.apply(&path, "m", config_map("renamed", json!({}))).await;
    let why = "the name of the object (other) does not match the name on the URL (renamed)";
    response.expect_error(400, "BadRequest", why);
    let response = cluster.post(CONFIG_MAPS, config_map("kind", json!({}))).await;
    let why = "converting (v1.Pod) to (core.ConfigMap): unknown conversion";
    response.expect_error(500, "", why);
}

#[tokio::test(start_paused = true)]
async fn patch_cannot_change_the_type_of_a_custom_object() {
    let cluster = Cluster::with_widgets().await;
    let webhook = Webhook::new(|request| {
        let (path, value) = match request["name"].as_str().unwrap_or("") {
            "kind" => ("/kind", "Pod"),
            "group" => ("/apiVersion", "other.test/v1"),
            _ => ("/apiVersion", "example.com/v9"),
        };
        patched(request, json!([{"op": "replace", "path": path, "value": value}]))
    });
    let client = webhook.register(&cluster, "w");
    install(&cluster, MUTATING, "w", &client, |hook| {
        hook["rules"][0]["resources"] = json!(["widgets"])
    })
    .await;
    for (name, code, reason, why) in [
        (
            "kind",
            422,
            "Invalid",
            "Pod.example.com \"kind\" is invalid: kind: Invalid value: \"Pod\": must be Widget",
        ),
        (
            "group",
            500,
            "",
            "other.test/v1, Kind=Widget is unstructured and is not suitable for converting to \
             \"example.com/v1\"",
        ),
        ("version", 500, "", "request to convert CR from an invalid group/version: example.com/v9"),
    ] {
        let response = cluster.post(crate::harness::WIDGETS, widget(name, json!({}))).await;
        response.expect_error(code, reason, why);
    }
    assert!(cluster.names(crate::harness::WIDGETS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn invalid_managed_fields_of_a_webhook_are_dropped() {
    let cluster = Cluster::new().await;
    let fields = json!([{"op": "add", "path": "/metadata/managedFields", "value": [
        {"manager": "w", "operation": "Invent", "apiVersion": "v1", "fieldsType": "FieldsV1"},
    ]}]);
    install_patch(&cluster, "w", fields, |_| ()).await;
    let response = cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await;
    assert!(response.warnings()[0].contains("was in an invalid state after admission"));
    let stored = response.expect(201);
    assert_eq!(stored["metadata"]["managedFields"][0]["operation"], "Update");
}

#[tokio::test]
async fn configurations_take_effect_after_a_restart() {
    let scratch = Scratch::new();
    let webhook = Webhook::new(|request| deny(request, "no"));
    let build = || ApiServer::builder().data_dir(&scratch.0).durability(Durability::Process);
    let cluster = Cluster::built(build()).await;
    let client = webhook.register(&cluster, "w");
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    drop(cluster);
    let cluster = Cluster::built(build()).await;
    webhook.register(&cluster, "w");
    let error = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(400);
    assert!(text(&error["message"]).ends_with("denied the request: no"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn v1beta1_reviews_are_sent_to_webhooks_that_prefer_them() {
    let cluster = Cluster::new().await;
    let webhook =
        Webhook::new(|_| json!({"response": {"allowed": true, "uid": "any", "patch": "W10="}}));
    let client = webhook.register(&cluster, "w");
    install(&cluster, MUTATING, "w", &client, |hook| {
        hook["admissionReviewVersions"] = json!(["v2", "v1beta1", "v1"]);
    })
    .await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    assert_eq!(webhook.take_reviews()[0]["apiVersion"], "admission.k8s.io/v1beta1");
}

#[tokio::test(start_paused = true)]
async fn virtual_time_calls_registered_webhooks_only() {
    let cluster = Cluster::new().await;
    let client = json!({"url": "https://127.0.0.1:1/hook"});
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    let response = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await;
    response.expect_error(
        500,
        "InternalError",
        "Internal error occurred: failed calling webhook \"w.example.com\": failed to call \
         webhook: Post \"https://127.0.0.1:1/hook?timeout=10s\": 127.0.0.1:1 is not registered in \
         process, and a server in virtual time calls no other webhooks",
    );
}
