//! Decoded `managedFields`: one entry per manager.
//!
//! A manager is identified by name, operation and subresource, and for updates also by the version
//! it wrote in. An applier has one entry, in the version it last applied.

use std::{collections::HashMap, hash::Hash};

use evenkeel_types::go;
use serde_json::{Map, Value};
use thiserror::Error;

use super::time;
use crate::{
    set::{FieldsError, Set},
    text, work,
};

/// The operation of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// One manager and the fields it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The manager's name.
    pub manager: String,
    /// The operation.
    pub operation: Operation,
    /// The version of the fields.
    pub api_version: String,
    /// The subresource it wrote through; empty for the main resource.
    pub subresource: String,
    /// The time of its last change; RFC 3339, UTC.
    pub time: Option<String>,
    /// The fields it owns.
    pub fields: Set,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedFields {
    pub(super) entries: Vec<Entry>,
}

/// The previous entry of a manager.
#[derive(Debug)]
pub(super) enum LastEntry {
    /// It has the same fields; with its time.
    Unchanged(Option<String>),
    Changed(Entry),
}

/// Why `managedFields` are not valid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The operation is neither apply nor update.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// The version is missing.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// The fields type is missing.
    #[error("missing fieldsType in managed fields entry {0}")]
    MissingFieldsType(usize),
    /// The fields type is not FieldsV1.
    #[error("invalid fieldsType {0} in managed fields entry {1}")]
    FieldsType(String, usize),
    /// The fields are not FieldsV1.
    #[error("error decoding versioned set from managed fields entry {0}: error decoding set: {1}")]
    Fields(usize, FieldsError),
    /// A value has the wrong JSON type, or the time is invalid.
    #[error("malformed managed fields entry {0}")]
    Malformed(usize),
}

// === impl Operation ===

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

// === impl Entry ===

impl Entry {
    /// Returns whether two entries belong to the same manager.
    pub(super) fn same_manager(&self, other: &Self) -> bool {
        work::step();
        self.identity() == other.identity()
    }

    /// Returns the identity of the manager.
    fn identity(&self) -> impl Eq + Hash {
        let version = (self.operation == Operation::Update).then_some(self.api_version.as_str());
        (self.manager.as_str(), self.operation, self.subresource.as_str(), version)
    }

    /// Returns the text by which managers are sorted (apimachinery's `BuildManagerIdentifier`).
    pub(super) fn sort_key(&self) -> String {
        let mut key = String::from("{\"manager\":");
        text::json_string(&mut key, &self.manager, true);
        key.push_str(",\"operation\":");
        text::json_string(&mut key, self.operation.as_str(), true);
        if self.operation == Operation::Update {
            key.push_str(",\"apiVersion\":");
            text::json_string(&mut key, &self.api_version, true);
        }
        if !self.subresource.is_empty() {
            key.push_str(",\"subresource\":");
            text::json_string(&mut key, &self.subresource, true);
        }
        key.push('}');
        key
    }

    pub(super) fn seconds(&self) -> i64 {
        self.time.as_deref().and_then(time::parse).unwrap_or(0)
    }

    /// Decodes an entry. Its fields are returned undecoded.
    fn decode(index: usize, value: &Value) -> Result<(Self, Option<&Value>), DecodeError> {
        let malformed = || DecodeError::Malformed(index);
        let map = value.as_object().ok_or_else(malformed)?;
        let text = |name: &str| match map.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(malformed()),
        };
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(DecodeError::Operation),
        };
        let api_version = text("apiVersion")?;
        if api_version.is_empty() {
            return Err(DecodeError::ApiVersion);
        }
        match text("fieldsType")? {
            "FieldsV1" => {}
            "" => return Err(DecodeError::MissingFieldsType(index)),
            other => {
                return Err(DecodeError::FieldsType(go::quote(other), index));
            }
        }
        let time = match text("time")? {
            "" => None,
            text => Some(time::format(time::parse(text).ok_or_else(malformed)?)),
        };
        let entry = Self {
            manager: text("manager")?.into(),
            operation,
            api_version: api_version.into(),
            subresource: text("subresource")?.into(),
            time,
            fields: Set::new(),
        };
        Ok((entry, map.get("fieldsV1").filter(|fields| !fields.is_null())))
    }

    fn decode_fields(&mut self, index: usize, fields: Option<&Value>) -> Result<(), DecodeError> {
        if let Some(fields) = fields {
            self.fields =
                Set::from_fields_v1(fields).map_err(|error| DecodeError::Fields(index, error))?;
        }
        Ok(())
    }

    fn encode(self) -> Value {
        let text = Value::String;
        let mut map = Map::new();
        map.insert("apiVersion".into(), text(self.api_version));
        map.insert("fieldsType".into(), text("FieldsV1".into()));
        map.insert("fieldsV1".into(), self.fields.into_fields_v1());
        if !self.manager.is_empty() {
            map.insert("manager".into(), text(self.manager));
        }
        map.insert("operation".into(), text(self.operation.as_str().into()));
        if !self.subresource.is_empty() {
            map.insert("subresource".into(), text(self.subresource));
        }
        if let Some(time) = self.time {
            map.insert("time".into(), text(time));
        }
        Value::Object(map)
    }
}

