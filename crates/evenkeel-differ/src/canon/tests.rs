//! Values that differ between two runs are replaced before responses are compared.

use serde_json::json;

use super::*;

fn of(bodies: &[Value]) -> Vec<Value> {
    let responses: Vec<_> = bodies
        .iter()
        .map(|body| StepResponse { status: 200, body: body.clone(), ..StepResponse::default() })
        .collect();
    canonical(&responses).into_iter().map(|response| response.body).collect()
}

#[test]
fn uids_become_labels_in_order_of_appearance() {
    let a = "0c4f7b1e-1111-4222-8333-444455556666";
    let b = "1c4f7b1e-1111-4222-8333-444455556666";
    let seen = of(&[
        json!({"metadata": {"uid": a, "resourceVersion": "7"}}),
        json!({"metadata": {"uid": b, "resourceVersion": "9"}, "owner": format!("is {a}")}),
        json!({"metadata": {"uid": a, "resourceVersion": "8"}}),
    ]);
    assert_eq!(seen[0], json!({"metadata": {"uid": "<uid 1>", "resourceVersion": "<rv 1>"}}));
    assert_eq!(seen[1]["owner"], "is <uid 1>");
    assert_eq!(seen[1]["metadata"]["uid"], "<uid 2>");
    assert_eq!(seen[2]["metadata"]["resourceVersion"], "<rv 3 older>");
}

#[test]
fn resource_version_seen_before_keeps_its_label() {
    let object = |version: &str| json!({"metadata": {"resourceVersion": version}});
    let seen = of(&[object("7"), object("9"), object("7")]);
    assert_eq!(seen[2]["metadata"]["resourceVersion"], "<rv 1>");
}

#[test]
fn list_versions_must_not_be_older_than_versions_seen() {
    let list = |version: &str| json!({"metadata": {"resourceVersion": version}, "items": []});
    let object = json!({"metadata": {"resourceVersion": "50"}});
    let seen = of(&[object, list("50"), list("77"), list("49")]);
    assert_eq!(seen[1]["metadata"]["resourceVersion"], "<list rv>");
    assert_eq!(seen[2]["metadata"]["resourceVersion"], "<list rv>");
    assert_eq!(seen[3]["metadata"]["resourceVersion"], "<list rv older>");
}

#[test]
fn generated_names_are_replaced_everywhere() {
    let seen = of(&[
        json!({"metadata": {"generateName": "web-", "name": "web-x7k2p"}}),
        json!({"message": "pods \"web-x7k2p\" not found"}),
    ]);
    assert_eq!(seen[0]["metadata"]["name"], "web-<generated>");
    assert_eq!(seen[1]["message"], "pods \"web-<generated>\" not found");
}

#[test]
fn recent_times_keep_their_precision_and_old_times_their_value() {
    let seen = of(&[json!({
        "a": "2026-11-16T00:45:07Z", "b": "2026-11-16T00:45:07.123456Z", "c": "2001-02-03T04:05:06Z",
    })]);
    assert_eq!(seen[0], json!({"a": "<time>", "b": "<time .6>", "c": "2001-02-03T04:05:06Z"}));
}

#[test]
fn deletion_before_creation_is_marked() {
    let seen = of(&[json!({
        "creationTimestamp": "2026-11-16T00:45:07Z", "deletionTimestamp": "2026-11-16T00:45:06Z",
    })]);
    assert_eq!(seen[0]["deletionTimestamp"], "<time> before creation");
}

#[test]
fn ages_in_tables_are_replaced() {
    let seen = of(&[json!({"rows": [{"cells": ["a", "3s", 3, "1m2s"]}]})]);
    assert_eq!(seen[0]["rows"][0]["cells"], json!(["a", "<age>", 3, "<age>"]));
}

#[test]
fn resource_versions_inside_texts_are_replaced() {
    let seen = of(&[json!({
        "yaml": "metadata:\n  resourceVersion: \"226\"\n",
        "json": "Invalid value: \"{\\\"resourceVersion\\\":\\\"250\\\"}\"",
        "why": "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (234)",
    })]);
    assert_eq!(seen[0]["yaml"], "metadata:\n  resourceVersion: \"<rv>\"\n");
    assert_eq!(seen[0]["json"], "Invalid value: \"{\\\"resourceVersion\\\":\\\"<rv>\\\"}\"");
    assert!(!seen[0]["why"].as_str().unwrap().contains(char::is_numeric));
}

#[test]
fn causes_for_custom_resources_are_sorted() {
    let status = |group: &str| {
        json!({
            "message": "x is invalid: [b: no, a: no]",
            "details": {"group": group, "causes": [{"field": "b"}, {"field": "a"}]},
        })
    };
    let seen = of(&[status("shared.differ.test"), status("apps")]);
    assert_eq!(seen[0]["message"], "x is invalid: [a: no, b: no]");
    assert_eq!(seen[0]["details"]["causes"][0]["field"], "a");
    assert_eq!(seen[1], status("apps"));
}

#[test]
fn messages_in_the_order_of_a_map_are_sorted() {
    let status = |first: &str, second: &str| json!({"message": format!("pods \"a\" is forbidden: [{first}, {second}]")});
    let (cpu, memory) = ("minimum cpu usage per Pod is 2", "minimum memory usage per Pod is 1Gi");
    let seen = of(&[status(cpu, memory), status(memory, cpu), status("b", "a")]);
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[2], status("b", "a"));
}

#[test]
fn one_of_several_expensive_rules_is_not_named() {
    let text = "Forbidden: contributed to estimated rule cost total exceeding cost limit";
    let status = |rule: &str| {
        json!({
            "message": format!("x is invalid: [a.b: Forbidden: no, {rule}: {text}]"),
            "details": {"group": "apiextensions.k8s.io", "causes": [
                {"field": "a.b", "message": "Forbidden: no"}, {"field": rule, "message": text},
            ]},
        })
    };
    let seen = of(&[status("a.properties[x].rule"), status("a.properties[y].rule")]);
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0]["message"].as_str().unwrap().contains("a.b: Forbidden: no"));
}

#[test]
fn causes_about_the_entries_of_a_map_are_sorted() {
    let status = |fields: [&str; 2]| {
        let causes = fields.map(|field| json!({"field": field}));
        json!({"message": "x is invalid", "details": {"kind": "Pod", "causes": causes}})
    };
    let same = |fields: [&str; 2]| {
        let seen = of(&[status(fields), status([fields[1], fields[0]])]);
        seen[0] == seen[1]
    };
    assert!(same(["spec.resources.requests[cpu]", "spec.resources.requests[memory]"]));
    assert!(same(["metadata.labels", "spec.name"]));
    assert!(!same(["spec.containers[0].name", "spec.containers[1].name"]));
}

#[test]
fn list_that_cannot_be_converted_has_the_error_of_its_objects() {
    let status = |kind: &str| json!({"message": format!("conversion webhook for g/v2, Kind={kind} failed: no")});
    let seen = of(&[status("DoorList"), status("Door"), status("Window")]);
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[1], seen[2]);
}
