//! Indexes for lists, so that the cost of a list depends on its result.
//!
//! A tree of all keys serves order and namespaces. Labels and owners are indexed from the first
//! query that benefits from it, per label name; user indexes from their definition.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kube::core::Expression;

use super::super::entry::Entry;
use super::super::query::Conditions;
use super::bucket::{Bucket, range};
use crate::key::Key;
use crate::uid::Uid;

/// A list that scans at most this many objects does not build an index.
const SCAN_MAX: usize = 64;

/// The maximum number of label indexes: selectors may come from user input.
const LABEL_INDEXES_MAX: usize = 64;

type Map<K, V> = HashMap<K, V, FixedState>;
type Values = Box<[Box<str>]>;

/// A user index: its name and its function.
#[derive(Clone)]
pub(in super::super) struct Definition {
    pub(in super::super) name: Arc<str>,
    #[expect(clippy::type_complexity, reason = "used once")]
    pub(in super::super) function:
        Arc<dyn Fn(&Arc<Entry>) -> Result<Vec<String>, String> + Send + Sync>,
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Definition").field(&self.name).finish()
    }
}

impl Definition {
    /// Returns the sorted values of an object; none if the function fails, which is logged.
    pub(super) fn values(&self, entry: &Arc<Entry>) -> Values {
        let values = catch_unwind(AssertUnwindSafe(|| (self.function)(entry)))
            .unwrap_or_else(|_| Err("index function panicked".to_owned()));
        let mut values: Vec<Box<str>> = match values {
            Ok(values) => values.into_iter().map(String::into_boxed_str).collect(),
            Err(error) => {
                let (kind, key) = (entry.kind(), entry.meta().key());
                tracing::error!(%kind, %key, index = &*self.name, error, "failed to index object");
                Vec::new()
            }
        };
        values.sort_unstable();
        values.dedup();
        values.into()
    }
}

/// The index does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct UnknownIndex;

/// The user indexes, shared so that their functions can run without a lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions(Arc<[Definition]>);

impl Definitions {
    pub(super) fn find(&self, name: &str) -> Option<Definition> {
        self.0.iter().find(|definition| &*definition.name == name).cloned()
    }

    /// Returns the values of an object in each index.
    pub(super) fn values(&self, entry: &Arc<Entry>) -> Vec<Values> {
        self.0.iter().map(|definition| definition.values(entry)).collect()
    }
}

#[derive(Debug)]
pub(super) struct Index {
    ordered: BTreeMap<Key, Arc<Entry>>,
    /// The number of objects per namespace.
    namespaces: Map<String, usize>,
    labels: BTreeMap<Box<str>, ByLabel>,
    owners: Option<Map<Uid, Bucket>>,
    definitions: Definitions,
    /// In the order of `definitions`.
    users: Vec<ByUser>,
    hasher: FixedState,
}

/// The objects with one label, by its value.
#[derive(Debug)]
struct ByLabel {
    values: Map<String, Bucket>,
    objects: usize,
}

#[derive(Debug)]
struct ByUser {
    values: Map<String, Bucket>,
    /// The values of each object, to remove it even if the function returns other values now.
    objects: Map<Key, Values>,
}

