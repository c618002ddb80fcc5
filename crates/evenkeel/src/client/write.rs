//! Creating, updating, patching and applying.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use kube::api::{Patch, ValidationDirective};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Client;
use super::applied::{self, digest};
use super::call::Call;
use super::error::{Error, RequestInfo, Target};
use super::ownership::Ownership;
use super::pending::Pending;
use crate::cache::Version;
use crate::journal::{Body, Form, WriteRecord};
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::nulls;
use crate::uid::Uid;

/// A write in the making; `.await` sends it and gives the object as the server has it then.
#[must_use = "a write is sent when it is awaited"]
pub struct Write<'a, R> {
    client: &'a Client,
    verb: Verb,
    kind: Kind,
    key: Key,
    subresource: Option<&'static str>,
    body: Result<Vec<u8>, String>,
    field_manager: Option<Arc<str>>,
    dry_run: bool,
    force: bool,
    field_validation: ValidationDirective,
    /// Which object must control what is applied, if any must.
    ownership: Option<Ownership>,
    /// Whether the answer is given as the cache shows it: decoded once for all later reads, and
    /// without managedFields.
    as_cached: bool,
    marker: PhantomData<fn() -> R>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Update,
    Apply,
    Patch(&'static str),
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Apply => "apply",
            Self::Patch(_) => "patch",
        }
    }

    /// How the body is combined with the stored object.
    fn form(self) -> Form {
        match self {
            Self::Create | Self::Update => Form::Whole,
            Self::Patch("application/json-patch+json") => Form::Operations,
            Self::Patch("application/merge-patch+json") => Form::Merge,
            Self::Patch(_) | Self::Apply => Form::MergeLists,
        }
    }
}

impl Client {
    /// Creates the object.
    ///
    /// One with a `generateName` is named here, as the server would: so it is known what to look for
    /// should the answer be lost.
    pub fn create<K: Object>(&self, object: &K) -> Write<'_, K> {
        let (key, body) = named(self, object);
        Write::new(self, Verb::Create, Kind::of::<K>(), key, body)
    }

    /// Replaces the object; the server refuses if it changed since `object` was read.
    pub fn update<K: Object>(&self, object: &K) -> Write<'_, K> {
        let key = Key::of(object);
        Write::new(self, Verb::Update, Kind::of::<K>(), key, encode(object))
    }

    /// Changes parts of an object.
    pub fn patch<K: Object>(&self, key: &Key, patch: &Patch<impl Serialize>) -> Write<'_, K> {
        Write::patch(self, Kind::of::<K>(), key.clone(), patch)
    }

    /// Declares the fields that are set in `object` and takes ownership of them: creates the object
    /// when it is missing, changes what differs, gives up fields that were declared last time and
    /// are not now.
    ///
    /// Nothing is sent when the same was applied last and the object is still what came of it.
    /// Fields that another manager owns with another value are a conflict unless
    /// [`forced`](Write::force).
    pub fn apply<K: Object>(&self, object: &K) -> Write<'_, K> {
        let body = serde_json::to_value(object).map_err(|error| error.to_string());
        Write::apply(self, Kind::of::<K>(), Key::of(object), None, body)
    }
}

