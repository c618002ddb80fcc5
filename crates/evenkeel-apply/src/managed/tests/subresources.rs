//! Status and scale.

use super::*;

#[test]
fn every_subresource_has_its_own_entry() {
    let mut state = State::new();
    state.reset = vec![(VERSION, Filter::Exclude(set(&[&["status"]])))];
    state.apply("m", json!({"spec": {"a": "1"}}));
    state.subresource = "status";
    state.reset = vec![(VERSION, Filter::Exclude(set(&[&["spec"], &["metadata"]])))];
    state.apply("m", json!({"spec": {"a": "1"}, "status": {"a": "1"}}));
    assert_eq!(state.field_managers(), ["m Apply: .spec.a", "m Apply/status: .status.a"]);
    state.apply("m", json!({"status": {"b": "1"}}));
    assert_eq!(state.live()["status"], json!({"b": "1"}));
    assert_eq!(state.spec(), &json!({"a": "1"}));
}

fn entry(
    manager: &str,
    operation: &str,
    version: &str,
    subresource: &str,
    fields: &Value,
) -> Value {
    let mut entry = json!({
        "manager": manager, "operation": operation, "apiVersion": version,
        "fieldsType": "FieldsV1", "fieldsV1": fields
    });
    if !subresource.is_empty() {
        entry["subresource"] = json!(subresource);
    }
    entry
}

fn scale_paths() -> Vec<(String, Option<crate::Path>)> {
    let path = |name| Some(fields(["spec", name]));
    vec![
        ("apps/v1".into(), path("replicas")),
        ("apps/v2".into(), path("size")),
        ("apps/v3".into(), None),
    ]
}

#[test]
fn scale_has_only_the_managers_of_the_replicas() {
    let paths = scale_paths();
    let handler = ScaleHandler { api_version: "apps/v1", replicas_paths: &paths };
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    let parent = json!([
        entry("a", "Apply", "apps/v1", "", &json!({"f:spec": {"f:replicas": {}, "f:x": {}}})),
        entry("b", "Apply", "apps/v1", "", &json!({"f:spec": {"f:x": {}}})),
        entry("c", "Update", "apps/v2", "", &json!({"f:spec": {"f:size": {}}})),
        entry("d", "Update", "apps/v3", "", &replicas),
        entry("e", "Update", "apps/v0", "", &replicas),
    ]);
    assert_eq!(
        handler.to_subresource(Some(&parent)).unwrap(),
        Some(json!([
            entry("a", "Apply", "autoscaling/v1", "", &replicas),
            entry("c", "Update", "autoscaling/v1", "", &replicas),
        ]))
    );
    assert_eq!(handler.to_subresource(None), Ok(None));
}

#[test]
fn scale_write_takes_the_replicas_from_the_managers_of_the_parent() {
    let paths = scale_paths();
    let handler = ScaleHandler { api_version: "apps/v1", replicas_paths: &paths };
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    let both = json!({"f:spec": {"f:replicas": {}, "f:x": {}}});
    let rest = json!({"f:spec": {"f:x": {}}});
    for (parent, scale, want) in [
        // Taken by another manager.
        (
            vec![entry("a", "Apply", "apps/v1", "", &both)],
            vec![entry("b", "Update", "autoscaling/v1", "scale", &replicas)],
            vec![
                entry("a", "Apply", "apps/v1", "", &rest),
                entry("b", "Update", "apps/v1", "scale", &replicas),
            ],
        ),
        // Taken from a manager of no other fields.
        (
            vec![entry("a", "Update", "apps/v1", "", &replicas)],
            vec![entry("b", "Apply", "autoscaling/v1", "scale", &replicas)],
            vec![entry("b", "Apply", "apps/v1", "scale", &replicas)],
        ),
        // Unchanged: appliers keep their entry; updaters keep the field, but in a separate entry.
        (
            vec![
                entry("a", "Apply", "apps/v1", "", &both),
                entry("b", "Update", "apps/v1", "", &both),
            ],
            vec![
                entry("a", "Apply", "autoscaling/v1", "", &replicas),
                entry("b", "Update", "autoscaling/v1", "", &replicas),
            ],
            vec![
                entry("a", "Apply", "apps/v1", "", &both),
                entry("b", "Update", "apps/v1", "", &rest),
                entry("b", "Update", "apps/v1", "", &replicas),
            ],
        ),
        // Other versions have another path; unknown versions are dropped.
        (
            vec![
                entry("a", "Apply", "apps/v2", "", &json!({"f:spec": {"f:size": {}, "f:x": {}}})),
                entry("b", "Update", "apps/v0", "", &both),
                entry("c", "Update", "apps/v3", "", &both),
            ],
            vec![entry("d", "Update", "autoscaling/v1", "scale", &replicas)],
            vec![
                entry("a", "Apply", "apps/v2", "", &rest),
                entry("c", "Update", "apps/v3", "", &both),
                entry("d", "Update", "apps/v1", "scale", &replicas),
            ],
        ),
        // The scale entry no longer owns the replicas.
        (
            vec![entry("a", "Apply", "apps/v1", "", &rest)],
            vec![entry(
                "b",
                "Apply",
                "autoscaling/v1",
                "scale",
                &json!({"f:status": {"f:replicas": {}}}),
            )],
            vec![entry("a", "Apply", "apps/v1", "", &rest)],
        ),
    ] {
        let (parent, scale) = (Value::Array(parent), Value::Array(scale));
        assert_eq!(
            handler.to_parent(Some(&parent), Some(&scale)).unwrap(),
            Some(Value::Array(want)),
            "{parent} scaled with {scale}"
        );
    }
}
