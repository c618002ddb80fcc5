//! Updates: create, replace and every patch except apply, as smd's `Updater.Update`.
//!
//! The manager owns the fields it changes. Updates never fail a request: if the managers cannot be
//! computed, managedFields is cleared, because a wrong manager is worse than none.

use std::{borrow::Cow, sync::LazyLock};

use serde_json::Value;
use thiserror::Error;

use super::{ConvertError, Entry, ManagedFields, Operation, Request, object};
use crate::{
    path::fields,
    schema::ObjectType,
    set::Set,
    typed::{Comparison, Duplicates, ValidationErrors},
    work,
};

/// Maximum number of updaters; older ones are merged into [`ANCIENT_CHANGES`].
const MAX_UPDATERS: usize = 10;
const ANCIENT_CHANGES: &str = "ancient-changes";

/// Fields that managers never own (upstream's `stripMeta`): type, identity and server-set metadata.
pub(super) static STRIPPED_META: LazyLock<Set> = LazyLock::new(|| {
    let mut set = Set::from_paths([fields(["apiVersion"]), fields(["kind"]), fields(["metadata"])]);
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set.insert(&fields(["metadata", name]));
    }
    set
});

/// Why the managers could not be computed. To be logged: the request continues.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpdateError {
    /// The version of the endpoint has no type.
    #[error("no corresponding type for {0}")]
    NoType(String),
    /// An object does not match its schema.
    #[error("failed to compare objects: {0}")]
    Compare(ValidationErrors),
    /// An object cannot be converted to the version of a manager.
    #[error("failed to convert {0} object: {1}")]
    Convert(&'static str, ConvertError),
    /// The live object is not valid in the version of a manager.
    #[error(transparent)]
    Reconcile(ConvertError),
}

/// Updates `metadata.managedFields` of the object to be stored.
///
/// `live` is the stored object, or `None` on create. Both objects are in the version of the
/// endpoint or can be converted to it. On error, managedFields has been cleared and the request
/// should continue.
pub fn update(
    request: &Request<'_>,
    live: Option<&Value>,
    new: &mut Value,
) -> Result<(), UpdateError> {
    let Some(meta) = object::metadata_mut(new) else { return Ok(()) };
    let sent = meta.remove("managedFields");
    let managers = current_managers(request, live, sent.as_ref());
    let exists = live.is_some_and(|live| !object::uid(live).is_empty());
    if managers.is_empty() && exists {
        // The object has no managers yet, so the owners of its fields are unknown.
        return Ok(());
    }
    let mut managers = record_update(
        request,
        live.unwrap_or(request.empty_object),
        new,
        managers,
        request.manager,
    )?;
    cap_updaters(&mut managers);
    write_managed_fields(new, managers);
    Ok(())
}

/// Writes managedFields to an object without any.
pub(super) fn write_managed_fields(object: &mut Value, managers: ManagedFields) {
    if let (Some(meta), Some(encoded)) = (object::metadata_mut(object), managers.encode()) {
        meta.insert("managedFields".into(), encoded);
    }
}

/// Returns the managers to start from: those in the request, if any, otherwise the live ones.
fn current_managers(
    request: &Request<'_>,
    live: Option<&Value>,
    sent: Option<&Value>,
) -> ManagedFields {
    let live = || ManagedFields::decode(live.and_then(object::managed_fields)).unwrap_or_default();
    // managedFields cannot be edited through a subresource.
    if !request.subresource.is_empty() {
        return live();
    }
    match sent {
        None | Some(Value::Null) => live(),
        Some(sent) if is_reset(sent) => ManagedFields::default(),
        Some(sent) => match ManagedFields::decode(Some(sent)) {
            Ok(managers) if !managers.is_empty() => managers,
            _ => live(),
        },
    }
}

/// Returns whether the client resets managedFields: an empty list, or a list of one empty entry.
fn is_reset(sent: &Value) -> bool {
    let blank = |value: &Value| value.is_null() || value == "";
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(blank),
        _ => false,
    }
}

/// Records the changes from `live` to `new` for a manager.
pub(super) fn record_update(
    request: &Request<'_>,
    live: &Value,
    new: &Value,
    mut managers: ManagedFields,
    manager: &str,
) -> Result<ManagedFields, UpdateError> {
    let live = request
        .convert_to_request_version(live)
        .map_err(|error| UpdateError::Convert("old", error))?;
    let new = request
        .convert_to_request_version(new)
        .map_err(|error| UpdateError::Convert("new", error))?;
    request.reconcile(&mut managers, &live)?;
    let mut changes = Changes::new(request, &live, &new);
    remove_changed_fields(&mut managers, &mut changes)?;

    let Comparison { added, modified, .. } = changes.into_request_version()?;
    let fields = request
        .without_reset(request.api_version, modified.union(added))
        .difference(&STRIPPED_META);
    if !fields.is_empty() {
        let mut entry = request.entry(manager, Operation::Update, fields);
        entry.time = Some(request.now.into());
        match managers.find(&entry) {
            Some(at) => {
                let known = &mut managers.entries[at];
                known.fields = std::mem::take(&mut known.fields).union(entry.fields);
                known.time = entry.time;
            }
            None => managers.entries.push(entry),
        }
    }
    Ok(managers)
}

