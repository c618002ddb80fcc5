//! Pruning, defaulting and validation by example and for arbitrary input. The exact error texts are
//! tested against transcripts in `tests/it`.

#![expect(clippy::needless_pass_by_value, reason = "literals read better without borrows")]

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::metadata::Malformed;

fn compile_spec(spec: Value) -> Structural {
    Structural::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn texts(errors: &[crate::field::Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

mod prune {
    use super::*;

    #[track_caller]
    fn check(spec: Value, before: Value, after: Value, unknown: &[&str]) {
        let mut object =
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"x": 1}, "spec": before});
        let paths = compile_spec(spec).prune(&mut object);
        assert_eq!(object["spec"], after);
        assert_eq!(paths, unknown);
        assert_eq!(object["metadata"], json!({"x": 1}), "metadata of the root is kept");
    }

    #[test]
    fn unspecified_fields_are_removed_and_reported_with_indexes() {
        check(
            json!({"type": "object", "properties": {
                "list": {"type": "array", "items": {
                    "type": "object", "properties": {"a": {"type": "string"}},
                }},
            }}),
            json!({"list": [{"a": "x"}, {"b": {"c": 1}}], "other": 1}),
            json!({"list": [{"a": "x"}, {}]}),
            &["spec.list[1].b", "spec.other"],
        );
    }

    #[test]
    fn preserve_unknown_keeps_all_fields_outside_specified_properties() {
        check(
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "sub": {"type": "object", "properties": {"a": {"type": "string"}}},
            }}),
            json!({"any": {"b": [1]}, "sub": {"a": "x", "b": 1}}),
            json!({"any": {"b": [1]}, "sub": {"a": "x"}}),
            &["spec.sub.b"],
        );
    }

    #[test]
    fn additional_properties_without_schema_keep_only_scalars() {
        check(
            json!({"type": "object", "additionalProperties": true}),
            json!({"a": 1, "b": {"c": 1}, "d": [{"e": 1}]}),
            json!({"a": 1, "b": {}, "d": [{}]}),
            &["spec.b.c", "spec.d[0].e"],
        );
    }

    #[test]
    fn embedded_resources_keep_identity_and_metadata() {
        check(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                "spec": {"type": "object"},
            }}),
            json!({
                "apiVersion": "v1", "kind": "K", "metadata": {"y": 1}, "data": {}, "spec": {"z": 1},
            }),
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"y": 1}, "spec": {}}),
            &["spec.data", "spec.spec.z"],
        );
    }
}

mod default {
    use super::*;

    #[track_caller]
    fn check(spec: Value, before: Value, after: Value) {
        let mut object = json!({"spec": before});
        let schema = compile_spec(spec);
        schema.drop_nulls(&mut object);
        schema.default(&mut object);
        assert_eq!(object, json!({"spec": after}));
    }

    #[test]
    fn defaults_apply_inside_defaults_lists_and_maps() {
        let leaf =
            json!({"type": "object", "properties": {"d": {"type": "integer", "default": 1}}});
        check(
            json!({"type": "object", "properties": {
                "made": {"type": "object", "default": {}, "properties": leaf["properties"]},
                "list": {"type": "array", "items": leaf},
                "map": {"type": "object", "additionalProperties": leaf},
                "absent": leaf,
            }}),
            json!({"list": [{}, {"d": 2}], "map": {"k": {}}}),
            json!({"made": {"d": 1}, "list": [{"d": 1}, {"d": 2}], "map": {"k": {"d": 1}}}),
        );
    }

    #[test]
    fn null_is_replaced_dropped_or_kept_by_nullability() {
        check(
            json!({"type": "object", "properties": {
                "defaulted": {"type": "string", "default": "x"},
                "nullable": {"type": "string", "default": "x", "nullable": true},
                "plain": {"type": "string"},
            }}),
            json!({"defaulted": null, "nullable": null, "plain": null, "unknown": null}),
            json!({"defaulted": "x", "nullable": null, "unknown": null}),
        );
    }

