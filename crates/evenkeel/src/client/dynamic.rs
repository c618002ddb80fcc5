//! The dynamic client, for types that are known only at run time.

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

/// A client of one type that is known only at run time; see [`Client::dynamic`].
pub struct Dynamic<'a> {
    client: &'a Client,
    kind: Kind,
}

impl Client {
    /// Returns a dynamic client of `kind`.
    #[must_use]
    pub fn dynamic(&self, kind: &Kind) -> Dynamic<'_> {
        Dynamic { client: self, kind: kind.clone() }
    }
}

impl<'a> Dynamic<'a> {
    /// Returns the object from the cache, if it exists.
    ///
    /// # Errors
    /// When the type is not cached, or the object does not decode.
    pub async fn get(&self, key: &Key) -> Result<Option<Arc<DynamicObject>>, Error> {
        self.client.get_as(&self.kind, key).await
    }

    /// Returns the object's metadata and JSON from the cache without decoding it, if it exists.
    ///
    /// # Errors
    /// When the type is not cached.
    pub async fn peek(&self, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
        self.client.entry(&self.kind, key).await
    }

    /// Returns the matching entries of the cache, ordered by key, without decoding them.
    ///
    /// # Errors
    /// When the type is not cached.
    pub async fn list(&self, query: &Query<'_>) -> Result<Vec<Arc<Entry>>, Error> {
        self.client.entries(&self.kind, query).await
    }

    /// Reads the object from the API server, if it exists.
    ///
    /// # Errors
    /// When the API server rejects the request or does not respond.
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

    /// Applies `object` with server-side apply.
    pub fn apply(&self, object: &DynamicObject) -> Write<'a, DynamicObject> {
        let body = serde_json::to_value(object).map_err(|error| error.to_string());
        Write::apply(self.client, self.kind.clone(), Key::of(object), None, body)
    }

    /// Patches an object.
    pub fn patch(&self, key: &Key, patch: &Patch<impl Serialize>) -> Write<'a, DynamicObject> {
        Write::patch(self.client, self.kind.clone(), key.clone(), patch)
    }

    /// Deletes the object with this key, with an optional uid precondition.
    pub fn delete(&self, key: &Key, uid: Option<&Uid>) -> Delete<'a> {
        let delete = Delete::new(self.client, self.kind.clone(), key.clone());
        match uid {
            Some(uid) => delete.uid_precondition(uid),
            None => delete,
        }
    }

    /// Returns a subresource of an object.
    #[must_use]
    pub fn subresource(&self, key: &Key, name: &'static str) -> Subresource<'a> {
        self.client.subresource_of(self.kind.clone(), key, name)
    }
}
