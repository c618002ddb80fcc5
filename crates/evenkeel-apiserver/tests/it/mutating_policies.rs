//! Mutating admission policies: apply configurations, JSON patches and their errors.

use serde_json::{Value, json};

use crate::harness::{
    CONFIG_MAPS, Cluster, DEPLOYMENTS, TestResponse, config_map, deployment, widget,
};
use crate::webhook_service::{MUTATING, Webhook, allow, install, install_patch};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

fn apply(expression: &str) -> Value {
    json!({
        "patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression},
    })
}

fn json_patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn policy(name: &str, resource: (&str, &str), mutations: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [resource.0], "apiVersions": ["*"], "resources": [resource.1],
                "operations": ["CREATE", "UPDATE"],
            }]},
            "mutations": mutations,
        },
    })
}

fn binding(name: &str, policy: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": policy},
    })
}

async fn install_policy(cluster: &Cluster, policy: Value) {
    let name = policy["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.post(POLICIES, policy).await.expect(201);
    cluster.post(BINDINGS, binding(&name, &name)).await.expect(201);
}

async fn create(cluster: &Cluster, data: Value) -> TestResponse {
    cluster.post(CONFIG_MAPS, config_map("a", data)).await
}

#[tokio::test(start_paused = true)]
async fn an_apply_configuration_is_merged() {
    let cluster = Cluster::new().await;
    let expression = "Object{spec: Object.spec{template: Object.spec.template{\
                      metadata: Object.spec.template.metadata{labels: {'added': 'yes'}}, \
                      spec: Object.spec.template.spec{\
                      containers: [Object.spec.template.spec.containers{name: 'sidecar', \
                      image: 'sidecar:' + object.metadata.name}]}}}}";
    let mutations = json!([apply(expression)]);
    install_policy(&cluster, policy("p", ("apps", "deployments"), mutations)).await;
    let sent = deployment("d");
    let labels = sent["spec"]["template"]["metadata"]["labels"].clone();
    let created = cluster.post(DEPLOYMENTS, sent).await.expect(201);
    let template = &created["spec"]["template"];
    for (key, value) in labels.as_object().unwrap() {
        assert_eq!(template["metadata"]["labels"][key], *value);
    }
    assert_eq!(template["metadata"]["labels"]["added"], "yes");
    let containers = template["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 2);
    assert_eq!(containers[1]["image"], "sidecar:d");
    // Defaults are set in what was added.
    assert_eq!(containers[1]["terminationMessagePolicy"], "File");
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_is_applied() {
    let cluster = Cluster::new().await;
    let expression = "[JSONPatch{op: 'test', path: '/data/a', value: 'b'}, \
                      JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('x/y'), \
                      value: 'z'}, \
                      JSONPatch{op: 'copy', from: '/data/a', path: '/data/copy'}, \
                      JSONPatch{op: 'add', path: '/metadata/labels', value: {'l': 'm'}}]";
    install_policy(&cluster, policy("p", ("", "configmaps"), json!([json_patch(expression)])))
        .await;
    let created = create(&cluster, json!({"a": "b"})).await;
    // A key with a slash is not valid, but it was added.
    let message = created.expect(422)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("data[x/y]"), "{message}");
    // A failed test leaves the object as it is.
    let created = create(&cluster, json!({"a": "c"})).await.expect(201);
    assert_eq!(created["data"], json!({"a": "c"}));
    assert!(created["metadata"]["labels"].is_null());
}

#[tokio::test(start_paused = true)]
async fn mutations_of_custom_resources_follow_their_schema() {
    let cluster = Cluster::with_widgets().await;
    let expression = "Object{spec: Object.spec{replicas: 7}}";
    install_policy(&cluster, policy("p", ("example.com", "widgets"), json!([apply(expression)])))
        .await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let created = cluster.post(widgets, widget("w", json!({"color": "red"}))).await.expect(201);
    assert_eq!(created["spec"]["replicas"], 7);
}

#[tokio::test(start_paused = true)]
async fn mutations_run_in_order_and_see_variables_and_parameters() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("params", json!({"v": "param"}))).await.expect(201);
    let mut first = policy(
        "p",
        ("", "configmaps"),
        json!([
            apply("Object{data: {'first': variables.name + params.data.v}}"),
            json_patch("[JSONPatch{op: 'add', path: '/data/second', value: object.data.first}]"),
        ]),
    );
    first["spec"]["variables"] = json!([{"name": "name", "expression": "object.metadata.name"}]);
    first["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    first["spec"]["matchConditions"] =
        json!([{"name": "c", "expression": "object.metadata.name != 'skipped'"}]);
    cluster.post(POLICIES, first).await.expect(201);
    let mut bound = binding("p", "p");
    bound["spec"]["paramRef"] = json!({"name": "params", "parameterNotFoundAction": "Deny"});
    cluster.post(BINDINGS, bound).await.expect(201);
    let created = create(&cluster, json!({})).await.expect(201);
    assert_eq!(created["data"], json!({"first": "aparam", "second": "aparam"}));
    let skipped = cluster.post(CONFIG_MAPS, config_map("skipped", json!({}))).await.expect(201);
    assert!(skipped["data"].is_null(), "{skipped}");
}

#[tokio::test(start_paused = true)]
async fn errors_deny_the_request_unless_they_are_ignored() {
    let denied = "policy 'p' with binding 'p' denied request: ";
    for (resource, mutation, why) in [
        (
            ("", "configmaps"),
            apply("Object{data: {'a': object.missing}}"),
            "expression 'Object{data: {'a': object.missing}}' resulted in error: no such key: \
             missing",
        ),
        (
            ("", "configmaps"),
            apply("Object{metadata: Object.wrong{}}"),
            "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.metadata\", \
             which matches field name path from root Object type",
        ),
        (
            ("", "configmaps"),
            apply("Object{unknown: 1}"),
            "error applying patch: failed to convert patch object to typed object: .unknown: field \
             not declared in schema",
        ),
        (
            ("apps", "deployments"),
            apply(
                "Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}",
            ),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps \
             or structs: .spec.selector",
        ),
        (
            ("", "configmaps"),
            json_patch("[JSONPatch{op: 'remove', path: '/data/missing'}]"),
            "JSON Patch: remove operation does not apply: doc is missing path: \"/data/missing\": \
             missing value",
        ),
    ] {
        let cluster = Cluster::new().await;
        install_policy(&cluster, policy("p", resource, json!([mutation]))).await;
        let write = async || match resource.0 {
            "" => create(&cluster, Value::Null).await,
            _ => cluster.post(DEPLOYMENTS, deployment("a")).await,
        };
        let status = write().await.expect_error(403, "Invalid", &format!("{denied}{why}"));
        assert_eq!(status["details"]["causes"][0]["message"], format!("{denied}{why}"));
        let ignore = json!({"spec": {"failurePolicy": "Ignore"}});
        cluster.merge(&format!("{POLICIES}/p"), ignore).await.expect(200);
        write().await.expect(201);
    }
}

#[tokio::test(start_paused = true)]
async fn policies_run_before_webhooks_and_again_after_a_change_if_they_request_it() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(allow);
    let client = webhook.register(&cluster, "w");
    install(&cluster, MUTATING, "w", &client, |_| ()).await;
    let count = "Object{data: {'count': string(has(object.data) && has(object.data.count) ? \
                 int(object.data.count) + 1 : 1)}}";
    let mut counted = policy("p", ("", "configmaps"), json!([apply(count)]));
    counted["spec"]["reinvocationPolicy"] = "IfNeeded".into();
    install_policy(&cluster, counted).await;
    let created = create(&cluster, json!({})).await.expect(201);
    let [seen] = webhook.take().try_into().unwrap();
    assert_eq!(seen["object"]["data"]["count"], "1");
    assert_eq!(created["data"]["count"], "1");
    // A webhook changes the object: the policy runs again.
    let patch = json!([{"op": "add", "path": "/data/changed", "value": "yes"}]);
    install_patch(&cluster, "patch", patch, |_| ()).await;
    let created = cluster.post(CONFIG_MAPS, config_map("b", json!({}))).await.expect(201);
    assert_eq!(created["data"], json!({"count": "2", "changed": "yes"}));
}

#[tokio::test(start_paused = true)]
async fn expressions_of_mutations_must_compile() {
    let cluster = Cluster::new().await;
    for (mutation, error) in [
        (
            apply("{'a': 'b'}"),
            "spec.mutations[0].applyConfiguration.expression: Invalid value: \"{'a': 'b'}\": must \
             evaluate to Object but got map(string, string)",
        ),
        (
            json_patch("Object{}"),
            "spec.mutations[0].jsonPatch.expression: Invalid value: \"Object{}\": must evaluate to \
             list(JSONPatch) but got Object",
        ),
    ] {
        let sent = policy("p", ("", "configmaps"), json!([mutation]));
        let message = format!(
            "MutatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: {error}"
        );
        cluster.post(POLICIES, sent).await.expect_error(422, "Invalid", &message);
    }
}
