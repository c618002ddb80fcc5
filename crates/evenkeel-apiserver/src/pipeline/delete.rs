//! `delete`: deletes an object or marks it for deletion.
//!
//! Finalizers, grace periods and propagation policies decide as in upstream's registry; see
//! [`DeleteOptions::decide`].

use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_kinds::strategy::GarbageCollection;
use evenkeel_schema::field;
use evenkeel_types::Gvk;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::clock_rng::rfc3339;
use crate::context::RequestContext;
use crate::object::{Metadata as _, set_finalizers, set_meta};
use crate::pipeline::encode::Reply;
use crate::pipeline::persist::{self, Change, Persisted};
use crate::pipeline::validate::{self, Admitted};
use crate::pipeline::{decode, encode};
use crate::registry::resource::TypeInfo;
use crate::request::negotiate;
use crate::request::query::{self, Query};
use crate::status::{Details, GroupResource, Status};
use crate::storage::Record;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The kinds besides DeleteOptions that upstream's options decoder knows.
const OPTIONS_SCHEME: [&str; 5] =
    ["Status", "GetOptions", "CreateOptions", "UpdateOptions", "PatchOptions"];

pub(crate) async fn handle(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let options = DeleteOptions::parse(cx, body)?;
    let outcome = delete_named(cx, cx.name(), &options).await?;
    Ok(outcome.into_reply(cx, &options))
}

/// The outcome of a deletion.
pub(crate) enum Outcome {
    /// Deleted, with its last state.
    Deleted(Persisted),
    /// Marked, waiting for finalizers or its grace period.
    Pending(Persisted),
}

impl Outcome {
    fn into_reply(self, cx: &RequestContext, options: &DeleteOptions) -> Reply {
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
        match persisted {
            Persisted::Stored(record) => Reply::Record(code, record),
            Persisted::Value(value) => Reply::Object(code, value),
        }
    }
}

/// Returns a Status with status `Success`.
pub(crate) fn success(details: &Details) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details.to_value(),
    })
}

fn returns_object(cx: &RequestContext) -> bool {
    match &cx.resource.type_info {
        TypeInfo::Builtin(builtin) => builtin.strategy.returns_deleted,
        TypeInfo::Custom(_) => false,
    }
}

/// The propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Orphan,
    Background,
    Foreground,
}

