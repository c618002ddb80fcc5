//! Deletions: their options, what they do to an object, and their response.
//!
//! Finalizers, grace periods and propagation policies decide as in upstream's registry; see
//! [`decide`].

use evenkeel_kinds::strategy::GarbageCollection;
use evenkeel_types::Gvk;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decode;
use super::encode::Reply;
use super::persist::Persisted;
use crate::audit;
use crate::clock_rng::rfc3339;
use crate::context::{Deletion, FailedPrecondition, RequestContext};
use crate::object::{Metadata as _, set_finalizers, set_meta};
use crate::request::delete_options::{DeleteOptions, FOREGROUND, ORPHAN, Policy};
use crate::request::negotiate;
use crate::request::query::Query;
use crate::status::{Details, Status};

/// The kinds besides DeleteOptions that upstream's options decoder accepts.
const OPTIONS_SCHEME: [&str; 5] =
    ["Status", "GetOptions", "CreateOptions", "UpdateOptions", "PatchOptions"];

/// The outcome of a deletion.
pub(crate) enum Outcome {
    /// Deleted, with its last state.
    Deleted(Persisted),
    /// Marked, waiting for finalizers or its grace period.
    Pending(Persisted),
}

impl Outcome {
    pub(crate) fn into_reply(self, cx: &RequestContext, options: &DeleteOptions) -> Reply {
        // The only case in which upstream responds with 202 Accepted.
        let (code, persisted) = match self {
            Self::Pending(persisted) if options.orphan_dependents == Some(false) => {
                (StatusCode::ACCEPTED, persisted)
            }
            Self::Pending(persisted) => (StatusCode::OK, persisted),
            Self::Deleted(last) if returns_object(cx) => (StatusCode::OK, last),
            Self::Deleted(last) => {
                let (name, uid) = match &last {
                    Persisted::Stored(record) => (record.key.name(), &*record.uid),
                    Persisted::Value(value) => (value.meta_str("name"), value.meta_str("uid")),
                };
                let details = Details {
                    name: name.to_owned(),
                    group: cx.resource.group.to_string(),
                    kind: cx.resource.plural.to_string(),
                    uid: uid.to_owned(),
                    ..Details::default()
                };
                return Reply::Other(StatusCode::OK, success(&details));
            }
        };
        Reply::persisted(cx, code, persisted)
    }
}

/// Returns a Status with status `Success`.
fn success(details: &Details) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details.to_value(),
    })
}

fn returns_object(cx: &RequestContext) -> bool {
    cx.resource.strategy().is_some_and(|strategy| strategy.returns_deleted)
}

/// Parses the options of a deletion, from the body or the query.
pub(crate) fn parse_options(cx: &RequestContext, body: &[u8]) -> Result<DeleteOptions, Status> {
    let given = if body.is_empty() { from_query(&cx.query)? } else { from_body(cx, body)? };
    let options = DeleteOptions::read(&given)?;
    if let Some(warning) = cx.hooks.delete_warning(&options) {
        cx.warnings.add(warning);
    }
    Ok(options)
}

/// Checks the preconditions of a deletion.
pub(crate) fn check_preconditions(
    cx: &RequestContext,
    name: &str,
    options: &DeleteOptions,
    object: &Value,
) -> Result<(), Status> {
    for (what, field, requested) in [
        ("UID", "uid", &options.uid),
        ("ResourceVersion", "resourceVersion", &options.resource_version),
    ] {
        let (Some(requested), stored) = (requested, object.meta_str(field)) else { continue };
        if requested != stored {
            let failed = FailedPrecondition { what, requested, stored };
            return Err(cx.hooks.failed_precondition(cx, name, &failed));
        }
    }
    Ok(())
}

/// Decides what a deletion does to `object`.
pub(crate) fn decide(cx: &RequestContext, options: &DeleteOptions, object: &Value) -> Deletion {
    let by_kind = cx.hooks.decide_deletion(cx, options, object);
    by_kind.unwrap_or_else(|| decide_generic(cx, options, object))
}

/// Decides what happens to `object`, as upstream's `rest.BeforeDelete` and the generic store's
/// `Delete` do.
fn decide_generic(cx: &RequestContext, options: &DeleteOptions, object: &Value) -> Deletion {
    let now = cx.core.clock_rng.now();
    let graceful = grace(cx, options, object, now);
    if graceful == Grace::Pending {
        return Deletion::Keep;
    }
    let finalizers = finalizers(cx, options, object);
    let mut next = object.clone();
    if let Grace::Until { deletion_timestamp, seconds } = graceful {
        let first = !object.is_deleting();
        set_meta(&mut next, "deletionTimestamp", Some(rfc3339(deletion_timestamp).into()));
        set_meta(&mut next, "deletionGracePeriodSeconds", Some(seconds.into()));
        if first {
            bump_generation(&mut next);
        }
    }
    let pending = !finalizers.is_empty();
    set_finalizers(&mut next, finalizers);
    match graceful {
        Grace::Until { seconds, .. } if pending || seconds > 0 => Deletion::Mark(next),
        Grace::None if pending => {
            if !object.is_deleting() {
                bump_generation(&mut next);
            }
            let marked: Option<Timestamp> = object.meta_str("deletionTimestamp").parse().ok();
            if marked.is_none_or(|marked| marked > now) {
                set_meta(&mut next, "deletionTimestamp", Some(rfc3339(now).into()));
            }
            set_meta(&mut next, "deletionGracePeriodSeconds", Some(0.into()));
            Deletion::Mark(next)
        }
        Grace::Until { .. } => Deletion::MarkAndRemove(next),
        _ => Deletion::Remove,
    }
}

