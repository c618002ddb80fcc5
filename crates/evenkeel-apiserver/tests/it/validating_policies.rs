//! Validating admission policies: what they match, evaluate and do.

use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::audit::AuditAnnotations;
use http::Method;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::harness::{
    CONFIG_MAPS, CRDS, Cluster, DEPLOYMENTS, NAMESPACES, Patch, config_map, deployment, namespace,
    request, widget, widget_crd,
};
use crate::webhook_service::{VALIDATING, Webhook, allow, install};

pub(crate) const POLICIES: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// A policy for all writes of ConfigMaps.
fn policy(name: &str, edit: impl FnOnce(&mut Value)) -> Value {
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
            "resources": ["configmaps"],
        }]},
        "validations": [{"expression": "object == null || has(object.data)"}],
    });
    edit(&mut spec);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn binding(name: &str, policy: &str, edit: impl FnOnce(&mut Value)) -> Value {
    let mut spec = json!({"policyName": policy, "validationActions": ["Deny"]});
    edit(&mut spec);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec,
    })
}

/// Installs a policy with a binding, both named `p`.
async fn install_policy(cluster: &Cluster, edit: impl FnOnce(&mut Value)) {
    cluster.post(POLICIES, policy("p", edit)).await.expect(201);
    cluster.post(BINDINGS, binding("p", "p", |_| ())).await.expect(201);
}

/// A policy with one validation.
fn validation(expression: &str) -> impl FnOnce(&mut Value) {
    let expression = expression.to_owned();
    move |spec| spec["validations"] = json!([{"expression": expression}])
}

async fn create(cluster: &Cluster, data: Value) -> crate::harness::TestResponse {
    cluster.post(CONFIG_MAPS, config_map("a", data)).await
}

const DENIED: &str = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' \
                      denied request: ";

