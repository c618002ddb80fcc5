//! Create, replace and patch.

use super::*;

#[test]
fn creator_owns_all_fields_except_identity() {
    let mut state = State::new();
    state.update(
        "m",
        json!({"metadata": {"labels": {"x": "1"}}, "spec": {"a": "1", "list": [{"name": "i"}]}}),
    );
    assert_eq!(
        state.live()["metadata"]["managedFields"],
        json!([{
            "apiVersion": VERSION, "fieldsType": "FieldsV1", "manager": "m", "operation": "Update",
            "time": "1970-01-01T00:00:01Z",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
                "f:spec": {".": {}, "f:a": {}, "f:list": {".": {}, "k:{\"name\":\"i\"}": {".": {}, "f:name": {}}}}
            }
        }])
    );
}

#[test]
fn fields_of_the_empty_object_have_no_manager() {
    let mut state = State::new();
    state.empty_object = json!({"metadata": {}, "spec": {"list": null}, "status": {}});
    state.update("m", json!({"spec": {"list": [{"name": "i"}], "map": {"x": "1"}}, "status": {}}));
    assert_eq!(
        state.live()["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {
            "f:list": {"k:{\"name\":\"i\"}": {".": {}, "f:name": {}}}, "f:map": {".": {}, "f:x": {}}
        }})
    );
}

#[test]
fn updater_takes_exactly_the_fields_it_changes() {
    let mut state = State::new();
    state.update("m1", json!({"spec": {"a": "1", "b": "1", "map": {"x": "1"}}}));
    state.update("m2", json!({"spec": {"a": "2", "b": "1", "map": {"x": "1", "y": "1"}}}));
    assert_eq!(
        state.field_managers(),
        ["m1 Update: .spec .spec.b .spec.map .spec.map.x", "m2 Update: .spec.a .spec.map.y"]
    );
    // Removed fields are removed from every manager and added to none.
    state.update("m3", json!({"spec": {"b": "1"}}));
    assert_eq!(state.field_managers(), ["m1 Update: .spec .spec.b"]);
    assert_eq!(state.times(), [Some(1)]);
}

#[test]
fn times_change_only_with_changes_of_the_manager() {
    let mut state = State::new();
    state.update("m1", json!({"spec": {"a": "1", "b": "1"}}));
    state.update("m2", json!({"spec": {"a": "2", "b": "1"}}));
    assert_eq!(state.times(), [Some(1), Some(2)]);
    state.update("m2", json!({"spec": {"a": "2", "b": "1"}}));
    assert_eq!(state.times(), [Some(1), Some(2)]);
    state.update("m1", json!({"spec": {"a": "2", "b": "3"}}));
    assert_eq!(state.field_managers()[1], "m1 Update: .spec .spec.b");
    assert_eq!(state.times(), [Some(2), Some(4)]);
}

