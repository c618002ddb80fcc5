//! The parsed metadata of cached objects.
//!
//! It is parsed once, on arrival, and stored beside the JSON. Annotations are rarely read; only
//! their position in the JSON is stored.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::key::Key;
use crate::uid::Uid;
use crate::version::Version;

/// The metadata of a cached object, available without decoding the object.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::Pod;
/// # async fn example(client: &evenkeel::client::Client) -> Result<()> {
/// for entry in client.list::<Pod>().entries().await? {
///     let meta = entry.meta();
///     println!("{} at {}: {:?}", meta.key(), meta.version(), meta.controller());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    pub(crate) key: Key,
    pub(crate) uid: Uid,
    pub(crate) version: Version,
    pub(crate) generation: i64,
    pub(crate) labels: Labels,
    pub(crate) owners: Box<[Owner]>,
    pub(crate) finalizers: Box<[Box<str>]>,
    pub(crate) deleting: bool,
    /// The position of `annotations` in the body; empty if there are none.
    pub(crate) annotations: Range<u32>,
}

/// An owner reference.
///
/// ```
/// use evenkeel::cache::Meta;
///
/// fn replica_set(pod: &Meta) -> Option<&str> {
///     let owner = pod.controller().filter(|owner| &*owner.kind == "ReplicaSet")?;
///     Some(&owner.name)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// blockOwnerDeletion.
    pub blocks_deletion: bool,
}

/// All labels in one string: `name NUL value NUL …`, sorted by name.
///
/// Objects have few labels, so a linear search is fast, and ten labels need one allocation instead
/// of twenty-one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels(Box<str>);

impl Labels {
    /// The last of two labels with the same name is kept. `None` if a label contains NUL, which no
    /// server accepts.
    fn pack(mut pairs: Vec<(Text<'_>, Text<'_>)>) -> Option<Self> {
        pairs.sort_by(|(one, _), (other, _)| one.0.cmp(&other.0));
        let length = pairs.iter().map(|(name, value)| name.0.len() + value.0.len() + 2).sum();
        let mut text = String::with_capacity(length);
        for (at, (name, value)) in pairs.iter().enumerate() {
            if name.0.contains('\0') || value.0.contains('\0') {
                return None;
            }
            if pairs.get(at + 1).is_some_and(|(next, _)| next.0 == name.0) {
                continue;
            }
            text.push_str(&name.0);
            text.push('\0');
            text.push_str(&value.0);
            text.push('\0');
        }
        Some(Self(text.into_boxed_str()))
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }
}

impl Meta {
    /// Returns the namespace and name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the uid.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Returns the resourceVersion.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the generation; zero if the type has none.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value)
    }

    /// Iterates over the labels, sorted by name.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter()
    }

    /// Returns the owner references.
    #[must_use]
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// Returns the controller reference, if any.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// Iterates over the finalizers.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.finalizers.iter().map(|name| &**name)
    }

    /// Returns whether deletionTimestamp is set.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deleting
    }

    /// Parses the metadata at position `at` of `body`.
    pub(super) fn parse(body: &[u8], at: Range<usize>) -> Result<Self, String> {
        let header: Header<'_> =
            serde_json::from_slice(&body[at]).map_err(|error| format!("metadata: {error}"))?;
        let name = header.name.0;
        if name.is_empty() {
            return Err("metadata: no name".to_owned());
        }
        if name.contains('/') || header.namespace.0.contains('/') {
            return Err("metadata: name contains a slash".to_owned());
        }
        let annotations = header.annotations.map_or(0..0, |raw| {
            // The slice is part of `body`; the pointer difference is its position.
            let start = raw.get().as_ptr() as usize - body.as_ptr() as usize;
            saturate(start)..saturate(start + raw.get().len())
        });
        Ok(Self {
            key: Key::new(Some(&header.namespace.0), &name),
            uid: Uid::new(&header.uid.0),
            version: Version::parse(&header.resource_version.0).unwrap_or_default(),
            generation: header.generation.unwrap_or_default(),
            labels: Labels::pack(header.labels.unwrap_or_default().0)
                .ok_or("metadata: label contains NUL")?,
            owners: header
                .owner_references
                .unwrap_or_default()
                .into_iter()
                .flatten()
                .map(owner)
                .collect(),
            finalizers: header
                .finalizers
                .unwrap_or_default()
                .into_iter()
                .map(|name| name.0.into())
                .collect(),
            deleting: header.deletion_timestamp.is_some(),
            annotations,
        })
    }

    /// Returns the heap size.
    pub(super) fn heap(&self) -> usize {
        let owners = self.owners.iter().map(|owner| {
            size_of::<Owner>() + owner.group.len() + owner.kind.len() + owner.name.len()
        });
        let finalizers = self.finalizers.iter().map(|name| size_of::<Box<str>>() + name.len());
        self.key.as_str().len()
            + self.labels.0.len()
            + owners.sum::<usize>()
            + finalizers.sum::<usize>()
    }
}

/// Objects are limited to a few megabytes.
fn saturate(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

fn owner(reference: OwnerHeader<'_>) -> Owner {
    let group = reference.api_version.0.split_once('/').map_or("", |(group, _)| group);
    Owner {
        group: group.into(),
        kind: reference.kind.0.into(),
        name: reference.name.0.into(),
        uid: Uid::new(&reference.uid.0),
        controller: reference.controller.unwrap_or_default(),
        blocks_deletion: reference.block_owner_deletion.unwrap_or_default(),
    }
}

/// The parsed fields of `metadata`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    namespace: Text<'a>,
    #[serde(borrow, default)]
    uid: Text<'a>,
    #[serde(borrow, default)]
    resource_version: Text<'a>,
    #[serde(default)]
    generation: Option<i64>,
    #[serde(borrow, default)]
    labels: Option<Pairs<'a>>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    owner_references: Option<Vec<Option<OwnerHeader<'a>>>>,
    #[serde(borrow, default)]
    finalizers: Option<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerHeader<'a> {
    #[serde(borrow, default)]
    api_version: Text<'a>,
    #[serde(borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    uid: Text<'a>,
    #[serde(default)]
    controller: Option<bool>,
    #[serde(default)]
    block_owner_deletion: Option<bool>,
}

/// A string that is copied only if it has escapes; serde always copies inside of collections.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;

        impl<'de> Visitor<'de> for Visit {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            // Go encodes missing values as null.
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
        }

        deserializer.deserialize_any(Visit)
    }
}

#[derive(Default)]
struct Pairs<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;

        impl<'de> Visitor<'de> for Visit {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Visit)
    }
}
