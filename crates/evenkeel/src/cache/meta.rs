//! The header of a cached object: what keys, indexes, owners and predicates need.
//!
//! It is parsed once, when the object comes in, and kept beside the object's bytes. What only few
//! look at (annotations) stays in the bytes and is found there by its place.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::key::Key;
use crate::uid::Uid;

/// Metadata of a cached object, readable without decoding the object.
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
    /// Whether a foreground deletion of the owner waits for this object.
    pub blocks_deletion: bool,
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

    /// Whether it says nothing: absent, or not a number, so that it cannot be compared.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All labels in one piece of text: `name NUL value NUL …`, in the order of their names.
///
/// Objects have few labels, so looking through them is as quick as searching, and ten labels cost
/// one allocation instead of twenty-one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels(Box<str>);

impl Labels {
    /// Of two labels with one name the last counts. `None` if a NUL is in them, which no server
    /// lets pass.
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
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value)
    }

    /// All labels, in the order of their names.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter()
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

    /// The header in `body`, whose `metadata` stands at `at`.
    pub(super) fn parse(body: &[u8], at: Range<usize>) -> Result<Self, String> {
        let header: Header<'_> =
            serde_json::from_slice(&body[at]).map_err(|error| format!("metadata: {error}"))?;
        let name = header.name.0;
        if name.is_empty() {
            return Err("metadata: no name".to_owned());
        }
        if name.contains('/') || header.namespace.0.contains('/') {
            return Err("metadata: a name with a slash".to_owned());
        }
        let annotations = header.annotations.map_or(0..0, |raw| {
            // The slice is part of `body`; its place is the distance of the two.
            let start = raw.get().as_ptr() as usize - body.as_ptr() as usize;
            narrow(start)..narrow(start + raw.get().len())
        });
        Ok(Self {
            key: Key::new(Some(&header.namespace.0), &name),
            uid: Uid::new(&header.uid.0),
            version: Version::parse(&header.resource_version.0).unwrap_or_default(),
            generation: header.generation.unwrap_or_default(),
            labels: Labels::pack(header.labels.unwrap_or_default().0)
                .ok_or("metadata: a label with a NUL")?,
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

    /// What it takes beside its own size.
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

/// No object is larger than a server's request limit of a few megabytes.
fn narrow(place: usize) -> u32 {
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

/// What is read of `metadata`; all else is skipped.
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

/// A string that is only copied if it has escapes; serde would copy it inside of collections.
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

            // Go writes null for what is not there.
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
