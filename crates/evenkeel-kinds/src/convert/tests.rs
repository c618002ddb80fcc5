//! Conversions compared with responses of kube-apiserver 1.36: the same objects in every version.
//!
//! `autoscalers.json` has autoscalers that were written in v1 and their v2 form read afterwards.

use serde_json::{Value, json};

use super::*;

const CORE_EVENT: Gvk<'_> = Gvk::new("", "v1", "Event");
const HPA_V1: Gvk<'_> = Gvk::new("autoscaling", "v1", "HorizontalPodAutoscaler");
const HPA_V2: Gvk<'_> = Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler");

/// Calls `check` with each stored object and the same object in another version.
fn golden_pairs(check: impl Fn(Gvk<'_>, &Value, Gvk<'_>, &Value)) -> usize {
    let golden: Value = serde_json::from_str(include_str!("../columns/golden.json")).unwrap();
    let rows: Vec<_> = golden["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let (api_version, kind) = (row["apiVersion"].as_str(), row["kind"].as_str());
            (Gvk::from_api_version(api_version.unwrap(), kind.unwrap()), &row["object"])
        })
        .collect();
    let mut pairs = 0;
    for &(gvk, object) in &rows {
        let stored_gvk = storage_gvk(gvk);
        if gvk == stored_gvk {
            continue;
        }
        let name = &object["metadata"]["name"];
        let stored = rows
            .iter()
            .find(|(other, object)| *other == stored_gvk && object["metadata"]["name"] == *name);
        check(stored_gvk, stored.unwrap().1, gvk, object);
        pairs += 1;
    }
    pairs
}

fn converted(from: Gvk<'_>, to_gvk: Gvk<'_>, object: &Value) -> Value {
    let mut object = object.clone();
    to(from, to_gvk, &mut object).unwrap();
    object
}

#[test]
fn stored_objects_are_served_as_upstream_does() {
    let pairs = golden_pairs(|stored_gvk, stored, gvk, served| {
        assert_eq!(converted(stored_gvk, gvk, stored), *served, "{gvk}");
    });
    assert!(pairs > 60, "{pairs}");
}

#[test]
fn objects_of_other_versions_are_stored_as_upstream_does() {
    golden_pairs(|stored_gvk, stored, gvk, served| {
        // What a v1 autoscaler loses is tested with `autoscalers.json`.
        if gvk != HPA_V1 {
            assert_eq!(converted(gvk, stored_gvk, served), *stored, "{gvk}");
        }
    });
}

#[test]
fn autoscalers_written_in_v1_are_stored_as_upstream_does() {
    let golden: Value = serde_json::from_str(include_str!("autoscalers.json")).unwrap();
    for pair in golden.as_array().unwrap() {
        let name = &pair["v1"]["metadata"]["name"];
        assert_eq!(converted(HPA_V1, HPA_V2, &pair["v1"]), pair["v2"], "{name}");
    }
}

#[test]
fn v2_autoscalers_drop_conversion_annotations() {
    let annotated = |annotations| json!({ "metadata": { "annotations": annotations } });
    let object = annotated(json!({ "autoscaling.alpha.kubernetes.io/behavior": "{}", "a": "b" }));
    assert_eq!(converted(HPA_V2, HPA_V2, &object), annotated(json!({ "a": "b" })));
    let object = annotated(json!({ "autoscaling.alpha.kubernetes.io/metrics": "[]" }));
    assert_eq!(converted(HPA_V2, HPA_V2, &object), json!({ "metadata": {} }));
}

#[test]
fn invalid_autoscaler_annotations_are_dropped() {
    for metrics in [
        "",
        "{}",
        "5",
        "[5]",
        r#"[{"type":5}]"#,
        r#"[{"type":"Pods","pods":"a"}]"#,
        r#"[{"type":"Pods","pods":{"metricName":"a","targetAverageValue":"many"}}]"#,
        r#"[{"type":"Resource","resource":{"targetAverageUtilization":1.5}}]"#,
    ] {
        let annotations = json!({ "autoscaling.alpha.kubernetes.io/metrics": metrics });
        let object = json!({ "metadata": { "annotations": annotations } });
        let metrics = &converted(HPA_V1, HPA_V2, &object)["spec"]["metrics"];
        assert_eq!(metrics[0]["resource"]["target"]["averageUtilization"], 80);
        assert_eq!(metrics.as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn conversion_of_arbitrary_autoscalers_does_not_panic() {
    for object in [json!(null), json!([]), json!({}), json!({ "spec": 5, "status": [] })] {
        for (from, to) in [(HPA_V1, HPA_V2), (HPA_V2, HPA_V1), (HPA_V1, HPA_V1)] {
            converted(from, to, &object);
        }
    }
}

#[test]
fn conversion_completes_incomplete_events() {
    let events_event = Gvk::new("events.k8s.io", "v1", "Event");
    let event = json!({ "kind": "Event", "note": "n", "series": { "count": 0 } });
    assert_eq!(
        converted(events_event, CORE_EVENT, &event),
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "message": "n",
            "series": {},
            "eventTime": null,
            "firstTimestamp": null,
            "involvedObject": {},
            "lastTimestamp": null,
            "reportingComponent": "",
            "reportingInstance": "",
            "source": {},
        })
    );
}

#[test]
fn single_version_kinds_have_no_conversion() {
    let pod = Gvk::new("", "v1", "Pod");
    assert_eq!(storage_gvk(pod), pod);
    assert!(convertible_kinds(pod).is_empty());
    let mut object = json!({ "apiVersion": "v1" });
    to(pod, pod, &mut object).unwrap();
    let error = to(pod, CORE_EVENT, &mut object).unwrap_err();
    assert_eq!(
        error.to_string(),
        "converting (v1, Kind=Pod) to (v1, Kind=Event): unknown conversion"
    );
    assert_eq!(object, json!({ "apiVersion": "v1" }));
}

#[test]
fn each_kind_has_one_storage_version() {
    let mut kinds: Vec<_> = SERVED_VERSIONS.iter().copied().flatten().collect();
    let all = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), all);
    assert_eq!(storage_gvk(HPA_V1), HPA_V2);
    assert_eq!(storage_gvk(Gvk::new("events.k8s.io", "v1", "Event")), CORE_EVENT);
}
