//! Published OpenAPI documents of CRDs and of the built-in kinds.

mod fixtures;

use std::collections::{BTreeMap, HashSet};

use evenkeel_types::{Gvk, lookup};

use self::fixtures::*;
use super::*;

#[test]
fn every_reference_resolves_within_its_document() {
    with_builtins(|served| {
        assert_closed(&v2_document(served));
        for path in v3_paths(served) {
            assert_closed(&v3_document(served, &path).expect("listed"));
        }
    });
    let schema = json!({
        "type": "object",
        "properties": { "spec": { "type": "object", "x-kubernetes-embedded-resource": true } },
    });
    let served = [widgets(&schema), pods()];
    assert_closed(&v2_document(&served));
    for path in v3_paths(&served) {
        assert_closed(&v3_document(&served, &path).expect("listed"));
    }
}

#[test]
fn every_built_in_kind_is_published_by_its_group_version_and_kind() {
    with_builtins(|served| {
        let v2 = v2_document(served);
        let mut v3: BTreeMap<String, Value> = BTreeMap::new();
        for resource in served {
            let path = group_version_path(resource.group, resource.version);
            let document = v3
                .entry(path.clone())
                .or_insert_with(|| v3_document(served, &path).expect("listed"));
            for kind in [resource.kind, resource.list_kind] {
                let gvk = Gvk::new(resource.group, resource.version, kind);
                let name = lookup(gvk).expect("built in").name;
                let expected =
                    json!({ "group": gvk.group, "version": gvk.version, "kind": gvk.kind });
                for schema in [&v2["definitions"][name], &document["components"]["schemas"][name]] {
                    let kinds = schema["x-kubernetes-group-version-kind"].as_array();
                    assert!(kinds.is_some_and(|kinds| kinds.contains(&expected)), "{gvk:?}");
                }
            }
        }
    });
}

#[test]
fn operation_ids_are_unique() {
    with_builtins(|served| {
        let document = v2_document(served);
        let mut seen = HashSet::new();
        for (path, method, operation) in operations(&document) {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(seen.insert(id), "duplicate {id} at {method} {path}");
        }
    });
}

#[test]
fn operation_ids_match_generated_clients() {
    let schema = json!({ "type": "object" });
    let document = v2_document(&[pods(), widgets(&schema)]);
    let ids: HashSet<&str> = operations(&document)
        .filter_map(|(_, _, operation)| operation["operationId"].as_str())
        .collect();
    for id in [
        "listCoreV1NamespacedPod",
        "listCoreV1PodForAllNamespaces",
        "deleteCoreV1CollectionNamespacedPod",
        "watchCoreV1PodListForAllNamespaces",
        "watchCoreV1NamespacedPod",
        "replaceCoreV1NamespacedPodStatus",
        "createCoreV1NamespacedPodBinding",
        "readCoreV1NamespacedPodLog",
        "connectCoreV1PostNamespacedPodExec",
        "connectCoreV1OptionsNamespacedPodProxyWithPath",
        "getCoreV1APIResources",
        "patchShopExampleComV1NamespacedWidgetScale",
    ] {
        assert!(ids.contains(id), "{id} is missing");
    }
    assert!(!ids.contains("watchShopExampleComV1NamespacedWidget"));
}

#[test]
fn patches_of_built_in_kinds_take_field_validation_and_strategic_merges() {
    let document = v3_document(&[pods()], "api/v1").expect("published");
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({ "group": "", "version": "v1", "kind": "Pod" })
    );
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(names(&patch["parameters"]), ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let content = &patch["requestBody"]["content"];
    assert!(content["application/strategic-merge-patch+json"].is_object());
    assert!(content["application/apply-patch+yaml"].is_object());
}