/// The access path of a query.
#[derive(Clone, Copy)]
enum AccessPath<'a> {
    All,
    Bucket(Option<&'a Bucket>),
    /// Several buckets, whose objects must be sorted.
    Buckets(&'a Expression),
}

impl Index {
    pub(super) fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self {
            ordered: BTreeMap::new(),
            namespaces: Map::with_hasher(hasher.clone()),
            labels: BTreeMap::new(),
            owners: None,
            definitions: Definitions::default(),
            users: Vec::new(),
            hasher,
        }
    }

    pub(super) fn definitions(&self) -> Definitions {
        self.definitions.clone()
    }

    pub(super) fn put(&mut self, old: Option<&Arc<Entry>>, new: &Arc<Entry>, values: Vec<Values>) {
        let key = &new.meta().key;
        self.ordered.insert(key.clone(), new.clone());
        match old {
            None => *self.namespaces.entry_ref(key.namespace().unwrap_or("")).or_insert(0) += 1,
            Some(old) => self.unindex(old, Some(new)),
        }
        for (name, index) in &mut self.labels {
            if let Some(value) = new.meta().label(name) {
                index.put(value, new);
            }
        }
        if let Some(owners) = &mut self.owners {
            for owner in new.meta().owners() {
                owners.entry_ref(&owner.uid).or_default().put(new);
            }
        }
        for (index, values) in self.users.iter_mut().zip(values) {
            index.put(new, values);
        }
    }

    pub(super) fn remove(&mut self, old: &Arc<Entry>) {
        let key = &old.meta().key;
        self.ordered.remove(key);
        let namespace = key.namespace().unwrap_or("");
        if let Some(count) = self.namespaces.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                self.namespaces.remove(namespace);
            }
        }
        self.unindex(old, None);
        for index in &mut self.users {
            index.remove(key);
        }
    }

    /// Removes an object from the labels and owners that the new state does not have.
    fn unindex(&mut self, old: &Entry, new: Option<&Entry>) {
        let key = &old.meta().key;
        for (name, index) in &mut self.labels {
            let now = new.and_then(|new| new.meta().label(name));
            if let Some(value) = old.meta().label(name)
                && now != Some(value)
            {
                index.remove(value, key);
            }
        }
        let Some(owners) = &mut self.owners else { return };
        for owner in old.meta().owners() {
            let kept = |new: &Entry| new.meta().owners().iter().any(|now| now.uid == owner.uid);
            if !new.is_some_and(kept) {
                take(owners, &owner.uid, key);
            }
        }
    }

    /// Removes all objects and keeps the index definitions. The caller drops the returned content.
    pub(super) fn clear(&mut self) -> Self {
        let mut empty = Self::new(0);
        empty.hasher = self.hasher.clone();
        empty.namespaces = Map::with_hasher(self.hasher.clone());
        empty.definitions = self.definitions.clone();
        empty.users = self.users.iter().map(|_| ByUser::new(&self.hasher)).collect();
        std::mem::replace(self, empty)
    }

    pub(super) fn define(
        &mut self,
        definition: Definition,
        entries: &[Arc<Entry>],
        values: Vec<Values>,
    ) {
        let mut index = ByUser::new(&self.hasher);
        for (entry, values) in entries.iter().zip(values) {
            index.put(entry, values);
        }
        let all = self.definitions.0.iter().cloned().chain([definition]);
        self.definitions = Definitions(all.collect());
        self.users.push(index);
    }

    pub(super) fn all(&self, namespace: Option<&str>) -> Vec<Arc<Entry>> {
        match namespace {
            None => self.ordered.values().cloned().collect(),
            Some(namespace) => {
                let count = self.namespaces.get(namespace).copied().unwrap_or_default();
                let mut found = Vec::with_capacity(count);
                found.extend(range(&self.ordered, namespace).map(|(_, entry)| entry.clone()));
                found
            }
        }
    }

    /// Returns whether the query needs no further index.
    pub(super) fn has_indexes_for(&self, query: &Conditions<'_>) -> bool {
        if query.owner.is_some() && self.owners.is_none() {
            return false;
        }
        let missing =
            query.labels.iter().filter_map(indexable).any(|name| !self.labels.contains_key(name));
        !missing || self.labels.len() >= LABEL_INDEXES_MAX || self.cost(query) <= SCAN_MAX
    }

    /// Builds the indexes that the query can use.
    pub(super) fn build_indexes_for(&mut self, query: &Conditions<'_>) {
        if query.owner.is_some() && self.owners.is_none() {
            let mut owners: Map<Uid, Bucket> = Map::with_hasher(self.hasher.clone());
            for entry in self.ordered.values() {
                for owner in entry.meta().owners() {
                    owners.entry_ref(&owner.uid).or_default().put(entry);
                }
            }
            self.owners = Some(owners);
        }
        if self.cost(query) <= SCAN_MAX {
            return;
        }
        for name in query.labels.iter().filter_map(indexable) {
            if self.labels.contains_key(name) || self.labels.len() >= LABEL_INDEXES_MAX {
                continue;
            }
            let mut index = ByLabel { values: Map::with_hasher(self.hasher.clone()), objects: 0 };
            for entry in self.ordered.values() {
                if let Some(value) = entry.meta().label(name) {
                    index.put(value, entry);
                }
            }
            self.labels.insert(name.into(), index);
        }
    }

    /// Returns the number of objects to scan.
    fn cost(&self, query: &Conditions<'_>) -> usize {
        self.access_path(query).map_or(0, |(cost, _)| cost)
    }

    fn access_path<'a>(
        &'a self,
        query: &'a Conditions<'_>,
    ) -> Result<(usize, AccessPath<'a>), UnknownIndex> {
        let mut best = match query.namespace {
            None => (self.ordered.len(), AccessPath::All),
            Some(name) => (self.namespaces.get(name).copied().unwrap_or_default(), AccessPath::All),
        };
        let mut offer = |cost, way| {
            if cost < best.0 {
                best = (cost, way);
            }
        };
        if let Some((name, value)) = query.index {
            let bucket = self.user(name)?.values.get(value);
            offer(bucket.map_or(0, Bucket::len), AccessPath::Bucket(bucket));
        }
        if let (Some(uid), Some(owners)) = (query.owner, &self.owners) {
            let bucket = owners.get(uid);
            offer(bucket.map_or(0, Bucket::len), AccessPath::Bucket(bucket));
        }
        for expression in &query.labels {
            let index = indexable(expression).and_then(|name| self.labels.get(name));
            let Some(index) = index else { continue };
            match expression {
                Expression::Equal(_, value) => {
                    let bucket = index.values.get(&**value);
                    offer(bucket.map_or(0, Bucket::len), AccessPath::Bucket(bucket));
                }
                Expression::In(_, values) => {
                    let sizes = values.iter().filter_map(|value| index.values.get(&**value));
                    offer(sizes.map(Bucket::len).sum(), AccessPath::Buckets(expression));
                }
                _ => offer(index.objects, AccessPath::Buckets(expression)),
            }
        }
        Ok(best)
    }

    fn user(&self, name: &str) -> Result<&ByUser, UnknownIndex> {
        let at = self.definitions.0.iter().position(|definition| &*definition.name == name);
        at.map(|at| &self.users[at]).ok_or(UnknownIndex)
    }

    pub(super) fn list(&self, query: &Conditions<'_>) -> Result<Vec<Arc<Entry>>, UnknownIndex> {
        let (cost, way) = self.access_path(query)?;
        let user = query.index.map(|(name, value)| Ok((self.user(name)?, value))).transpose()?;
        let plain = query.labels.is_empty() && query.owner.is_none() && user.is_none();
        if plain {
            return Ok(self.all(query.namespace));
        }
        let mut found = Vec::with_capacity(cost.min(1024));
        let mut see = |entry: &Arc<Entry>| {
            let meta = entry.meta();
            if query.accept(meta) && user.is_none_or(|(index, value)| index.has(&meta.key, value)) {
                found.push(entry.clone());
            }
        };
        match way {
            AccessPath::All => match query.namespace {
                None => self.ordered.values().for_each(see),
                Some(name) => range(&self.ordered, name).for_each(|(_, entry)| see(entry)),
            },
            AccessPath::Bucket(bucket) => {
                if let Some(bucket) = bucket {
                    bucket.each(query.namespace, see);
                }
            }
            AccessPath::Buckets(expression) => {
                let index = indexable(expression).and_then(|name| self.labels.get(name));
                let Some(index) = index else { return Ok(found) };
                if let Expression::In(_, values) = expression {
                    for bucket in values.iter().filter_map(|value| index.values.get(&**value)) {
                        bucket.each(query.namespace, &mut see);
                    }
                } else {
                    index.values.values().for_each(|bucket| bucket.each(query.namespace, &mut see));
                }
                // An object has a label once, so there are no duplicates.
                found.sort_unstable_by(|one, other| one.meta().key.cmp(&other.meta().key));
            }
        }
        Ok(found)
    }
}

