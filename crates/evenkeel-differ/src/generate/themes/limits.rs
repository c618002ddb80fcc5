//! Too deep, too large, too many, too strange: each server has to say no, in the same words.

use serde_json::{Value, json};

use super::super::kinds::Kind;
use super::super::random::Random;
use super::super::steps::collection;
use super::{APPLY, JSON_PATCH, MERGE, STRATEGIC, get, namespaced, object, patch, post};
use crate::sequence::Step;

const LOOSE: &str = "/apis/shared.differ.test/v1/namespaces/${ns}/loose";

pub(super) fn write(random: &mut Random) -> Vec<Step> {
    let kind = namespaced(random);
    let mut steps = vec![post(collection(kind), object(random, kind, "a"))];
    steps.push(post(LOOSE, loose("a")));
    while steps.len() < 32 {
        let step = match random.below(4) {
            0 => deep(random),
            1 => large(random, kind),
            2 => odd_json(random, kind),
            _ => odd_values(random, kind),
        };
        steps.push(step);
    }
    steps
}

fn loose(name: &str) -> Value {
    json!({"apiVersion": "shared.differ.test/v1", "kind": "Loose", "metadata": {"name": name}})
}

fn raw(step: Step, text: impl Into<String>) -> Step {
    Step { raw: Some(text.into()), ..step }
}

