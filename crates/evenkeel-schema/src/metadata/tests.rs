use serde_json::json;

use super::*;

#[test]
fn typed_round_trip_drops_what_is_empty() {
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
fn metadata_that_is_no_object_is_refused_in_either_mode() {
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
