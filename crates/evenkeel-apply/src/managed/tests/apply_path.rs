//! Server-side apply.

use proptest::prelude::*;

use super::*;

#[test]
fn appliers_own_the_fields_they_send() {
    let mut state = State::new();
    assert!(state.apply(
        "m",
        json!({"spec": {"a": "1", "list": [{"name": "i", "value": 1}], "set": ["s"]}})
    ));
    assert_eq!(
        state.field_managers(),
        [
            r#"m Apply: .spec.a .spec.list[name="i"] .spec.list[name="i"].name .spec.list[name="i"].value .spec.set[="s"]"#
        ]
    );
    assert_eq!(state.times(), [Some(1)]);
}

#[test]
fn fields_no_longer_applied_are_removed() {
    let mut state = State::new();
    state.apply("m", json!({"spec": {
        "a": "1", "map": {"x": "1", "y": "1"}, "set": ["p", "q"], "list": [{"name": "i", "value": 1}, {"name": "j"}],
        "atomic": [1]
    }}));
    state.apply("m", json!({"spec": {"map": {"y": "1"}, "set": ["q"], "list": [{"name": "i"}]}}));
    assert_eq!(state.spec(), &json!({"map": {"y": "1"}, "set": ["q"], "list": [{"name": "i"}]}));
    // A container is removed with its last field.
    state.apply("m", json!({"spec": {"map": {"y": "1"}}}));
    assert_eq!(state.spec(), &json!({"map": {"y": "1"}}));
    state.apply("m", json!({}));
    assert_eq!(state.live().get("spec"), None);
    assert_eq!(state.field_managers(), Vec::<String>::new());
}

#[test]
fn fields_of_other_managers_are_not_removed() {
    let mut state = State::new();
    state.apply(
        "m1",
        json!({"spec": {"a": "1", "list": [{"name": "i", "value": 1}], "map": {"x": "1"}}}),
    );
    state.apply("m2", json!({"spec": {"a": "1", "list": [{"name": "i", "other": 2}]}}));
    state.update(
        "u",
        json!({"spec": {
            "a": "1", "list": [{"name": "i", "value": 1, "other": 2}], "map": {"x": "1", "y": "1"}
        }}),
    );
    state.apply("m1", json!({}));
    assert_eq!(
        state.spec(),
        &json!({"a": "1", "list": [{"name": "i", "other": 2}], "map": {"y": "1"}})
    );
    assert_eq!(
        state.field_managers(),
        [
            r#"m2 Apply: .spec.a .spec.list[name="i"] .spec.list[name="i"].name .spec.list[name="i"].other"#,
            "u Update: .spec.map.y",
        ]
    );
}

#[test]
fn item_with_unowned_fields_is_removed_with_its_key() {
    let mut state = State::new();
    state.apply("m", json!({"spec": {"list": [{"name": "i", "value": 1}]}}));
    // Defaulted by the server, without a manager.
    state.live.as_mut().unwrap()["spec"]["list"][0]["other"] = json!(7);
    state.apply("m", json!({"spec": {"list": [{"name": "i"}]}}));
    assert_eq!(state.spec(), &json!({"list": [{"name": "i", "other": 7}]}));
    state.apply("m", json!({"spec": {"a": "1"}}));
    assert_eq!(state.spec(), &json!({"a": "1"}), "the item itself was owned");
}

#[test]
fn different_values_conflict_and_equal_values_are_shared() {
    let mut state = State::new();
    state.apply("m1", json!({"spec": {"a": "1", "list": [{"name": "i", "value": 1}]}}));
    assert_eq!(
        state.conflicts("m2", json!({"spec": {"a": "2"}})),
        r#"Apply failed with 1 conflict: conflict with "m1": .spec.a"#
    );
    assert!(!state.apply("m2", json!({"spec": {"a": "1"}})));
    assert_eq!(state.field_managers()[0], "m2 Apply: .spec.a");
    // A shared field conflicts with every other manager.
    state.update("u", json!({"spec": {"a": "1", "b": "1", "list": [{"name": "i", "value": 1}]}}));
    let error = state
        .try_apply(
            "m3",
            json!({"spec": {"a": "3", "b": "3", "list": [{"name": "i", "value": 3}]}}),
            false,
        )
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 4 conflicts: conflicts with \"m1\":\n- .spec.a\n- .spec.list[name=\"i\"].value\n\
         conflicts with \"m2\":\n- .spec.a\nconflicts with \"u\" using example.io/v1:\n- .spec.b"
    );
    let ApplyError::Conflict(conflicts) = error else { unreachable!() };
    let causes: Vec<_> = conflicts.iter().map(|c| (c.message(), c.field())).collect();
    assert_eq!(causes[1], ("conflict with \"m1\"".into(), ".spec.list[name=\"i\"].value".into()));
    assert_eq!(causes[3], ("conflict with \"u\" using example.io/v1".into(), ".spec.b".into()));
}