/// Levels either server takes, and levels that neither does. Between them we are stricter.
fn deep(random: &mut Random) -> Step {
    let depth = *random.pick(&[20, 60, 90, 10_010, 12_000]);
    let named = format!("{LOOSE}/a");
    let mut step = match random.below(6) {
        0 | 1 => post(LOOSE, loose(&format!("deep{depth}"))),
        2 => patch(&named, MERGE, json!({})),
        3 => patch(format!("{named}?fieldManager=m&force=true"), APPLY, loose("a")),
        4 => post("/api/v1/namespaces/${ns}/configmaps", json!({"metadata": {"name": "deep"}})),
        _ => {
            let open = "[".repeat(depth);
            let close = "]".repeat(depth);
            let text = format!(
                "{{\"apiVersion\":\"shared.differ.test/v1\",\"kind\":\"Loose\",\
                 \"metadata\":{{\"name\":\"lists\"}},\"spec\":{{\"more\":{open}{close}}}}}"
            );
            return raw(Step::call("POST", LOOSE), text);
        }
    };
    step.nest.insert("/spec".to_owned(), depth);
    // The answer would be as deep.
    step.accepting("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
}

fn large(random: &mut Random, kind: &Kind) -> Step {
    let path = collection(kind);
    let named = format!("{path}/a");
    match random.below(9) {
        0 | 1 => {
            let size = *random.pick(&[100_000, 262_000, 262_145, 300_000]);
            let mut step = post(&path, object(random, kind, "big"));
            step.fill.insert("/metadata/annotations/big".to_owned(), size);
            step.accepting("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
        }
        2 => {
            // Past etcd's bound, and past the server's.
            let size = *random.pick(&[1_000_000, 1_048_577, 1_600_000, 3_200_000]);
            let mut step =
                post("/api/v1/namespaces/${ns}/configmaps", json!({"metadata": {"name": "big"}}));
            step.fill.insert("/data/big".to_owned(), size);
            step.accepting("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
        }
        3 => {
            let size = *random.pick(&[1_000_000, 1_600_000, 3_200_000]);
            let mut step = post(LOOSE, loose("big"));
            step.fill.insert("/spec/big".to_owned(), size);
            step.accepting("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
        }
        4 => {
            let count = *random.pick(&[9_999, 10_000, 10_001]);
            let operation =
                json!({"op": "add", "path": "/metadata/annotations", "value": {"n": "1"}});
            Step { repeat: Some(count), ..patch(&named, JSON_PATCH, json!([operation])) }
        }
        5 => {
            let content_type = *random.pick(&[MERGE, STRATEGIC]);
            let mut step = patch(&named, content_type, json!({}));
            step.fill.insert("/metadata/annotations/big".to_owned(), 300_000);
            step
        }
        6 => {
            let mut step = post(&path, object(random, kind, "b"));
            let size = *random.pick(&[63, 64, 253, 254, 317, 318]);
            let key = if random.percent(50) {
                "k".repeat(size)
            } else {
                format!("{}/k", "d".repeat(size))
            };
            step.set.insert(format!("/metadata/labels/{}", key.replace('/', "~1")), "v".into());
            step
        }
        7 => {
            let size = *random.pick(&[63, 64]);
            let mut step = post(&path, object(random, kind, "b"));
            step.fill.insert("/metadata/labels/app".to_owned(), size);
            step
        }
        _ => {
            let size = *random.pick(&[128, 129]);
            let manager = "m".repeat(size);
            post(format!("{path}?fieldManager={manager}"), object(random, kind, "b"))
        }
    }
}

/// JSON that decoders disagree about.
fn odd_json(random: &mut Random, kind: &Kind) -> Step {
    let path = collection(kind);
    let head = format!("\"apiVersion\":\"{}\",\"kind\":\"{}\"", kind.api_version, kind.kind);
    let with = |rest: &str| format!("{{{head},{rest}}}");
    let text = match random.below(16) {
        0 => with(r#""metadata":{"name":"x","name":"y"}"#),
        1 => with(r#""metadata":{"name":"x"},"metadata":{"name":"y"}"#),
        2 => with(r#""metadata":{"name":"x","labels":{"k":"\u0000"}}"#),
        3 => with(r#""metadata":{"name":"x","generation":"5"}"#),
        4 => with(r#""metadata":{"name":"x","generation":1.0}"#),
        5 => with(r#""metadata":{"name":"x","generation":1.5}"#),
        6 => with(r#""metadata":{"name":"x","annotations":{"k":1}}"#),
        7 => with(r#""metadata":{"name":"x","annotations":null}"#),
        8 => with(r#""metadata":null"#),
        9 => with(r#""metadata":[]"#),
        10 => with(r#""Metadata":{"name":"x"}"#),
        11 => with("\"metadata\":{\"name\":\"x\"},\n\t \"spec\" : null "),
        12 => format!("\u{feff}{}", with(r#""metadata":{"name":"x"}"#)),
        13 => format!("{} {{}}", with(r#""metadata":{"name":"x"}"#)),
        14 => with(r#""metadata":{"name":"x",}"#),
        _ => with(r#""metadata":{"name":"x","creationTimestamp":"yesterday"}"#),
    };
    let options =
        *random.pick(&["", "?fieldValidation=Strict", "?fieldValidation=Warn&dryRun=All"]);
    match random.below(4) {
        0 => raw(Step::call("PUT", format!("{path}/x{options}")), text),
        _ => raw(Step::call("POST", format!("{path}{options}")), text),
    }
}

/// YAML, forms and encodings.
fn odd_values(random: &mut Random, kind: &Kind) -> Step {
    let path = collection(kind);
    let yaml =
        |rest: &str| format!("apiVersion: {}\nkind: {}\n{rest}", kind.api_version, kind.kind);
    let as_yaml = |text: String| raw(Step::call("POST", &path).with_type("application/yaml"), text);
    match random.below(12) {
        0 => as_yaml(yaml("metadata: {name: y1}\n")),
        1 => as_yaml(yaml("metadata: {name: y1, labels: {a: yes}}\n")),
        2 => as_yaml(yaml("metadata: {name: y1, labels: {a: 1}}\n")),
        3 => as_yaml(yaml("metadata: &m {name: y1, labels: {a: b}}\nmore: *m\n")),
        4 => as_yaml(yaml("metadata: {name: y1}\n...\n")),
        5 => as_yaml("a: [\n".to_owned()),
        6 => as_yaml(format!(
            "---\n{}---\n{}",
            yaml("metadata: {name: y1}\n"),
            yaml("metadata: {name: y2}\n")
        )),
        // A real server breaks the connection where the kind is a custom one.
        7 if !kind.custom => raw(
            Step::call("POST", &path).with_type("application/vnd.kubernetes.protobuf"),
            "not a message",
        ),
        7 | 8 => raw(Step::call("POST", &path).with_type("application/cbor"), "x"),
        9 => {
            let mut step = post(&path, object(random, kind, "z"));
            step.headers.insert("content-encoding".to_owned(), "gzip".to_owned());
            step
        }
        10 => get(format!("{path}?{}", "a=b&".repeat(500))),
        _ => get(format!("{path}/{}", "n".repeat(*random.pick(&[253, 254, 5000])))),
    }
}
