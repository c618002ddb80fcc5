//! The header of a cached object: what keys, indexes, owners and predicates need.
//!
//! It is parsed once, when the object comes in, and kept beside the object's bytes. What only few
//! look at (annotations) stays in the bytes and is found there by its place.

use std::ops::Range;

use crate::key::Key;
use crate::uid::Uid;

/// Metadata of a cached object, readable without decoding the object.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    pub(crate) key: Key,
    pub(crate) uid: Uid,
    pub(crate) version: Version,
    pub(crate) generation: i64,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    pub(crate) owners: Box<[Owner]>,
    pub(crate) finalizers: Box<[Box<str>]>,
    pub(crate) deleting: bool,
    /// Where the `annotations` object stands in the body; empty when there is none.
    pub(crate) annotations: Range<u32>,
}

/// One entry of an object's owner references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The owner's API group.
    pub group: Box<str>,
    /// The owner's kind.
    pub kind: Box<str>,
    /// The owner's name.
    pub name: Box<str>,
    /// The owner's uid.
    pub uid: Uid,
    /// Whether the owner is the managing controller.
    pub controller: bool,
}

/// A resourceVersion. Versions of one type of one server are comparable; zero is "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(crate) u64);

impl Version {
    /// The version in `text`; none when it is not a decimal number, as upstream compares them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse().ok().map(Self)).flatten()
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Meta {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The uid.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// The resourceVersion.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The generation: how often the desired state changed; zero where the type has none.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(label, _)| (**label).cmp(name)).ok()?;
        Some(&self.labels[at].1)
    }

    /// All labels, in the order of their names.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.labels.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The owner references.
    #[must_use]
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// The managing controller, if there is one.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// The finalizers.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.finalizers.iter().map(|name| &**name)
    }

    /// Whether deletion has been requested.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deleting
    }
}
