//! The objects of one index value, ordered by key.
//!
//! Most index values have few objects, for which a vector needs less memory than a tree.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::super::entry::Entry;
use crate::key::Key;

/// The maximum length of the vector.
const VEC_LEN_MAX: usize = 32;

#[derive(Debug)]
pub(super) enum Bucket {
    Few(Vec<Arc<Entry>>),
    Many(BTreeMap<Key, Arc<Entry>>),
}

impl Default for Bucket {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Bucket {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(entries) => entries.len(),
            Self::Many(entries) => entries.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts or replaces an object.
    pub(super) fn put(&mut self, entry: &Arc<Entry>) {
        let key = &entry.meta().key;
        match self {
            Self::Many(entries) => {
                entries.insert(key.clone(), entry.clone());
            }
            Self::Few(entries) => match entries.binary_search_by(|other| other.meta().key.cmp(key))
            {
                Ok(at) => entries[at] = entry.clone(),
                Err(at) if entries.len() < VEC_LEN_MAX => entries.insert(at, entry.clone()),
                Err(_) => {
                    let entries = std::mem::take(entries);
                    let keyed = entries.into_iter().chain([entry.clone()]);
                    *self = Self::Many(keyed.map(|e| (e.meta().key.clone(), e)).collect());
                }
            },
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        match self {
            Self::Many(entries) => {
                entries.remove(key);
            }
            Self::Few(entries) => {
                if let Ok(at) = entries.binary_search_by(|other| other.meta().key.cmp(key)) {
                    entries.remove(at);
                }
            }
        }
    }

    /// Calls `see` for all objects, or at least all of one namespace, in order.
    pub(super) fn each<'a>(&'a self, namespace: Option<&str>, mut see: impl FnMut(&'a Arc<Entry>)) {
        match (self, namespace) {
            (Self::Few(entries), _) => entries.iter().for_each(see),
            (Self::Many(entries), None) => entries.values().for_each(see),
            (Self::Many(entries), Some(namespace)) => {
                range(entries, namespace).for_each(|(_, entry)| see(entry));
            }
        }
    }
}

/// Iterates over one namespace of a tree.
pub(super) fn range<'a>(
    entries: &'a BTreeMap<Key, Arc<Entry>>,
    namespace: &str,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Entry>)> {
    // `0` follows the slash in ASCII.
    let (from, to) = (format!("{namespace}/"), format!("{namespace}0"));
    entries.range::<str, _>((Bound::Included(&*from), Bound::Excluded(&*to)))
}
