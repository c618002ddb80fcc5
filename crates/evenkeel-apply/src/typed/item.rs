//! Keys of associative list items.
//!
//! Keys borrow from the items: comparing two lists of a thousand containers must not copy a
//! thousand names.

use std::cmp::Ordering;

use evenkeel_types::go;
use serde_json::Value;

use crate::{
    path::{PathElement, compare_keys},
    schema::{ElementRelationship, Keys, ListType},
    set::{Node, Set},
    value,
};

/// The key of an item.
#[derive(Clone, Debug)]
pub(crate) enum ItemId<'a> {
    /// One key field, the common case.
    Key(&'a str, &'a Value),
    /// Two key fields, sorted by name: ports have number and protocol.
    TwoKeys([(&'a str, &'a Value); 2]),
    /// More key fields, sorted by name.
    Keys(Vec<(&'a str, &'a Value)>),
    /// The value of a set item.
    Value(&'a Value),
}

impl<'a> ItemId<'a> {
    /// Returns the key of an item of a list that is not atomic (smd's `listItemToPathElement`).
    pub(crate) fn of(list: &'a ListType, item: &'a Value) -> Result<Self, String> {
        match &list.relationship {
            ElementRelationship::Atomic => Err("invalid indexing of non-associative list".into()),
            ElementRelationship::Map(keys) => Self::keyed(keys, item),
            ElementRelationship::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".into())
                }
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null"
                        .into())
                }
                scalar => Ok(Self::Value(scalar)),
            },
        }
    }

    fn keyed(keys: &'a Keys, item: &'a Value) -> Result<Self, String> {
        let map = match item {
            Value::Object(map) => map,
            Value::Null => {
                return Err("associative list with keys may not have a null element".into());
            }
            _ => return Err("associative list with keys may not have non-map elements".into()),
        };
        let mut present = keys.fields.iter().filter_map(|(name, default)| {
            let value = map.get(name).or(default.as_ref())?;
            Some((name.as_str(), value))
        });
        let Some((name, value)) = present.next() else {
            let names = go::quote_list(keys.names.iter().map(String::as_str));
            return Err(format!(
                "associative list with keys has an element that omits all key fields {names} \
                 (and doesn't have default values for any key fields)"
            ));
        };
        Ok(match (present.next(), present.next()) {
            (None, _) => Self::Key(name, value),
            (Some(second), None) => Self::TwoKeys([(name, value), second]),
            (Some(second), Some(third)) => {
                Self::Keys([(name, value), second, third].into_iter().chain(present).collect())
            }
        })
    }

    pub(crate) fn to_element(&self) -> PathElement {
        match self {
            Self::Key(name, value) => PathElement::Key(vec![((*name).into(), (*value).clone())]),
            Self::TwoKeys(_) | Self::Keys(_) => PathElement::Key(
                self.pairs()
                    .iter()
                    .map(|(name, value)| ((*name).into(), (*value).clone()))
                    .collect(),
            ),
            Self::Value(value) => PathElement::Value((*value).clone()),
        }
    }

    /// Returns the node of this item in a set.
    pub(crate) fn find<'n>(&self, set: &'n Set) -> Option<&'n Node> {
        set.search(|node| match (&node.element, self) {
            (PathElement::Field(_), _) => Ordering::Less,
            (PathElement::Key(_), Self::Value(_)) => Ordering::Less,
            (PathElement::Key(pairs), _) => compare_keys(
                pairs.iter().map(|(name, value)| (name.as_str(), value)),
                self.pairs().iter().copied(),
            ),
            (PathElement::Value(a), Self::Value(b)) => value::compare(a, b),
            (PathElement::Value(_), _) | (PathElement::Index(_), _) => Ordering::Greater,
        })
    }

    fn pairs(&self) -> Pairs<'_, 'a> {
        match self {
            Self::Key(name, value) => Pairs::One([(name, value)]),
            Self::TwoKeys(pairs) => Pairs::Many(pairs),
            Self::Keys(pairs) => Pairs::Many(pairs),
            Self::Value(_) => Pairs::Many(&[]),
        }
    }
}

enum Pairs<'p, 'a> {
    One([(&'a str, &'a Value); 1]),
    Many(&'p [(&'a str, &'a Value)]),
}

impl<'a> std::ops::Deref for Pairs<'_, 'a> {
    type Target = [(&'a str, &'a Value)];

    fn deref(&self) -> &Self::Target {
        match self {
            Self::One(pair) => pair,
            Self::Many(pairs) => pairs,
        }
    }
}

impl Ord for ItemId<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Value(a), Self::Value(b)) => value::compare(a, b),
            (Self::Value(_), _) => Ordering::Greater,
            (_, Self::Value(_)) => Ordering::Less,
            (a, b) => compare_keys(a.pairs().iter().copied(), b.pairs().iter().copied()),
        }
    }
}

impl PartialOrd for ItemId<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ItemId<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ItemId<'_> {}
