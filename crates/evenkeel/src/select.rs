//! The selection of objects: one builder for cached and live lists, lookups and delete-collection.

use std::fmt;
use std::marker::PhantomData;

use kube::core::{Expression, Selector};

use crate::kind::Kind;
use crate::uid::Uid;

/// The objects of type `K` to which the operation `Op` applies; all conditions must match.
///
/// | operation | of the client | of the dynamic client |
/// |---|---|---|
/// | [`List`](crate::client::List): from the cache | `client.list::<Pod>()` | `client.dynamic(&kind).list()` |
/// | [`LiveList`](crate::client::LiveList): from the API server | `client.live().list::<Pod>()` | `client.dynamic(&kind).live().list()` |
/// | [`DeleteCollection`](crate::client::DeleteCollection) | `client.delete_collection::<Pod>()` | `client.dynamic(&kind).delete_collection()` |
///
/// [`Lookup`](crate::cache::Lookup) is the operation of [`Cache::list`](crate::cache::Cache::list),
/// and [`MapLookup`](crate::MapLookup) that of [map functions](crate::MapContext::select); both are
/// synchronous.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::Pod;
/// # async fn select(client: &evenkeel::client::Client) -> Result<()> {
/// let cached = client.list::<Pod>().in_namespace("shop").label("app", "web").await?;
/// let pending = client.live().list::<Pod>().field("status.phase", "Pending").await?;
/// client.delete_collection::<Pod>().in_namespace("shop").label("app", "old").await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a selection does nothing until it is awaited or read"]
#[derive(Clone)]
pub struct Select<K, Op> {
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Selector,
    /// A name and a value.
    pub(crate) index: Option<(String, String)>,
    pub(crate) owner: Option<Uid>,
    /// A field selector.
    pub(crate) fields: String,
    pub(crate) operation: Op,
    marker: PhantomData<fn() -> K>,
}

/// An operation that reads from the cache.
pub trait CacheOperation {}

/// An operation of the API server.
pub trait ServerOperation {}

impl<K, Op> Select<K, Op> {
    /// Selects all objects of a kind.
    pub(crate) fn new(kind: Kind, operation: Op) -> Self {
        Self {
            kind,
            namespace: None,
            labels: Selector::default(),
            index: None,
            owner: None,
            fields: String::new(),
            operation,
            marker: PhantomData,
        }
    }

    /// Selects a namespace. It is ignored for cluster-scoped types.
    ///
    /// The cache lists all namespaces if it is empty. A request to the API server is not sent then,
    /// so that an unset variable does not select the objects of other namespaces.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = self.kind.namespaced().then(|| namespace.to_owned());
        self
    }

    /// Selects objects with this label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.extend(Expression::Equal(name.to_owned(), value.to_owned()));
        self
    }

    /// Selects objects that match the label selector.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// use evenkeel::kube::core::{Expression, Selector};
    /// # use evenkeel::k8s_openapi::api::apps::v1::Deployment;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn select(client: &evenkeel::client::Client, deployment: &Deployment) -> Result<()> {
    /// let canary = Expression::In("track".into(), ["canary".into()].into());
    /// let pods = client.list::<Pod>().matching(canary).await?;
    ///
    /// let Some(spec) = &deployment.spec else { return Ok(()) };
    /// let pods = client.list::<Pod>().matching(Selector::try_from(spec.selector.clone())?).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn matching(mut self, selector: impl Into<Selector>) -> Self {
        self.labels.extend(selector.into());
        self
    }
}

impl<K, Op: CacheOperation> Select<K, Op> {
    /// Selects objects with `value` in the index `name`; see [`Cache::index`].
    ///
    /// [`Cache::index`]: crate::cache::Cache::index
    pub fn index(mut self, name: &str, value: &str) -> Self {
        self.index = Some((name.to_owned(), value.to_owned()));
        self
    }

    /// Selects objects with an owner reference to this uid.
    pub fn owned_by(mut self, uid: &Uid) -> Self {
        self.owner = Some(uid.clone());
        self
    }
}

impl<K, Op: ServerOperation> Select<K, Op> {
    /// Selects objects whose field has this value. The API server supports `metadata.name`,
    /// `metadata.namespace` and few other fields of each type.
    pub fn field(mut self, path: &str, value: &str) -> Self {
        self.add_field(path, "=", value);
        self
    }

    /// Selects objects whose field does not have this value; otherwise as [`field`](Self::field).
    pub fn field_not(mut self, path: &str, value: &str) -> Self {
        self.add_field(path, "!=", value);
        self
    }

    fn add_field(&mut self, path: &str, operator: &str, value: &str) {
        if !self.fields.is_empty() {
            self.fields.push(',');
        }
        self.fields.push_str(path);
        self.fields.push_str(operator);
        for c in value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                self.fields.push('\\');
            }
            self.fields.push(c);
        }
    }
}

impl<K, Op> fmt::Debug for Select<K, Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select")
            .field("kind", &self.kind)
            .field("namespace", &self.namespace)
            .field("labels", &self.labels)
            .field("index", &self.index)
            .field("owner", &self.owner)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;

    struct Server;

    impl ServerOperation for Server {}

    #[test]
    fn field_values_are_escaped_as_the_server_reads_them() {
        let pods: Select<Pod, _> = Select::new(Kind::of::<Pod>(), Server);
        let pods = pods.field("metadata.name", r"a,b=c\d").field_not("spec.nodeName", "");
        assert_eq!(pods.fields, r"metadata.name=a\,b\=c\\d,spec.nodeName!=");
    }

    #[test]
    fn a_namespace_is_ignored_for_cluster_scoped_types() {
        let pods: Select<Pod, _> = Select::new(Kind::of::<Pod>(), Server);
        assert_eq!(pods.in_namespace("shop").namespace.as_deref(), Some("shop"));
        let nodes: Select<Node, _> = Select::new(Kind::of::<Node>(), Server);
        assert_eq!(nodes.in_namespace("shop").namespace, None);
    }
}