/// Returns the grace period of the object, if its kind has one.
fn grace(cx: &RequestContext, options: &DeleteOptions, object: &Value, now: Timestamp) -> Grace {
    if !is_graceful(cx) {
        return Grace::None;
    }
    let at_least = |seconds: i64| if seconds < 0 { 1 } else { seconds };
    let requested = options.grace_period_seconds.map(at_least);
    let after = |start: Timestamp, seconds: i64| {
        start.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(start)
    };
    if object.is_deleting() {
        let left = at_least(object.meta_i64("deletionGracePeriodSeconds").unwrap_or(0));
        if left == 0 {
            return Grace::None;
        }
        // A later request can only shorten the period.
        let Some(requested) = requested.filter(|requested| *requested < left) else {
            return Grace::Pending;
        };
        let marked = object.meta_str("deletionTimestamp").parse().unwrap_or(now);
        let until = after(marked, requested - left);
        // It cannot end in the past, and leaves up to a second to stop the object.
        return if until < now {
            Grace::Until { deletion_timestamp: now, seconds: requested.min(1) }
        } else {
            Grace::Until { deletion_timestamp: until, seconds: requested }
        };
    }
    let seconds = at_least(cx.hooks.grace_period(object, requested));
    Grace::Until { deletion_timestamp: after(now, seconds), seconds }
}

/// Returns the finalizers to wait for, including those of the propagation policy. Mirrors
/// upstream's `deletionFinalizersForGarbageCollection`.
fn finalizers(cx: &RequestContext, options: &DeleteOptions, object: &Value) -> Vec<String> {
    let existing = object.finalizers();
    let supported = default_propagation(cx) != GarbageCollection::Unsupported;
    let has = |name: &str| existing.contains(&name);
    let (orphan, foreground) = match (options.orphan_dependents, options.policy) {
        _ if !supported => (false, false),
        (Some(orphan), _) => (orphan, false),
        (None, Some(policy)) => (policy == Policy::Orphan, policy == Policy::Foreground),
        (None, None) if has(ORPHAN) => (true, false),
        (None, None) if has(FOREGROUND) => (false, true),
        (None, None) => (default_propagation(cx) == GarbageCollection::Orphan, false),
    };
    let mut finalizers: Vec<String> = existing
        .iter()
        .filter(|name| !(supported && (**name == ORPHAN || **name == FOREGROUND)))
        .map(|name| (*name).to_owned())
        .collect();
    if orphan {
        finalizers.push(ORPHAN.into());
    }
    if foreground {
        finalizers.push(FOREGROUND.into());
    }
    finalizers
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Grace {
    None,
    /// Already terminating, and not shortened.
    Pending,
    Until {
        deletion_timestamp: Timestamp,
        seconds: i64,
    },
}

fn bump_generation(object: &mut Value) {
    if let Some(generation) = object.meta_i64("generation").filter(|generation| *generation > 0) {
        set_meta(object, "generation", Some((generation + 1).into()));
    }
}

fn is_graceful(cx: &RequestContext) -> bool {
    cx.resource.strategy().is_some_and(|strategy| strategy.graceful_delete)
}

fn default_propagation(cx: &RequestContext) -> GarbageCollection {
    let strategy = cx.resource.strategy();
    strategy.map_or(GarbageCollection::Background, |strategy| strategy.garbage_collection)
}

fn from_body(cx: &RequestContext, body: &[u8]) -> Result<Value, Status> {
    let format = negotiate::input(&cx.headers, true)?;
    let parsed = decode::read(body, format).map_err(Status::bad_request)?;
    decode::check_type_meta(&parsed.value).map_err(Status::bad_request)?;
    let kind = parsed.value["kind"].as_str().unwrap_or("DeleteOptions");
    if kind != "DeleteOptions" {
        let version = parsed.value["apiVersion"].as_str().unwrap_or("meta.k8s.io/v1");
        return Err(Status::bad_request(if OPTIONS_SCHEME.contains(&kind) {
            format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
        } else {
            format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \
                 \"pkg/runtime/scheme.go:111\""
            )
        }));
    }
    let mut value = parsed.value;
    let gvk = Gvk::new("", "v1", "DeleteOptions");
    if let Some(ty) = evenkeel_types::lookup(gvk) {
        evenkeel_types::conform(ty, &mut value)
            .map_err(|why| Status::bad_request(why.to_string()))?;
    }
    audit_options(cx, &value);
    Ok(value)
}

/// Records the options of a deletion as upstream does, which decodes them into an internal version
/// unless they state one.
fn audit_options(cx: &RequestContext, options: &Value) {
    if !cx.audit.records(audit::Level::Metadata) {
        return;
    }
    let mut recorded = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal"});
    for (key, value) in options.as_object().into_iter().flatten() {
        recorded[key] = value.clone();
    }
    cx.audit.request_object(&recorded);
}

fn from_query(query: &Query) -> Result<Value, Status> {
    let mut options = json!({});
    if let Some(seconds) = query.integer("gracePeriodSeconds")? {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if query.has("orphanDependents") {
        options["orphanDependents"] = query.flag("orphanDependents").into();
    }
    if let Some(policy) = query.get("propagationPolicy") {
        options["propagationPolicy"] = policy.into();
    }
    if let Some(dry_run) = query.get("dryRun") {
        options["dryRun"] = json!([dry_run]);
    }
    Ok(options)
}
