//! Managers that wrote in other versions of the kind.

use super::*;

/// The field is `a` in `v1` and `alpha` in `v2`; both versions have `b`.
struct TwoVersions {
    v1: ObjectType,
    v2: ObjectType,
}

impl TwoVersions {
    fn new() -> Self {
        let ty = |name: &str| {
            structural(
                json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    name: {"type": "string"}, "b": {"type": "string"}
                }}}}),
            )
        };
        Self { v1: ty("a"), v2: ty("alpha") }
    }
}

impl Versions for TwoVersions {
    fn object_type(&self, api_version: &str) -> Option<&ObjectType> {
        match api_version {
            "example.io/v1" => Some(&self.v1),
            "example.io/v2" => Some(&self.v2),
            _ => None,
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let (from, to) = match api_version {
            "example.io/v1" => ("alpha", "a"),
            "example.io/v2" => ("a", "alpha"),
            _ => return Err(ConvertError::MissingVersion),
        };
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            && let Some(value) = spec.remove(from)
        {
            if value == "unconvertible" {
                return Err(ConvertError::Failed("no".into()));
            }
            spec.insert(to.into(), value);
        }
        Ok(object)
    }
}

#[test]
fn conflicts_are_found_across_versions() {
    let mut state = State::with(TwoVersions::new());
    state.apply("m1", json!({"spec": {"a": "1", "b": "1"}}));
    state.api_version = "example.io/v2";
    assert_eq!(
        state.conflicts("m2", json!({"spec": {"alpha": "2"}})),
        r#"Apply failed with 1 conflict: conflict with "m1": .spec.a"#
    );
    state.force("m2", json!({"spec": {"alpha": "2"}}));
    assert_eq!(state.field_managers(), ["m1 Apply: .spec.b", "m2 Apply: .spec.alpha"]);
    assert_eq!(state.spec(), &json!({"alpha": "2", "b": "1"}));
}

/// An endpoint of a custom resource lists the versions in which it resets fields: `/status` all of
/// them, the main resource only its own.
#[test]
fn fields_are_reset_in_the_versions_the_endpoint_lists() {
    let versions = ["example.io/v1", "example.io/v2"];
    for (reset_in, managers) in [
        (&versions[..], "m1 Update: .spec .spec.a .spec.b"),
        (&versions[1..], "m1 Update: .spec .spec.b"),
    ] {
        let mut state = State::with(TwoVersions::new());
        state.update("m1", json!({"spec": {"a": "1", "b": "1"}}));
        let created = state.live.clone();
        state.api_version = "example.io/v2";
        state.subresource = "status";
        let spec = Filter::Exclude(set(&[&["spec"]]));
        state.reset = reset_in.iter().map(|version| (*version, spec.clone())).collect();
        state.force("m2", json!({"spec": {"alpha": "2"}}));
        assert_eq!(state.field_managers(), [managers], "force in {reset_in:?}");

        state.live = created.clone();
        state.update("m2", json!({"spec": {"alpha": "2", "b": "1"}}));
        assert_eq!(state.field_managers(), [managers], "update in {reset_in:?}");

        state.live = created;
        let conflicts = state.try_apply("m2", json!({"spec": {"alpha": "2"}}), false).is_err();
        assert_eq!(conflicts, reset_in.len() == 1, "apply in {reset_in:?}");
    }
}

#[test]
fn entry_of_an_applier_changes_version_and_still_prunes() {
    let mut state = State::with(TwoVersions::new());
    state.apply("m", json!({"spec": {"a": "1", "b": "1"}}));
    state.api_version = "example.io/v2";
    state.apply("m", json!({"spec": {"alpha": "1"}}));
    assert_eq!(state.spec(), &json!({"alpha": "1"}));
    assert_eq!(state.field_managers(), ["m Apply: .spec.alpha"]);
    assert_eq!(state.managers().iter().next().unwrap().api_version, "example.io/v2");
}

#[test]
fn fields_owned_in_another_version_are_not_pruned() {
    let mut state = State::with(TwoVersions::new());
    state.apply("m1", json!({"spec": {"a": "1"}}));
    state.api_version = "example.io/v2";
    state.apply("m2", json!({"spec": {"alpha": "1", "b": "1"}}));
    state.apply("m2", json!({}));
    assert_eq!(state.spec(), &json!({"alpha": "1"}));
    assert_eq!(state.field_managers(), ["m1 Apply: .spec.a"]);
}

#[test]
fn updates_take_fields_across_versions_and_updaters_have_an_entry_per_version() {
    let mut state = State::with(TwoVersions::new());
    state.update("m", json!({"spec": {"a": "1", "b": "1"}}));
    state.api_version = "example.io/v2";
    state.update("m", json!({"spec": {"alpha": "2", "b": "1"}}));
    assert_eq!(state.field_managers(), ["m Update: .spec .spec.b", "m Update: .spec.alpha"]);
}

#[test]
fn managers_of_removed_versions_are_dropped() {
    let mut state = State::with(TwoVersions::new());
    state.update("m", json!({"spec": {"a": "1", "b": "1"}}));
    let entry = &mut state.live.as_mut().unwrap()["metadata"]["managedFields"][0];
    entry["apiVersion"] = json!("example.io/v0");
    state.update("n", json!({"spec": {"a": "1", "b": "2"}}));
    assert_eq!(state.field_managers(), ["n Update: .spec.b"]);
    state.live.as_mut().unwrap()["metadata"]["managedFields"][0]["apiVersion"] =
        json!("example.io/v0");
    state.apply("m", json!({"spec": {"a": "9"}}));
    assert_eq!(state.field_managers(), ["m Apply: .spec.a"]);
}

#[test]
fn failing_conversion_clears_managed_fields_on_update_and_fails_apply() {
    let mut state = State::with(TwoVersions::new());
    state.update("m", json!({"spec": {"a": "unconvertible"}}));
    let live = state.live().clone();
    state.api_version = "example.io/v2";
    let error = state.try_apply("n", json!({"spec": {"alpha": "1"}}), true).unwrap_err();
    assert!(error.to_string().starts_with("failed to convert live object (ns/n; "), "{error}");
    let error = state.try_update("n", json!({"spec": {"alpha": "1"}})).unwrap_err();
    assert_eq!(error.to_string(), "failed to convert old object: no");
    assert_eq!(state.live()["metadata"].get("managedFields"), None);
    state.live = Some(live);
}

#[test]
fn kinds_without_a_schema_merge_maps_and_replace_lists() {
    let object_type = ObjectType::deduced();
    let mut state = State::with(SingleVersion { api_version: VERSION.into(), object_type });
    state.apply("m1", json!({"spec": {"m": {"x": 1}, "l": [1, 2]}}));
    state.apply("m2", json!({"spec": {"m": {"y": 2}}}));
    assert_eq!(state.spec(), &json!({"m": {"x": 1, "y": 2}, "l": [1, 2]}));
    assert_eq!(state.conflicts("m2", json!({"spec": {"l": [3]}})).lines().count(), 1);
    state.apply("m1", json!({"spec": {"m": {"x": 1}}}));
    assert_eq!(state.spec(), &json!({"m": {"x": 1, "y": 2}}));
}

#[test]
fn merged_object_has_to_be_valid_in_every_version_of_a_manager() {
    struct Apart(TwoVersions);

    impl Versions for Apart {
        fn object_type(&self, api_version: &str) -> Option<&ObjectType> {
            self.0.object_type(api_version)
        }

        /// Changes only the version.
        fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
            let mut object = object.clone();
            object["apiVersion"] = json!(api_version);
            Ok(object)
        }
    }

