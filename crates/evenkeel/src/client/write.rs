//! Create, update, patch and apply.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_types::random::NAME_ALPHABET;
use http::Method;
use kube::api::{Patch, ValidationDirective};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Client;
use super::api_request::ApiRequest;
use super::applied::{self, digest};
use super::error::{Error, ErrorKind};
use super::ownership::Ownership;
use super::pending::Pending;
use crate::cache::Version;
use crate::journal::{Body, MergeStrategy, WriteRecord};
use crate::key::Key;
use crate::kind::Kind;
use crate::nulls;
use crate::request_info::{RequestInfo, Target};
use crate::uid::Uid;

/// A write request; `.await` sends it and returns the resulting object.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::client::ValidationDirective;
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
///
/// # async fn example(client: &Client, map: &ConfigMap) -> Result<()> {
/// let apply = client.apply(map).force().field_validation(ValidationDirective::Strict);
/// let stored = apply.field_manager("migration").dry_run().await?;
/// # let _ = stored;
/// # Ok(())
/// # }
/// ```
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
    /// The required controller of the object, for owned applies.
    ownership: Option<Ownership>,
    /// Whether to return the cached object instead of the response: it is decoded once for all
    /// later reads, and has no managedFields.
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

    /// Returns how the server merges the body into the stored object.
    fn strategy(self) -> MergeStrategy {
        match self {
            Self::Create | Self::Update => MergeStrategy::Replace,
            Self::Patch("application/json-patch+json") => MergeStrategy::JsonPatch,
            Self::Patch("application/merge-patch+json") => MergeStrategy::MergePatch,
            Self::Patch(_) | Self::Apply => MergeStrategy::StrategicMerge,
        }
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

    pub(crate) fn patch(
        client: &'a Client,
        kind: Kind,
        key: Key,
        subresource: Option<&'static str>,
        patch: &Patch<impl Serialize>,
    ) -> Self {
        let (content_type, body) = match patch {
            Patch::Json(operations) => ("application/json-patch+json", encode(operations)),
            Patch::Merge(patch) => ("application/merge-patch+json", encode(patch)),
            Patch::Strategic(patch) => ("application/strategic-merge-patch+json", encode(patch)),
            Patch::Apply(patch) => {
                let body = serde_json::to_value(patch).map_err(|error| error.to_string());
                return Self::apply(client, kind, key, subresource, body);
            }
            _ => ("", Err("unsupported patch type".to_owned())),
        };
        Self::new(client, Verb::Patch(content_type), kind, key, body).on(subresource)
    }

    pub(crate) fn apply(
        client: &'a Client,
        kind: Kind,
        key: Key,
        subresource: Option<&'static str>,
        body: Result<Value, String>,
    ) -> Self {
        let applied = body.and_then(|mut body| {
            retain_applied(&mut body, &kind, subresource);
            encode(&body)
        });
        Self::new(client, Verb::Apply, kind, key, applied).on(subresource)
    }

    pub(super) fn on(mut self, subresource: Option<&'static str>) -> Self {
        self.subresource = subresource;
        self
    }

    /// Returns the cached object instead of the response.
    pub(crate) fn return_cached(mut self) -> Self {
        self.as_cached = true;
        self
    }

    /// Makes the write fail with `reason` when awaited.
    pub(crate) fn refuse(mut self, reason: String) -> Self {
        self.body = Err(reason);
        self
    }

    /// Fails if the object exists and is not controlled by the object with this uid.
    pub(crate) fn owned_by(mut self, uid: Uid, owner: String) -> Self {
        self.ownership = Some(Ownership { uid, owner });
        self
    }

    /// Sends a dry run; nothing is persisted.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets the field manager of this write, instead of the client's.
    pub fn field_manager(mut self, field_manager: &str) -> Self {
        self.field_manager = Some(field_manager.into());
        self
    }

    /// Takes ownership of conflicting fields of other managers; applies only.
    ///
    /// Recommended for a controller that is the only authority on the fields it applies.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Sets how the server treats unknown and duplicate fields; strict unless set.
    pub fn field_validation(mut self, directive: ValidationDirective) -> Self {
        self.field_validation = directive;
        self
    }

    fn call(&self, body: Vec<u8>) -> ApiRequest {
        let Self { kind, key, .. } = self;
        let mut call = match self.verb {
            Verb::Create if self.subresource.is_none() => ApiRequest::create("create", kind, key),
            Verb::Create => ApiRequest::object("create", Method::POST, kind, key),
            Verb::Update => ApiRequest::object("update", Method::PUT, kind, key),
            Verb::Apply => ApiRequest::object("apply", Method::PATCH, kind, key),
            Verb::Patch(_) => ApiRequest::object("patch", Method::PATCH, kind, key),
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
                return Err(ErrorKind::NotSent { request_info: self.request_info(), reason }.into());
            }
        };
        let client = self.client;
        let digest = self.is_repeatable().then(|| self.digest(&body));
        if digest.is_some() {
            // A reconciler that only applies an object never reads it: without this, the outcome of
            // an earlier write stays unknown, and no apply is recognized as a repeated one.
            client.shared.cache.reread(&self.kind, &self.key, &client.live()).await;
        }
        let (before, epoch) =
            (client.shared.cache.peek(&self.kind, &self.key), client.shared.cache.epoch());
        let id = (self.kind.clone(), self.key.clone(), self.subresource);
        if let (Some(digest), Some(before)) = (digest, &before)
            && client.shared.applied.is_current(&id, digest, before.meta(), epoch)
            // A type that is not cached whole cannot be returned from the cache.
            && let Ok(object) = client.shared.cache.typed::<R>(before)
        {
            self.record(WriteRecord::unchanged);
            return Ok(object);
        }
        // For the journal, which attributes changed fields to the write.
        let sent = if client.operations.is_some() { body.clone() } else { Vec::new() };
        let bytes = match self.exchange(body).await {
            Ok(bytes) => bytes,
            Err(error) => {
                if !self.dry_run && self.invalidates_cache(&error, before.is_some()) {
                    client.invalidate(&self.kind, &self.key);
                }
                self.record(|request_info| WriteRecord::failed(request_info, error.message()));
                return Err(error);
            }
        };
        let header = Header::of(&bytes);
        if !self.dry_run {
            self.update_cache(&header, &bytes).await;
        }
        let version = before.as_ref().map(|entry| entry.meta().version());
        let version = version.or_else(|| digest.and_then(|_| client.shared.applied.version(&id)));
        if let (Some(digest), Some(uid), Some(version)) = (digest, &header.uid, header.version) {
            let uid = Uid::new(uid);
            client.shared.applied.remember(id, applied::Outcome { digest, uid, version, epoch });
        }
        self.record(|request_info| {
            // A write that completes a deletion does not change the resourceVersion.
            if version.is_some() && version == header.version && !header.is_deleted() {
                return WriteRecord::unchanged(request_info);
            }
            // Neither a Scale nor another object of that name can be compared.
            let before = before.as_deref().filter(|entry| {
                let uid = header.uid.as_deref();
                header.is(&self.kind) && uid.is_some_and(|uid| *entry.meta().uid() == Uid::new(uid))
            });
            let body = Body { bytes: &sent, strategy: self.verb.strategy() };
            WriteRecord::written(request_info, before, &body, &bytes, header.version)
        });
        if let Some(object) = self.cached(&header) {
            return Ok(object);
        }
        match nulls::decode(&bytes) {
            Ok(object) => Ok(Arc::new(object)),
            Err(error) => {
                let request_info = self.request_info();
                Err(ErrorKind::InvalidResponse { request_info, source: error.into() }.into())
            }
        }
    }

    /// Sends the write; an owned apply checks the controller first.
    async fn exchange(&self, body: Vec<u8>) -> Result<Bytes, Error> {
        let Some(ownership) = &self.ownership else { return self.request(body).await };
        let refused = |reason| -> Error {
            ErrorKind::NotSent { request_info: self.request_info(), reason }.into()
        };
        let mut tries = 1..=OWNED_ATTEMPTS;
        loop {
            let first = tries.next() == Some(1);
            let checked = ownership.check(self.client, &self.kind, &self.key, !first).await?;
            let Some(precondition) = checked else {
                return Err(refused(ownership.not_controlled()));
            };
            let body = precondition.add_to(&body).map_err(refused)?;
            match self.request(body).await {
                // The precondition failed: checks again with a live read.
                Err(error) if error.is_precondition() && !tries.is_empty() => {}
                result => return result,
            }
        }
    }

    /// Sends one request. Its outcome is unknown if the future is dropped before the response.
    async fn request(&self, body: Vec<u8>) -> Result<Bytes, Error> {
        let pending = || Pending::new(self.client, self.request_info(), vec![self.key.clone()]);
        let pending = (!self.dry_run).then(pending);
        let response = self.call(body).send(self.client).await;
        pending.map(Pending::complete);
        response
    }

    /// Returns the cached object, if requested and current.
    fn cached(&self, header: &Header) -> Option<Arc<R>> {
        if !self.as_cached || self.dry_run {
            return None;
        }
        let cache = &self.client.shared.cache;
        let entry = cache.peek(&self.kind, &self.key)?;
        let current = header.version == Some(entry.meta().version());
        current.then(|| cache.typed(&entry).ok()).flatten()
    }

    /// Returns whether repeating the write on an unchanged object changes nothing and returns the
    /// object.
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

    /// Returns whether the error shows that the cached object is stale or its state unknown. The
    /// next read is then a live read, instead of failing again until the watch has caught up.
    fn invalidates_cache(&self, error: &Error, known: bool) -> bool {
        error.is_outcome_unknown()
            || match self.verb {
                Verb::Create => error.is_already_exists() && !known,
                Verb::Update | Verb::Patch(_) => {
                    error.is_conflict() || error.is_not_found() && known
                }
                // Other conflicts are with fields of another manager, not with another version.
                Verb::Apply => error.is_precondition(),
            }
    }

    /// Adds the response to the cache.
    async fn update_cache(&self, header: &Header, bytes: &Bytes) {
        let cache = &self.client.shared.cache;
        match &header.uid {
            // A Scale or an Eviction changes an object that is not in the response. One live read
            // here saves one in every list that includes the object.
            _ if !header.is(&self.kind) => {
                self.client.invalidate(&self.kind, &self.key);
                cache.reread(&self.kind, &self.key, &self.client.live()).await;
            }
            Some(uid) if header.is_deleted() => {
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

/// The maximum number of attempts of an owned apply whose precondition fails.
const OWNED_ATTEMPTS: u32 = 3;

/// The maximum prefix length of generated names, as in the API server.
const PREFIX_LEN_MAX: usize = 58;

/// Returns the key and body of an object to create; generates the name if `generateName` is set.
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
    let end = (0..5).map(|_| char::from(NAME_ALPHABET[(random.next() % 27) as usize]));
    let base = &base[..base.floor_char_boundary(PREFIX_LEN_MAX)];
    let name: String = base.chars().chain(end).collect();
    let mut object = object.clone();
    object.meta_mut().name = Some(name);
    (Key::of(&object), encode(&object))
}

pub(super) fn encode(body: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(body).map_err(|error| error.to_string())
}

/// Removes fields that the server sets and the part of the object that is not applied.
fn retain_applied(body: &mut Value, kind: &Kind, subresource: Option<&str>) {
    let Value::Object(object) = body else { return };
    // Other subresources have their own type, which the body names.
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
    let server_fields = ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
        .into_iter()
        .chain(["generation", "managedFields", "resourceVersion", "selfLink", "uid"]);
    for field in server_fields {
        meta.remove(field);
    }
    if subresource == Some("status") {
        meta.retain(|field, _| matches!(field.as_str(), "name" | "namespace"));
    }
}

/// The fields of a response that are needed before it is decoded.
#[derive(Default)]
pub(super) struct Header {
    api_version: String,
    kind: String,
    pub(super) version: Option<Version>,
    pub(super) uid: Option<String>,
    /// deletionTimestamp is set.
    pub(super) deleting: bool,
    /// deletionTimestamp is set, and finalizers or the grace period delay the deletion.
    pub(super) terminating: bool,
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
        /// `spec.finalizers` of a Namespace.
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
            terminating: meta.deletion_timestamp.is_some() && (graceful || finalized),
        }
    }

    /// Returns whether the write completed the deletion of the object.
    fn is_deleted(&self) -> bool {
        self.deleting && !self.terminating
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
    fn deleted_object_is_terminating_while_finalizers_remain() {
        let terminating = |body: Value| Header::of(body.to_string().as_bytes()).terminating;
        let deleted = |kind: &str, finalizers: &[&str], spec: Value| {
            let meta = serde_json::json!({
                "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers,
            });
            serde_json::json!({ "kind": kind, "metadata": meta, "spec": spec })
        };
        let own = serde_json::json!({"finalizers": ["kubernetes"]});
        assert!(terminating(deleted("ConfigMap", &["a"], Value::Null)));
        assert!(!terminating(deleted("ConfigMap", &[], Value::Null)));
        assert!(terminating(deleted("Namespace", &[], own.clone())));
        assert!(!terminating(deleted("Namespace", &[], serde_json::json!({}))));
        assert!(!terminating(deleted("Widget", &[], own)));
        assert!(!terminating(deleted("Widget", &[], serde_json::json!({"finalizers": 1}))));
    }
}