#[test]
fn patches_of_custom_kinds_take_no_strategic_merges() {
    let schema = json!({ "type": "object" });
    let served = [widgets(&schema)];
    let document = v3_document(&served, "apis/shop.example.com/v1").expect("published");
    let path = "/apis/shop.example.com/v1/namespaces/{namespace}/widgets/{name}";
    let patch = &document["paths"][path]["patch"];
    let types = patch["requestBody"]["content"].as_object().expect("content");
    assert!(!types.contains_key("application/strategic-merge-patch+json"));
    assert!(types.contains_key("application/apply-patch+yaml"));
    assert!(names(&patch["parameters"]).contains(&"fieldValidation"));
}

#[test]
fn common_parameters_are_declared_on_the_path() {
    let document = v3_document(&[pods()], "api/v1").expect("published");
    let item = &document["paths"]["/api/v1/namespaces/{namespace}/pods"];
    assert_eq!(names(&item["parameters"]), ["namespace", "pretty"]);
    assert!(!names(&item["get"]["parameters"]).contains(&"pretty"));
    let all = &document["paths"]["/api/v1/pods"];
    assert!(all["get"].get("parameters").is_none());
    assert!(names(&all["parameters"]).contains(&"labelSelector"));
}

#[test]
fn v2_shares_parameters_except_those_old_clients_need_inline() {
    let document = v2_document(&[pods()]);
    let create = &document["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"]["parameters"];
    assert_eq!(
        *create,
        json!([
            {
                "name": "body",
                "in": "body",
                "required": true,
                "schema": { "$ref": "#/definitions/io.k8s.api.core.v1.Pod" },
            },
            { "name": "dryRun", "in": "query", "type": "string", "uniqueItems": true },
            { "$ref": "#/parameters/fieldManager-query" },
            { "name": "fieldValidation", "in": "query", "type": "string", "uniqueItems": true },
        ])
    );
}

#[test]
fn lists_carry_merge_and_apply_extensions() {
    let document = v3_document(&[pods()], "api/v1").expect("published");
    let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
    assert_eq!(
        spec["properties"]["volumes"],
        json!({
            "type": "array",
            "items": {
                "default": {},
                "allOf": [{ "$ref": "#/components/schemas/io.k8s.api.core.v1.Volume" }],
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge,retainKeys",
        })
    );
    assert_eq!(spec["required"], json!(["containers"]));
}

#[test]
fn only_v3_publishes_defaults() {
    let served = [pods()];
    let v3 = v3_document(&served, "api/v1").expect("published");
    let v2 = v2_document(&served);
    let name = "io.k8s.api.core.v1.ContainerPort";
    let protocol = |schema: &Value| schema["properties"]["protocol"].clone();
    assert_eq!(
        protocol(&v3["components"]["schemas"][name]),
        json!({ "type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"] })
    );
    assert_eq!(
        protocol(&v2["definitions"][name]),
        json!({ "type": "string", "enum": ["SCTP", "TCP", "UDP"] })
    );
}

#[test]
fn types_with_custom_json_are_published_per_dialect() {
    let served = [pods()];
    let v3 = v3_document(&served, "api/v1").expect("published");
    let v2 = v2_document(&served);
    let name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
    assert_eq!(
        v3["components"]["schemas"][name],
        json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] })
    );
    assert_eq!(v2["definitions"][name], json!({ "type": "string", "format": "int-or-string" }));
}

#[test]
fn options_name_the_core_and_the_group_of_the_document() {
    let deployments =
        builtin(Gvk::new("apps", "v1", "Deployment"), "DeploymentList", "deployments");
    let document = v3_document(&[deployments], "apis/apps/v1").expect("published");
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    assert_eq!(
        document["components"]["schemas"][name]["x-kubernetes-group-version-kind"],
        json!([
            { "group": "", "version": "v1", "kind": "DeleteOptions" },
            { "group": "apps", "version": "v1", "kind": "DeleteOptions" },
        ])
    );
}

#[test]
fn delete_responses_match_what_the_server_returns() {
    let events = builtin(Gvk::new("", "v1", "Event"), "EventList", "events");
    let document = v2_document(&[pods(), events]);
    let response_schema = |plural: &str| {
        let path = format!("/api/v1/namespaces/{{namespace}}/{plural}/{{name}}");
        document["paths"][path]["delete"]["responses"]["202"]["schema"]["$ref"].clone()
    };
    assert_eq!(response_schema("pods"), "#/definitions/io.k8s.api.core.v1.Pod");
    assert_eq!(
        response_schema("events"),
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Status"
    );
}