    let mut state = State::with(Apart(TwoVersions::new()));
    state.apply("m", json!({"spec": {"b": "1"}}));
    state.api_version = "example.io/v2";
    assert_eq!(
        state.apply_error("m", json!({"spec": {"alpha": "1"}})),
        "failed to prune fields: failed to convert merged object to last applied version: \
         .spec.alpha: field not declared in schema"
    );
    state.apply("n", json!({"spec": {"b": "1"}}));
    assert_eq!(
        state.apply_error("n", json!({"spec": {"alpha": "1", "b": "1"}})),
        "failed to prune fields: failed add back owned items: failed to convert merged object at \
         version example.io/v1: .spec.alpha: field not declared in schema"
    );
}

/// An object whose managedFields were removed, since it did not match the schema, still does not
/// match it when it is applied for the first time. Nothing else of the request counts.
#[test]
fn object_without_managers_must_match_the_schema_before_its_first_apply() {
    let mut state = State::with(TwoVersions::new());
    state.update("m1", json!({"spec": {"a": "1"}}));
    let live = state.live.as_mut().unwrap();
    live["spec"]["a"] = json!({});
    live["metadata"].as_object_mut().unwrap().remove("managedFields");
    let error = state.apply_error("m2", json!({"spec": {"a": 1}}));
    let expected = "failed to create manager for existing fields: failed to convert new object (";
    assert!(error.starts_with(expected), "{error}");
    assert!(error.contains(") to smd typed: .spec.a: expected string, got "), "{error}");
}
