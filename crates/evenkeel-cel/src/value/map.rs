//! Maps and objects: borrowed JSON objects or shared entries.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;
use serde_json::Value as Json;

use crate::schema::{Field, ObjectSchema, Schema};
use crate::{Error, Value};

/// A map. Keys are bool, int, uint or string; numbers that are equal are the same key.
#[derive(Clone)]
pub struct Map<'a>(Repr<'a>);

#[derive(Clone)]
enum Repr<'a> {
    Json(&'a serde_json::Map<String, Json>, &'a Schema),
    Shared(Arc<Entries<'a>>),
}

/// Entries in order of insertion.
#[derive(Clone, Default)]
struct Entries<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    /// Positions by key, once a map is too long to search.
    index: Option<HashTable<usize>>,
}

/// Longer maps are searched through an index.
const SEARCHED: usize = 8;

/// An object with declared fields.
#[derive(Clone)]
pub struct Object<'a>(ObjectRepr<'a>);

#[derive(Clone)]
enum ObjectRepr<'a> {
    Json(&'a serde_json::Map<String, Json>, &'a ObjectSchema),
    Shared(Arc<ObjectFields<'a>>),
}

struct ObjectFields<'a> {
    name: Arc<str>,
    fields: Vec<(Arc<str>, Value<'a>)>,
}

impl Default for Map<'_> {
    fn default() -> Self {
        Map(Repr::Shared(Arc::default()))
    }
}

impl<'a> Map<'a> {
    /// A map of these entries, in which later ones replace earlier ones. Keys may be of any type.
    pub(crate) fn last_wins(entries: Vec<(Value<'a>, Value<'a>)>) -> Self {
        let mut map = Entries::default();
        for (key, value) in entries {
            match map.find(&key) {
                Some(at) => map.entries[at].1 = value,
                None => map.insert(key, value),
            }
        }
        Map(Repr::Shared(Arc::new(map)))
    }

    pub(crate) fn json(map: &'a serde_json::Map<String, Json>, values: &'a Schema) -> Self {
        Map(Repr::Json(map, values))
    }

    /// A map of these entries; an error if a key repeats or is not of a type of keys.
    pub fn new(entries: impl IntoIterator<Item = (Value<'a>, Value<'a>)>) -> Result<Self, Error> {
        let mut map = Map::default();
        for (key, value) in entries {
            check_key(&key)?;
            if !map.insert(key.clone(), value) {
                let key = crate::ops::text(&key);
                return Err(Error::new(format!("insert failed: key {key} already exists")));
            }
        }
        Ok(map)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Json(map, _) => map.len(),
            Repr::Shared(shared) => shared.entries.len(),
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    pub fn get(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match &self.0 {
            Repr::Json(map, schema) => {
                let value = map.get(key.as_str()?)?;
                Some(Value::with_schema(value, schema))
            }
            Repr::Shared(shared) => shared.find(key).map(|at| shared.entries[at].1.clone()),
        }
    }

    /// The value of a string key.
    pub fn get_str(&self, key: &str) -> Option<Value<'a>> {
        match &self.0 {
            Repr::Json(map, schema) => Some(Value::with_schema(map.get(key)?, schema)),
            Repr::Shared(_) => self.get(&Value::from(key)),
        }
    }

    /// Entries in a stable order.
    pub fn iter(&self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        let (json, shared) = match &self.0 {
            Repr::Json(map, schema) => (Some((map.iter(), *schema)), None),
            Repr::Shared(shared) => (None, Some(shared.clone())),
        };
        let json = json.into_iter().flat_map(|(entries, schema)| {
            entries.map(move |(key, value)| {
                (Value::from(key.as_str()), Value::with_schema(value, schema))
            })
        });
        let len = shared.as_ref().map_or(0, |shared| shared.entries.len());
        let shared = (0..len).filter_map(move |at| shared.as_ref()?.entries.get(at).cloned());
        json.chain(shared)
    }

