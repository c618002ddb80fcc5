//! The dynamic client, for types that are known only at run time.

use std::sync::Arc;

use kube::api::Patch;
use kube::core::DynamicObject;
use serde::Serialize;

use super::write::{Verb, Write, encode, named};
use super::{Client, Delete, DeleteCollection, Error, List, LiveList, Subresource, Wait};
use crate::cache::Entry;
use crate::key::Key;
use crate::kind::Kind;
use crate::select::Select;
use crate::uid::Uid;

/// A client of one type that is known only at run time; see [`Client::dynamic`].
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # async fn example(client: &Client, kind: &Kind, key: &Key) -> Result<()> {
/// if let Some(object) = client.dynamic(kind).get(key).await? {
///     println!("{}", object.data["spec"]);
///     client.dynamic(kind).delete(&object).await?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct Dynamic<'a> {
    client: &'a Client,
    kind: Kind,
}

impl Client {
    /// Returns a dynamic client of `kind`.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// use evenkeel::Kind;
    /// use evenkeel::kube::core::{ApiResource, GroupVersionKind};
    ///
    /// # async fn count(client: &evenkeel::client::Client) -> Result<()> {
    /// let widget = GroupVersionKind::gvk("example.com", "v1", "Widget");
    /// let kind = Kind::dynamic(&ApiResource::from_gvk(&widget), true);
    /// let widgets = client.dynamic(&kind).live().list().in_namespace("shop").await?;
    /// for widget in &widgets {
    ///     client.dynamic(&kind).delete(widget).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
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
        self.client.get_as(self.kind.clone(), key).await
    }

    /// Returns the object's metadata and JSON from the cache without decoding it, if it exists.
    ///
    /// # Errors
    /// When the type is not cached.
    pub async fn peek(&self, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
        self.client.entry(&self.kind, key).await
    }

    /// Lists objects from the cache; see [`Client::list`].
    pub fn list(&self) -> Select<DynamicObject, List<'a>> {
        Select::new(self.kind.clone(), List::new(self.client))
    }

    /// Waits until `condition` is true for the object in the cache; see [`Client::wait_for`].
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # async fn example(client: &evenkeel::client::Client, kind: &evenkeel::Kind, key: &Key) -> Result<()> {
    /// client.dynamic(kind).wait_for(key, |object| object.is_some()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for(
        &self,
        key: &Key,
        condition: impl FnMut(Option<&DynamicObject>) -> bool + Send + 'a,
    ) -> Wait<'a, Option<Arc<DynamicObject>>> {
        self.client.wait_for_object(self.kind.clone(), key, condition)
    }

    /// Returns a reader that bypasses the cache.
    #[must_use]
    pub fn live(&self) -> DynamicLive<'a> {
        DynamicLive { client: self.client, kind: self.kind.clone() }
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
        Write::patch(self.client, self.kind.clone(), key.clone(), None, patch)
    }

    /// Deletes the object, with its uid as precondition. A missing object is not an error.
    pub fn delete(&self, object: &DynamicObject) -> Delete<'a> {
        let delete = self.delete_by_key(&Key::of(object));
        match &object.metadata.uid {
            Some(uid) => delete.uid_precondition(&Uid::new(uid)),
            None => delete,
        }
    }

    /// Deletes the object with this key, without a uid precondition.
    pub fn delete_by_key(&self, key: &Key) -> Delete<'a> {
        Delete::new(self.client, self.kind.clone(), key.clone())
    }

    /// Deletes all objects that match the returned selection; see [`Client::delete_collection`].
    pub fn delete_collection(&self) -> Select<DynamicObject, DeleteCollection<'a>> {
        Select::new(self.kind.clone(), DeleteCollection::new(self.client))
    }

    /// Returns a subresource of an object.
    #[must_use]
    pub fn subresource(&self, key: &Key, name: &'static str) -> Subresource<'a> {
        self.client.subresource_of(self.kind.clone(), key, name)
    }
}

/// A reader of one type that bypasses the cache; see [`Dynamic::live`].
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # async fn example(client: &Client, kind: &Kind) -> Result<()> {
/// let count = client.dynamic(kind).live().list().label("app", "web").await?.len();
/// # let _ = count;
/// # Ok(())
/// # }
/// ```
pub struct DynamicLive<'a> {
    client: &'a Client,
    kind: Kind,
}

impl<'a> DynamicLive<'a> {
    /// Returns the object, if it exists.
    ///
    /// # Errors
    /// When the API server rejects the request or does not respond.
    pub async fn get(&self, key: &Key) -> Result<Option<DynamicObject>, Error> {
        self.client.live().get_as(&self.kind, key).await
    }

    /// Lists objects; see [`Live::list`](super::Live::list).
    pub fn list(&self) -> Select<DynamicObject, LiveList<'a>> {
        Select::new(self.kind.clone(), LiveList::new(self.client))
    }
}
