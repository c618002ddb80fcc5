//! Facts that are extracted from responses.

use super::*;

#[test]
fn groups_of_other_sequences_are_left_out() {
    let group = |name: &str| {
        json!({
            "name": name, "versions": [{"groupVersion": format!("{name}/v1"), "version": "v1"}],
            "preferredVersion": {"groupVersion": format!("{name}/v1"), "version": "v1"},
        })
    };
    let groups = ["apps", "s1-1.differ.test", "s1-2.differ.test"].map(group);
    let document = json!({"kind": "APIGroupList", "groups": groups});
    let own = extract(&document, Scope::Own, Some("s1-1.differ.test"));
    assert_eq!(own.as_object().unwrap().keys().collect::<Vec<_>>(), ["group s1-1.differ.test"]);
    let rest = extract(&document, Scope::BuiltIn, Some("s1-1.differ.test"));
    assert_eq!(
        rest,
        json!({"group apps": {"name": "apps", "versions": ["v1"], "preferred": "v1"}})
    );
}

#[test]
fn properties_are_facts_without_descriptions() {
    let document = json!({
        "swagger": "2.0", "paths": {"/apis/g.differ.test/v1/things": {"get": {
            "description": "list", "operationId": "listThing", "produces": ["b", "a"],
            "parameters": [{"$ref": "#/parameters/limit-1NfNmdNH"}],
        }}},
        "definitions": {
            "test.differ.g.v1.Thing": {"description": "d", "type": "object", "properties": {
                "description": {"type": "string", "description": "d"},
            }},
            "io.k8s.api.core.v1.Pod": {},
        },
    });
    let facts = extract(&document, Scope::Own, Some("g.differ.test"));
    let get = "GET /apis/g.differ.test/v1/things";
    assert_eq!(facts[get], json!({"operationId": "listThing", "produces": ["a", "b"]}));
    assert_eq!(facts[format!("{get} parameter limit")], "shared");
    assert_eq!(facts["type test.differ.g.v1.Thing .description"], json!({"type": "string"}));
    assert_eq!(facts["type test.differ.g.v1.Thing"], json!({"type": "object"}));
    assert!(facts.get("type io.k8s.api.core.v1.Pod").is_none());
}

#[test]
fn other_responses_are_unchanged() {
    let status = json!({"kind": "Status", "code": 404});
    assert_eq!(extract(&status, Scope::Own, None), status);
}
