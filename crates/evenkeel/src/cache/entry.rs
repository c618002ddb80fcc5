//! Cached objects: metadata, JSON, and the decoded form once it was read.

use std::any::{Any, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::charge::Charge;
use super::meta::Meta;
use crate::kind::Kind;
use crate::nulls;

/// A decoded object of any type.
pub(super) type Typed = Arc<dyn Any + Send + Sync>;

/// A cached object. Immutable; a newer state is another entry.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::Pod;
/// # async fn example(client: &evenkeel::client::Client) -> Result<()> {
/// for entry in client.list::<Pod>().entries().await? {
///     if entry.meta().label("app") == Some("web") {
///         let pod = entry.decode::<Pod>()?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Entry {
    kind: Kind,
    meta: Meta,
    /// Compact JSON without managedFields; for a view only the annotations.
    body: Box<[u8]>,
    form: Form,
    /// The number of the last list that included this object.
    listed: AtomicU32,
    /// Whether the decoded form was used since the last pass of the LRU.
    touched: AtomicBool,
    memo: Mutex<Memo>,
}

/// Without the content: that of a Secret must not be printed.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("kind", &self.kind)
            .field("key", &self.meta.key)
            .field("version", &self.meta.version)
            .finish_non_exhaustive()
    }
}

/// Which part of the objects of a type is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Metadata,
    /// Only the struct of this name, decoded from the object.
    View(&'static str),
}

/// The decoded form. It is stored for one Rust type; reads as several types decode again.
#[derive(Debug)]
enum Memo {
    Cold,
    /// Evicted; shared while it is referenced.
    Shared(Weak<dyn Any + Send + Sync>),
    /// Kept by the LRU.
    Hot(Typed, #[expect(dead_code, reason = "releases its bytes when dropped")] Charge),
    /// Kept as long as the entry.
    Pinned(Typed),
}

/// An object does not decode as the requested type.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind} {key} does not decode: {message}")]
#[non_exhaustive]
pub struct DecodeError {
    /// The kind of the object.
    pub kind: Kind,
    /// The key of the object.
    pub key: crate::Key,
    /// The cause.
    pub message: Arc<str>,
}

impl Entry {
    pub(super) fn new(kind: Kind, meta: Meta, body: Box<[u8]>, form: Form) -> Self {
        Self {
            kind,
            meta,
            body,
            form,
            listed: AtomicU32::new(0),
            touched: AtomicBool::new(false),
            memo: Mutex::new(Memo::Cold),
        }
    }

    /// Returns the kind of the object.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the metadata, without decoding.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns whether the whole object is stored.
    pub(crate) fn is_whole(&self) -> bool {
        self.form == Form::Whole
    }

    /// Returns the JSON of the object without managedFields; only type and metadata for a
    /// metadata-only type, and empty for a view.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        if matches!(self.form, Form::View(_)) { &[] } else { &self.body }
    }

    /// Returns the annotations as JSON; empty if there are none.
    #[must_use]
    pub fn annotations_json(&self) -> &[u8] {
        let at = &self.meta.annotations;
        self.body.get(at.start as usize..at.end as usize).unwrap_or_default()
    }

