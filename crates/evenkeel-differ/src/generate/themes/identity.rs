//! Impersonated requests, requests with a timeout, and tokens of service accounts.

use serde_json::json;

use super::super::kinds::Kind;
use super::super::random::Random;
use super::super::steps::collection;
use super::{MERGE, get, namespaced, object, patch, post};
use crate::sequence::Step;

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// No nodes: in kube-apiserver, their groups depend on the mode in which the requestor last
/// impersonated a user.
const USERS: [&str; 8] = [
    "jane",
    "system:anonymous",
    "system:node:Not_A_Node",
    "system:serviceaccount:default:robot",
    "system:serviceaccount:Bad_Namespace:robot",
    "system:serviceaccount:default",
    "system:admin",
    "<b>&jane",
];

const TIMEOUTS: [&str; 13] = [
    "garbage",
    "5",
    "1d",
    "-",
    "+",
    "10s",
    "0",
    "-5s",
    ".5m",
    "1h1",
    "1m%20",
    "99999999h",
    "%C3%BCs",
];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let kind = namespaced(random);
    let mut steps = vec![post(collection(kind), object(random, kind, "a"))];
    while steps.len() < 30 {
        let step = match random.below(7) {
            0 | 1 => self_subject_review(random),
            2 => impersonated(random, kind),
            3 => token_request(random),
            4 => token_review(random),
            _ => with_timeout(random, kind),
        };
        steps.push(step);
    }
    steps
}

/// A request for a token that is not issued: tokens differ.
fn token_request(random: &mut Random) -> Step {
    let bound = [
        json!({"kind": "Pod", "apiVersion": "v1", "name": "none"}),
        json!({"kind": "Secret", "apiVersion": "v1", "name": "none", "uid": "u"}),
        json!({"kind": "Node", "apiVersion": "v1", "name": "none"}),
        json!({"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}),
        json!({"kind": "Pod", "apiVersion": "v2", "name": "none"}),
        json!({"name": "none"}),
    ];
    let spec = match random.below(4) {
        0 => json!({"expirationSeconds": random.pick(&[0_i64, -1, 599, 1 << 33])}),
        1 => json!({"boundObjectRef": random.pick(&bound)}),
        2 => json!({"audiences": "text"}),
        _ => json!({"boundObjectRef": random.pick(&bound), "expirationSeconds": 10}),
    };
    let name = *random.pick(&["default", "none"]);
    let path = format!("/api/v1/namespaces/default/serviceaccounts/{name}/token");
    post(path, json!({"spec": spec}))
}

/// A review of something that is no valid token.
fn token_review(random: &mut Random) -> Step {
    let tokens = [
        "",
        "garbage",
        "a.b.c",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.",
        "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJ4In0.AAAA",
    ];
    let mut spec = json!({"token": random.pick(&tokens)});
    if random.percent(30) {
        spec["audiences"] = json!(["x"]);
    }
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec,
    });
    post("/apis/authentication.k8s.io/v1/tokenreviews", body)
}

/// Requests the identity of the sender.
fn self_subject_review(random: &mut Random) -> Step {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let mut step = post(REVIEW, review);
    let mut header = |name: &str, value: &str| {
        step.headers.insert(name.to_owned(), value.to_owned());
    };
    let named = random.percent(85);
    if named {
        let user = *random.pick(&USERS);
        header("Impersonate-User", user);
    }
    if !named || random.percent(25) {
        let groups = ["dev", "system:masters", "system:authenticated", "system:unauthenticated"];
        let group = *random.pick(&groups);
        header("Impersonate-Group", group);
    }
    if random.percent(20) {
        header("Impersonate-Uid", "u-1");
    }
    if random.percent(25) {
        let keys = ["Scopes", "example.com%2fscopes", "Example.com%2FScopes", "a%zz", "x%2Fy"];
        header(&format!("Impersonate-Extra-{}", random.pick(&keys[..])), "view");
    }
    step
}

/// An ordinary request by an impersonated administrator.
fn impersonated(random: &mut Random, kind: &Kind) -> Step {
    let path = collection(kind);
    let mut step = match random.below(3) {
        0 => get(format!("{path}/a")),
        1 => patch(format!("{path}/a"), MERGE, json!({"metadata": {"labels": {"by": "jane"}}})),
        _ => get("/apis/apps/v1"),
    };
    step.headers.insert("Impersonate-User".to_owned(), "jane".to_owned());
    step.headers.insert("Impersonate-Group".to_owned(), "system:masters".to_owned());
    step
}

fn with_timeout(random: &mut Random, kind: &Kind) -> Step {
    let path = collection(kind);
    let query = format!("timeout={}", random.pick(&TIMEOUTS[..]));
    match random.below(6) {
        0 => get(format!("{path}?{query}")),
        1 => get(format!("{path}/a?{query}")),
        2 => get(format!("{path}/none?{query}")),
        3 => get(format!("/apis/apps/v1?{query}")),
        4 => {
            let labels = json!({"metadata": {"labels": {"limited": "yes"}}});
            patch(format!("{path}/a?{query}"), MERGE, labels)
        }
        _ => post(format!("{path}?dryRun=All&{query}"), object(random, kind, "b")),
    }
}