impl<'a, R: DeserializeOwned + Send + Sync + 'static> Write<'a, R> {
    pub(super) fn new(
        client: &'a Client,
        verb: Verb,
        kind: Kind,
        key: Key,
        body: Result<Vec<u8>, String>,
    ) -> Self {
        Self {
            client,
            verb,
            key: kind.scoped(key),
            kind,
            subresource: None,
            body,
            field_manager: None,
            dry_run: false,
            force: false,
            field_validation: ValidationDirective::Strict,
            ownership: None,
            as_cached: false,
            marker: PhantomData,
        }
    }

    pub(super) fn patch(
        client: &'a Client,
        kind: Kind,
        key: Key,
        patch: &Patch<impl Serialize>,
    ) -> Self {
        let (content_type, body) = match patch {
            Patch::Json(operations) => ("application/json-patch+json", encode(operations)),
            Patch::Merge(patch) => ("application/merge-patch+json", encode(patch)),
            Patch::Strategic(patch) => ("application/strategic-merge-patch+json", encode(patch)),
            Patch::Apply(patch) => {
                let body = serde_json::to_value(patch).map_err(|error| error.to_string());
                return Self::apply(client, kind, key, None, body);
            }
            _ => ("", Err("this sort of patch is not known".to_owned())),
        };
        Self::new(client, Verb::Patch(content_type), kind, key, body)
    }

    pub(super) fn apply(
        client: &'a Client,
        kind: Kind,
        key: Key,
        subresource: Option<&'static str>,
        body: Result<Value, String>,
    ) -> Self {
        let declared = body.and_then(|mut body| {
            declare(&mut body, &kind, subresource);
            encode(&body)
        });
        Self::new(client, Verb::Apply, kind, key, declared).on(subresource)
    }

    pub(super) fn on(mut self, subresource: Option<&'static str>) -> Self {
        self.subresource = subresource;
        self
    }

    /// Gives the answer as a read from the cache would.
    pub(crate) fn answer_as_cached(mut self) -> Self {
        self.as_cached = true;
        self
    }

    /// Fails when awaited, for a reason found earlier.
    pub(crate) fn refuse(mut self, reason: String) -> Self {
        self.body = Err(reason);
        self
    }

    /// Leaves an object alone that exists and is not controlled by the object of this uid.
    pub(crate) fn owned_by(mut self, uid: Uid, owner: String) -> Self {
        self.ownership = Some(Ownership { uid, owner });
        self
    }

    /// Asks what would happen; nothing is stored.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Writes as this field manager instead of the client's own.
    pub fn field_manager(mut self, field_manager: &str) -> Self {
        self.field_manager = Some(field_manager.into());
        self
    }

    /// Takes fields over from other managers; has a meaning for applies only.
    ///
    /// A controller that is the one authority on what it applies wants this; where people may edit,
    /// a conflict is worth reading.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Sets how the server treats unknown and duplicate fields; strict unless set.
    pub fn field_validation(mut self, directive: ValidationDirective) -> Self {
        self.field_validation = directive;
        self
    }

    fn call(&self, body: Vec<u8>) -> Call {
        let Self { kind, key, .. } = self;
        let mut call = match self.verb {
            Verb::Create if self.subresource.is_none() => Call::into("create", kind, key),
            Verb::Create => Call::on("create", Method::POST, kind, key),
            Verb::Update => Call::on("update", Method::PUT, kind, key),
            Verb::Apply => Call::on("apply", Method::PATCH, kind, key),
            Verb::Patch(_) => Call::on("patch", Method::PATCH, kind, key),
        };
        call = call.subresource(self.subresource);
        call = call.parameter("fieldManager", self.effective_field_manager());
        if self.verb == Verb::Apply {
            call = call.parameter("force", if self.force { "true" } else { "false" });
        }
        if self.dry_run {
            call = call.parameter("dryRun", "All");
        }
        call = call.parameter("fieldValidation", self.field_validation.as_str());
        let content_type = match self.verb {
            Verb::Patch(content_type) => content_type,
            Verb::Apply => "application/apply-patch+yaml",
            Verb::Create | Verb::Update => "application/json",
        };
        call.body(content_type, body)
    }

    async fn send(mut self) -> Result<Arc<R>, Error> {
        let body = match std::mem::replace(&mut self.body, Ok(Vec::new())) {
            Ok(body) => body,
            Err(reason) => {
                return Err(Error::NotSent { request_info: self.request_info(), reason });
            }
        };
        let client = self.client;
        let (before, epoch) =
            (client.shared.cache.peek(&self.kind, &self.key), client.shared.cache.epoch());
        let id = (self.kind.clone(), self.key.clone(), self.subresource);
        let digest = self.is_repeatable().then(|| self.digest(&body));
        if let (Some(digest), Some(before)) = (digest, &before)
            && client.shared.applied.is_current(&id, digest, before.meta(), epoch)
            // Of a type that is not cached whole there is nothing to give back.
            && let Ok(object) = client.shared.cache.typed::<R>(before)
        {
            self.record(WriteRecord::unchanged);
            return Ok(object);
        }
        // Kept for the journal, which credits the write with what it asked for.
        let sent = if client.operations.is_some() { body.clone() } else { Vec::new() };
        let bytes = match self.exchange(body).await {
            Ok(bytes) => bytes,
            Err(error) => {
                if !self.dry_run && self.casts_doubt(&error, before.is_some()) {
                    client.doubt(&self.kind, &self.key);
                }
                self.record(|request_info| WriteRecord::failed(request_info, &error));
                return Err(error);
            }
        };
        let header = Header::of(&bytes);
        if !self.dry_run {
            self.take_in(&header, &bytes).await;
        }
        let version = before.as_ref().map(|entry| entry.meta().version());
        let version = version.or_else(|| digest.and_then(|_| client.shared.applied.version(&id)));
        if let (Some(digest), Some(uid), Some(version)) = (digest, &header.uid, header.version) {
            let uid = Uid::new(uid);
            client.shared.applied.remember(id, applied::Outcome { digest, uid, version, epoch });
        }
        self.record(|request_info| {
            // The object that a write has just ended is at the version it was at before.
            if version.is_some() && version == header.version && !header.is_gone() {
                return WriteRecord::unchanged(request_info);
            }
            // A scale is not comparable, nor is another object of that name.
            let before = before.as_deref().filter(|entry| {
                let uid = header.uid.as_deref();
                header.is(&self.kind) && uid.is_some_and(|uid| *entry.meta().uid() == Uid::new(uid))
            });
            let body = Body { bytes: &sent, form: self.verb.form() };
            WriteRecord::written(request_info, before, &body, &bytes, header.version)
        });
        if let Some(object) = self.cached(&header) {
            return Ok(object);
        }
        match nulls::decode(&bytes) {
            Ok(object) => Ok(Arc::new(object)),
            Err(source) => {
                Err(Error::InvalidResponse { request_info: self.request_info(), source })
            }
        }
    }

    /// Sends it; an owned apply only to an object that is the owner's, or does not exist.
    async fn exchange(&self, body: Vec<u8>) -> Result<Bytes, Error> {
        let Some(ownership) = &self.ownership else { return self.request(body).await };
        let refused = |reason| Error::NotSent { request_info: self.request_info(), reason };
        let mut tries = 1..=OWNED_TRIES;
        loop {
            let first = tries.next() == Some(1);
            let checked = ownership.check(self.client, &self.kind, &self.key, !first).await?;
            let Some(precondition) = checked else {
                return Err(refused(ownership.refusal()));
            };
            let body = precondition.add_to(&body).map_err(refused)?;
            match self.request(body).await {
                // What was checked no longer held: it is checked again, on the server.
                Err(error) if error.is_precondition() && !tries.is_empty() => {}
                answer => return answer,
            }
        }
    }

    /// Sends one request. Its object is in doubt should the answer not be waited for.
    async fn request(&self, body: Vec<u8>) -> Result<Bytes, Error> {
        let pending = || Pending::new(self.client, self.request_info(), vec![self.key.clone()]);
        let pending = (!self.dry_run).then(pending);
        let answer = self.call(body).send(self.client).await;
        pending.map(Pending::answered);
        answer
    }

    /// The answer as the cache shows it, if that was asked for and can be had.
    fn cached(&self, header: &Header) -> Option<Arc<R>> {
        if !self.as_cached || self.dry_run {
            return None;
        }
        let cache = &self.client.shared.cache;
        let entry = cache.peek(&self.kind, &self.key)?;
        let current = header.version == Some(entry.meta().version());
        current.then(|| cache.typed(&entry).ok()).flatten()
    }

    /// Whether the same again on an unchanged object changes nothing, and the object is the answer.
    fn is_repeatable(&self) -> bool {
        let itself = matches!(self.subresource, None | Some("status"));
        self.verb == Verb::Apply && itself && !self.dry_run
    }

    fn digest(&self, body: &[u8]) -> u128 {
        let validation = self.field_validation.as_str();
        let manager = self.effective_field_manager();
        digest(&[body, manager.as_bytes(), &[self.force.into()], validation.as_bytes()])
    }

    fn effective_field_manager(&self) -> &str {
        self.field_manager.as_deref().unwrap_or(self.client.field_manager())
    }

    /// Whether what the cache has of the object may not be what is, judging by the server's answer:
    /// then the next read asks, rather than running into the same again until the watch has told.
    fn casts_doubt(&self, error: &Error, known: bool) -> bool {
        error.is_uncertain()
            || match self.verb {
                Verb::Create => error.is_already_exists() && !known,
                Verb::Update | Verb::Patch(_) => {
                    error.is_conflict() || error.is_not_found() && known
                }
                // Else another manager's fields are in the way, not another version.
                Verb::Apply => error.is_precondition(),
            }
    }

    /// Shows the answer to later reads.
    async fn take_in(&self, header: &Header, bytes: &Bytes) {
        let cache = &self.client.shared.cache;
        match &header.uid {
            // A scale or an eviction changes an object that it does not show. It is asked for once
            // here, so that not every list that may hold it has to.
            _ if !header.is(&self.kind) => {
                self.client.doubt(&self.kind, &self.key);
                self.client.settle(&self.kind, &self.key).await;
            }
            Some(uid) if header.is_gone() => {
                cache.deleted(&self.kind, &self.key, &Uid::new(uid));
            }
            _ => cache.wrote(&self.kind, bytes),
        }
    }

    fn request_info(&self) -> RequestInfo {
        RequestInfo {
            verb: self.verb.name(),
            kind: self.kind.clone(),
            subresource: self.subresource,
            target: Target::Object(self.key.clone()),
        }
    }

    fn record(&self, record: impl FnOnce(RequestInfo) -> WriteRecord) {
        if let Some(operations) = &self.client.operations
            && !self.dry_run
        {
            operations.record_write(record(self.request_info()));
        }
    }
}

