//! Requests beyond limits and malformed requests, which have to be rejected with the same error.

use serde_json::{Value, json};

use super::super::bad;
use super::super::kinds::Kind;
use super::super::random::Random;
use super::super::steps::{TABLE, collection};
use super::{APPLY, JSON_PATCH, MERGE, STRATEGIC, delete, get, namespaced, object, patch, post};
use crate::sequence::Step;

const LOOSE: &str = "/apis/shared.differ.test/v1/namespaces/${ns}/loose";

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let kind = namespaced(random);
    let mut steps = vec![post(collection(kind), object(random, kind, "a"))];
    steps.push(post(LOOSE, loose("a")));
    while steps.len() < 32 {
        let step = match random.below(8) {
            0 => deep(random),
            1 => large(random, kind),
            2 => odd_json(random, kind),
            3 => odd_values(random, kind),
            4 => numbers(random),
            5 => odd_patch(random, kind),
            6 => odd_address(random, kind),
            _ => {
                let object = object(random, kind, "a");
                bad::step(random, kind, "a", &object)
            }
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

/// Depths that both servers accept, and depths that both reject. In between, the embedded server is
/// stricter; `DIFFERENCES.md` matches those requests by field manager.
fn deep(random: &mut Random) -> Step {
    let depth = *random.pick(&[20, 60, 90, 10_010, 12_000]);
    let named = format!("{LOOSE}/a");
    let mut step = match random.below(7) {
        6 => {
            let depth = *random.pick(&[125, 500, 3_000]);
            let path = format!("{LOOSE}?includeObject=None&dryRun=All&fieldManager=deep");
            let mut step = post(path, loose("between")).accepting(TABLE);
            step.nest.insert("/spec".to_owned(), depth);
            return step;
        }
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
    // The response would be as deep.
    step.accepting("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
}

fn large(random: &mut Random, kind: &Kind) -> Step {
    let path = collection(kind);
    let named = format!("{path}/a");
    match random.below(10) {
        0 | 1 => {
            let size = *random.pick(&[100_000, 262_000, 262_145, 300_000]);
            let mut step = post(&path, object(random, kind, "big"));
            step.fill.insert("/metadata/annotations/big".to_owned(), size);
            step.accepting("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
        }
        2 => {
            // Above the limit of etcd, and above that of the server.
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
        8 => {
            // Above the request body limit.
            let content_type = *random.pick(&[MERGE, STRATEGIC, JSON_PATCH, APPLY]);
            let manager = if content_type == APPLY { "?fieldManager=m" } else { "" };
            let step = patch(format!("{named}{manager}"), content_type, json!({}));
            let mut step = if random.percent(30) { Step::call("PUT", &named) } else { step };
            step.body = Some(json!({}));
            step.fill.insert("/metadata/annotations/big".to_owned(), 3_200_000);
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

/// JSON that decoders interpret differently.
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

/// Uncommon YAML, media types and encodings.
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
        // kube-apiserver closes the connection if the kind is a custom resource.
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

/// Numbers in any notation.
const NUMBERS: [&str; 13] = [
    "0",
    "-0",
    "1.0",
    "1e2",
    "1E+2",
    "1e-2",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "123456789.123456789123456789",
];

/// Numbers outside the range of integers.
const HUGE_NUMBERS: [&str; 6] = [
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "100000000000000000000",
    "1.7976931348623157e308",
];

/// A number in a field of any type, in a number field of a custom resource, and in a built-in
/// field.
fn numbers(random: &mut Random) -> Step {
    let number = *random.pick(&NUMBERS);
    let any = if random.percent(30) { *random.pick(&HUGE_NUMBERS) } else { number };
    let named = |api_version: &str, kind: &str, rest: String| {
        format!(
            "{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",\
             \"metadata\":{{\"name\":\"n\"}},{rest}}}"
        )
    };
    let shared = "shared.differ.test/v1";
    let widgets = "/apis/shared.differ.test/v1/namespaces/${ns}/widgets";
    let (path, text) = match random.below(6) {
        0 => (LOOSE, named(shared, "Loose", format!("\"spec\":{{\"more\":{any}}}"))),
        1 => (LOOSE, named(shared, "Loose", format!("\"anything\":[{any},{number}]"))),
        2 | 3 => {
            let field = *random.pick(&["size", "port"]);
            let spec = format!("\"spec\":{{\"color\":\"red\",\"{field}\":{number}}}");
            (widgets, named(shared, "Widget", spec))
        }
        4 => {
            let spec = format!(
                "\"spec\":{{\"replicas\":{any},\"selector\":{{\"matchLabels\":{{\"a\":\"b\"}}}},\
                 \"template\":{{\"metadata\":{{\"labels\":{{\"a\":\"b\"}}}},\
                 \"spec\":{{\"containers\":[{{\"name\":\"c\",\"image\":\"i\"}}]}}}}}}"
            );
            let path = "/apis/apps/v1/namespaces/${ns}/deployments?dryRun=All";
            return raw(Step::call("POST", path), named("apps/v1", "Deployment", spec));
        }
        _ => {
            let spec = format!(
                "\"spec\":{{\"activeDeadlineSeconds\":{any},\
                 \"containers\":[{{\"name\":\"c\",\"image\":\"i\"}}]}}"
            );
            let path = "/api/v1/namespaces/${ns}/pods?dryRun=All";
            return raw(Step::call("POST", path), named("v1", "Pod", spec));
        }
    };
    match random.below(4) {
        0 => {
            let query = "fieldManager=m&force=true&dryRun=All";
            raw(Step::call("PATCH", format!("{path}/n?{query}")).with_type(APPLY), text)
        }
        1 => raw(Step::call("PATCH", format!("{path}/n")).with_type(MERGE), text),
        2 => {
            let path = format!("{path}?dryRun=All");
            raw(Step::call("POST", path).with_type("application/yaml"), text)
        }
        _ => raw(Step::call("POST", format!("{path}?dryRun=All")), text),
    }
}

/// Malformed and unusual patches.
fn odd_patch(random: &mut Random, kind: &Kind) -> Step {
    let named = format!("{}/a", collection(kind));
    let head = format!("\"apiVersion\":\"{}\",\"kind\":\"{}\"", kind.api_version, kind.kind);
    if random.percent(40) {
        let text = match random.below(12) {
            0 => String::new(),
            1 => "null".to_owned(),
            2 => "[]".to_owned(),
            3 => "text".to_owned(),
            4 => format!("{{{head},\"metadata\":{{\"name\":\"a\",\"name\":\"b\"}}}}"),
            5 => format!("{{{head},\"metadata\":{{\"name\":\"a\"}}}} trailing"),
            6 => format!("{{{head},\"metadata\":null}}"),
            7 => format!("{{{head},\"metadata\":{{\"name\":\"a\",\"labels\":{{\"k\":1}}}}}}"),
            8 => format!("{{{head},\"metadata\":{{\"name\":\"a\",\"labels\":[\"k\"]}}}}"),
            9 => format!("{{{head},\"metadata\":{{\"name\":\"other\"}}}}"),
            10 => "{\"metadata\":{\"name\":\"a\"}}".to_owned(),
            _ => format!("{{\"apiVersion\":\"v9\",\"kind\":\"{}\"}}", kind.kind),
        };
        let force = *random.pick(&["", "&force=true", "&force=true&dryRun=All"]);
        let path = format!("{named}?fieldManager=odd{force}");
        return raw(Step::call("PATCH", path).with_type(APPLY), text);
    }
    let content_type = *random.pick(&[MERGE, STRATEGIC, JSON_PATCH]);
    let text = *random.pick(&[
        "",
        "null",
        "5",
        "\"text\"",
        "[]",
        "{}",
        "[5]",
        "{\"metadata\":",
        "{\"metadata\":5}",
        "{\"metadata\":null}",
        "{\"metadata\":{\"labels\":{\"k\":{\"l\":\"m\"}}}}",
        "{\"kind\":\"Other\"}",
        "{\"apiVersion\":\"v9\"}",
        "{\"metadata\":{\"name\":\"other\"}}",
        "{\"metadata\":{\"$patch\":\"delete\"}}",
        "{\"$patch\":\"nonsense\"}",
        "[{\"op\":\"remove\",\"path\":\"/metadata\"}]",
        "[{\"op\":\"remove\",\"path\":\"/nowhere\"}]",
        "[{\"op\":\"add\",\"path\":\"no-slash\",\"value\":1}]",
        "[{\"op\":\"add\",\"path\":\"/metadata/labels/k\"}]",
        "[{\"op\":\"test\",\"path\":\"/metadata/name\",\"value\":\"z\"}]",
        "[{\"op\":\"copy\",\"from\":\"/nowhere\",\"path\":\"/metadata/labels/k\"}]",
        "[{\"op\":\"move\",\"from\":\"/metadata/labels\",\"path\":\"/metadata/labels/k\"}]",
        "[{\"op\":\"replace\",\"path\":\"\",\"value\":{}}]",
    ]);
    raw(Step::call("PATCH", named).with_type(content_type), text)
}

/// Invalid paths, queries and headers.
fn odd_address(random: &mut Random, kind: &Kind) -> Step {
    let path = collection(kind);
    match random.below(8) {
        0 => {
            get(format!("{path}{}", random.pick(&["/", "//a", "/a/", "/./a", "/%2e%2e", "/a%2Fb"])))
        }
        1 => get(format!("{path}/{}", random.pick(&["A", "a_b", "a%20b", "%00", "%C3%A4", "-"]))),
        2 => get(format!(
            "{path}?{}",
            random.pick(&[
                "limit=1;watch=1",
                "limit=%zz",
                "=",
                "&&",
                "limit=1&limit=x",
                "pretty=maybe"
            ])
        )),
        3 => get(format!("{path}?labelSelector={}", "a".repeat(*random.pick(&[63, 64, 300])))),
        4 => {
            let call = *random.pick(&["PATCH", "PUT", "POST", "HEAD", "OPTIONS", "BREW"]);
            Step::call(call, format!("{path}{}", random.pick(&["", "/a", "/a/nope", "/a/status"])))
        }
        5 => {
            let accept = *random.pick(&[
                "",
                "*/*",
                "application/*",
                "text/plain",
                "application/json;q=0",
                "application/json;charset=utf-8",
                "application/json;as=Table;v=v9;g=meta.k8s.io",
                "application/json;as=Table;v=v1;g=nope",
                "application/vnd.nothing, application/json",
                "garbage",
            ]);
            get(&path).accepting(accept)
        }
        6 => {
            let content_type = *random.pick(&[
                "",
                "garbage",
                "application/json; charset=utf-8",
                "application/json;;",
                "APPLICATION/JSON",
                "application/xml",
                "text/json",
                "application/apply-patch+yaml",
            ]);
            post(&path, object(random, kind, "typed")).with_type(content_type)
        }
        _ => {
            let mut step = delete(format!("{path}/nobody"));
            step.raw = Some((*random.pick(&["{", "[]", "5", "null", "{\"kind\":5}"])).to_owned());
            step
        }
    }
}