#[test]
fn the_index_names_every_document() {
    let schema = json!({ "type": "object" });
    let deployments =
        builtin(Gvk::new("apps", "v1", "Deployment"), "DeploymentList", "deployments");
    let served = [pods(), deployments, widgets(&schema)];
    let paths = v3_paths(&served);
    let expected = [
        ".well-known/openid-configuration",
        "api",
        "api/v1",
        "apis",
        "apis/apps",
        "apis/apps/v1",
        "apis/shop.example.com/v1",
        "openid/v1/jwks",
        "version",
    ];
    assert!(paths.iter().eq(expected), "{paths:?}");
    for path in &paths {
        let document = v3_document(&served, path).expect("listed");
        assert!(document["paths"].as_object().is_some_and(|paths| !paths.is_empty()), "{path}");
    }
    assert_eq!(
        v3_index([("api/v1", "AB")]),
        json!({ "paths": { "api/v1": { "serverRelativeURL": "/openapi/v3/api/v1?hash=AB" } } })
    );
}

#[test]
fn unserved_paths_have_no_document() {
    let schema = json!({ "type": "object" });
    let served = [pods(), widgets(&schema)];
    for path in ["", "api/v2", "apis/", "apis/apps", "apis/shop.example.com", "apis/a/b/c"] {
        assert!(v3_document(&served, path).is_none(), "{path:?}");
    }
}

#[test]
fn custom_kinds_get_type_and_object_metadata() {
    let declared = json!({
        "type": "object",
        "description": "A widget.",
        "properties": {
            "kind": { "type": "string", "description": "mine" },
            "metadata": { "type": "object" },
        },
    });
    let v3 = published(Dialect::V3, &declared);
    assert_eq!(v3["description"], "A widget.");
    assert_ne!(v3["properties"]["kind"]["description"], "mine");
    assert_eq!(v3["properties"]["apiVersion"]["type"], "string");
    assert_eq!(
        v3["properties"]["metadata"]["allOf"],
        json!([{ "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" }])
    );
    assert_eq!(
        v3["x-kubernetes-group-version-kind"],
        json!([{ "group": "shop.example.com", "version": "v1", "kind": "Widget" }])
    );
    assert_eq!(v3["x-kubernetes-selectable-fields"], json!([{ "fieldPath": "spec.color" }]));
    let v2 = published(Dialect::V2, &declared);
    assert_eq!(
        v2["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
}

#[test]
fn custom_lists_refer_to_their_items() {
    let schema = json!({ "type": "object" });
    let document = v2_document(&[widgets(&schema)]);
    let list = &document["definitions"]["com.example.shop.v1.WidgetList"];
    assert_eq!(
        list["properties"]["items"],
        json!({ "type": "array", "items": { "$ref": format!("#/definitions/{SCHEMA}") } })
    );
    assert_eq!(list["required"], json!(["items"]));
    assert_eq!(list["x-kubernetes-group-version-kind"][0]["kind"], "WidgetList");
}

#[test]
fn v3_publishes_custom_schemas_as_declared() {
    let spec = json!({
        "type": "object",
        "nullable": true,
        "required": ["size"],
        "properties": {
            "size": { "type": "integer", "minimum": 0, "default": 0 },
            "note": { "type": "string", "nullable": false, "pattern": "", "enum": ["a"] },
        },
        "oneOf": [{ "required": ["note"] }, { "not": { "required": ["note"] } }],
        "x-kubernetes-validations": [{ "rule": "true" }],
    });
    assert_eq!(
        published_spec(Dialect::V3, &spec),
        json!({
            "type": "object",
            "nullable": true,
            "required": ["size"],
            "properties": {
                "size": { "type": "integer", "minimum": 0, "default": 0 },
                "note": { "type": "string", "enum": ["a"] },
            },
            "oneOf": [{ "required": ["note"] }, { "not": { "required": ["note"] } }],
            "x-kubernetes-validations": [{ "rule": "true" }],
        })
    );
}

#[test]
fn v2_drops_what_it_cannot_express() {
    let spec = json!({
        "type": "object",
        "default": {},
        "anyOf": [{ "required": ["size"] }],
        "properties": {
            "size": { "type": "integer", "default": 1, "not": { "enum": [3] } },
            "port": { "x-kubernetes-int-or-string": true },
        },
    });
    assert_eq!(
        published_spec(Dialect::V2, &spec),
        json!({
            "type": "object",
            "properties": {
                "size": { "type": "integer" },
                "port": { "x-kubernetes-int-or-string": true },
            },
        })
    );
}

#[test]
fn v2_requires_no_field_that_may_be_null() {
    let spec = json!({
        "type": "object",
        "required": ["maybe", "sure"],
        "properties": {
            "maybe": { "type": "object", "nullable": true, "properties": { "x": { "type": "string" } } },
            "sure": { "type": "array", "nullable": false, "items": { "type": "string" } },
            "only": {
                "type": "object",
                "required": ["n"],
                "properties": { "n": { "type": "string", "nullable": true } },
            },
        },
    });
    assert_eq!(
        published_spec(Dialect::V2, &spec),
        json!({
            "type": "object",
            "required": ["sure"],
            "properties": {
                "maybe": {},
                "sure": { "type": "array", "items": { "type": "string" } },
                "only": { "type": "object", "properties": { "n": {} } },
            },
        })
    );
}

#[test]
fn v2_omits_the_structure_of_preserved_unknown_fields() {
    let spec = json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-embedded-resource": true,
        "properties": { "x": { "type": "string" } },
    });
    assert_eq!(
        published_spec(Dialect::V2, &spec),
        json!({
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-embedded-resource": true,
        })
    );
    let root = json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": { "spec": { "type": "string" } },
    });
    let root = published(Dialect::V2, &root);
    assert_eq!(root["type"], "object");
    assert!(root.get("properties").is_none());
}