/// Removes changed fields from every manager, and managers without remaining fields.
pub(super) fn remove_changed_fields(
    managers: &mut ManagedFields,
    changes: &mut Changes<'_>,
) -> Result<(), UpdateError> {
    let mut remaining = Vec::with_capacity(managers.entries.len());
    for mut entry in std::mem::take(&mut managers.entries) {
        let Some(changes) = changes.in_version(&entry.api_version)? else { continue };
        entry.fields = entry
            .fields
            .difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed);
        if !entry.fields.is_empty() {
            remaining.push(entry);
        }
    }
    managers.entries = remaining;
    Ok(())
}

/// One change in the versions of the managers, computed on demand.
pub(super) struct Changes<'a> {
    request: &'a Request<'a>,
    live: &'a Value,
    new: &'a Value,
    /// `None` for versions that are no longer served.
    comparisons: Vec<(String, Option<Comparison>)>,
}

impl<'a> Changes<'a> {
    /// Both objects must be in the version of the request.
    pub(super) fn new(request: &'a Request<'a>, live: &'a Value, new: &'a Value) -> Self {
        Self { request, live, new, comparisons: Vec::new() }
    }

    pub(super) fn in_version(
        &mut self,
        api_version: &str,
    ) -> Result<Option<&Comparison>, UpdateError> {
        let at = match self.comparisons.iter().position(|(version, _)| version == api_version) {
            Some(at) => at,
            None => {
                let changes = match api_version == self.request.api_version {
                    true => {
                        let ty = self.request.object_type()?;
                        Some(self.compare(self.live, self.new, ty, api_version)?)
                    }
                    false => self.convert(api_version)?,
                };
                self.comparisons.push((api_version.into(), changes));
                self.comparisons.len() - 1
            }
        };
        Ok(self.comparisons[at].1.as_ref())
    }

    fn compare(
        &self,
        live: &Value,
        new: &Value,
        ty: &ObjectType,
        api_version: &str,
    ) -> Result<Comparison, UpdateError> {
        let changes = ty.compare(live, new).map_err(UpdateError::Compare)?;
        Ok(changes.map(|set| self.request.without_reset(api_version, set)))
    }

    fn convert(&self, api_version: &str) -> Result<Option<Comparison>, UpdateError> {
        let Some(ty) = self.request.versions.object_type(api_version) else { return Ok(None) };
        let mut converted = Vec::with_capacity(2);
        for (which, object) in [("old", self.live), ("new", self.new)] {
            match self.request.convert_to_version(object, api_version) {
                Ok(object) => converted.push(object),
                Err(ConvertError::MissingVersion) => return Ok(None),
                Err(error) => return Err(UpdateError::Convert(which, error)),
            }
        }
        self.compare(&converted[0], &converted[1], ty, api_version).map(Some)
    }

    /// Returns the change in the version of the request.
    fn into_request_version(mut self) -> Result<Comparison, UpdateError> {
        let own = self.request.api_version;
        self.in_version(own)?;
        let own = self.comparisons.into_iter().find(|(version, _)| version == own);
        Ok(own.and_then(|(_, changes)| changes).unwrap_or_default())
    }
}

/// Merges the oldest updaters of each version (upstream's `capManagersManager`).
fn cap_updaters(managers: &mut ManagedFields) {
    let is_updater = |entry: &&Entry| entry.operation == Operation::Update;
    let count = managers.entries.iter().filter(is_updater).count();
    if count <= MAX_UPDATERS {
        return;
    }
    let (updaters, rest) = std::mem::take(&mut managers.entries)
        .into_iter()
        .partition::<Vec<_>, _>(|entry| entry.operation == Operation::Update);
    let mut updaters: Vec<Option<Entry>> = {
        let mut updaters = updaters;
        updaters.sort_by_cached_key(|entry| (entry.seconds(), entry.sort_key()));
        updaters.into_iter().map(Some).collect()
    };
    let mut excess = count - MAX_UPDATERS;
    for at in 0..updaters.len() {
        if excess == 0 {
            break;
        }
        let Some(version) = updaters[at].as_ref().map(|entry| entry.api_version.clone()) else {
            continue;
        };
        let of_version = |entry: &Option<Entry>| {
            work::step();
            entry.as_ref().is_some_and(|entry| entry.api_version == version)
        };
        let is_bucket = |entry: &Option<Entry>| {
            work::step();
            entry.as_ref().is_some_and(|entry| {
                entry.api_version == version
                    && entry.manager == ANCIENT_CHANGES
                    && entry.subresource.is_empty()
            })
        };
        // The oldest updater of a version needs a second one to merge with.
        let Some(oldest) = updaters[..at].iter().position(of_version) else { continue };
        // An existing bucket may not be the oldest if several writes have the same second.
        let into = updaters.iter().position(is_bucket).unwrap_or(oldest);
        let from = if into == at { oldest } else { at };
        let time = updaters[at].as_ref().and_then(|entry| entry.time.clone());
        let Some(folded) = updaters[from].take() else { continue };
        if let Some(bucket) = &mut updaters[into] {
            bucket.manager = ANCIENT_CHANGES.into();
            bucket.subresource.clear();
            bucket.fields = std::mem::take(&mut bucket.fields).union(folded.fields);
            bucket.time = time;
        }
        excess -= 1;
    }
    managers.entries = updaters.into_iter().flatten().chain(rest).collect();
}