    /// Adds an entry, in place if the map is not shared; false if the key exists.
    pub(crate) fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> bool {
        if let Repr::Json(..) = self.0 {
            let mut entries = Entries::default();
            for (key, value) in self.iter() {
                entries.insert(key, value);
            }
            self.0 = Repr::Shared(Arc::new(entries));
        }
        match &mut self.0 {
            Repr::Json(..) => false,
            Repr::Shared(shared) => {
                shared.find(&key).is_none() && {
                    Arc::make_mut(shared).insert(key, value);
                    true
                }
            }
        }
    }

    /// The same map with a lifetime of its own.
    pub(crate) fn into_owned(self) -> Map<'static> {
        let mut entries = Entries::default();
        for (key, value) in self.iter() {
            entries.insert(key.into_owned(), value.into_owned());
        }
        Map(Repr::Shared(Arc::new(entries)))
    }
}

impl<'a> Entries<'a> {
    fn find(&self, key: &Value<'_>) -> Option<usize> {
        match &self.index {
            None => self.entries.iter().position(|(existing, _)| same_key(existing, key)),
            Some(index) => {
                index.find(hash_key(key), |&at| same_key(&self.entries[at].0, key)).copied()
            }
        }
    }

    fn insert(&mut self, key: Value<'a>, value: Value<'a>) {
        self.entries.push((key, value));
        let entries = &self.entries;
        let rehash = |&at: &usize| hash_key(&entries[at].0);
        match &mut self.index {
            Some(index) => {
                let at = entries.len() - 1;
                index.insert_unique(rehash(&at), at, rehash);
            }
            None if entries.len() > SEARCHED => {
                let mut index = HashTable::with_capacity(entries.len() * 2);
                for at in 0..entries.len() {
                    index.insert_unique(rehash(&at), at, rehash);
                }
                self.index = Some(index);
            }
            None => {}
        }
    }
}

/// Whether a stored key is the one that is looked up: doubles find integers, but not the reverse.
fn same_key(stored: &Value<'_>, key: &Value<'_>) -> bool {
    stored == key && (!matches!(stored, Value::Double(_)) || matches!(key, Value::Double(_)))
}

/// Equal keys have equal hashes.
fn hash_key(key: &Value<'_>) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    match key {
        Value::Bool(value) => value.hash(&mut hasher),
        Value::Int(value) => i128::from(*value).hash(&mut hasher),
        Value::Uint(value) => i128::from(*value).hash(&mut hasher),
        Value::Double(value) if value.fract() == 0.0 => (*value as i128).hash(&mut hasher),
        Value::String(text) => text.hash(&mut hasher),
        // Keys of other types are rare.
        _ => {}
    }
    hasher.finish()
}

/// Whether two documents of one type are equal. As in kube-apiserver, fields that the type does not
/// declare are compared as JSON, and one that only the first document has is not a difference.
fn documents_equal(
    a: &serde_json::Map<String, Json>,
    b: &serde_json::Map<String, Json>,
    schema: &ObjectSchema,
) -> bool {
    let declared = by_json_name(schema);
    a.len() == b.len()
        && a.iter().all(|(key, a)| match (declared(key), b.get(key)) {
            (Some(field), Some(b)) => {
                Value::with_schema(a, &field.schema) == Value::with_schema(b, &field.schema)
            }
            (None, Some(b)) => a == b,
            (field, None) => field.is_none(),
        })
}

/// Finds declared fields by their name in JSON. Only a few have another name in expressions.
fn by_json_name<'s>(schema: &'s ObjectSchema) -> impl Fn(&str) -> Option<&'s Field> {
    let renamed = schema.fields.iter().filter(|(name, field)| **name != field.json);
    let renamed: Vec<&Field> = renamed.map(|(_, field)| field).collect();
    move |json| {
        let field = schema.fields.get(json).filter(|field| *field.json == *json);
        field.or_else(|| renamed.iter().copied().find(|field| *field.json == *json))
    }
}

fn check_key(key: &Value<'_>) -> Result<(), Error> {
    match key {
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::String(_) => Ok(()),
        other => Err(Error::new(format!("unsupported key type: {}", other.type_().name()))),
    }
}