impl<'a, R: DeserializeOwned + Send + Sync + 'static> IntoFuture for Write<'a, R> {
    type Output = Result<Arc<R>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// How often an owned apply is tried while the object is created, deleted or replaced meanwhile.
const OWNED_TRIES: u32 = 3;

/// The longest base of a generated name, and what the server would make its end of.
const BASE: usize = 58;
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The key of an object that is to be created, and the body; named if the server should have.
pub(super) fn named<K: kube::Resource + Clone + Serialize>(
    client: &Client,
    object: &K,
) -> (Key, Result<Vec<u8>, String>) {
    let key = Key::of(object);
    let base = object.meta().generate_name.as_deref().unwrap_or_default();
    if !key.name().is_empty() || base.is_empty() {
        return (key, encode(object));
    }
    let mut random = client.shared.random.lock();
    let end = (0..5).map(|_| char::from(ALPHABET[(random.next() % 27) as usize]));
    let base = &base[..base.floor_char_boundary(BASE)];
    let name: String = base.chars().chain(end).collect();
    let mut object = object.clone();
    object.meta_mut().name = Some(name);
    (Key::of(&object), encode(&object))
}

pub(super) fn encode(body: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(body).map_err(|error| error.to_string())
}

/// Leaves only what is declared: what the server keeps, and the other half of the object, goes.
fn declare(body: &mut Value, kind: &Kind, subresource: Option<&str>) {
    let Value::Object(object) = body else { return };
    // A subresource has a type of its own, which its body tells.
    if subresource.is_none_or(|name| name == "status") {
        object.insert("apiVersion".to_owned(), kind.api_version().into());
        object.insert("kind".to_owned(), kind.kind().into());
    }
    match subresource {
        None => {
            object.remove("status");
        }
        Some("status") => object.retain(|field, _| {
            matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status")
        }),
        Some(_) => {}
    }
    let Some(Value::Object(meta)) = object.get_mut("metadata") else { return };
    let kept = ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
        .into_iter()
        .chain(["generation", "managedFields", "resourceVersion", "selfLink", "uid"]);
    for field in kept {
        meta.remove(field);
    }
    if subresource == Some("status") {
        meta.retain(|field, _| matches!(field.as_str(), "name" | "namespace"));
    }
}