#[test]
fn changes_of_one_manager_share_one_entry() {
    let mut state = State::new();
    state.update("m", json!({"spec": {"set": ["a", "b"]}}));
    state.update("m", json!({"spec": {"set": ["b", "c"]}}));
    assert_eq!(
        state.field_managers(),
        [r#"m Update: .spec .spec.set .spec.set[="b"] .spec.set[="c"]"#]
    );
}

#[test]
fn objects_without_managed_fields_stay_without() {
    let mut state = State::new();
    state.live = Some(
        json!({"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "n", "uid": "u"}}),
    );
    state.update("m", json!({"spec": {"a": "1"}}));
    assert_eq!(state.field_managers(), Vec::<String>::new());
    assert_eq!(state.live()["metadata"].get("managedFields"), None);
}

#[test]
fn clients_may_edit_reset_or_ignore_managed_fields() {
    let entry = json!({
        "manager": "edited", "operation": "Apply", "apiVersion": VERSION, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:a": {}}}, "time": "1970-01-01T01:00:00+01:00"
    });
    let spec = json!({"a": "1"});
    for (sent, want) in [
        (json!(null), vec!["m Update: .spec .spec.a"]),
        (json!([entry]), vec!["edited Apply: .spec.a"]),
        (json!([]), vec![]),
        (json!([{}]), vec![]),
        (json!([{"manager": "", "operation": ""}]), vec![]),
        // Invalid managedFields are the same as absent ones.
        (json!([{"manager": "x"}]), vec!["m Update: .spec .spec.a"]),
        (json!("x"), vec!["m Update: .spec .spec.a"]),
    ] {
        let mut state = State::new();
        state.update("m", json!({"spec": spec}));
        state.update("m", json!({"metadata": {"managedFields": sent}, "spec": spec}));
        assert_eq!(state.field_managers(), want, "{sent}");
    }
    let mut state = State::new();
    state.update("m", json!({"spec": spec}));
    state.subresource = "status";
    state.update("m", json!({"metadata": {"managedFields": [entry]}, "spec": spec}));
    assert_eq!(
        state.field_managers(),
        ["m Update: .spec .spec.a"],
        "subresources cannot edit them"
    );
}

#[test]
fn reset_fields_have_no_manager() {
    let mut state = State::new();
    state.reset = vec![(VERSION, Filter::Exclude(set(&[&["status"]])))];
    state.update("m", json!({"spec": {"a": "1"}, "status": {"a": "1"}}));
    assert_eq!(state.field_managers(), ["m Update: .spec .spec.a"]);

    let included = Filter::Include(vec![
        ["spec", "map"].map(|name| PathElementMatcher::Element(name.into())).to_vec(),
        vec![PathElementMatcher::Element("status".into()), PathElementMatcher::Wildcard],
    ]);
    state.reset = vec![(VERSION, included)];
    state.update("n", json!({"spec": {"a": "2", "map": {"x": "1"}}, "status": {"b": "1"}}));
    assert_eq!(state.field_managers()[1], "n Update: .spec.map .spec.map.x .status.b");
}

#[test]
fn managed_fields_are_cleared_on_errors() {
    let mut state = State::new();
    state.update("m", json!({"spec": {"a": "1"}}));
    let error = state.try_update("m", json!({"spec": {"dta": 1}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to compare objects: .spec.dta: field not declared in schema"
    );
    assert_eq!(state.live()["metadata"].get("managedFields"), None);

    let mut no_metadata = json!({"spec": {}});
    let request = state.request("m", "");
    assert_eq!(update(&request, None, &mut no_metadata), Ok(()));
    assert_eq!(no_metadata, json!({"spec": {}}));
}

#[test]
fn updaters_beyond_ten_become_ancient_changes() {
    let mut state = State::new();
    let mut map = serde_json::Map::new();
    for i in 1..=12 {
        map.insert(format!("k{i:02}"), json!("v"));
        state.update(&format!("m{i:02}"), json!({"spec": {"map": map}}));
    }
    let managers = state.field_managers();
    assert_eq!(managers.len(), 10);
    assert_eq!(
        managers[0],
        "ancient-changes Update: .spec .spec.map .spec.map.k01 .spec.map.k02 .spec.map.k03"
    );
    assert_eq!(managers[1], "m04 Update: .spec.map.k04");
    assert_eq!(state.times()[..2], [Some(3), Some(4)]);
    // Appliers are not counted.
    state.apply("a", json!({"spec": {"a": "1"}}));
    assert_eq!(state.field_managers().len(), 11);
}

#[test]
fn merging_updaters_of_one_second_keeps_all_fields() {
    let mut state = State::new();
    let mut map = serde_json::Map::new();
    for i in 0..14 {
        state.now = 0;
        map.insert(format!("k{i:02}"), json!("v"));
        // Names before and after `ancient-changes`, so that the bucket is not always first.
        let name = if i % 2 == 0 { format!("a{i:02}") } else { format!("z{i:02}") };
        state.update(&name, json!({"spec": {"map": map}}));
    }
    let managers = state.managers();
    assert_eq!(managers.iter().count(), 10);
    let owned = managers.iter().fold(Set::new(), |all, entry| all.union(entry.fields.clone()));
    let expected = map.keys().map(|key| fields(["spec", "map", key]));
    let expected = Set::from_paths(expected.chain([fields(["spec"]), fields(["spec", "map"])]));
    assert_eq!(owned, expected);
}

#[test]
fn entries_sort_by_operation_time_and_name() {
    let mut state = State::new();
    state.update("z", json!({"spec": {"a": "1"}}));
    state.now = 0;
    state.update("y", json!({"spec": {"a": "1", "b": "1"}}));
    state.apply("x", json!({"spec": {"replicas": 1}}));
    let names: Vec<_> = state.managers().iter().map(|entry| entry.manager.clone()).collect();
    assert_eq!(names, ["x", "y", "z"]);
}

#[test]
fn empty_manager_name_becomes_unknown() {
    let mut state = State::new();
    state.update("", json!({"spec": {"a": "1"}}));
    assert_eq!(state.field_managers(), ["unknown Update: .spec .spec.a"]);
}

#[test]
fn invalid_entries_are_reported() {
    let valid = json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"});
    assert_eq!(ManagedFields::decode(Some(&json!([valid]))).unwrap().iter().count(), 1);
    for (field, value, want) in [
        ("operation", json!("x"), "operation must be `Apply` or `Update`"),
        ("apiVersion", json!(""), "apiVersion must not be empty"),
        ("fieldsType", json!(null), "missing fieldsType in managed fields entry 0"),
        ("fieldsType", json!("F2"), "invalid fieldsType \"F2\" in managed fields entry 0"),
        ("manager", json!(1), "malformed managed fields entry 0"),
        ("time", json!("yesterday"), "malformed managed fields entry 0"),
        (
            "fieldsV1",
            json!({"f": {}}),
            "error decoding versioned set from managed fields entry 0: error decoding set: \
             parsing key as path element: key must be 2 characters long:",
        ),
    ] {
        let mut entry = valid.clone();
        entry[field] = value;
        let error = ManagedFields::decode(Some(&json!([entry]))).unwrap_err();
        assert_eq!(error.to_string(), want);
    }
}

#[test]
fn writes_that_change_only_timestamps_are_ignored() {
    let object = |time: &str, spec: i64, manager: &str| json!({"metadata": {"managedFields": [{"manager": manager, "time": time}]}, "spec": spec});
    let old = object("t1", 1, "m");
    for (new, reverted) in [
        (object("t2", 1, "m"), true),
        (object("t2", 2, "m"), false),
        (object("t2", 1, "n"), false),
        (json!({"metadata": {"managedFields": []}, "spec": 1}), false),
        (json!({"metadata": {}, "spec": 1}), false),
    ] {
        let mut after = new.clone();
        ignore_managed_fields_timestamps(&old, &mut after);
        assert_eq!(after, if reverted { old.clone() } else { new });
    }
    // A time may be absent.
    let without = json!({"metadata": {"managedFields": [{"manager": "m"}]}, "spec": 1});
    let mut with = object("t2", 1, "m");
    ignore_managed_fields_timestamps(&without, &mut with);
    assert_eq!(with, without);
}