#[test]
fn conflicts_quote_names_and_subresources() {
    let mut state = State::new();
    state.subresource = "status";
    state.update("q\"x", json!({"spec": {"a": "1"}}));
    state.subresource = "";
    assert_eq!(
        state.conflicts("m", json!({"spec": {"a": "2"}})),
        r#"Apply failed with 1 conflict: conflict with "q\"x" with subresource "status" using example.io/v1: .spec.a"#
    );
}

#[test]
fn force_takes_changed_fields_and_shares_the_others() {
    let mut state = State::new();
    state.apply("m1", json!({"spec": {"a": "1", "b": "1"}}));
    state.force("m2", json!({"spec": {"a": "2", "b": "1"}}));
    assert_eq!(state.field_managers(), ["m1 Apply: .spec.b", "m2 Apply: .spec.a .spec.b"]);
    assert_eq!(state.spec(), &json!({"a": "2", "b": "1"}));
    // Managers without remaining fields are removed.
    state.force("m2", json!({"spec": {"a": "2", "b": "2"}}));
    assert_eq!(state.field_managers(), ["m2 Apply: .spec.a .spec.b"]);
}

#[test]
fn change_of_an_updater_is_kept_until_the_applier_forces() {
    let mut state = State::new();
    state.apply("m", json!({"spec": {"a": "1"}}));
    state.update("u", json!({"spec": {"a": "2"}}));
    assert_eq!(state.field_managers(), ["u Update: .spec.a"]);
    assert_eq!(
        state.conflicts("m", json!({"spec": {"a": "1"}})),
        r#"Apply failed with 1 conflict: conflict with "u" using example.io/v1: .spec.a"#
    );
    // Omitting the field is not a conflict: the updater owns it now.
    state.apply("m", json!({}));
    assert_eq!(state.spec(), &json!({"a": "2"}));
}