impl<'a> Object<'a> {
    pub(crate) fn json(map: &'a serde_json::Map<String, Json>, schema: &'a ObjectSchema) -> Self {
        Object(ObjectRepr::Json(map, schema))
    }

    /// An object of a type with these fields.
    pub fn new(name: Arc<str>, fields: Vec<(Arc<str>, Value<'a>)>) -> Self {
        Object(ObjectRepr::Shared(Arc::new(ObjectFields { name, fields })))
    }

    /// The name of the type.
    pub fn type_name(&self) -> &Arc<str> {
        match &self.0 {
            ObjectRepr::Json(_, schema) => &schema.name,
            ObjectRepr::Shared(shared) => &shared.name,
        }
    }

    /// The value of a field, if it is set. A null in a document is no value.
    pub fn get(&self, field: &str) -> Option<Value<'a>> {
        match &self.0 {
            ObjectRepr::Json(map, schema) => {
                let field = schema.fields.get(field)?;
                let value = map.get(&*field.json).filter(|value| !value.is_null())?;
                Some(Value::with_schema(value, &field.schema))
            }
            ObjectRepr::Shared(shared) => {
                let field = shared.fields.iter().find(|(name, _)| &**name == field)?;
                Some(field.1.clone())
            }
        }
    }

    /// The fields that are set.
    pub fn fields(&self) -> Vec<(Arc<str>, Value<'a>)> {
        match &self.0 {
            ObjectRepr::Json(map, schema) => schema
                .fields
                .iter()
                .filter_map(|(name, field)| {
                    let value = map.get(&*field.json).filter(|value| !value.is_null())?;
                    Some((Arc::from(&**name), Value::with_schema(value, &field.schema)))
                })
                .collect(),
            ObjectRepr::Shared(shared) => shared.fields.clone(),
        }
    }

    /// The size that costs are computed from: the number of fields of a document.
    pub(crate) fn size(&self) -> u64 {
        match &self.0 {
            ObjectRepr::Json(map, _) => map.len() as u64,
            ObjectRepr::Shared(_) => 1,
        }
    }

    /// Whether both are of one type and have the same fields.
    pub(crate) fn equals(&self, other: &Object<'_>) -> bool {
        if self.type_name() != other.type_name() {
            return false;
        }
        if let (ObjectRepr::Json(a, schema), ObjectRepr::Json(b, _)) = (&self.0, &other.0) {
            // The same part of one document, as in `self.spec == oldSelf.spec` of an unchanged object.
            return std::ptr::eq(*a, *b) || documents_equal(a, b, schema);
        }
        let (a, b) = (self.fields(), other.fields());
        a.len() == b.len()
            && a.iter().all(|(name, value)| other.get(name).is_some_and(|other| other == *value))
    }

    /// Whether a map has the same fields, all of them declared. `equals` compares a field with the
    /// value in the map.
    pub(crate) fn equals_map(
        &self,
        map: &Map<'_>,
        equals: impl Fn(&Value<'_>, &Value<'_>) -> bool,
    ) -> bool {
        let ObjectRepr::Json(json, schema) = &self.0 else { return false };
        let declared = by_json_name(schema);
        json.len() == map.len()
            && json.iter().all(|(key, value)| {
                let field = declared(key).filter(|_| !value.is_null());
                let field = field.map(|field| Value::with_schema(value, &field.schema));
                let other = map.get(&Value::from(key.as_str()));
                field.zip(other).is_some_and(|(field, other)| equals(&field, &other))
            })
    }

    /// Whether the document has fields that its type does not declare.
    pub(crate) fn has_undeclared_fields(&self) -> bool {
        let ObjectRepr::Json(json, schema) = &self.0 else { return false };
        let declared = by_json_name(schema);
        json.keys().any(|key| declared(key).is_none())
    }

    /// The same object with a lifetime of its own.
    pub(crate) fn into_owned(self) -> Object<'static> {
        let fields =
            self.fields().into_iter().map(|(name, value)| (name, value.into_owned())).collect();
        Object::new(self.type_name().clone(), fields)
    }
}