    #[test]
    fn nulls_in_maps_and_lists_follow_the_element_schema() {
        let element = json!({"type": "string", "default": "x"});
        check(
            json!({"type": "object", "properties": {
                "list": {"type": "array", "items": element},
                "map": {"type": "object", "additionalProperties": element},
                "bare": {"type": "array", "items": {"type": "string"}},
            }}),
            json!({"list": [null], "map": {"k": null}, "bare": [null]}),
            json!({"list": ["x"], "map": {"k": "x"}, "bare": [null]}),
        );
    }
}

#[test]
fn normalize_reports_metadata_then_fields_then_embedded_metadata() {
    let schema = compile_spec(json!({"type": "object", "properties": {
        "pod": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
    }}));
    let mut object = json!({
        "apiVersion": "g/v1", "kind": "K", "zzz": 1,
        "metadata": {"name": "n", "oops": 1, "labels": {}},
        "spec": {
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"oops": 2, "name": "p"}},
            "x": 1,
        },
    });
    let unknown = schema.normalize(&mut object, Malformed::Reject).unwrap();
    assert_eq!(unknown, ["metadata.oops", "spec.x", "zzz", "spec.pod.metadata.oops"]);
    assert_eq!(object["metadata"], json!({"name": "n"}));
    assert_eq!(object["spec"]["pod"]["metadata"], json!({"name": "p"}));
}

#[test]
fn malformed_metadata_of_stored_objects_is_dropped() {
    let schema = compile_spec(json!({"type": "object"}));
    let mut object = json!({"metadata": {"name": "n", "labels": {"a": 1}, "generation": "x"}});
    assert!(schema.normalize(&mut object.clone(), Malformed::Reject).is_err());
    schema.normalize(&mut object, Malformed::Drop).unwrap();
    assert_eq!(object, json!({"metadata": {"name": "n"}}));
}

#[test]
fn rules_are_listed_with_their_paths() {
    let schema = compile_spec(json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.a", "message": "m", "optionalOldSelf": true}],
        "properties": {"l": {"type": "array", "items": {
            "type": "string", "x-kubernetes-validations": [{"rule": "true"}],
        }}},
    }));
    let rules = schema.rules();
    let places: Vec<&str> = rules.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(places, ["spec", "spec.l[*]"]);
    assert_eq!(rules[0].1.message.as_deref(), Some("m"));
    assert_eq!(rules[0].1.optional_old_self, Some(true));
}

/// Each value that is not allowed would list everything that is.
#[test]
fn the_text_of_all_failures_of_an_object_is_bounded() {
    let allowed: Vec<String> = (0..100).map(|n| format!("{n}{}", "v".repeat(1_000))).collect();
    let schema =
        compile_spec(json!({"type": "array", "items": {"type": "string", "enum": allowed}}));
    let errors = schema.validate(&json!({"spec": vec!["other"; 1_000]}));
    let bytes: usize = errors.iter().map(|error| error.to_string().len()).sum();
    assert!((16 << 20..18 << 20).contains(&bytes), "{bytes} in {} errors", errors.len());
}

#[test]
fn scale_errors_follow_schema_errors_and_unchecked_rules_are_last() {
    let scale = Scale::new(&json!({
        "specReplicasPath": ".spec.r",
        "statusReplicasPath": ".status.r",
        "labelSelectorPath": ".status.sel",
    }));
    let schema = compile_spec(json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "true"}],
        "properties": {
            "a": {"type": "string"},
            "e": {"type": "object", "x-kubernetes-embedded-resource": true},
            "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        },
    }))
    .with_scale(scale);
    let object = json!({
        "spec": {"a": 1, "e": {}, "s": ["x", "x"], "r": -1},
        "status": {"r": "x", "sel": {"m": [1, null, "q"]}},
    });
    assert_eq!(
        texts(&schema.validate(&object)),
        [
            "spec.a: Invalid value: \"integer\": spec.a in body must be of type string: \
             \"integer\"",
            ".spec.r: Invalid value: -1: should be a non-negative integer",
            ".status.r: Invalid value: 0: .status.r accessor error: x is of the type string, \
             expected int64",
            ".status.sel: Invalid value: \"\": .status.sel accessor error: map[m:[1 <nil> q]] is \
             of the type map[string]interface {}, expected string",
            "spec.e.apiVersion: Required value",
            "spec.e.kind: Required value",
            "spec.s[1]: Duplicate value: \"x\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object \
             was invalid; correct the existing errors to complete validation",
        ]
    );
    // A value that is out of range does not prevent rules from being checked.
    assert_eq!(schema.validate(&json!({"spec": {"r": -1}})).len(), 1);
}