#[test]
fn fields_removed_by_an_updater_stay_removed() {
    let mut state = State::new();
    state.apply("m", json!({"spec": {"a": "1", "set": ["x", "y"]}}));
    state.update("u", json!({"spec": {"set": ["y"]}}));
    assert_eq!(state.field_managers(), [r#"m Apply: .spec.set[="y"]"#]);
    state.apply("m", json!({"spec": {"a": "1", "set": ["x", "y"]}}));
    assert_eq!(state.spec(), &json!({"a": "1", "set": ["x", "y"]}));
}

#[test]
fn first_apply_records_existing_fields_as_before_first_apply() {
    let mut state = State::new();
    state.live =
        Some(state.object(json!({"metadata": {"uid": "u"}, "spec": {"a": "1", "b": "1"}})));
    assert_eq!(
        state.conflicts("m", json!({"spec": {"a": "2"}})),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using example.io/v1: .spec.a"#
    );
    state.apply("m", json!({"spec": {"a": "1"}}));
    assert_eq!(
        state.field_managers(),
        ["m Apply: .spec.a", "before-first-apply Update: .spec .spec.a .spec.b"]
    );
}

#[test]
fn apply_without_changes_leaves_the_object_unchanged() {
    let mut state = State::new();
    state.apply("m1", json!({"spec": {"a": "1"}}));
    let before = state.live().clone();
    assert!(!state.apply("m1", json!({"spec": {"a": "1"}})));
    assert_eq!(state.live(), &before);
    // A new manager of the same values has an entry without a time, which is first.
    assert!(!state.apply("m2", json!({"spec": {"a": "1"}})));
    assert_eq!(state.field_managers(), ["m2 Apply: .spec.a", "m1 Apply: .spec.a"]);
    assert_eq!(state.times(), [None, Some(1)]);
    let before = state.live().clone();
    assert!(!state.apply("m2", json!({"spec": {"a": "1"}})));
    assert_eq!(state.live(), &before);
}

#[test]
fn configurations_of_another_type_are_rejected() {
    let mut state = State::new();
    for (body, want) in [
        (json!({"kind": "Other"}), "invalid object type: example.io/v1, Kind=Other"),
        (json!({"apiVersion": "v2"}), "invalid object type: /v2, Kind=Thing"),
        (json!({"apiVersion": "a/b/c"}), "invalid object type: /, Kind="),
        (json!({"metadata": {"managedFields": []}}), "metadata.managedFields must be nil"),
    ] {
        let error = state.try_apply("m", body, false).unwrap_err();
        assert_eq!(error, ApplyError::BadRequest(want.into()));
    }
    assert!(state.apply("m", json!({"metadata": {"managedFields": null}})));
}

#[test]
fn configurations_that_violate_the_schema_are_rejected() {
    let mut state = State::new();
    for (body, want) in [
        (
            json!({"spec": {"dta": 1}}),
            "failed to create typed patch object (ns/n; example.io/v1, Kind=Thing): \
             .spec.dta: field not declared in schema",
        ),
        (
            json!({"spec": {"set": ["x", "x"]}}),
            "failed to create typed patch object (ns/n; example.io/v1, Kind=Thing): \
             .spec.set: duplicate entries for key [=\"x\"]",
        ),
    ] {
        assert_eq!(state.try_apply("m", body, false).unwrap_err().to_string(), want);
    }
    state.live = Some(state.object(json!({"spec": {"a": 1}})));
    let error = state.try_apply("m", json!({}), true).unwrap_err();
    assert!(error.to_string().contains(".spec.a: expected string"), "{error}");
    state.live = Some(state.object(json!({"metadata": {"managedFields": [{}]}})));
    let error = state.try_apply("m", json!({}), true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to decode managed fields: operation must be `Apply` or `Update`"
    );
}

#[test]
fn live_duplicates_are_kept_until_the_item_is_applied() {
    let mut state = State::new();
    let duplicated = json!([{"name": "i", "value": 1}, {"name": "i", "value": 2}, {"name": "j"}]);
    state.update("u", json!({"spec": {"list": duplicated}}));
    state.apply("m", json!({"spec": {"list": [{"name": "j", "value": 3}]}}));
    assert_eq!(
        state.spec()["list"],
        json!([{"name": "i", "value": 1}, {"name": "i", "value": 2}, {"name": "j", "value": 3}])
    );
    assert_eq!(
        state.conflicts("m", json!({"spec": {"list": [{"name": "i", "value": 1}]}})),
        r#"Apply failed with 1 conflict: conflict with "u" using example.io/v1: .spec.list[name="i"]"#
    );
    state.force("m", json!({"spec": {"list": [{"name": "i", "value": 1}]}}));
    assert_eq!(state.spec()["list"], json!([{"name": "i", "value": 1}, {"name": "j"}]));
}

#[test]
fn types_that_became_atomic_are_owned_as_a_whole() {
    let document = |extra: Value| {
        let mut sub = json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}});
        sub.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        structural(json!({"type": "object", "properties": {"sub": sub}}))
    };
    let version = |object_type| SingleVersion { api_version: VERSION.into(), object_type };
    let mut state = State::with(version(document(json!({}))));
    state.apply("m1", json!({"sub": {"x": "1"}}));
    state.apply("m2", json!({"sub": {"y": "1"}}));
    state.versions = Box::new(version(document(json!({"x-kubernetes-map-type": "atomic"}))));
    assert_eq!(
        state.conflicts("m1", json!({"sub": {"x": "2"}})),
        r#"Apply failed with 1 conflict: conflict with "m2": .sub"#
    );
    state.force("m1", json!({"sub": {"x": "2"}}));
    assert_eq!(state.field_managers(), ["m1 Apply: .sub"]);
    assert_eq!(state.live()["sub"], json!({"x": "2"}));
}