// === impl ManagedFields ===

impl ManagedFields {
    /// Decodes `metadata.managedFields`. Null is the same as absent.
    pub fn decode(managed_fields: Option<&Value>) -> Result<Self, DecodeError> {
        let mut read = Vec::new();
        for (index, entry) in entries(managed_fields)?.iter().enumerate() {
            let (mut entry, fields) = Entry::decode(index, entry)?;
            entry.decode_fields(index, fields)?;
            read.push(entry);
        }
        Ok(Self::latest(read))
    }

    /// Returns whether a manager wrote in a version other than that of `own`.
    pub(super) fn has_other_version(&self, own: &Entry) -> bool {
        self.entries.iter().any(|entry| entry.api_version != own.api_version)
    }

    /// Keeps the last entry of each manager, at the position of its first one.
    fn latest(read: Vec<Entry>) -> Self {
        if read.len() < 2 {
            return Self { entries: read };
        }
        let mut known = HashMap::with_capacity(read.len());
        let slots: Vec<usize> = read
            .iter()
            .map(|entry| {
                let next = known.len();
                *known.entry(entry.identity()).or_insert(next)
            })
            .collect();
        let mut entries = Vec::with_capacity(known.len());
        drop(known);
        for (slot, entry) in slots.into_iter().zip(read) {
            match entries.get_mut(slot) {
                Some(earlier) => *earlier = entry,
                None => entries.push(entry),
            }
        }
        Self { entries }
    }

    /// Decodes all entries except that of the manager of `own`. If its fields are unchanged, they
    /// are not decoded: this is the common case, and most of the work.
    pub(super) fn decode_others(
        managed_fields: Option<&Value>,
        own: &Entry,
    ) -> Result<(Self, Option<LastEntry>), DecodeError> {
        let (mut others, mut last) = (Vec::new(), None);
        for (index, entry) in entries(managed_fields)?.iter().enumerate() {
            let (mut entry, fields) = Entry::decode(index, entry)?;
            if !entry.same_manager(own) {
                entry.decode_fields(index, fields)?;
                others.push(entry);
            } else if entry.api_version == own.api_version
                && fields.is_some_and(|fields| own.fields.encodes_to(fields))
            {
                last = Some(LastEntry::Unchanged(entry.time));
            } else {
                entry.decode_fields(index, fields)?;
                last = Some(LastEntry::Changed(entry));
            }
        }
        Ok((Self::latest(others), last))
    }

    /// Encodes `metadata.managedFields`: appliers first, then by time, manager, version and
    /// subresource. Returns `None` if there are no entries.
    pub fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        if self.entries.len() > 1 {
            let key = |entry: &Entry| (entry.operation, entry.seconds());
            self.entries.sort_by(|a, b| {
                key(a)
                    .cmp(&key(b))
                    .then_with(|| a.manager.cmp(&b.manager))
                    .then_with(|| a.api_version.cmp(&b.api_version))
                    .then_with(|| a.subresource.cmp(&b.subresource))
            });
        }
        Some(Value::Array(self.entries.into_iter().map(Entry::encode).collect()))
    }

    /// Returns the entries.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the position of the entry with the same manager.
    pub(super) fn find(&self, of: &Entry) -> Option<usize> {
        self.entries.iter().position(|entry| entry.same_manager(of))
    }

    /// Adds an entry. Replaces an earlier one of the same manager.
    pub(super) fn insert(&mut self, entry: Entry) {
        match self.find(&entry) {
            Some(at) => self.entries[at] = entry,
            None => self.entries.push(entry),
        }
    }
}

fn entries(managed_fields: Option<&Value>) -> Result<&[Value], DecodeError> {
    match managed_fields {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(entries)) => Ok(entries),
        Some(_) => Err(DecodeError::Malformed(0)),
    }
}