#[test]
fn the_alternative_with_most_passed_checks_is_reported() {
    let schema = compile_spec(json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "oneOf": [
            {"required": ["c"]},
            {"properties": {"a": {"minimum": 5}, "b": {"minLength": 1}}},
        ],
    }));
    assert_eq!(
        texts(&schema.validate(&json!({"spec": {"a": 1, "b": "x"}}))),
        [
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). \
             Found none valid",
            "spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 5",
        ]
    );
}

#[test]
fn clones_share_the_compiled_schema() {
    let schema = compile_spec(json!({"type": "object"}));
    assert!(Arc::ptr_eq(&schema.root, &schema.clone().root));
}

// === arbitrary schemas and objects ===

const NAMES: [&str; 6] = ["a", "b", "c", "kind", "apiVersion", "metadata"];

fn arb_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-10i64..10).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop_oneof![Just(1.0), Just(0.5), Just(1e300), any::<f64>()].prop_map(|f| json!(f)),
        prop_oneof![Just("a".to_owned()), Just("x".to_owned()), ".{0,4}"].prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(&NAMES[..]), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

/// Merges optional keywords into a schema.
fn with(base: Value, extras: Vec<Value>) -> Value {
    let mut map = base.as_object().cloned().unwrap_or_default();
    for extra in extras {
        map.extend(extra.as_object().cloned().unwrap_or_default());
    }
    Value::Object(map)
}