#[test]
fn kubectl_migrates_from_client_side_to_server_side_apply() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let mut state = State::new();
    let last = state.object(json!({"spec": {"a": "1", "b": "1"}}));
    let created = json!({"metadata": {"annotations": {ANNOTATION: last.to_string()}}, "spec": {"a": "1", "b": "2"}});
    state.update("kubectl-client-side-apply", created);
    // Fields that match the annotation may change; `b` was changed by another manager since.
    assert_eq!(
        state.conflicts("kubectl", json!({"spec": {"a": "3", "b": "3"}})),
        r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using example.io/v1: .spec.b"#
    );
    // Other managers do not have this exception.
    assert!(state.conflicts("other", json!({"spec": {"a": "3"}})).ends_with(": .spec.a"));
    state.apply("kubectl", json!({"spec": {"a": "3"}}));
    assert_eq!(state.spec(), &json!({"a": "3", "b": "2"}));
    let annotation = state.live()["metadata"]["annotations"][ANNOTATION].as_str().unwrap();
    assert!(annotation.ends_with("}\n"));
    assert_eq!(
        serde_json::from_str::<Value>(annotation).unwrap(),
        state.object(json!({"spec": {"a": "3"}}))
    );
    // An annotation that would be too large is removed.
    state.apply("kubectl", json!({"spec": {"a": "x".repeat(300_000)}}));
    assert_eq!(state.live()["metadata"]["annotations"].get(ANNOTATION), None);
}

// === properties ===

fn bodies() -> impl Strategy<Value = Value> {
    let text = || prop::option::of("[a-b]");
    let map = prop::collection::btree_map("[x-z]", "[a-b]", 0..3);
    let set = prop::collection::btree_set("[a-d]", 0..3);
    let list = prop::collection::btree_map("[i-l]", prop::option::of(0..2i64), 0..3);
    (text(), text(), map, set, list).prop_map(|(a, b, map, set, list)| {
        let mut spec = serde_json::Map::new();
        spec.extend(a.map(|a| ("a".to_owned(), json!(a))));
        spec.extend(b.map(|b| ("b".to_owned(), json!(b))));
        if !map.is_empty() {
            spec.insert("map".into(), json!(map));
        }
        if !set.is_empty() {
            spec.insert("set".into(), json!(set));
        }
        let item = |(name, value): (String, Option<i64>)| match value {
            Some(value) => json!({"name": name, "value": value}),
            None => json!({"name": name}),
        };
        if !list.is_empty() {
            spec.insert("list".into(), list.into_iter().map(item).collect());
        }
        json!({ "spec": spec })
    })
}

fn without_managed_fields(object: &Value) -> Value {
    object::clone_without_managed_fields(object)
}

proptest! {
    #[test]
    fn apply_is_idempotent(before in bodies(), config in bodies()) {
        let mut state = State::new();
        state.update("u", before);
        state.force("m", config.clone());
        let once = state.live().clone();
        prop_assert!(!state.apply("m", config));
        prop_assert_eq!(state.live(), &once);
    }

    #[test]
    fn applying_fewer_fields_removes_no_fields_of_other_managers(
        mine in bodies(), theirs in bodies(), less in bodies(), updated in bodies(),
    ) {
        let mut state = State::new();
        state.update("u", updated);
        state.force("m", mine);
        state.force("t", theirs);
        let owned = |state: &State, but: &str| {
            let managers = state.managers();
            let others = managers.iter().filter(|entry| entry.manager != but);
            others.fold(Set::new(), |all, entry| all.union(entry.fields.clone()))
        };
        let before = owned(&state, "m");
        if state.try_apply("m", less, false).is_ok() {
            prop_assert_eq!(&owned(&state, "m"), &before);
            let present = thing_type().to_field_set(state.live()).unwrap();
            let present = thing_type().with_named_fields(&present);
            prop_assert!(before.is_subset(&present), "{}", before.difference(&present));
        }
    }

    #[test]
    fn appliers_of_different_fields_commute(first in bodies(), second in bodies()) {
        let map = |body: &Value| json!({"spec": {"map": body["spec"].get("map").cloned().unwrap_or(json!({}))}});
        let rest = |body: &Value| {
            let mut body = body.clone();
            body["spec"].as_object_mut().unwrap().remove("map");
            body["spec"].as_object_mut().unwrap().remove("set");
            body
        };
        let (first, second) = (map(&first), rest(&second));
        let (mut a, mut b) = (State::new(), State::new());
        a.apply("1", first.clone());
        a.apply("2", second.clone());
        b.apply("2", second);
        b.apply("1", first);
        prop_assert_eq!(without_managed_fields(a.live()), without_managed_fields(b.live()));
        let mut managers = [a.field_managers(), b.field_managers()];
        managers.iter_mut().for_each(|managers| managers.sort());
        prop_assert_eq!(&managers[0], &managers[1]);
    }
}
