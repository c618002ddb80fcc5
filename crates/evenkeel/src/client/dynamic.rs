//! The client for types that are known at run time only.

use std::sync::Arc;

use kube::api::Patch;
use kube::core::DynamicObject;
use serde::Serialize;

use super::write::{Verb, Write, encode, named};
use super::{Client, Delete, Error, Live, Subresource, live};
use crate::cache::{Entry, Query};
use crate::key::Key;
use crate::kind::Kind;
use crate::uid::Uid;

/// Reads and writes of one type found at run time; see [`Client::dynamic`].
pub struct Dynamic<'a> {
    client: &'a Client,
    kind: Kind,
}

impl Client {
    /// Reads and writes objects of `kind`, whose Rust type is not known.
    #[must_use]
    pub fn dynamic(&self, kind: &Kind) -> Dynamic<'_> {
        Dynamic { client: self, kind: kind.clone() }
    }
}

impl<'a> Dynamic<'a> {
    /// The object, if it exists, from the cache.
    ///
    /// # Errors
    /// When the type is not cached, or the object's bytes are not an object.
    pub async fn get(&self, key: &Key) -> Result<Option<Arc<DynamicObject>>, Error> {
        match self.client.entry(&self.kind, key).await? {
            Some(entry) => Ok(Some(self.client.shared.cache.typed::<DynamicObject>(&entry)?)),
            None => Ok(None),
        }
    }

    /// The object's metadata and bytes, if it exists, without decoding it.
    ///
    /// # Errors
    /// When the type is not cached.
    pub async fn peek(&self, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
        self.client.entry(&self.kind, key).await
    }

    /// What the cache has that matches, ordered by key, without decoding it.
    ///
    /// # Errors
    /// When the type is not cached.
    pub async fn list(&self, query: &Query<'_>) -> Result<Vec<Arc<Entry>>, Error> {
        self.client.entries(&self.kind, query).await
    }

    /// The object as it is now, if it exists; asks the API server.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn live(&self, key: &Key) -> Result<Option<DynamicObject>, Error> {
        match Live::new(self.client).raw(&self.kind, key).await? {
            Some(bytes) => Ok(Some(live::decode(&self.kind, key, &bytes)?)),
            None => Ok(None),
        }
    }

    /// Creates the object.
    pub fn create(&self, object: &DynamicObject) -> Write<'a, DynamicObject> {
        let (key, body) = named(self.client, object);
        Write::new(self.client, Verb::Create, self.kind.clone(), key, body)
    }

    /// Replaces the object.
    pub fn update(&self, object: &DynamicObject) -> Write<'a, DynamicObject> {
        let key = Key::of(object);
        Write::new(self.client, Verb::Update, self.kind.clone(), key, encode(object))
    }

    /// Declares the fields that are set in `object`.
    pub fn apply(&self, object: &DynamicObject) -> Write<'a, DynamicObject> {
        let body = serde_json::to_value(object).map_err(|error| error.to_string());
        Write::apply(self.client, self.kind.clone(), Key::of(object), None, body)
    }

    /// Changes parts of an object.
    pub fn patch(&self, key: &Key, patch: &Patch<impl Serialize>) -> Write<'a, DynamicObject> {
        Write::patch(self.client, self.kind.clone(), key.clone(), patch)
    }

    /// Deletes the object of this name, if it is the one with this uid.
    pub fn delete(&self, key: &Key, uid: Option<&Uid>) -> Delete<'a> {
        let delete = Delete::new(self.client, self.kind.clone(), key.clone());
        match uid {
            Some(uid) => delete.uid_precondition(uid),
            None => delete,
        }
    }

    /// A subresource of an object.
    #[must_use]
    pub fn subresource(&self, key: &Key, name: &'static str) -> Subresource<'a> {
        self.client.subresource_of(self.kind.clone(), key, name)
    }
}