#[test]
fn crd_without_schema_is_published_as_an_object() {
    for dialect in [Dialect::V2, Dialect::V3] {
        let schema = published(dialect, &Value::Null);
        assert_eq!(schema["type"], "object");
        assert!(schema.get("properties").is_none());
        assert!(schema["x-kubernetes-group-version-kind"].is_array());
    }
}

#[test]
fn v3_expands_int_or_string_unless_declared() {
    let either = json!([{ "type": "integer" }, { "type": "string" }]);
    let int_or_string = "x-kubernetes-int-or-string";
    let bare = json!({ int_or_string: true });
    let any_of = json!({ int_or_string: true, "anyOf": either });
    assert_eq!(published_spec(Dialect::V3, &bare), any_of);
    assert_eq!(published_spec(Dialect::V3, &any_of), any_of);
    let all_of = json!({ int_or_string: true, "allOf": [{ "anyOf": either }, { "pattern": "x" }] });
    assert_eq!(published_spec(Dialect::V3, &all_of), all_of);
    let narrowed =
        json!({ int_or_string: true, "anyOf": [{ "pattern": "x" }], "allOf": [{ "maximum": 3 }] });
    assert_eq!(
        published_spec(Dialect::V3, &narrowed),
        json!({
            int_or_string: true,
            "anyOf": [{ "pattern": "x" }],
            "allOf": [{ "anyOf": either }, { "maximum": 3 }],
        })
    );
}

#[test]
fn embedded_resources_get_type_and_object_metadata() {
    let spec = json!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "required": ["kind", "spec"],
            "properties": { "spec": { "type": "object" } },
        },
    });
    for dialect in [Dialect::V2, Dialect::V3] {
        let item = published_spec(dialect, &spec)["items"].take();
        assert_eq!(item["required"], json!(["kind", "spec", "apiVersion"]));
        let properties = item["properties"].as_object().expect("properties");
        assert!(properties.keys().eq(["apiVersion", "kind", "metadata", "spec"]));
    }
}
