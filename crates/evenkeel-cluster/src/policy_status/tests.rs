//! Warnings about expressions that do not fit the types of the matched resources.

use evenkeel::Key;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{FIELD_MANAGER, NAME, check};
use crate::Cluster;
use crate::testing::{cluster, object, until};

async fn warnings(rules: Value, spec: Value) -> Vec<(String, String)> {
    warnings_in(&cluster(&[NAME]).await, rules, spec).await
}

async fn warnings_in(cluster: &Cluster, rules: Value, spec: Value) -> Vec<(String, String)> {
    let api: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client());
    let mut policy = json!({
        "metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules}},
    });
    for (field, value) in spec.as_object().unwrap() {
        policy["spec"][field] = value.clone();
    }
    api.create(&PostParams::default(), &object(policy)).await.unwrap();
    let policy = until::<ValidatingAdmissionPolicy>(cluster, &Key::cluster("p"), |policy| {
        let observed = policy.status.as_ref().and_then(|status| status.observed_generation);
        observed == policy.metadata.generation
    })
    .await;
    let checked = policy.status.unwrap().type_checking.unwrap();
    let warnings = checked.expression_warnings.into_iter().flatten();
    warnings.map(|warning| (warning.field_ref, warning.warning)).collect()
}

fn rule(group: &str, resources: &[&str]) -> Value {
    json!([{
        "apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": resources,
    }])
}

#[tokio::test(start_paused = true)]
async fn expressions_that_fit_have_no_warnings() {
    let spec = json!({
        "variables": [{"name": "containers", "expression": "object.spec.template.spec.containers"}],
        "validations": [{
            "expression": "object.spec.replicas <= 5 && variables.containers.all(c, \
                           c.image.startsWith('example.com/') && c.?ports.hasValue())",
            "messageExpression": "string(object.metadata.name)",
        }, {
            "expression": "object.spec.strategy.rollingUpdate.maxSurge == 1 && \
                           object.metadata.creationTimestamp < timestamp('2100-01-01T00:00:00Z')",
        }],
    });
    assert_eq!(warnings(rule("apps", &["deployments"]), spec).await, []);
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_and_wrong_types_are_reported_for_each_kind() {
    let spec = json!({
        "validations": [
            {"expression": "object.spec.replica > 1", "messageExpression": "string(object.spec.replicas)"},
            {"expression": "object.spec.replicas == 'many'"},
        ],
    });
    let found = warnings(rule("apps", &["deployments", "replicasets", "deployments/scale"]), spec);
    let missing = "ERROR: <input>:1:12: undefined field 'replica'\n | object.spec.replica > 1\n | \
                   ...........^\n";
    let mismatch = "ERROR: <input>:1:22: found no matching overload for '_==_' applied to '(int, \
                    string)'\n | object.spec.replicas == 'many'\n | .....................^\n";
    let both =
        |text: &str| format!("apps/v1, Kind=Deployment: {text}\napps/v1, Kind=ReplicaSet: {text}");
    assert_eq!(
        found.await,
        [
            ("spec.validations[0].expression".to_owned(), both(missing)),
            ("spec.validations[1].expression".to_owned(), both(mismatch)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn parameters_have_a_type_and_wildcards_are_not_checked() {
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params.data.max == 1 && object.data.x == 'a'"}],
    });
    let [(field, warning)] =
        warnings(rule("", &["configmaps"]), spec.clone()).await.try_into().unwrap();
    assert_eq!(field, "spec.validations[0].expression");
    assert!(warning.contains("'_==_' applied to '(string, int)'"), "{warning}");
    assert_eq!(warnings(rule("*", &["configmaps"]), spec).await, []);
}

#[tokio::test(start_paused = true)]
async fn variables_have_the_types_of_their_expressions() {
    let spec = json!({
        "variables": [
            {"name": "data", "expression": "object.data"},
            {"name": "wrong", "expression": "object.wrong"},
        ],
        "validations": [
            {"expression": "variables.data.a == 1"},
            {"expression": "variables.wrong == 1"},
            {"expression": "authorizer.requestResource.check('get').allowed()"},
        ],
    });
    let text = |text: &str| format!("/v1, Kind=ConfigMap: ERROR: <input>:1:{text}\n");
    let expected = [
        "18: found no matching overload for '_==_' applied to '(string, int)'\n | \
         variables.data.a == 1\n | .................^",
        // Upstream's type checking does not know this variable. A variable that does not compile
        // fits everything.
        "11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'\n | \
         authorizer.requestResource.check('get').allowed()\n | ..........^",
    ];
    let fields = ["spec.validations[0].expression", "spec.validations[2].expression"];
    let expected = fields.into_iter().zip(expected).map(|(at, it)| (at.to_owned(), text(it)));
    let found = warnings(rule("", &["configmaps"]), spec).await;
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_empty_group_stands_for_all_groups_and_a_rule_for_ten_types() {
    let spec = json!({"validations": [{"expression": "object.x == 1"}]});
    let kinds = |warning: &str| -> Vec<String> {
        let starts = warning.lines().filter_map(|line| line.split_once(": ERROR"));
        starts.map(|(kind, _)| kind.to_owned()).collect()
    };
    let [(_, warning)] = warnings(rule("", &["events"]), spec.clone()).await.try_into().unwrap();
    assert_eq!(kinds(&warning), ["/v1, Kind=Event", "events.k8s.io/v1, Kind=Event"]);
    let resources = [
        "bindings",
        "configmaps",
        "endpoints",
        "limitranges",
        "namespaces",
        "nodes",
        "pods",
        "podtemplates",
        "secrets",
        "serviceaccounts",
        "services",
    ];
    let [(_, warning)] = warnings(rule("", &resources), spec).await.try_into().unwrap();
    let kinds = kinds(&warning);
    assert_eq!(kinds.len(), 10, "{kinds:?}");
    assert!(!kinds.contains(&"/v1, Kind=Service".to_owned()), "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn custom_resources_have_the_types_of_their_schema() {
    let cluster = cluster(&[NAME]).await;
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {
            "port": {"x-kubernetes-int-or-string": true},
            "since": {"type": "string", "format": "date-time"},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "parts": {"type": "object", "additionalProperties": {
                "type": "object", "properties": {"size": {"type": "integer"}},
            }},
        },
    }}});
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = object(json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    }));
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let spec = json!({"validations": [
        {"expression": "object.spec.port == 1 || object.spec.port == 'http'"},
        {"expression": "object.spec.since < timestamp('2100-01-01T00:00:00Z')"},
        {"expression": "object.spec.parts.all(name, object.spec.parts[name].size > 1)"},
        {"expression": "object.metadata.labels['a'] == 'b'"},
        {"expression": "object.spec.any == 1"},
        {"expression": "object.spec.parts == 1"},
        {"expression": "object.spec == 1"},
    ]});
    let found = warnings_in(&cluster, rule("example.com", &["things"]), spec).await;
    let text = |at: usize, message: &str| {
        let (field, text) = &found[at];
        let begin = format!("example.com/v1, Kind=Thing: ERROR: <input>:1:{message}");
        assert!(text.starts_with(&begin), "{field}: {text}");
        field.clone()
    };
    assert_eq!(text(0, "12: undefined field 'any'"), "spec.validations[4].expression");
    let mismatch = "19: found no matching overload for '_==_' applied to '(map(string, \
                    Thing1.spec.parts.@elem), int)'";
    assert_eq!(text(1, mismatch), "spec.validations[5].expression");
    let mismatch = "13: found no matching overload for '_==_' applied to '(Thing1.spec, int)'";
    assert_eq!(text(2, mismatch), "spec.validations[6].expression");
    assert_eq!(found.len(), 3, "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_changed_policy_is_checked_again() {
    let cluster = cluster(&[NAME]).await;
    let api: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client());
    let policy = object(json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": rule("", &["pods"])},
            "validations": [{"expression": "object.spec.wrong == 1"}],
        },
    }));
    api.create(&PostParams::default(), &policy).await.unwrap();
    let has_warnings = |policy: &ValidatingAdmissionPolicy| {
        let checked = policy.status.as_ref().and_then(|status| status.type_checking.as_ref());
        checked.map(|checked| checked.expression_warnings.is_some())
    };
    let key = Key::cluster("p");
    let warned = |policy: &ValidatingAdmissionPolicy| has_warnings(policy) == Some(true);
    until::<ValidatingAdmissionPolicy>(&cluster, &key, warned).await;
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Checked", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let conditions = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    api.patch_status("p", &PatchParams::default(), &conditions).await.unwrap();
    let fixed = json!({"spec": {"validations": [{"expression": "has(object.spec)"}]}});
    api.patch("p", &PatchParams::default(), &Patch::Merge(&fixed)).await.unwrap();
    let checked = |policy: &ValidatingAdmissionPolicy| {
        policy.status.as_ref().is_some_and(|status| status.observed_generation == Some(2))
    };
    let policy = until::<ValidatingAdmissionPolicy>(&cluster, &key, checked).await;
    assert_ne!(has_warnings(&policy), Some(true));
    let status = policy.status.unwrap();
    assert_eq!(status.conditions.unwrap()[0].reason, "Checked", "of another field manager");
    let policy = api.get("p").await.unwrap();
    let mut managers = policy.metadata.managed_fields.into_iter().flatten();
    let own = managers.find(|it| it.manager.as_deref() == Some(FIELD_MANAGER)).unwrap();
    assert_eq!(own.operation.as_deref(), Some("Apply"));
    assert_eq!(own.subresource.as_deref(), Some("status"));
}