/// `DeleteOptions`, from the body or the query.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    orphan_dependents: Option<bool>,
    policy: Option<Policy>,
    uid: Option<String>,
    resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    pub(crate) fn parse(cx: &RequestContext, body: &[u8]) -> Result<Self, Status> {
        let given = if body.is_empty() { from_query(&cx.query)? } else { from_body(cx, body)? };
        let options = Self::read(&given)?;
        // The only kind whose dependents are orphaned by default.
        if cx.resource.is("batch", "jobs")
            && options.policy.is_none()
            && options.orphan_dependents.is_none()
        {
            cx.warnings.add(
                "child pods are preserved by default when jobs are deleted; set \
                 propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                 suppress this warning",
            );
        }
        Ok(options)
    }

    /// Parses a DeleteOptions object.
    pub(crate) fn read(given: &Value) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let policy = match given["propagationPolicy"].as_str() {
            None | Some("") => None,
            Some("Orphan") => Some(Policy::Orphan),
            Some("Background") => Some(Policy::Background),
            Some("Foreground") => Some(Policy::Foreground),
            Some(other) => {
                errors.push(field::Error::not_supported(
                    "propagationPolicy",
                    other,
                    ["Foreground", "Background", "Orphan", "nil"],
                ));
                None
            }
        };
        let orphan_dependents = given["orphanDependents"].as_bool();
        if orphan_dependents.is_some() && given["propagationPolicy"].is_string() {
            errors.push(field::Error::invalid(
                "propagationPolicy",
                given["propagationPolicy"].clone(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let list = given["dryRun"].as_array();
        let values = list.into_iter().flatten().filter_map(Value::as_str);
        let dry_run = query::dry_run(values, &mut errors);
        query::check_options("DeleteOptions", &errors)?;
        let precondition = |name: &str| given["preconditions"][name].as_str().map(str::to_owned);
        Ok(Self {
            grace_period_seconds: given["gracePeriodSeconds"].as_i64(),
            orphan_dependents,
            policy,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run,
        })
    }

    /// Updates the precondition after a write on behalf of this deletion.
    pub(crate) fn expect_revision(&mut self, revision: u64) {
        if let Some(version) = &mut self.resource_version {
            *version = revision.to_string();
        }
    }

    pub(crate) fn check_preconditions(
        &self,
        cx: &RequestContext,
        name: &str,
        object: &Value,
    ) -> Result<(), Status> {
        if cx.resource.is("", "namespaces") {
            return self.check_namespace_preconditions(cx, name, object);
        }
        // Upstream's message contains the kind here, not the plural.
        let named = GroupResource { group: &cx.resource.group, resource: &cx.resource.kind };
        let check =
            |what: &str, field: &str, requested: &Option<String>, since: &str| match requested {
                Some(requested) if requested != object.meta_str(field) => {
                    let why = format!(
                        "the {what} in the precondition ({requested}) does not match the {what} in \
                     record ({}). The object might have been {since}",
                        object.meta_str(field)
                    );
                    Err(Status::conflict(named, name, &why))
                }
                _ => Ok(()),
            };
        check("UID", "uid", &self.uid, "deleted and then recreated")?;
        check("ResourceVersion", "resourceVersion", &self.resource_version, "modified")
    }

    /// Checks the preconditions of a namespace, which upstream checks earlier and with other
    /// messages.
    fn check_namespace_preconditions(
        &self,
        cx: &RequestContext,
        name: &str,
        object: &Value,
    ) -> Result<(), Status> {
        for (what, field, requested) in [
            ("UID", "uid", &self.uid),
            ("ResourceVersion", "resourceVersion", &self.resource_version),
        ] {
            let (Some(requested), stored) = (requested, object.meta_str(field)) else { continue };
            if requested != stored {
                let why = format!(
                    "Precondition failed: {what} in precondition: {requested}, {what} in object \
                     meta: {stored}"
                );
                return Err(Status::conflict(cx.resource.group_resource(), name, &why));
            }
        }
        Ok(())
    }

    /// Decides what happens to `object`, as upstream's `rest.BeforeDelete` and the generic store's
    /// `Delete` do.
    fn decide(&self, cx: &RequestContext, object: &Value) -> Decision {
        let now = cx.core.clock_rng.now();
        let graceful = self.grace(cx, object, now);
        if graceful == Grace::Pending {
            return Decision::Keep;
        }
        let finalizers = self.finalizers(cx, object);
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
            Grace::Until { seconds, .. } if pending || seconds > 0 => Decision::Mark(next),
            Grace::None if pending => {
                if !object.is_deleting() {
                    bump_generation(&mut next);
                }
                let marked: Option<Timestamp> = object.meta_str("deletionTimestamp").parse().ok();
                if marked.is_none_or(|marked| marked > now) {
                    set_meta(&mut next, "deletionTimestamp", Some(rfc3339(now).into()));
                }
                set_meta(&mut next, "deletionGracePeriodSeconds", Some(0.into()));
                Decision::Mark(next)
            }
            Grace::Until { .. } => Decision::MarkAndRemove(next),
            _ => Decision::Remove,
        }
    }

    /// Returns the grace period of the object; only pods have one.
    fn grace(&self, cx: &RequestContext, object: &Value, now: Timestamp) -> Grace {
        if !is_graceful(cx) {
            return Grace::None;
        }
        let at_least = |seconds: i64| if seconds < 0 { 1 } else { seconds };
        let requested = self.grace_period_seconds.map(at_least);
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
        let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("");
        let over = matches!(text("/status/phase"), "Failed" | "Succeeded");
        let seconds = if text("/spec/nodeName").is_empty() || over {
            0
        } else {
            at_least(requested.or(own).unwrap_or(30))
        };
        Grace::Until { deletion_timestamp: after(now, seconds), seconds }
    }

    /// Returns the finalizers to wait for, including those of the propagation policy. Mirrors
    /// upstream's `deletionFinalizersForGarbageCollection`.
    fn finalizers(&self, cx: &RequestContext, object: &Value) -> Vec<String> {
        let existing = object.finalizers();
        let supported = default_propagation(cx) != GarbageCollection::Unsupported;
        let has = |name: &str| existing.contains(&name);
        let (orphan, foreground) = match (self.orphan_dependents, self.policy) {
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

enum Decision {
    Keep,
    Mark(Value),
    /// The grace period is zero: watchers see the mark, then the deletion.
    MarkAndRemove(Value),
    Remove,
}

/// Deletes an object or marks it for deletion.
pub(crate) async fn delete_named(
    cx: &RequestContext,
    name: &str,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    let progress = Mutex::new(Progress::Kept);
    let persisted = persist::update(cx, name, options.dry_run, |old, _| {
        options.check_preconditions(cx, name, old)?;
        validate::on_delete(cx, old)?;
        let decision = decide_by_kind(cx, options, old).unwrap_or_else(|| options.decide(cx, old));
        let (change, next) = match decision {
            // Stores what pruning and defaulting changed since the last write.
            Decision::Keep if cx.resource.is_custom() => {
                (Change::Write(Admitted::by_server(old.clone())), Progress::Kept)
            }
            Decision::Keep => (Change::Keep, Progress::Kept),
            Decision::Mark(next) => (Change::Write(Admitted::by_server(next)), Progress::Kept),
            Decision::MarkAndRemove(next) => {
                (Change::Write(Admitted::by_server(next)), Progress::Marked)
            }
            Decision::Remove => (Change::Remove(None), Progress::Removed),
        };
        *progress.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(change)
    })
    .await?;
    let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(match (persisted, progress) {
        (Persisted::Stored(record), Progress::Marked) => {
            Outcome::Deleted(remove_marked(cx, name, record).await?)
        }
        (last, Progress::Removed | Progress::Marked) => Outcome::Deleted(last),
        (other, _) => Outcome::Pending(other),
    })
}

/// The progress of a deletion after one attempt.
#[derive(Clone, Copy)]
enum Progress {
    Kept,
    Marked,
    Removed,
}

/// Deletes the object that was marked.
async fn remove_marked(
    cx: &RequestContext,
    name: &str,
    marked: Arc<Record>,
) -> Result<Persisted, Status> {
    let removed = persist::update(cx, name, false, |_, found| {
        Ok(if found.uid == marked.uid { Change::Remove(None) } else { Change::Keep })
    });
    match removed.await {
        Ok(Persisted::Stored(gone)) if gone.uid == marked.uid => Ok(Persisted::Stored(gone)),
        // Deleted or replaced concurrently.
        Ok(_) => Ok(Persisted::Stored(marked)),
        Err(status) if status.code() == 404 => Ok(Persisted::Stored(marked)),
        Err(status) => Err(status),
    }
}

/// Decides for kinds with their own deletion process.
fn decide_by_kind(
    cx: &RequestContext,
    options: &DeleteOptions,
    object: &Value,
) -> Option<Decision> {
    let resource = &cx.resource;
    if resource.is("", "namespaces") {
        return namespace(cx, options, object);
    }
    if crate::registry::custom::is_crd(resource) {
        return crate::hooks::custom_resource_definition::mark_terminating(
            object,
            &cx.core.clock_rng.timestamp(),
        )
        .map(Decision::Mark);
    }
    None
}

/// Marks a namespace as Terminating; it is deleted like other objects once it is empty.
fn namespace(cx: &RequestContext, options: &DeleteOptions, object: &Value) -> Option<Decision> {
    if object.is_deleting() {
        let content = object.pointer("/spec/finalizers").and_then(Value::as_array);
        return content.is_some_and(|all| !all.is_empty()).then_some(Decision::Keep);
    }
    let mut next = object.clone();
    let now = cx.core.clock_rng.timestamp();
    set_meta(&mut next, "deletionTimestamp", Some(now.into()));
    next["status"]["phase"] = "Terminating".into();
    let mut finalizers: Vec<String> = object.finalizers().into_iter().map(str::to_owned).collect();
    for (name, policy, unless_orphaned) in
        [(ORPHAN, Policy::Orphan, false), (FOREGROUND, Policy::Foreground, true)]
    {
        let requested = match (options.orphan_dependents, options.policy) {
            (Some(orphan), _) => orphan != unless_orphaned,
            (None, Some(given)) => given == policy,
            (None, None) => continue,
        };
        finalizers.retain(|other| other != name);
        if requested {
            finalizers.push(name.to_owned());
        }
    }
    set_finalizers(&mut next, finalizers);
    Some(Decision::Mark(next))
}

fn bump_generation(object: &mut Value) {
    if let Some(generation) = object.meta_i64("generation").filter(|generation| *generation > 0) {
        set_meta(object, "generation", Some((generation + 1).into()));
    }
}

fn is_graceful(cx: &RequestContext) -> bool {
    match &cx.resource.type_info {
        TypeInfo::Builtin(builtin) => builtin.strategy.graceful_delete,
        TypeInfo::Custom(_) => false,
    }
}

fn default_propagation(cx: &RequestContext) -> GarbageCollection {
    match &cx.resource.type_info {
        TypeInfo::Builtin(builtin) => builtin.strategy.garbage_collection,
        TypeInfo::Custom(_) => GarbageCollection::Background,
    }
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
    Ok(value)
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

/// Decodes the last state of a record, for callers that list before they delete.
pub(crate) fn last_state(cx: &RequestContext, record: &Record) -> Result<Value, Status> {
    encode::value(&cx.resource, record)
}