#[tokio::test(start_paused = true)]
async fn a_failed_validation_denies_the_request_with_its_message_and_reason() {
    for (validation, code, reason, message) in [
        (
            json!({"expression": " has(object.data) "}),
            422,
            "Invalid",
            "failed expression: has(object.data)",
        ),
        (
            json!({"expression": "has(object.data)", "message": " no data ", "reason": "Forbidden"}),
            403,
            "Forbidden",
            "no data",
        ),
        (
            json!({
                "expression": "has(object.data)", "message": "no data",
                "messageExpression": "'no data in ' + object.metadata.name",
                "reason": "RequestEntityTooLarge",
            }),
            413,
            "RequestEntityTooLarge",
            "no data in a",
        ),
        // Message expressions that fail, are blank or have several lines are not used.
        (
            json!({
                "expression": "has(object.data)", "message": "no data",
                "messageExpression": "string(object.missing)",
            }),
            422,
            "Invalid",
            "no data",
        ),
        (
            json!({"expression": "has(object.data)", "messageExpression": "'a\\nb'"}),
            422,
            "Invalid",
            "failed expression: has(object.data)",
        ),
        (
            json!({"expression": "object.missing == 1"}),
            422,
            "Invalid",
            "expression 'object.missing == 1' resulted in error: no such key: missing",
        ),
    ] {
        let cluster = Cluster::new().await;
        install_policy(&cluster, |spec| spec["validations"] = json!([validation])).await;
        let sent = create(&cluster, Value::Null).await;
        let status = sent.expect_error(code, reason, &format!("{DENIED}{message}"));
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["message"], format!("{DENIED}{message}").split_once(": ").unwrap().1);
        let expected = json!({"name": "a", "kind": "configmaps", "causes": [cause]});
        assert_eq!(status["details"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_without_a_binding_does_nothing_and_ends_with_its_deletion() {
    let cluster = Cluster::new().await;
    cluster.post(POLICIES, policy("p", validation("false"))).await.expect(201);
    create(&cluster, json!({})).await.expect(201);
    cluster.post(BINDINGS, binding("b", "p", |_| ())).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    cluster.merge(&path, json!({"data": {"a": "b"}})).await.expect(422);
    cluster.delete(&path).await.expect(422);
    cluster.delete(&format!("{BINDINGS}/b")).await.expect(200);
    cluster.delete(&path).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn variables_are_typed_and_evaluated_when_they_are_read() {
    let cluster = Cluster::new().await;
    install_policy(&cluster, |spec| {
        spec["variables"] = json!([
            {"name": "missing", "expression": "object.missing.field"},
            {"name": "data", "expression": "has(object.data) ? object.data : {}"},
            {"name": "size", "expression": "size(variables.data)"},
        ]);
        spec["validations"] = json!([
            {"expression": "variables.size < 2", "messageExpression": "string(variables.size)"},
            {"expression": "variables.size == 0 || variables.missing == 1"},
        ]);
    })
    .await;
    create(&cluster, json!({})).await.expect(201);
    let sent = cluster.post(CONFIG_MAPS, config_map("b", json!({"a": "b"}))).await;
    let message = sent.expect(422)["message"].as_str().unwrap().to_owned();
    assert!(
        message.ends_with(
            "expression 'variables.size == 0 || variables.missing == 1' resulted in error: \
             composited variable \"missing\" fails to evaluate: no such key: missing"
        ),
        "{message}"
    );
    let sent = create(&cluster, json!({"a": "b", "c": "d"})).await;
    sent.expect_error(422, "Invalid", &format!("{DENIED}2"));
}

#[tokio::test(start_paused = true)]
async fn expressions_see_the_request_the_namespace_and_the_authorizer() {
    for expression in [
        "request.operation == 'CREATE' && request.name == 'a' && request.namespace == 'default'",
        "namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'",
        "oldObject == null && object.metadata.namespace == 'default'",
        "authorizer.requestResource.check('create').allowed()",
        "!has(namespaceObject.metadata.managedFields)",
    ] {
        let cluster = Cluster::built(ApiServer::builder().seed(1).rbac()).await;
        if expression.contains("managedFields") {
            let sent = cluster.post(POLICIES, policy("p", validation(expression))).await;
            let message = sent.expect(422)["message"].as_str().unwrap().to_owned();
            assert!(message.contains("undefined field 'managedFields'"), "{message}");
            continue;
        }
        install_policy(&cluster, validation(expression)).await;
        create(&cluster, json!({})).await.expect(201);
    }
}

#[tokio::test(start_paused = true)]
async fn match_conditions_exclude_requests() {
    let cluster = Cluster::new().await;
    install_policy(&cluster, |spec| {
        spec["variables"] = json!([{"name": "name", "expression": "object.metadata.name"}]);
        spec["matchConditions"] = json!([
            {"name": "not-delete", "expression": "request.operation != 'DELETE'"},
            {"name": "named", "expression": "object.metadata.name.startsWith('x')"},
        ]);
        spec["validations"] = json!([{"expression": "false"}]);
    })
    .await;
    create(&cluster, json!({})).await.expect(201);
    cluster.post(CONFIG_MAPS, config_map("x", json!({}))).await.expect(422);
    cluster.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn errors_are_ignored_with_the_failure_policy_ignore() {
    let cluster = Cluster::new().await;
    install_policy(&cluster, |spec| {
        spec["failurePolicy"] = "Ignore".into();
        spec["paramKind"] = json!({"apiVersion": "example.com/v1", "kind": "Missing"});
    })
    .await;
    create(&cluster, Value::Null).await.expect(201);
    let fail = json!({"spec": {"failurePolicy": "Fail"}});
    cluster.merge(&format!("{POLICIES}/p"), fail).await.expect(200);
    let message = "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: \
                   failed to configure policy: failed to find resource referenced by paramKind: \
                   'example.com/v1, Kind=Missing'";
    let sent = cluster.post(CONFIG_MAPS, config_map("b", json!({}))).await;
    sent.expect_error(422, "Invalid", message);
}

#[tokio::test(start_paused = true)]
async fn parameters_are_found_by_name_and_by_selector() {
    let cluster = Cluster::new().await;
    let mut limit = config_map("limit", json!({"max": "1"}));
    limit["metadata"]["labels"] = json!({"limit": "yes"});
    cluster.post(CONFIG_MAPS, limit).await.expect(201);
    let with_params = |spec: &mut Value| {
        spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        spec["validations"] = json!([{
            "expression": "params == null || size(object.data) <= int(params.data.max)",
            "messageExpression": "params.kind + ' ' + params.metadata.name",
        }]);
    };
    cluster.post(POLICIES, policy("p", with_params)).await.expect(201);
    let bind = async |param_ref: Value| {
        let _ = cluster.delete(&format!("{BINDINGS}/p")).await;
        let bound = binding("p", "p", |spec| spec["paramRef"] = param_ref);
        cluster.post(BINDINGS, bound).await.expect(201);
    };
    let two = || config_map("a", json!({"a": "b", "c": "d"}));
    bind(json!({"name": "limit", "parameterNotFoundAction": "Deny"})).await;
    let denied = format!("{DENIED}ConfigMap limit");
    cluster.post(CONFIG_MAPS, two()).await.expect_error(422, "Invalid", &denied);
    bind(json!({
        "selector": {"matchLabels": {"limit": "yes"}}, "namespace": "default",
        "parameterNotFoundAction": "Deny",
    }))
    .await;
    cluster.post(CONFIG_MAPS, two()).await.expect_error(422, "Invalid", &denied);
    // A deleted parameter has no effect anymore, unless it is required.
    bind(json!({"name": "other", "parameterNotFoundAction": "Deny"})).await;
    let why = "failed to configure binding: no params found for policy binding with `Deny` \
               parameterNotFoundAction";
    let sent = cluster.post(CONFIG_MAPS, two()).await;
    sent.expect_error(422, "Invalid", &format!("{DENIED}{why}"));
    bind(json!({"name": "other", "parameterNotFoundAction": "Allow"})).await;
    cluster.post(CONFIG_MAPS, two()).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn parameters_can_be_custom_resources() {
    let cluster = Cluster::with_widgets().await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let created = cluster.post(widgets, widget("w", json!({"color": "red", "replicas": 3}))).await;
    let api_version = created.expect(201)["apiVersion"].clone();
    let with_params = |spec: &mut Value| {
        spec["paramKind"] = json!({"apiVersion": api_version, "kind": "Widget"});
        spec["validations"] = json!([{"expression": "params.spec.replicas > 3"}]);
    };
    cluster.post(POLICIES, policy("p", with_params)).await.expect(201);
    let bound = binding("p", "p", |spec| {
        spec["paramRef"] = json!({"name": "w", "parameterNotFoundAction": "Deny"});
    });
    cluster.post(BINDINGS, bound).await.expect(201);
    create(&cluster, json!({})).await.expect(422);
    cluster.merge(&format!("{widgets}/w"), json!({"spec": {"replicas": 4}})).await.expect(200);
    create(&cluster, json!({})).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn warn_and_audit_do_not_reject() {
    let cluster = Cluster::new().await;
    cluster
        .post(
            POLICIES,
            policy("p", |spec| {
                spec["validations"] =
                    json!([{"expression": "has(object.data)", "message": "a < b"}]);
                spec["auditAnnotations"] = json!([
                    {"key": "name", "valueExpression": "'name ' + object.metadata.name"},
                    {"key": "none", "valueExpression": "null"},
                ]);
            }),
        )
        .await
        .expect(201);
    for name in ["b1", "b2"] {
        let bound = binding(name, "p", |spec| spec["validationActions"] = json!(["Warn", "Audit"]));
        cluster.post(BINDINGS, bound).await.expect(201);
    }
    let body = config_map("a", Value::Null).to_string();
    let sent = request(Method::POST, CONFIG_MAPS, &[("content-type", "application/json")], body);
    let response = cluster.server.service().call(sent).await.unwrap();
    assert_eq!(response.status(), 201);
    let warnings = response.headers().get_all("warning").iter();
    let warnings: Vec<_> = warnings.map(|warning| warning.to_str().unwrap()).collect();
    let warning = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding";
    let expected = ["b1", "b2"].map(|binding| format!("{warning} '{binding}': a < b\""));
    assert_eq!(warnings, expected);
    let annotations = response.extensions().get::<AuditAnnotations>().unwrap();
    assert_eq!(annotations.get("p/name"), Some("name a"));
    assert_eq!(annotations.get("p/none"), None);
    assert_eq!(
        annotations.get("validation.policy.admission.k8s.io/validation_failure"),
        Some(
            r#"[{"message":"a \u003c b","policy":"p","binding":"b1","expressionIndex":0,"validationActions":["Warn","Audit"]}]"#
        )
    );
}

#[tokio::test(start_paused = true)]
async fn constraints_select_by_name_label_scope_and_exclusion() {
    let cluster = Cluster::new().await;
    cluster.post(NAMESPACES, namespace("other")).await.expect(201);
    install_policy(&cluster, |spec| {
        spec["validations"] = json!([{"expression": "false"}]);
        spec["matchConstraints"]["resourceRules"][0]["resourceNames"] = json!(["a", "b", "c"]);
        spec["matchConstraints"]["excludeResourceRules"] = json!([{
            "apiGroups": [""], "apiVersions": ["*"], "operations": ["*"],
            "resources": ["configmaps"], "resourceNames": ["b"],
        }]);
        spec["matchConstraints"]["objectSelector"] = json!({"matchLabels": {"checked": "yes"}});
    })
    .await;
    let bound = json!({"spec": {"matchResources": {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    }}});
    cluster.merge(&format!("{BINDINGS}/p"), bound).await.expect(200);
    let labelled = |name: &str| {
        let mut object = config_map(name, json!({}));
        object["metadata"]["labels"] = json!({"checked": "yes"});
        object
    };
    cluster.post(CONFIG_MAPS, labelled("a")).await.expect(422);
    cluster.post(CONFIG_MAPS, labelled("b")).await.expect(201);
    cluster.post(CONFIG_MAPS, labelled("d")).await.expect(201);
    cluster.post(CONFIG_MAPS, config_map("c", json!({}))).await.expect(201);
    cluster.post("/api/v1/namespaces/other/configmaps", labelled("a")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn equivalent_versions_are_converted() {
    let cluster = Cluster::new().await;
    let mut crd = widget_crd();
    let mut v2 = crd["spec"]["versions"][0].clone();
    v2["name"] = "v2".into();
    v2["storage"] = false.into();
    crd["spec"]["versions"].as_array_mut().unwrap().push(v2);
    cluster.post(CRDS, crd).await.expect(201);
    cluster
        .post(
            POLICIES,
            policy("p", |spec| {
                spec["matchConstraints"]["resourceRules"] = json!([{
                    "apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["CREATE"],
                    "resources": ["widgets"],
                }]);
                spec["validations"] = json!([{
                    "expression": "object.apiVersion == 'example.com/v2' && \
                                   request.kind.version == 'v2' && \
                                   request.requestKind.version == 'v1' && \
                                   request.resource.version == 'v2'",
                }]);
            }),
        )
        .await
        .expect(201);
    cluster.post(BINDINGS, binding("p", "p", |_| ())).await.expect(201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    cluster.post(widgets, widget("w", json!({"color": "red"}))).await.expect(201);
    let exact = json!({"spec": {"matchConstraints": {"matchPolicy": "Exact"},
        "validations": [{"expression": "false"}]}});
    cluster.merge(&format!("{POLICIES}/p"), exact).await.expect(200);
    cluster.post(widgets, widget("x", json!({"color": "red"}))).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn policies_run_before_webhooks() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(allow);
    let client = webhook.register(&cluster, "w");
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    install_policy(&cluster, validation("has(object.data.a)")).await;
    create(&cluster, json!({"b": "c"})).await.expect(422);
    assert!(webhook.take().is_empty());
    create(&cluster, json!({"a": "c"})).await.expect(201);
    assert_eq!(webhook.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_policy_is_limited() {
    let cluster = Cluster::new().await;
    let list = format!("[{}]", vec!["1"; 60].join(","));
    let loops = format!("{list}.all(a, {list}.all(b, {list}.all(c, c + b + a > 0)))");
    install_policy(&cluster, |spec| {
        spec["validations"] = vec![json!({"expression": loops}); 12].into();
    })
    .await;
    let sent = create(&cluster, json!({})).await;
    let message = sent.expect(422)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("running out of cost budget"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn policies_apply_to_subresources_and_to_other_groups() {
    let cluster = Cluster::new().await;
    install_policy(&cluster, |spec| {
        spec["matchConstraints"]["resourceRules"] = json!([{
            "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"],
            "resources": ["deployments/scale"],
        }]);
        spec["validations"] = json!([{
            "expression": "object.spec.replicas <= 3 && request.subResource == 'scale'",
        }]);
    })
    .await;
    cluster.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    let scale = format!("{DEPLOYMENTS}/d/scale");
    cluster.merge(&scale, json!({"spec": {"replicas": 3}})).await.expect(200);
    cluster.merge(&scale, json!({"spec": {"replicas": 4}})).await.expect(422);
    let patch = json!([{"op": "replace", "path": "/spec/replicas", "value": 9}]);
    cluster.patch(&format!("{DEPLOYMENTS}/d"), Patch::Json, patch).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn expressions_of_policies_must_compile() {
    let cluster = Cluster::new().await;
    for (edit, error) in [
        (
            json!({"validations": [{"expression": "object.x"}]}),
            "spec.validations[0].expression: Invalid value: \"object.x\": must evaluate to bool but \
             got dyn",
        ),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "1"}]}),
            "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string \
             but got int",
        ),
        (
            json!({"auditAnnotations": [{"key": "a", "valueExpression": " 1 "}]}),
            "spec.auditAnnotations[0].valueExpression: Invalid value: \" 1 \": must evaluate to \
             one of [string null_type] but got int",
        ),
        (
            json!({"variables": [{"name": "a", "expression": "params.x"}]}),
            "spec.variables[0].expression: Invalid value: \"params.x\": compilation failed: ERROR: \
             <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^",
        ),
        (
            json!({
                "variables": [{"name": "a", "expression": "'x'"}],
                "validations": [{"expression": "variables.a == 1"}],
            }),
            "spec.validations[0].expression: Invalid value: \"variables.a == 1\": compilation \
             failed: ERROR: <input>:1:13: found no matching overload for '_==_' applied to \
             '(string, int)'\n | variables.a == 1\n | ............^",
        ),
        (
            json!({
                "variables": [{"name": "a", "expression": "1"}],
                "validations": [{"expression": "variables.b == 1"}],
            }),
            "spec.validations[0].expression: Invalid value: \"variables.b == 1\": compilation \
             failed: ERROR: <input>:1:10: undefined field 'b'\n | variables.b == 1\n | .........^",
        ),
        (
            json!({"validations": [{
                "expression": "true",
                "messageExpression": "string(authorizer.path('/x').check('get').allowed())",
            }]}),
            "spec.validations[0].messageExpression: Invalid value: \"string(authorizer.path('/x')\
             .check('get').allowed())\": compilation failed: ERROR: <input>:1:8: undeclared \
             reference to 'authorizer' (in container '')\n | string(authorizer.path('/x').check(\
             'get').allowed())\n | .......^",
        ),
    ] {
        let sent = policy("p", |spec| {
            for (field, value) in edit.as_object().unwrap() {
                spec[field] = value.clone();
            }
        });
        let message = format!(
            "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: {error}"
        );
        cluster.post(POLICIES, sent).await.expect_error(422, "Invalid", &message);
    }
}

#[tokio::test(start_paused = true)]
async fn policies_survive_a_restart() {
    let dir = std::env::temp_dir().join(format!("evenkeel-policies-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let builder = || ApiServer::builder().seed(1).data_dir(&dir);
    let first = Cluster::built(builder()).await;
    install_policy(&first, validation("false")).await;
    drop(first);
    let second = Cluster::built(builder()).await;
    create(&second, json!({})).await.expect(422);
    drop(second);
    let _ = std::fs::remove_dir_all(&dir);
}
