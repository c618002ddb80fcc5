//! The key of an object in a table, and the order of lists.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Namespace and name of one object.
///
/// Keys order as the bytes of `namespace/name`, which is how Kubernetes orders lists: all of
/// `kube-system` comes *before* all of `kube`, because `-` sorts before `/`. Neither part may
/// contain a slash; no object has a key that does.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `namespace/name`. First field, so that the derived order is the order of this text.
    text: Arc<str>,
    /// The offset of the slash.
    slash: u32,
}

impl Key {
    /// Creates the key of `name` in `namespace`, which is empty for cluster-scoped objects.
    pub fn new(namespace: &str, name: &str) -> Self {
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        Self { slash: namespace.len() as u32, text: text.into() }
    }

    /// Returns the namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.text[..self.slash as usize]
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        &self.text[self.slash as usize + 1..]
    }

    /// Returns `namespace/name`, or `/name` for a cluster-scoped object.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

// Sound because the text alone determines order and equality of keys without slashes in their
// parts.
impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.slash == 0 { self.name() } else { &self.text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_returns_its_parts() {
        for (namespace, name) in [("default", "web"), ("", "node-1"), ("a", "")] {
            let key = Key::new(namespace, name);
            assert_eq!((key.namespace(), key.name()), (namespace, name));
        }
        assert_eq!(Key::new("", "node-1").to_string(), "node-1");
        assert_eq!(Key::new("default", "web").to_string(), "default/web");
    }

    #[test]
    fn keys_order_as_the_bytes_of_their_path() {
        let mut keys =
            [("kube", "a"), ("b", "z"), ("kube-system", "b"), ("b", "a"), ("kube0", "c")]
                .map(|(namespace, name)| Key::new(namespace, name));
        keys.sort();
        assert_eq!(
            keys.map(|key| key.to_string()),
            ["b/a", "b/z", "kube-system/b", "kube/a", "kube0/c"]
        );
    }
}
