//! Validation of object metadata.

use serde_json::json;

use super::*;

#[test]
fn coerce_drops_empty_fields() {
    let mut metadata = json!({
        "name": "n", "namespace": "", "labels": {"a": null}, "annotations": {}, "generation": 0,
        "finalizers": [], "creationTimestamp": null,
        "deletionTimestamp": "2024-01-01T01:00:00.5+01:00",
        "ownerReferences": [{"name": "o", "controller": null, "extra": 1}],
        "managedFields": [{
            "manager": "m", "operation": "",
            "time": "2024-01-01T00:00:00Z", "fieldsV1": {"f:a": {}},
        }],
    });
    let mut unknown = Vec::new();
    coerce(&mut metadata, Malformed::Reject, "metadata", &mut unknown).unwrap();
    assert_eq!(
        metadata,
        json!({
            "name": "n", "labels": {"a": ""}, "deletionTimestamp": "2024-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "", "kind": "", "name": "o", "uid": ""}],
            "managedFields": [{
                "manager": "m", "time": "2024-01-01T00:00:00Z", "fieldsV1": {"f:a": {}},
            }],
        })
    );
    assert_eq!(unknown, ["metadata.ownerReferences[0].extra"]);
}

#[test]
fn non_object_metadata_is_rejected_in_both_modes() {
    let coerced = |malformed| coerce(&mut json!(["x"]), malformed, "metadata", &mut Vec::new());
    assert_eq!(
        coerced(Malformed::Reject).unwrap_err(),
        "json: cannot unmarshal array into Go value of type v1.ObjectMeta"
    );
    assert_eq!(
        coerced(Malformed::Drop).unwrap_err(),
        "invalid metadata: expected object, got []interface {}"
    );
    let mut null = Value::Null;
    coerce(&mut null, Malformed::Reject, "metadata", &mut Vec::new()).unwrap();
    assert_eq!(null, json!({}));
}