    /// Parses and returns the annotations.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        nulls::decode(self.annotations_json()).unwrap_or_default()
    }

    /// Parses and returns the full metadata.
    ///
    /// # Errors
    /// When the metadata does not decode, or the type is declared as a view.
    pub fn object_meta(&self) -> Result<ObjectMeta, DecodeError> {
        #[derive(Deserialize)]
        struct Holder {
            metadata: ObjectMeta,
        }
        if let Form::View(name) = self.form {
            return Err(self.decode_error(format!("only {name} is stored")));
        }
        nulls::decode(&self.body)
            .map(|Holder { metadata }| metadata)
            .map_err(|error| self.decode_error(error.to_string()))
    }

    /// Returns the object as `K`: the decoded form that the cache keeps, or decoded by this call.
    ///
    /// Use [`Cache::typed`](super::Cache::typed) for objects that are read repeatedly.
    ///
    /// # Errors
    /// When the object does not decode as `K`, or the type is declared `metadata_only` or as a
    /// view.
    pub fn decode<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
    ) -> Result<Arc<K>, DecodeError> {
        match self.held() {
            Some((typed, _)) => Ok(typed),
            None => self.decode_anew().map(Arc::new),
        }
    }

    /// Returns the decoded form if there is one, and whether the cache keeps it.
    pub(super) fn held<K: Send + Sync + 'static>(&self) -> Option<(Arc<K>, bool)> {
        let memo = self.memo.lock();
        let (typed, stays) = match &*memo {
            Memo::Cold => return None,
            Memo::Shared(typed) => (typed.upgrade()?, false),
            Memo::Hot(typed, _) | Memo::Pinned(typed) => (typed.clone(), true),
        };
        drop(memo);
        let typed = typed.downcast().ok()?;
        self.touch();
        Some((typed, stays))
    }

    /// Returns whether the cache keeps this decoded form.
    pub(super) fn keeps(&self, decoded: &Typed) -> bool {
        match &*self.memo.lock() {
            Memo::Cold | Memo::Shared(_) => false,
            Memo::Hot(kept, _) | Memo::Pinned(kept) => Arc::ptr_eq(kept, decoded),
        }
    }

    /// Records a use of the decoded form for the LRU.
    #[inline]
    fn touch(&self) {
        // Most reads do not write, so that the cache line stays shared between cores.
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
    }

    fn decode_anew<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<K, DecodeError> {
        match self.form {
            Form::Whole => {}
            Form::Metadata => {
                return Err(self.decode_error(format!(
                    "the type is declared metadata-only; to read it as {}, declare it without \
                     `metadata_only`",
                    type_name::<K>()
                )));
            }
            Form::View(name) => {
                return Err(self.decode_error(format!(
                    "the type is declared as a view that stores only {name}; to read it as {}, \
                     declare it without `view`",
                    type_name::<K>()
                )));
            }
        }
        nulls::decode(&self.body)
            .map_err(|error| self.decode_error(nulls::message(&self.kind, &error)))
    }

    fn decode_error(&self, message: String) -> DecodeError {
        DecodeError { kind: self.kind.clone(), key: self.meta.key.clone(), message: message.into() }
    }

    /// Keeps the decoded form as long as the entry.
    pub(super) fn pin(&self, typed: Typed) {
        *self.memo.lock() = Memo::Pinned(typed);
    }

    /// Keeps the decoded form until it is evicted; returns false if one is already kept.
    pub(super) fn keep(&self, typed: Typed, charge: Charge) -> bool {
        let mut memo = self.memo.lock();
        if matches!(&*memo, Memo::Hot(..) | Memo::Pinned(_)) {
            return false;
        }
        *memo = Memo::Hot(typed, charge);
        true
    }

    /// Shares a decoded form that is too large to be kept.
    pub(super) fn share(&self, typed: &Typed) {
        let mut memo = self.memo.lock();
        if matches!(&*memo, Memo::Cold | Memo::Shared(_)) {
            *memo = Memo::Shared(Arc::downgrade(typed));
        }
    }

    /// Evicts the decoded form. The caller drops the returned value outside of locks.
    pub(super) fn evict(&self) -> Option<Typed> {
        let mut memo = self.memo.lock();
        match std::mem::replace(&mut *memo, Memo::Cold) {
            Memo::Hot(typed, _) => {
                // A weak reference keeps the allocation, so it is stored only if another reference
                // exists; no new one can be taken while the memo is locked.
                if Arc::strong_count(&typed) > 1 {
                    *memo = Memo::Shared(Arc::downgrade(&typed));
                }
                Some(typed)
            }
            other => {
                *memo = other;
                None
            }
        }
    }

    /// Returns and resets whether the decoded form was used.
    pub(super) fn take_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    /// Records that the list of this number included the object.
    pub(super) fn mark(&self, list: u32) {
        self.listed.store(list, Ordering::Relaxed);
    }

    /// Returns the number of the last list that included the object.
    pub(super) fn marked(&self) -> u32 {
        self.listed.load(Ordering::Relaxed)
    }

    /// Returns the memory size without the decoded form.
    pub(super) fn size(&self) -> usize {
        // Includes the two counters of the `Arc`.
        size_of::<Self>() + 2 * size_of::<usize>() + self.meta.heap() + self.body.len()
    }

    /// Returns the size of the JSON.
    pub(super) fn body_len(&self) -> usize {
        self.body.len()
    }
}
