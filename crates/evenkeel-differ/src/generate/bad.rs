//! Invalid requests, one of each class.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::mutate;
use super::random::Random;
use super::steps::collection;
use crate::sequence::Step;

/// Generates an invalid request for `kind`; `object` is a valid object.
pub(super) fn step(random: &mut Random, kind: &Kind, name: &str, object: &Value) -> Step {
    let path = collection(kind);
    let named = format!("{path}/{name}");
    let text = object.to_string();
    let post = || Step::call("POST", &path);
    let with = |pointer: &str, value: Value| {
        let mut object = object.clone();
        crate::sequence::set_at(&mut object, pointer, value);
        post().with_body(object)
    };
    let raw = |step: Step, text: &str| Step { raw: Some(text.to_owned()), ..step };
    match random.below(46) {
        0 => raw(post(), &text[..text.len() / 2]),
        1 => raw(post(), ""),
        2 => raw(post(), "null"),
        3 => raw(post(), "[1, 2]"),
        4 => raw(post(), "\"text\""),
        5 => raw(post(), "{\"a\": tru"),
        6 => raw(post(), &format!("{text} trailing")),
        7 => with("/apiVersion", "nope/v1".into()),
        8 => with("/apiVersion", "v9".into()),
        9 => with("/kind", "Nope".into()),
        10 => with("/kind", 5.into()),
        11 => with("/apiVersion", "".into()),
        12 => with("/metadata/name", "Bad_Name".into()),
        13 => with("/metadata/name", "a/b".into()),
        14 => with("/metadata/name", "x".repeat(260).into()),
        15 => with("/metadata/name", 7.into()),
        16 => with("/metadata/namespace", "elsewhere".into()),
        17 => with("/metadata/labels", json!({"bad key!": "x"})),
        18 => with("/metadata/labels", json!({"k": "bad value!"})),
        19 => with("/metadata/labels", json!({"k": 5})),
        20 => with("/metadata/annotations", json!({"": "x"})),
        21 => with("/metadata/finalizers", json!(["nope"])),
        22 => with(
            "/metadata/ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}]),
        ),
        23 => {
            let mut step = with("/metadata/annotations", json!({}));
            step.fill.insert("/metadata/annotations/big".to_owned(), 270_000);
            step
        }
        24 => post().with_body(object.clone()).with_type("text/plain"),
        25 => post().with_body(object.clone()).with_type("application/merge-patch+json"),
        26 => Step::call("PATCH", &named).with_body(json!({})).with_type("application/json"),
        27 => Step::call("PATCH", &named)
            .with_body(json!({"not": "a list"}))
            .with_type("application/json-patch+json"),
        28 => Step::call("PATCH", &named)
            .with_body(json!([{"op": "fly", "path": "/x"}]))
            .with_type("application/json-patch+json"),
        29 => Step::call("POST", &named).with_body(object.clone()),
        30 => Step::call("PUT", &path).with_body(object.clone()),
        31 => {
            let query = *random.pick(&[
                "limit=abc",
                "labelSelector=a%20b%20c",
                "fieldSelector=nope%3D1",
                "resourceVersion=abc",
                "continue=bogus",
                "resourceVersionMatch=Exact",
                "timeoutSeconds=x",
                "resourceVersion=0&resourceVersionMatch=Exact",
                "sendInitialEvents=true",
                "watch=1&continue=x",
                "labelSelector=%3D%3D",
                "fieldSelector=metadata.name",
            ]);
            Step::call("GET", format!("{path}?{query}"))
        }
        32 => {
            let query = *random.pick(&[
                "dryRun=Some",
                "fieldValidation=Maybe",
                "fieldManager=a%01b",
                "dryRun=All&dryRun=All",
            ]);
            Step::call("POST", format!("{path}?{query}")).with_body(object.clone())
        }
        33 => {
            let bodies = [
                json!({"propagationPolicy": "Maybe"}),
                json!({"gracePeriodSeconds": -5}),
                json!({"dryRun": ["Some"]}),
                json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
                json!({"kind": "Nope"}),
                json!({"preconditions": {"uid": 5}}),
            ];
            Step::call("DELETE", &named).with_body(random.pick(&bodies).clone())
        }
        35..=41 => {
            let mut odd = object.clone();
            mutate::corrupt(random, &mut odd);
            match random.below(4) {
                0 => Step::call("PUT", &named).with_body(odd),
                1 => Step::call("PATCH", &named)
                    .with_body(odd)
                    .with_type("application/merge-patch+json"),
                2 => Step::call("PATCH", format!("{named}?fieldManager=odd"))
                    .with_body(odd)
                    .with_type("application/apply-patch+yaml"),
                _ => post().with_body(odd),
            }
        }
        42 => {
            let elsewhere = path.replace("${ns}", "nowhere-${ns}");
            Step::call("POST", elsewhere).with_body(object.clone())
        }
        43 => Step::call("GET", format!("{named}/nope")),
        44 => {
            let path = path.replace("/v1/", "/v9/");
            Step::call("GET", path)
        }
        34 => {
            let mut step = Step::call("GET", &named);
            let accept = *random.pick(&["text/html", "application/xml", "image/png", "*/*;q=0.1"]);
            step.headers.insert("accept".to_owned(), accept.to_owned());
            step
        }
        _ => {
            let forged = json!({
                "uid": "00000000-0000-4000-8000-000000000001", "resourceVersion": "5",
                "generation": 77, "selfLink": "/x", "creationTimestamp": "2001-01-01T00:00:00Z",
                "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3,
                "managedFields": [{"manager": "me"}],
            });
            let fields: Vec<_> = forged.as_object().into_iter().flatten().collect();
            let (name, value) = *random.pick(&fields);
            with(&format!("/metadata/{name}"), value.clone())
        }
    }
}