/// The result of reconciling an entry with a changed schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reconciled {
    Unchanged,
    Changed,
    /// Its version is no longer served.
    VersionRemoved,
}

// === impl Request ===

impl<'a> Request<'a> {
    /// Converts the object to the version of the endpoint.
    pub(super) fn convert_to_request_version<'o>(
        &self,
        object: &'o Value,
    ) -> Result<Cow<'o, Value>, ConvertError> {
        let version = object::api_version(object);
        if version.is_empty() || version == self.api_version {
            return Ok(Cow::Borrowed(object));
        }
        self.versions.convert(object, self.api_version).map(Cow::Owned)
    }

    /// Returns the fields of a version without those that the endpoint resets in it.
    pub(super) fn without_reset(&self, api_version: &str, fields: Set) -> Set {
        match self.reset_fields.iter().find(|(version, _)| *version == api_version) {
            Some((_, filter)) => filter.apply(fields),
            None => fields,
        }
    }

    pub(super) fn object_type(&self) -> Result<&'a ObjectType, UpdateError> {
        let ty = self.versions.object_type(self.api_version);
        ty.ok_or_else(|| UpdateError::NoType(format!("{}, Kind={}", self.api_version, self.kind)))
    }

    /// Converts the object to the version of a manager and validates it. Borrows it if it is in
    /// that version.
    pub(super) fn convert_to_version<'o>(
        &self,
        object: &'o Value,
        api_version: &str,
    ) -> Result<Cow<'o, Value>, ConvertError> {
        let current = object::api_version(object);
        if current == api_version || (current.is_empty() && api_version == self.api_version) {
            return Ok(Cow::Borrowed(object));
        }
        let object = self.versions.convert(object, api_version)?;
        let ty = self.versions.object_type(api_version).ok_or(ConvertError::MissingVersion)?;
        let invalid = |error: ValidationErrors| ConvertError::Failed(error.to_string());
        ty.validate(&object, Duplicates::Reject).map_err(invalid)?;
        Ok(Cow::Owned(object))
    }

    /// Reconciles the managers with types that changed since they wrote, and drops managers of
    /// versions that are no longer served. Returns whether anything changed. The live object has to
    /// be valid in every remaining version.
    pub(super) fn reconcile(
        &self,
        managers: &mut ManagedFields,
        live: &Value,
    ) -> Result<bool, UpdateError> {
        let mut changed = false;
        let mut remaining = Vec::with_capacity(managers.entries.len());
        for mut entry in std::mem::take(&mut managers.entries) {
            let reconciled = self.reconcile_entry(&mut entry, live)?;
            changed |= reconciled != Reconciled::Unchanged;
            if reconciled != Reconciled::VersionRemoved {
                remaining.push(entry);
            }
        }
        managers.entries = remaining;
        Ok(changed)
    }

    /// Reconciles one manager.
    pub(super) fn reconcile_entry(
        &self,
        entry: &mut Entry,
        live: &Value,
    ) -> Result<Reconciled, UpdateError> {
        match self.convert_to_version(live, &entry.api_version) {
            Ok(_) => {}
            Err(ConvertError::MissingVersion) => return Ok(Reconciled::VersionRemoved),
            Err(error) => return Err(UpdateError::Reconcile(error)),
        }
        let ty = self.versions.object_type(&entry.api_version);
        Ok(match ty.and_then(|ty| ty.reconcile(&entry.fields)) {
            Some(fields) => {
                entry.fields = fields;
                Reconciled::Changed
            }
            None => Reconciled::Unchanged,
        })
    }

    pub(super) fn entry(&self, manager: &str, operation: Operation, fields: Set) -> Entry {
        Entry {
            manager: if manager.is_empty() { "unknown".into() } else { manager.into() },
            operation,
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
            time: None,
            fields,
        }
    }
}

/// Removes fields that managers never own.
pub(super) fn strip_meta(fields: Set) -> Set {
    fields.difference(&STRIPPED_META)
}
