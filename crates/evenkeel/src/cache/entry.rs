//! One cached object: its header, its bytes, and its typed form once somebody has looked.

use std::any::Any;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::meta::Meta;
use crate::kind::Kind;

/// An object as the cache holds it. It never changes; a newer state is another entry.
#[derive(Debug)]
pub struct Entry {
    kind: Kind,
    meta: Meta,
    /// Compact JSON without managedFields.
    body: Box<[u8]>,
    /// The typed form, shared for as long as anyone holds it.
    typed: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
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
    #[expect(dead_code, reason = "the informer makes entries; it follows")]
    pub(crate) fn new(kind: Kind, meta: Meta, body: Box<[u8]>) -> Self {
        Self { kind, meta, body, typed: Mutex::new(None) }
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

    /// The object as JSON, without managedFields.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.body
    }

    /// The object as `K`: decoded on first touch, shared from then on while anyone holds it.
    ///
    /// # Errors
    /// When the object's bytes are not a `K`; the error names the object.
    pub fn decode<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
    ) -> Result<Arc<K>, DecodeError> {
        let held = self.typed.lock().as_ref().and_then(Weak::upgrade);
        if let Some(typed) = held.and_then(|any| any.downcast::<K>().ok()) {
            return Ok(typed);
        }
        let typed: Arc<K> =
            serde_json::from_slice(&self.body).map(Arc::new).map_err(|error| DecodeError {
                kind: self.kind.clone(),
                key: self.meta.key.clone(),
                message: error.to_string().into(),
            })?;
        let any: Arc<dyn Any + Send + Sync> = typed.clone();
        *self.typed.lock() = Some(Arc::downgrade(&any));
        Ok(typed)
    }
}