/// The little that must be known of an answer before it is decoded as what the caller wants.
#[derive(Default)]
pub(super) struct Header {
    api_version: String,
    kind: String,
    pub(super) version: Option<Version>,
    pub(super) uid: Option<String>,
    /// Deletion has been requested.
    pub(super) deleting: bool,
    /// Deletion has been requested, and something still keeps the object.
    pub(super) lingers: bool,
}

impl Header {
    pub(super) fn of(bytes: &[u8]) -> Self {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Outer<'a> {
            api_version: Option<String>,
            kind: Option<String>,
            #[serde(borrow)]
            metadata: Option<Inner<'a>>,
            details: Option<Details>,
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Inner<'a> {
            uid: Option<String>,
            #[serde(borrow)]
            resource_version: Option<Cow<'a, str>>,
            deletion_timestamp: Option<IgnoredAny>,
            deletion_grace_period_seconds: Option<i64>,
            finalizers: Option<Vec<IgnoredAny>>,
        }
        #[derive(serde::Deserialize)]
        struct Details {
            uid: Option<String>,
        }
        /// Namespaces have finalizers of their own, beside those of every object.
        #[derive(serde::Deserialize)]
        struct Finalizers {
            finalizers: Option<Vec<String>>,
        }
        let Ok(outer) = serde_json::from_slice::<Outer<'_>>(bytes) else { return Self::default() };
        let (api_version, kind) =
            (outer.api_version.unwrap_or_default(), outer.kind.unwrap_or_default());
        let spec = outer.spec.filter(|_| kind == "Namespace");
        let own = spec.and_then(|spec| serde_json::from_str::<Finalizers>(spec.get()).ok());
        let own = own.and_then(|own| own.finalizers).unwrap_or_default();
        let meta = outer.metadata.unwrap_or_default();
        let graceful = meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
        let finalized = meta.finalizers.is_some_and(|names| !names.is_empty()) || !own.is_empty();
        Self {
            api_version,
            kind,
            version: meta.resource_version.as_deref().and_then(Version::parse),
            uid: meta.uid.or(outer.details.and_then(|details| details.uid)),
            deleting: meta.deletion_timestamp.is_some(),
            lingers: meta.deletion_timestamp.is_some() && (graceful || finalized),
        }
    }

    /// Whether the write took away the last thing that kept a deleted object.
    fn is_gone(&self) -> bool {
        self.deleting && !self.lingers
    }

    pub(super) fn is(&self, kind: &Kind) -> bool {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        kind.is(group, &self.kind) && kind.version() == version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_object_lingers_while_something_keeps_it() {
        let lingers = |body: Value| Header::of(body.to_string().as_bytes()).lingers;
        let deleted = |kind: &str, finalizers: &[&str], spec: Value| {
            let meta = serde_json::json!({
                "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers,
            });
            serde_json::json!({ "kind": kind, "metadata": meta, "spec": spec })
        };
        let own = serde_json::json!({"finalizers": ["kubernetes"]});
        assert!(lingers(deleted("ConfigMap", &["a"], Value::Null)));
        assert!(!lingers(deleted("ConfigMap", &[], Value::Null)));
        assert!(lingers(deleted("Namespace", &[], own.clone())));
        assert!(!lingers(deleted("Namespace", &[], serde_json::json!({}))));
        assert!(!lingers(deleted("Widget", &[], own)));
        assert!(!lingers(deleted("Widget", &[], serde_json::json!({"finalizers": 1}))));
    }
}
