//! Custom objects that a webhook converts between two versions, written and read in both.
//!
//! A sequence has either watches or conversions that fail: of an object that cannot be converted,
//! kube-apiserver cannot fill its watch cache, and how it retries that determines whether and when
//! watches end. Nor is there an object that can be read in another version but not be converted back:
//! kube-apiserver then rejects updates and deletions if its watch cache has the object.

use serde_json::{Value, json};

use super::super::random::Random;
use super::super::shared::wait_for;
use super::super::steps::{PARTIAL_LIST, TABLE};
use super::{APPLY, JSON_PATCH, MERGE, close, delete, get, patch, post, read, watch};
use crate::sequence::Step;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMES: [&str; 3] = ["a", "b", "c"];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let storage = random.below(2);
    let mut steps = vec![post(CRDS, definition(storage))];
    for version in ["v1", "v2"] {
        steps.push(wait_for(collection(version)));
    }
    let fails: &[&str] = match (random.percent(50), storage) {
        (false, _) => &[],
        (true, 0) => &["v2"],
        (true, _) => &["v1", "v2"],
    };
    let mut watches = 0;
    let mut open: Option<String> = None;
    while steps.len() < 40 {
        match random.below(if fails.is_empty() { 11 } else { 10 }) {
            0..=2 => steps.push(create(random, fails)),
            3 | 4 => steps.push(update(random, fails)),
            5 => steps.push(applied(random, fails)),
            6 => steps.push(status(random)),
            7 | 8 => steps.push(reading(random)),
            9 => steps.push(deletion(random)),
            _ => match open.take() {
                Some(name) => {
                    steps.push(read(&name));
                    steps.push(close(&name));
                }
                None => {
                    watches += 1;
                    let name = format!("w{watches}");
                    let version = *random.pick(&["v1", "v2"]);
                    steps.push(watch(&name, format!("{}?watch=1", collection(version))));
                    open = Some(name);
                }
            },
        }
    }
    if let Some(name) = open {
        steps.push(read(&name));
        steps.push(close(&name));
    }
    steps
}

fn collection(version: &str) -> String {
    format!("/apis/${{group}}/{version}/namespaces/${{ns}}/doors")
}

fn definition(storage: usize) -> Value {
    let version = |name: &str, number: usize, properties: Value, field: &str| {
        json!({
            "name": name, "served": true, "storage": number == storage,
            "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": format!(".spec.{field}")}],
            "additionalPrinterColumns": [
                {"name": "Field", "type": "string", "jsonPath": format!(".spec.{field}")},
            ],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": properties},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}},
        })
    };
    let text = || json!({"type": "string", "maxLength": 6});
    json!({
        "metadata": {"name": "doors.${group}"},
        "spec": {
            "group": "${group}", "scope": "Namespaced",
            "names": {"plural": "doors", "kind": "Door"},
            "versions": [
                version("v1", 0, json!({"size": text()}), "size"),
                version("v2", 1, json!({"width": text(), "height": text()}), "width"),
            ],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "${webhook}/convert", "caBundle": "${ca}"},
                "conversionReviewVersions": ["v1"],
            }},
        },
    })
}

fn spec(random: &mut Random, version: &str) -> Value {
    let side = |random: &mut Random| (*random.pick(&["1", "2", "30", "4000000"])).to_owned();
    match version {
        "v1" => json!({"size": format!("{}x{}", side(random), side(random))}),
        _ => json!({"width": side(random), "height": side(random)}),
    }
}

/// Generates an object, which may be one that cannot be converted to v1 if it is in one of the
/// versions `fails`.
fn object(random: &mut Random, fails: &[&str], version: &str, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": format!("${{group}}/{version}"), "kind": "Door",
        "metadata": {"name": name, "labels": {"app": *random.pick(&["x", "y"])}},
        "spec": spec(random, version),
    });
    if random.percent(8) {
        let how = *random.pick(&["fail", "labels"]);
        let how = if fails.contains(&version) { how } else { "labels" };
        object["metadata"]["labels"]["convert"] = how.into();
    }
    if random.percent(10) {
        object["spec"]["unknown"] = 1.into();
    }
    object
}

fn version(random: &mut Random) -> &'static str {
    random.pick::<&str>(&["v1", "v2"])
}

fn create(random: &mut Random, fails: &[&str]) -> Step {
    let version = version(random);
    let name = *random.pick(&NAMES);
    let query = *random.pick(&["", "", "", "?dryRun=All"]);
    post(format!("{}{query}", collection(version)), object(random, fails, version, name))
}

fn update(random: &mut Random, fails: &[&str]) -> Step {
    let version = version(random);
    let name = *random.pick(&NAMES);
    let path = format!("{}/{name}", collection(version));
    match random.below(4) {
        0 => Step::call("PUT", &path).with_body(object(random, fails, version, name)),
        1 => patch(
            path,
            JSON_PATCH,
            json!([{"op": "replace", "path": "/spec", "value": spec(random, version)}]),
        ),
        2 => patch(path, MERGE, json!({"metadata": {"labels": {"app": "z", "convert": null}}})),
        _ => patch(path, MERGE, json!({"spec": spec(random, version)})),
    }
}

fn applied(random: &mut Random, fails: &[&str]) -> Step {
    let version = version(random);
    let name = *random.pick(&NAMES);
    let manager = *random.pick(&["one", "two"]);
    let force = *random.pick(&["", "&force=true"]);
    let mut body = object(random, fails, version, name);
    if version == "v2" && random.percent(40) {
        body["spec"].as_object_mut().map(|spec| spec.remove("height"));
    }
    patch(format!("{}/{name}?fieldManager={manager}{force}", collection(version)), APPLY, body)
}

fn status(random: &mut Random) -> Step {
    let path = format!("{}/{}/status", collection(version(random)), random.pick(&NAMES));
    patch(path, MERGE, json!({"status": {"n": random.below(3)}}))
}

fn reading(random: &mut Random) -> Step {
    let version = version(random);
    let path = collection(version);
    match random.below(6) {
        0 | 1 => get(format!("{path}/{}", random.pick(&NAMES))),
        2 => get(&path).accepting(TABLE),
        3 => get(&path).accepting(PARTIAL_LIST),
        4 => {
            let field = if version == "v1" { "spec.size%3D1x2" } else { "spec.width%3D1" };
            get(format!("{path}?fieldSelector={field}"))
        }
        _ => get(path),
    }
}

fn deletion(random: &mut Random) -> Step {
    let path = collection(version(random));
    match random.below(5) {
        0 => delete(format!("{path}?labelSelector=app%3Dx")),
        _ => delete(format!("{path}/{}", random.pick(&NAMES))),
    }
}
