//! Keys: namespace and name of an object.
//!
//! The cache is indexed by key, the workqueue holds keys, and a reconciler receives one. A key is
//! one shared string, so that a clone only increments a reference count.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// Namespace and name of an object; no namespace for a cluster-scoped one.
///
/// Keys sort as the API server sorts lists: by `namespace/name` as text.
///
/// ```
/// use evenkeel::Key;
///
/// let key = Key::namespaced("shop", "web");
/// assert_eq!(key.namespace(), Some("shop"));
/// assert_eq!(key.name(), "web");
/// assert_eq!(key.to_string(), "shop/web");
/// assert_eq!(Key::cluster("node-1").namespace(), None);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

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
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// Returns the key as `namespace/name`, or the name if cluster-scoped.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key of `name` in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self::new(self.namespace(), name)
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
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}
