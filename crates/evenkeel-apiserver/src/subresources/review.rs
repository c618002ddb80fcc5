//! Reviews, which are not stored: access reviews and token reviews.

use evenkeel_kinds::validate;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::authz::{Attributes, Decision, ResourceAttributes};
use crate::context::{Operation, RequestContext};
use crate::identity::Identity;
use crate::object::set_meta;
use crate::pipeline::checks::{check_namespace, wipe_system_fields};
use crate::pipeline::decode::{self, Decoded};
use crate::pipeline::encode::Reply;
use crate::pipeline::{manage, mutate, validate as admission};
use crate::request::query::WriteOptions;
use crate::selector::field::exact_matches;
use crate::status::{GroupResource, Status};
use crate::token_tracking;

pub(crate) async fn handle(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions", false)?;
    let gvk = cx.resource.gvk();
    let mut review = decode::of_kind(cx, body, gvk, options.field_validation)?;
    wipe_system_fields(&mut review);
    set_meta(&mut review, "creationTimestamp", None);
    check_namespace(cx, &mut review)?;
    if cx.resource.namespaced {
        set_meta(&mut review, "namespace", Some(cx.namespace.clone().into()));
    }
    let managed = manage::on_create(cx, Decoded::already_decoded(review), &options).await;
    let mut review = managed.into_value();
    mutate::unstored(cx, Operation::Create, &mut review, None).await?;
    let errors = validate::create(gvk, &review);
    if !errors.is_empty() {
        return Err(Status::invalid(GroupResource { group: gvk.group, resource: "" }, "", &errors));
    }
    admission::unstored(cx, Operation::Create, &mut review, None).await?;
    let text = |path: &str| review.pointer(path).and_then(Value::as_str).unwrap_or("");
    let status = match gvk.kind {
        "SelfSubjectReview" => json!({"userInfo": user_info(&cx.identity)}),
        "TokenReview" if text("/spec/token").is_empty() => {
            let why = "token is required for TokenReview in authentication";
            return Err(Status::bad_request(why));
        }
        "TokenReview" => {
            let status = review_token(cx, &review);
            token_tracking::record(&cx.core).await;
            status
        }
        "SelfSubjectAccessReview" => decide(cx, &cx.identity, &review),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            decide(cx, &subject(&review), &review)
        }
        "SelfSubjectRulesReview" if text("/spec/namespace").is_empty() => {
            return Err(Status::bad_request("no namespace on request"));
        }
        "SelfSubjectRulesReview" => rules(cx, text("/spec/namespace")),
        _ => return Err(Status::method_not_allowed()),
    };
    // These responses are new objects.
    match gvk.kind {
        "SelfSubjectReview" => {
            let now = cx.core.clock_rng.timestamp();
            review["metadata"] = json!({"creationTimestamp": now});
        }
        "SelfSubjectRulesReview" => {
            review["metadata"] = json!({});
            review["spec"] = json!({});
        }
        _ => {}
    }
    review["status"] = status;
    Ok(Reply::Other(StatusCode::CREATED, review))
}

/// Returns the status of a TokenReview.
fn review_token(cx: &RequestContext, review: &Value) -> Value {
    let authenticator = &cx.core.authenticator;
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or("");
    let audiences = review.pointer("/spec/audiences").and_then(Value::as_array);
    let mut audiences: Vec<String> =
        audiences.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.clone_from(&authenticator.service_accounts.audiences);
    }
    let state = cx.core.authentication_state();
    match authenticator.authenticate_token(state, token.trim(), &audiences) {
        Ok(accepted) => json!({
            "authenticated": true,
            "user": user_info(&accepted.identity),
            "audiences": accepted.audiences,
        }),
        Err(why) => json!({"user": {}, "error": why}),
    }
}

/// Returns the status of a SelfSubjectRulesReview.
fn rules(cx: &RequestContext, namespace: &str) -> Value {
    let rules = cx.core.authorizer.rules(&cx.identity, namespace);
    let (mut resource, mut non_resource) = (Vec::new(), Vec::new());
    for rule in &rules.rules {
        if !rule.resources.is_empty() {
            let mut shown = json!({
                "verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources,
            });
            if !rule.resource_names.is_empty() {
                shown["resourceNames"] = json!(rule.resource_names);
            }
            resource.push(shown);
        }
        if !rule.non_resource_urls.is_empty() {
            let urls = json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls});
            non_resource.push(urls);
        }
    }
    let mut status = json!({
        "resourceRules": resource, "nonResourceRules": non_resource,
        "incomplete": rules.incomplete,
    });
    if !rules.error.is_empty() {
        status["evaluationError"] = rules.error.into();
    }
    status
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
    let extra = review.pointer("/spec/extra").and_then(Value::as_object).into_iter().flatten();
    let values = |values: &Value| {
        let values = values.as_array().into_iter().flatten();
        values.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Identity {
        user: text("/spec/user"),
        uid: text("/spec/uid"),
        groups: groups.collect(),
        extra: extra.map(|(key, own)| (key.clone(), values(own))).collect(),
    }
}

/// Returns the fields whose values the reviewed field selector requires.
fn selected_fields(review: &Value) -> Vec<(String, String)> {
    let selector = &review["spec"]["resourceAttributes"]["fieldSelector"];
    let raw = selector["rawSelector"].as_str().map(exact_matches).unwrap_or_default();
    let required = selector["requirements"].as_array().into_iter().flatten();
    let required = required.filter_map(|it| match it["values"].as_array()?.as_slice() {
        [value] if it["operator"] == "In" => {
            Some((it["key"].as_str()?.to_owned(), value.as_str()?.to_owned()))
        }
        _ => None,
    });
    raw.into_iter().chain(required).collect()
}

fn decide(cx: &RequestContext, user: &Identity, review: &Value) -> Value {
    let text = |path: &str| review.pointer(path).and_then(Value::as_str).unwrap_or("");
    let on_resource = review.pointer("/spec/resourceAttributes").is_some();
    let selected_fields = selected_fields(review);
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
            selected_fields: &selected_fields,
        }),
    };
    // The subject of a review counts as authenticated.
    match cx.core.authorizer.decide(&attributes) {
        Decision::Allow => match cx.core.authorizer.allow_reason(&attributes) {
            Some(reason) => json!({"allowed": true, "reason": reason}),
            None => json!({"allowed": true}),
        },
        Decision::Deny(reason) if reason.is_empty() => json!({"allowed": false}),
        Decision::Deny(reason) => json!({"allowed": false, "reason": reason}),
    }
}