fn arb_schema() -> impl Strategy<Value = Value> {
    let text = prop::sample::subsequence(
        vec![
            json!({"nullable": true}),
            json!({"default": "a"}),
            json!({"maxLength": 2}),
            json!({"minLength": 1}),
            json!({"pattern": "^[a-z]+$"}),
            json!({"enum": ["a", "b"]}),
            json!({"format": "date"}),
        ],
        0..4,
    )
    .prop_map(|extras| with(json!({"type": "string"}), extras));
    let number = (
        prop::sample::select(vec!["integer", "number"]),
        prop::sample::subsequence(
            vec![
                json!({"nullable": true}),
                json!({"default": 3}),
                json!({"minimum": 1.5}),
                json!({"maximum": 5, "exclusiveMaximum": true}),
                json!({"multipleOf": 3}),
                json!({"format": "int32"}),
                json!({"enum": [1, 3, 0.5]}),
            ],
            0..4,
        ),
    )
        .prop_map(|(kind, extras)| with(json!({"type": kind}), extras));
    let leaf = prop_oneof![
        text,
        number,
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let object = (
            prop::collection::btree_map(prop::sample::select(&NAMES[..]), inner.clone(), 0..4),
            prop::sample::subsequence(
                vec![
                    json!({"nullable": true}),
                    json!({"default": {}}),
                    json!({"required": ["a"]}),
                    json!({"x-kubernetes-preserve-unknown-fields": true}),
                    json!({"x-kubernetes-embedded-resource": true}),
                    json!({"anyOf": [
                        {"required": ["a"]}, {"properties": {"b": {"minLength": 1}}},
                    ]}),
                    json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
                    json!({"allOf": [{"not": {"required": ["c"]}}, {"minProperties": 1}]}),
                    json!({"maxProperties": 2}),
                ],
                0..4,
            ),
        )
            .prop_map(|(properties, extras)| {
                let properties: Map<String, Value> =
                    properties.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
                with(json!({"type": "object", "properties": properties}), extras)
            });
        let list = (
            inner.clone(),
            prop::sample::select(vec![
                json!({}),
                json!({"x-kubernetes-list-type": "set"}),
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}),
                json!({"maxItems": 1}),
                json!({"minItems": 1, "uniqueItems": true}),
            ]),
        )
            .prop_map(|(items, extra)| with(json!({"type": "array", "items": items}), vec![extra]));
        let map = prop_oneof![inner, Just(json!(true)), Just(json!(false))]
            .prop_map(|schema| json!({"type": "object", "additionalProperties": schema}));
        prop_oneof![object, list, map]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pruning_is_idempotent(spec in arb_schema(), value in arb_value()) {
        let schema = compile_spec(spec);
        let mut once = json!({"spec": value});
        schema.prune(&mut once);
        let mut twice = once.clone();
        prop_assert_eq!(schema.prune(&mut twice), Vec::<String>::new());
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn defaulting_is_idempotent(spec in arb_schema(), value in arb_value()) {
        let schema = compile_spec(spec);
        let mut once = json!({"spec": value});
        schema.default(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn decoded_valid_objects_are_stable(spec in arb_schema(), value in arb_value()) {
        let schema = compile_spec(spec);
        let mut once = json!({"spec": value});
        if schema.normalize(&mut once, Malformed::Drop).is_err() {
            return Ok(());
        }
        schema.default(&mut once);
        if !schema.validate(&once).is_empty() {
            return Ok(());
        }
        let mut twice = once.clone();
        let unknown = schema.normalize(&mut twice, Malformed::Reject);
        schema.default(&mut twice);
        prop_assert_eq!(unknown, Ok(Vec::new()));
        prop_assert_eq!(&twice, &once);
        prop_assert_eq!(texts(&schema.validate(&twice)), Vec::<String>::new());
    }

    #[test]
    fn unchanged_update_has_no_more_errors_than_create(
        spec in arb_schema(), value in arb_value(),
    ) {
        let schema = compile_spec(spec);
        let object = json!({"spec": value});
        let created = texts(&schema.validate_schema(&object));
        for error in schema.validate_schema_update(&object, &object) {
            prop_assert!(created.contains(&error.to_string()));
        }
        let lists = schema.validate_lists_update(&object, &object);
        prop_assert_eq!(texts(&lists), Vec::<String>::new());
    }

    #[test]
    fn validity_and_failures_agree(spec in arb_schema(), value in arb_value()) {
        let node = compile(&spec, Purpose::Resource).unwrap();
        prop_assert!(validate::validity_agrees_with_failures(&node, &value, None));
        prop_assert!(validate::validity_agrees_with_failures(&node, &value, Some(&value)));
    }

    #[test]
    fn no_schema_or_object_causes_a_panic(
        schema in arb_value(), spec in arb_schema(), value in arb_value(),
    ) {
        for schema in [&schema, &json!({"type": "object", "properties": {"spec": spec}})] {
            let crd = json!({"metadata": {}, "spec": {"versions": [
                {"name": "v1", "schema": {"openAPIV3Schema": schema}},
                {"name": "v2", "schema": {"openAPIV3Schema": value}},
            ]}});
            let mut defaulted = crd.clone();
            crate::default_crd(&mut defaulted);
            crate::validate_crd(&crd);
            crate::validate_crd_update(&crd, &defaulted);
            if let Ok(schema) = Structural::compile(schema) {
                let mut object = value.clone();
                let _ = schema.normalize(&mut object, Malformed::Drop);
                schema.default(&mut object);
                schema.validate(&object);
                schema.validate_update(&value, &object, &mut Vec::new());
                schema.validate_status_update(&value, &object, &mut Vec::new());
            }
        }
    }

    #[test]
    fn no_text_causes_parsers_to_panic(
        text in prop_oneof![".{0,20}", r"[\[\](){}\\.*+?|^$a-c:'@,=<>!0-9-]{0,12}"],
    ) {
        let _ = evenkeel_types::pattern::Pattern::new(&text);
        let object = json!([{"a": 1}]);
        let _ = crate::jsonpath::Path::parse(&text).map(|path| path.eval(&object).len());
        for name in [
            "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "isbn", "creditcard",
            "ssn", "rgbcolor", "byte", "date", "duration", "date-time", "k8s-long-name",
        ] {
            if let Some(format) = Format::from_name(name) {
                format.accepts(&text);
            }
        }
        let _ = evenkeel_types::url::Url::parse(&text);
    }
}
