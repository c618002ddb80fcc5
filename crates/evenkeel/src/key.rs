//! Keys: namespace and name of an object, and the cluster it is in.
//!
//! The cache is indexed by key, the workqueue holds keys, and a reconciler receives one. A key is
//! one shared string, so that a clone only increments a reference count. The name of a cluster is
//! part of that string, so that keys of operators of one cluster cost nothing more.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// Namespace and name of an object; no namespace for a cluster-scoped one.
///
/// Keys sort as the API server sorts lists: by `namespace/name` as text. In the workqueue, the key
/// of an object in an [engaged cluster](crate::Clusters) also has the name of the cluster.
///
/// ```
/// use evenkeel::Key;
///
/// let key = Key::namespaced("shop", "web");
/// assert_eq!(key.namespace(), Some("shop"));
/// assert_eq!(key.name(), "web");
/// assert_eq!(key.to_string(), "shop/web");
/// assert_eq!(Key::cluster("node-1").namespace(), None);
///
/// let remote = key.in_cluster("east");
/// assert_eq!((remote.cluster_name(), remote.as_str()), (Some("east"), "shop/web"));
/// assert_eq!(remote.to_string(), "east:shop/web");
/// assert_eq!(remote.without_cluster(), key);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// Encloses the name of the cluster at the start of a key: `%east%shop/web`. Names of objects and
/// namespaces do not contain it.
pub(crate) const CLUSTER_MARK: char = '%';

impl Key {
    /// Creates the key of `name` in `namespace`; an empty namespace means none.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) if !namespace.is_empty() => Self::namespaced(namespace, name),
            _ => Self::cluster(name),
        }
    }

    /// Creates the key of a namespaced object.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        // Exact capacity: `format!` may reallocate.
        let parts = [namespace, "/", name];
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        parts.iter().for_each(|part| text.push_str(part));
        Self(text.into())
    }

    /// Creates the key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the key of `object`; the name is empty if the object has none.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::of_meta(object.meta())
    }

    pub(crate) fn of_meta(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
    }

    /// Returns the namespace; `None` if cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.as_str().split_once('/').map(|(namespace, _)| namespace)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        let text = self.as_str();
        text.split_once('/').map_or(text, |(_, name)| name)
    }

    /// Returns the key as `namespace/name`, or the name if cluster-scoped; without the cluster.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.parts().map_or(&self.0, |(_, local)| local)
    }

    /// Returns the key of `name` in the same namespace, and in the same cluster.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        let key = Self::new(self.namespace(), name);
        self.cluster_name().map(|cluster| key.in_cluster(cluster)).unwrap_or(key)
    }

    /// Returns the name of the engaged cluster; `None` for the manager's own cluster.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&str> {
        self.parts().map(|(cluster, _)| cluster)
    }

    /// Returns the key of the same namespace and name in an engaged cluster, for example to
    /// [enqueue](crate::ControllerHandle::enqueue) it.
    #[must_use]
    pub fn in_cluster(&self, cluster: &str) -> Self {
        Self(format!("{CLUSTER_MARK}{cluster}{CLUSTER_MARK}{}", self.as_str()).into())
    }

    /// Returns the key without the cluster, as the client and the cache of the cluster take it.
    #[must_use]
    pub fn without_cluster(&self) -> Self {
        match self.parts() {
            Some((_, local)) => Self(local.into()),
            None => self.clone(),
        }
    }

    /// Returns the name of the cluster, and namespace and name.
    #[inline]
    fn parts(&self) -> Option<(&str, &str)> {
        self.0.strip_prefix(CLUSTER_MARK)?.split_once(CLUSTER_MARK)
    }
}

/// Keys compare and hash as their text, so that maps can be searched by `&str`.
impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cluster) = self.cluster_name() {
            write!(f, "{cluster}:")?;
        }
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
