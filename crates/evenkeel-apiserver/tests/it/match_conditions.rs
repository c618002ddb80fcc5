//! The match conditions of webhooks: which requests they exclude, and their errors.

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Cluster, NAMESPACES, config_map, namespace};
use crate::webhook_service::{MUTATING, VALIDATING, Webhook, allow, install, patched};

/// Installs a webhook with conditions.
async fn install_conditions(cluster: &Cluster, webhook: &Webhook, kind: &str, conditions: Value) {
    let client = webhook.register(cluster, "w");
    install(cluster, kind, "w", &client, |hook| hook["matchConditions"] = conditions).await;
}

fn condition(expression: &str) -> Value {
    json!([{"name": "c", "expression": expression}])
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_called_only_if_all_conditions_are_true() {
    for (expressions, called) in [
        (&["true"][..], true),
        (&["true", "false"], false),
        (&["object.metadata.name == 'a'", "oldObject == null"], true),
        (&["request.operation == 'UPDATE'"], false),
        (&["request.userInfo.username.startsWith('system:')"], false),
        (&["request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap'"], true),
        (&["request.namespace == 'default' && !has(request.subResource)"], true),
        (&["request.options.kind == 'CreateOptions' && !request.dryRun"], true),
        (&["namespaceObject == null"], true),
        // A condition that is false decides, whatever the errors of others.
        (&["object.data.missing == 'x'", "false"], false),
    ] {
        let cluster = Cluster::new().await;
        let webhook = Webhook::new(allow);
        let conditions = expressions
            .iter()
            .enumerate()
            .map(|(at, it)| json!({"name": format!("c{at}"), "expression": it}));
        install_conditions(&cluster, &webhook, VALIDATING, conditions.collect()).await;
        let sent = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await;
        assert!(sent.warnings().is_empty());
        sent.expect(201);
        assert_eq!(!webhook.take().is_empty(), called, "{expressions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_see_the_object_as_earlier_webhooks_left_it() {
    let cluster = Cluster::new().await;
    let first = Webhook::new(|request| {
        patched(request, json!([{"op": "add", "path": "/data", "value": {"a": "b"}}]))
    });
    let client = first.register(&cluster, "first");
    install(&cluster, MUTATING, "a", &client, |_| ()).await;
    let webhook = Webhook::new(allow);
    install_conditions(&cluster, &webhook, MUTATING, condition("object.data.a == 'b'")).await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    assert_eq!(webhook.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failing_condition_follows_the_failure_policy() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(allow);
    let conditions = json!([
        {"name": "a", "expression": "object.data.missing == 'x'"},
        {"name": "b", "expression": "object.data.other == 'x'"},
    ]);
    install_conditions(&cluster, &webhook, VALIDATING, conditions).await;
    let message = "configmaps \"a\" is forbidden: [expression 'object.data.missing == 'x'' resulted \
                   in error: no such key: data, expression 'object.data.other == 'x'' resulted in \
                   error: no such key: data]";
    let sent = cluster.post(CONFIG_MAPS, config_map("a", Value::Null)).await;
    sent.expect_error(403, "Forbidden", message);
    let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    let patch = crate::harness::Patch::Json;
    cluster.patch(&format!("{VALIDATING}/w"), patch, ignore).await.expect(200);
    cluster.post(CONFIG_MAPS, config_map("a", Value::Null)).await.expect(201);
    assert!(webhook.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn conditions_have_a_budget() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(allow);
    let list = format!("[{}]", vec!["1"; 60].join(","));
    let condition = |name: &str| {
        let loops = format!("{list}.all(a, {list}.all(b, {list}.all(c, c + b + a > 0)))");
        json!({"name": name, "expression": loops})
    };
    let conditions = json!([condition("a"), condition("b"), condition("c")]);
    install_conditions(&cluster, &webhook, VALIDATING, conditions).await;
    let sent = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await;
    let message = sent.expect(403)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("running out of cost budget"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn conditions_can_ask_the_authorizer() {
    let cluster = Cluster::built(ApiServer::builder().seed(1).rbac()).await;
    let webhook = Webhook::new(allow);
    let conditions = json!([
        {"name": "admin", "expression": "authorizer.requestResource.check('delete').allowed()"},
        {"name": "path", "expression": "authorizer.path('/healthz').check('get').allowed()"},
        {
            "name": "account",
            "expression": "!authorizer.serviceAccount('default', 'x').group('').\
                           resource('pods').namespace('default').check('list').allowed()",
        },
    ]);
    install_conditions(&cluster, &webhook, VALIDATING, conditions).await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    assert_eq!(webhook.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn conditions_that_do_not_compile_are_rejected() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(allow);
    let client = webhook.register(&cluster, "w");
    let mut hook = crate::webhook_service::hook("w.example.com", &client, json!(["configmaps"]));
    let expect = |hook: &Value| {
        crate::webhook_service::configuration(VALIDATING, "w", json!([hook.clone()]))
    };
    for (expression, error) in [
        (
            "object.name",
            "webhooks[0].matchConditions[0].expression: Invalid value: \"object.name\": must \
             evaluate to bool but got dyn",
        ),
        (
            "params.x == 1",
            "webhooks[0].matchConditions[0].expression: Invalid value: \"params.x == 1\": \
             compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in \
             container '')\n | params.x == 1\n | ^",
        ),
        (
            "variables.x == 1",
            "webhooks[0].matchConditions[0].expression: Invalid value: \"variables.x == 1\": \
             compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in \
             container '')\n | variables.x == 1\n | ^",
        ),
        (
            "request.object.kind == 'a'",
            "webhooks[0].matchConditions[0].expression: Invalid value: \"request.object.kind == \
             'a'\": compilation failed: ERROR: <input>:1:8: undefined field 'object'\n | \
             request.object.kind == 'a'\n | .......^",
        ),
    ] {
        hook["matchConditions"] = condition(expression);
        let message = format!(
            "ValidatingWebhookConfiguration.admissionregistration.k8s.io \"w\" is invalid: {error}"
        );
        let sent = cluster.post(VALIDATING, expect(&hook)).await;
        sent.expect_error(422, "Invalid", &message);
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_of_cluster_scoped_objects_have_no_namespace() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(allow);
    let client = webhook.register(&cluster, "w");
    install(&cluster, VALIDATING, "w", &client, |hook| {
        hook["rules"][0]["resources"] = json!(["namespaces"]);
        hook["matchConditions"] = condition("request.name == 'n' && request.namespace == 'n'");
    })
    .await;
    cluster.post(NAMESPACES, namespace("n")).await.expect(201);
    assert_eq!(webhook.take().len(), 1);
}
