//! The name of one object of a known type.
//!
//! A key is what crosses from the event side to the work side of the runtime: the cache is
//! addressed by it, the queue holds it, the reconciler gets it. It is one shared string, so a clone
//! costs a reference count and a million queued keys cost a million small allocations.

use std::fmt;
use std::sync::Arc;

use kube::Resource;

/// Namespace and name of an object; no namespace for a cluster-scoped one.
///
/// Keys order as the API server orders its lists: by `namespace/name` as text.
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
    /// The key of `name` in `namespace`; an empty namespace means none.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) if !namespace.is_empty() => Self::namespaced(namespace, name),
            _ => Self::cluster(name),
        }
    }

    /// The key of a namespaced object.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        // One allocation of the exact size: `format!` would make a second one for the `Arc`.
        let parts = [namespace, "/", name];
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        parts.iter().for_each(|part| text.push_str(part));
        Self(text.into())
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self(name.into())
    }

    /// The key of `object`; one without a name has an empty one.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
    }

    /// The namespace, unless cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// The key as `namespace/name`, or just the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key with this name in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self::new(self.namespace(), name)
    }
}

/// Keys compare and hash as their text does, so maps of them can be searched by it.
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