#[tokio::test(start_paused = true)]
async fn warnings_are_those_of_upstream() {
    let cluster = cluster(&[]).await;
    let mut policy = Value::Null;
    let mut expected = Vec::new();
    for line in include_str!("warnings.txt").lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("policy", spec) => policy = serde_json::from_str(spec).unwrap(),
            ("check", expression) => {
                let expression: String = serde_json::from_str(expression).unwrap();
                expected.push((policy.clone(), expression, String::new()));
            }
            ("!", warning) => expected.last_mut().unwrap().2 = warning.replace("\\n", "\n"),
            _ => {}
        }
    }
    assert!(expected.len() > 90);
    for (mut spec, expression, warning) in expected {
        spec["validations"] = json!([{"expression": expression}]);
        let found = check::warnings(&cluster.client(), &spec).await.unwrap();
        let found = found.first().and_then(|it| it["warning"].as_str()).unwrap_or("");
        assert_eq!(without_numbers(found), warning, "{expression} in {spec}");
    }
}

/// Replaces the numbers in the names of types, which are different in each run of upstream.
fn without_numbers(warning: &str) -> String {
    let mut warning = warning.to_owned();
    for kind in ["ConfigMap", "Deployment", "Event", "Pod", "ReplicaSet", "ResourceQuota", "Secret"]
    {
        for number in [check::OBJECT, check::PARAMS] {
            warning = warning.replace(&format!("{kind}{number}"), &format!("{kind}N"));
        }
    }
    warning
}