/// Returns the label of an expression that can use an index; exclusions cannot.
fn indexable(expression: &Expression) -> Option<&str> {
    match expression {
        Expression::Equal(name, _) | Expression::In(name, _) | Expression::Exists(name) => {
            Some(name)
        }
        _ => None,
    }
}

/// Removes an object from a bucket, and an empty bucket from the map.
fn take<K, Q>(buckets: &mut Map<K, Bucket>, name: &Q, key: &Key)
where
    K: Eq + std::hash::Hash,
    Q: ?Sized + std::hash::Hash + hashbrown::Equivalent<K>,
{
    if let Some(bucket) = buckets.get_mut(name) {
        bucket.remove(key);
        if bucket.is_empty() {
            buckets.remove(name);
        }
    }
}

impl ByLabel {
    fn put(&mut self, value: &str, entry: &Arc<Entry>) {
        let bucket = self.values.entry_ref(value).or_default();
        self.objects -= bucket.len();
        bucket.put(entry);
        self.objects += bucket.len();
    }

    fn remove(&mut self, value: &str, key: &Key) {
        take(&mut self.values, value, key);
        self.objects -= 1;
    }
}

impl ByUser {
    fn new(hasher: &FixedState) -> Self {
        Self { values: Map::with_hasher(hasher.clone()), objects: Map::with_hasher(hasher.clone()) }
    }

    fn has(&self, key: &Key, value: &str) -> bool {
        self.objects.get(key).is_some_and(|values| values.iter().any(|found| &**found == value))
    }

    fn put(&mut self, entry: &Arc<Entry>, values: Values) {
        let key = &entry.meta().key;
        if let Some(before) = self.objects.get(key) {
            for value in before.iter().filter(|value| !values.contains(value)) {
                take(&mut self.values, &**value, key);
            }
        }
        for value in &values {
            self.values.entry_ref(&**value).or_default().put(entry);
        }
        if values.is_empty() {
            self.objects.remove(key);
        } else {
            self.objects.insert(key.clone(), values);
        }
    }

    fn remove(&mut self, key: &Key) {
        for value in self.objects.remove(key).unwrap_or_default() {
            take(&mut self.values, &*value, key);
        }
    }
}
