//! Resources that only answer: access reviews, token reviews, component statuses.

use evenkeel_types::Gvk;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::authz::{Attributes, Decision, ResourceAttributes};
use crate::call::Call;
use crate::identity::Identity;
use crate::negotiate::{Output, View};
use crate::object::set_meta;
use crate::pipeline::decode;
use crate::pipeline::encode::{self, Answer};
use crate::query::WriteOptions;
use crate::route::Verb;
use crate::status::Status;

pub(super) fn answer(call: &Call, output: Output, body: &[u8]) -> Result<Answer, Status> {
    if call.resource.is("", "componentstatuses") {
        return component_statuses(call, output);
    }
    let options = WriteOptions::parse(&call.query, "CreateOptions", false)?;
    let gvk = Gvk::new(&call.resource.group, &call.resource.version, &call.resource.kind);
    let mut review = decode::of_kind(call, body, gvk, options.field_validation)?;
    let status = match &*call.resource.kind {
        "SelfSubjectReview" => json!({"userInfo": user_info(&call.identity)}),
        "TokenReview" => {
            let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or("");
            match call.core.authenticator.by_token(token) {
                Some(identity) => json!({"authenticated": true, "user": user_info(&identity)}),
                None => json!({"user": {}, "error": "[invalid bearer token]"}),
            }
        }
        "SelfSubjectAccessReview" => decide(call, &call.identity, &review),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            decide(call, &subject(&review), &review)
        }
        "SelfSubjectRulesReview" => {
            let all = json!(["*"]);
            json!({
                "resourceRules": [{"verbs": all, "apiGroups": all, "resources": all}],
                "nonResourceRules": [{"verbs": all, "nonResourceURLs": all}],
                "incomplete": false,
            })
        }
        _ => return Err(Status::method_not_allowed()),
    };
    if &*call.resource.kind == "SelfSubjectReview" {
        set_meta(&mut review, "creationTimestamp", Some(call.core.sources.timestamp().into()));
    }
    review["status"] = status;
    Ok(Answer::Other(StatusCode::CREATED, review))
}

fn user_info(identity: &Identity) -> Value {
    let mut info = Map::new();
    info.insert("username".into(), identity.user.clone().into());
    if !identity.uid.is_empty() {
        info.insert("uid".into(), identity.uid.clone().into());
    }
    if !identity.groups.is_empty() {
        info.insert("groups".into(), identity.groups.clone().into());
    }
    if !identity.extra.is_empty() {
        info.insert("extra".into(), json!(identity.extra));
    }
    Value::Object(info)
}

fn subject(review: &Value) -> Identity {
    let text = |path: &str| review.pointer(path).and_then(Value::as_str).unwrap_or("").to_owned();
    let groups = review.pointer("/spec/groups").and_then(Value::as_array);
    let groups = groups.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Identity {
        user: text("/spec/user"),
        uid: text("/spec/uid"),
        groups: groups.collect(),
        ..Identity::default()
    }
}

fn decide(call: &Call, user: &Identity, review: &Value) -> Value {
    let text = |path: &str| review.pointer(path).and_then(Value::as_str).unwrap_or("");
    let on_resource = review.pointer("/spec/resourceAttributes").is_some();
    let attributes = Attributes {
        user,
        verb: if on_resource {
            text("/spec/resourceAttributes/verb")
        } else {
            text("/spec/nonResourceAttributes/verb")
        },
        path: text("/spec/nonResourceAttributes/path"),
        resource: on_resource.then(|| ResourceAttributes {
            group: text("/spec/resourceAttributes/group"),
            version: text("/spec/resourceAttributes/version"),
            resource: text("/spec/resourceAttributes/resource"),
            subresource: text("/spec/resourceAttributes/subresource"),
            namespace: text("/spec/resourceAttributes/namespace"),
            name: text("/spec/resourceAttributes/name"),
        }),
    };
    // A subject is asked about, so it counts as authenticated.
    match call.core.authorizer.decide(&attributes) {
        Decision::Allow => json!({"allowed": true}),
        Decision::Deny(reason) if reason.is_empty() => json!({"allowed": false}),
        Decision::Deny(reason) => json!({"allowed": false, "reason": reason}),
    }
}

fn component_statuses(call: &Call, output: Output) -> Result<Answer, Status> {
    let store = json!({
        "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "etcd-0"},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    });
    match (call.verb, call.name()) {
        (Verb::Get, "etcd-0") => Ok(Answer::Object(StatusCode::OK, store)),
        (Verb::List, _) => Ok(match output.view {
            // There is one component, so its table is that of the list.
            View::Table => Answer::Object(StatusCode::OK, store),
            View::Metadata | View::MetadataList => list(
                "meta.k8s.io/v1",
                "PartialObjectMetadataList",
                &encode::to_metadata(call.resource.gvk(), &store),
            ),
            View::Whole => {
                let item =
                    json!({"metadata": store["metadata"], "conditions": store["conditions"]});
                list("v1", "ComponentStatusList", &item)
            }
        }),
        (_, name) => Err(Status::not_found(call.resource.named(), name)),
    }
}

fn list(api_version: &str, kind: &str, item: &Value) -> Answer {
    Answer::Other(
        StatusCode::OK,
        json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": [item]}),
    )
}
