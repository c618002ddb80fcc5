//! One cached object: its header, its bytes, and its typed form once somebody has looked.

use std::any::{Any, type_name};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::hot::Charge;
use super::meta::Meta;
use crate::kind::Kind;
use crate::nulls;

/// A typed object of any type.
pub(super) type Typed = Arc<dyn Any + Send + Sync>;

/// An object as the cache holds it. It never changes; a newer state is another entry.
#[derive(Debug)]
pub struct Entry {
    kind: Kind,
    meta: Meta,
    /// Compact JSON without managedFields; of a view only the annotations.
    body: Box<[u8]>,
    form: Form,
    /// The number of the list that had this object last.
    listed: AtomicU32,
    /// Whether the typed form was used since the hot set last looked.
    touched: AtomicBool,
    memo: Mutex<Memo>,
}

/// What is kept of objects of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Metadata,
    /// Only the struct of this name, made from the object.
    View(&'static str),
}

/// The typed form. There is room for one type: who reads an object as several pays for it.
#[derive(Debug)]
enum Memo {
    Cold,
    /// The hot set has let go of it; shared for as long as it is held.
    Shared(Weak<dyn Any + Send + Sync>),
    /// Kept by the hot set.
    Hot(Typed, #[expect(dead_code, reason = "gives its bytes back when dropped")] Charge),
    /// Kept as long as the object.
    Pinned(Typed),
}

/// An object whose bytes are not what its type expects.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind} {key} does not decode: {message}")]
pub struct DecodeError {
    /// The type of the object.
    pub kind: Kind,
    /// The object.
    pub key: crate::Key,
    /// What is wrong, and where.
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

    /// The type of the object.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The metadata; needs no decoding.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Whether all of the object is kept.
    pub(crate) fn is_whole(&self) -> bool {
        self.form == Form::Whole
    }

    /// The object as JSON, without managedFields; only type and metadata of a metadata-only type,
    /// and empty for a view.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        if matches!(self.form, Form::View(_)) { &[] } else { &self.body }
    }

    /// The annotations as JSON; empty if there are none. Enough to see whether they differ.
    #[must_use]
    pub fn annotations_json(&self) -> &[u8] {
        let at = &self.meta.annotations;
        self.body.get(at.start as usize..at.end as usize).unwrap_or_default()
    }

    /// The annotations; parsed at each call.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        nulls::decode(self.annotations_json()).unwrap_or_default()
    }

    /// All of the metadata; parsed at each call.
    ///
    /// # Errors
    /// When the metadata is not what the API promises, or the type is declared as a view.
    pub fn object_meta(&self) -> Result<ObjectMeta, DecodeError> {
        #[derive(Deserialize)]
        struct Holder {
            metadata: ObjectMeta,
        }
        if let Form::View(name) = self.form {
            return Err(self.undecodable(format!("only {name} is kept of it")));
        }
        nulls::decode(&self.body)
            .map(|Holder { metadata }| metadata)
            .map_err(|error| self.undecodable(error.to_string()))
    }

    /// The object as `K`: the form that the cache keeps, if it keeps one, or decoded for this call.
    ///
    /// [`Cache::typed`](super::Cache::typed) is for objects that are read again soon.
    ///
    /// # Errors
    /// When the object's bytes are not a `K`, or not all of them are kept; the error names the
    /// object and, for a declaration that keeps too little, the fix.
    pub fn decode<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
    ) -> Result<Arc<K>, DecodeError> {
        match self.held() {
            Some((typed, _)) => Ok(typed),
            None => self.decode_anew().map(Arc::new),
        }
    }

    /// The typed form if it is there, and whether it will stay when the caller lets go of it.
    pub(super) fn held<K: Send + Sync + 'static>(&self) -> Option<(Arc<K>, bool)> {
        let memo = self.memo.lock();
        let (typed, stays) = match &*memo {
            Memo::Cold => return None,
            Memo::Shared(typed) => (typed.upgrade()?, false),
            Memo::Hot(typed, _) | Memo::Pinned(typed) => (typed.clone(), true),
        };
        drop(memo);
        let typed = typed.downcast().ok()?;
        self.touched.store(true, Ordering::Relaxed);
        Some((typed, stays))
    }

    /// The typed form if it is there and stays.
    pub(super) fn kept<K: Send + Sync + 'static>(&self) -> Option<Arc<K>> {
        self.held().and_then(|(typed, stays)| stays.then_some(typed))
    }

    fn decode_anew<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<K, DecodeError> {
        match self.form {
            Form::Whole => {}
            Form::Metadata => {
                return Err(self.undecodable(format!(
                    "the type is declared metadata-only; to read it as {}, declare it without \
                     `metadata_only`",
                    type_name::<K>()
                )));
            }
            Form::View(name) => {
                return Err(self.undecodable(format!(
                    "the type is declared as a view that keeps only {name}; to read it as {}, \
                     declare it without `view`",
                    type_name::<K>()
                )));
            }
        }
        nulls::decode(&self.body).map_err(|error| self.undecodable(error.to_string()))
    }

    fn undecodable(&self, message: String) -> DecodeError {
        DecodeError { kind: self.kind.clone(), key: self.meta.key.clone(), message: message.into() }
    }

    /// Keeps the typed form for as long as the object.
    pub(super) fn pin(&self, typed: Typed) {
        *self.memo.lock() = Memo::Pinned(typed);
    }

    /// Keeps the typed form until it is cooled; false if one is kept already.
    pub(super) fn warm(&self, typed: Typed, charge: Charge) -> bool {
        let mut memo = self.memo.lock();
        if matches!(&*memo, Memo::Hot(..) | Memo::Pinned(_)) {
            return false;
        }
        *memo = Memo::Hot(typed, charge);
        true
    }

    /// Shares a typed form that is too large to be kept.
    pub(super) fn share(&self, typed: &Typed) {
        let mut memo = self.memo.lock();
        if matches!(&*memo, Memo::Cold | Memo::Shared(_)) {
            *memo = Memo::Shared(Arc::downgrade(typed));
        }
    }

    /// Lets go of a typed form that the hot set kept. What it takes with it is given to the caller
    /// to drop where no lock is held.
    pub(super) fn cool(&self) -> Option<Typed> {
        let mut memo = self.memo.lock();
        match std::mem::replace(&mut *memo, Memo::Cold) {
            Memo::Hot(typed, _) => {
                // A weak reference would keep the memory of the object itself, which is most of a
                // typed pod; nobody can take a new strong one while the memo is locked.
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

    /// Whether the typed form was used since this was last asked.
    pub(super) fn take_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    /// OperationLog that the list of this number had the object.
    pub(super) fn mark(&self, list: u32) {
        self.listed.store(list, Ordering::Relaxed);
    }

    /// The list that had the object last.
    pub(super) fn marked(&self) -> u32 {
        self.listed.load(Ordering::Relaxed)
    }

    /// The memory it takes without its typed form.
    pub(super) fn size(&self) -> usize {
        // The two counts of the `Arc` belong to it.
        size_of::<Self>() + 2 * size_of::<usize>() + self.meta.heap() + self.body.len()
    }

    /// The bytes a typed form is made from.
    pub(super) fn body_len(&self) -> usize {
        self.body.len()
    }
}
