//! The representations in which clients request objects and lists: protobuf, metadata, tables and
//! YAML.

use super::super::random::Random;
use super::super::steps::{PARTIAL_LIST, TABLE, collection};
use super::{get, namespaced, object, post, touch};
use crate::sequence::Step;

const NAMES: [&str; 4] = ["a", "b", "c", "none"];

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Accept headers for single objects, lists or both.
const FORMS: [&str; 12] = [
    "application/json",
    "application/yaml",
    PROTOBUF,
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json,application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
    "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    PARTIAL_LIST,
    TABLE,
];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let kinds = [namespaced(random), namespaced(random)];
    let mut steps = Vec::new();
    for kind in kinds {
        for name in &NAMES[..3] {
            let mut object = object(random, kind, name);
            let text = *random.pick(&["<a href=\"b\">&</a>", "plain", "\u{2028}é\t", "\\u003c"]);
            object["metadata"]["annotations"] = serde_json::json!({"z": text, "a": "1"});
            let form = *random.pick(&FORMS[..5]);
            steps.push(post(collection(kind), object).accepting(form));
        }
    }
    while steps.len() < 36 {
        let kind = kinds[random.below(2)];
        let path = collection(kind);
        let form = *random.pick(&FORMS);
        let name = *random.pick(&NAMES);
        let step = match random.below(8) {
            0 => touch(random, kind, name).accepting(form),
            1 => get(format!("{path}/{name}?pretty=true")).accepting(form),
            2 | 3 => get(format!("{path}/{name}")).accepting(form),
            4 => get(format!("{path}?limit=2")).accepting(form),
            5 => get(format!("{path}?labelSelector=app%3Dnone")).accepting(form),
            _ => get(path).accepting(form),
        };
        steps.push(step);
    }
    steps
}
