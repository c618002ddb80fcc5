//! `x-kubernetes-validations`: rules of CRDs, checked when the CRD is created and for every write.

use serde_json::{Value, json};

use crate::harness::{CRDS, Cluster, WIDGETS, widget, widget_crd};

/// The CRD of widgets whose `spec` has the given properties and rules.
fn with_rules(properties: Value, rules: Value) -> Value {
    let mut crd = widget_crd();
    let spec = json!({
        "type": "object", "properties": properties, "x-kubernetes-validations": rules,
    });
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        version.as_object_mut().unwrap().retain(|key, _| {
            !matches!(&**key, "selectableFields" | "additionalPrinterColumns" | "subresources")
        });
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec.clone();
    }
    crd
}

async fn cluster_with(properties: Value, rules: Value) -> Cluster {
    let cluster = Cluster::new().await;
    cluster.post(CRDS, with_rules(properties, rules)).await.expect(201);
    cluster
}

fn range() -> Value {
    json!({"min": {"type": "integer"}, "max": {"type": "integer"}})
}

#[tokio::test(start_paused = true)]
async fn objects_that_violate_a_rule_are_rejected_with_its_message() {
    let rules = json!([
        {"rule": "self.min <= self.max", "messageExpression": "self.max < 0 ? 'below zero' : 'too large'"},
        {"rule": "self.min >= 0", "fieldPath": ".min", "reason": "FieldValueForbidden",
         "message": "must not be negative"},
    ]);
    let cluster = cluster_with(range(), rules).await;
    cluster.post(WIDGETS, widget("good", json!({"min": 1, "max": 2}))).await.expect(201);
    let status =
        cluster.post(WIDGETS, widget("bad", json!({"min": -1, "max": -2}))).await.expect(422);
    assert_eq!(
        status["details"]["causes"],
        json!([
            {"reason": "FieldValueInvalid", "message": "Invalid value: below zero",
             "field": "spec"},
            {"reason": "FieldValueForbidden", "message": "Forbidden: must not be negative",
             "field": "spec.min"},
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn transition_rules_compare_updates_with_the_stored_object() {
    let properties = json!({"name": {
        "type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}],
    }});
    let cluster = cluster_with(properties, json!([])).await;
    cluster.post(WIDGETS, widget("w", json!({"name": "a"}))).await.expect(201);
    let path = format!("{WIDGETS}/w");
    cluster.merge(&path, json!({"spec": {"name": "a"}})).await.expect(200);
    cluster.merge(&path, json!({"spec": {"name": "b"}})).await.expect_error(
        422,
        "Invalid",
        "Widget.example.com \"w\" is invalid: spec.name: Invalid value: \"b\": immutable",
    );
}

#[tokio::test(start_paused = true)]
async fn unchanged_values_that_violate_a_new_rule_cause_warnings_only() {
    let cluster = cluster_with(range(), json!([])).await;
    cluster.post(WIDGETS, widget("w", json!({"min": 2, "max": 1}))).await.expect(201);
    let name = with_rules(range(), json!([{"rule": "self.min <= self.max", "message": "order"}]));
    let crd = format!("{CRDS}/widgets.example.com");
    cluster.merge(&crd, json!({"spec": name["spec"]})).await.expect(200);
    let path = format!("{WIDGETS}/w");
    let labelled = cluster.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled.warnings(), ["299 - \"spec: Invalid value: order\""]);
    labelled.expect(200);
    cluster.merge(&path, json!({"spec": {"min": 3}})).await.expect(422);
}

#[tokio::test(start_paused = true)]
async fn crds_with_ill_typed_or_expensive_rules_are_rejected() {
    let cluster = Cluster::new().await;
    let crd = with_rules(range(), json!([{"rule": "self.size > 0"}]));
    let status = cluster.post(CRDS, crd).await.expect(422);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains(
            "compilation failed: ERROR: <input>:1:5: undefined field 'size'\n | self.size > 0\n | ....^"
        ),
        "{message}"
    );
    let names = json!({"names": {"type": "array", "items": {"type": "string"}}});
    let crd = with_rules(names, json!([{"rule": "self.names.all(a, self.names.all(b, a != b))"}]));
    let status = cluster.post(CRDS, crd).await.expect(422);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("estimated rule cost exceeds budget by factor of more than 100x"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn rules_are_not_evaluated_for_objects_of_the_wrong_shape() {
    let cluster = cluster_with(range(), json!([{"rule": "self.min <= self.max"}])).await;
    let status = cluster.post(WIDGETS, widget("w", json!({"min": "x"}))).await.expect(422);
    let causes = status["details"]["causes"].as_array().unwrap();
    let unchecked = causes.last().unwrap()["message"].as_str().unwrap();
    assert_eq!(
        unchecked,
        "Invalid value: null: some validation rules were not checked because the object was \
         invalid; correct the existing errors to complete validation"
    );
}
