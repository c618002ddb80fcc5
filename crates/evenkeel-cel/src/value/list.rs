//! Lists: borrowed JSON arrays, shared vectors, and concatenations that copy only small parts.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::Value;
use crate::schema::{ListKind, ListSchema, Schema};

/// A list of values.
#[derive(Clone)]
pub struct List<'a>(Repr<'a>);

#[derive(Clone)]
enum Repr<'a> {
    Json(&'a Vec<Json>, Option<&'a ListSchema>),
    Shared(Arc<Shared<'a>>),
    Concat(Arc<Concat<'a>>),
}

struct Shared<'a> {
    items: Vec<Value<'a>>,
    /// Set and map lists keep their semantics when they are added.
    schema: Option<&'a ListSchema>,
}

struct Concat<'a> {
    left: List<'a>,
    right: List<'a>,
    len: usize,
    depth: u16,
}

/// Lists up to this length are concatenated by copying.
const COPIED: usize = 256;
/// Deeper concatenations are copied into one vector if they are not huge.
const DEEP: u16 = 512;
/// The length up to which deep concatenations are copied.
const FLATTENED: usize = 1 << 20;

impl<'a> List<'a> {
    pub(crate) fn json(items: &'a Vec<Json>, schema: Option<&'a ListSchema>) -> Self {
        List(Repr::Json(items, schema))
    }

    pub(crate) fn with_schema(items: Vec<Value<'a>>, schema: Option<&'a ListSchema>) -> Self {
        List(Repr::Shared(Arc::new(Shared { items, schema })))
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Json(items, _) => items.len(),
            Repr::Shared(shared) => shared.items.len(),
            Repr::Concat(concat) => concat.len,
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a position.
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        let (mut list, mut index) = (self, index);
        loop {
            match &list.0 {
                Repr::Json(items, schema) => {
                    return items.get(index).map(|item| element(item, *schema));
                }
                Repr::Shared(shared) => return shared.items.get(index).cloned(),
                Repr::Concat(concat) => match index.checked_sub(concat.left.len()) {
                    Some(rest) => (list, index) = (&concat.right, rest),
                    None => list = &concat.left,
                },
            }
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> Iter<'a> {
        Iter { stack: Vec::new(), current: self.clone(), at: 0 }.descend()
    }

    /// The declared shape, if elements are compared as those of a set or a map.
    pub(crate) fn schema(&self) -> Option<&'a ListSchema> {
        match &self.0 {
            Repr::Json(_, schema) => *schema,
            Repr::Shared(shared) => shared.schema,
            Repr::Concat(_) => None,
        }
    }

    /// The sum of two lists: a union if the first is a set or a map, both in a row otherwise.
    pub(crate) fn plus(&self, other: &List<'a>) -> List<'a> {
        match self.schema().map(|schema| (schema, &schema.kind)) {
            Some((schema, ListKind::Set)) => {
                let mut items: Vec<_> = self.iter().collect();
                for item in other.iter() {
                    if !items.contains(&item) {
                        items.push(item);
                    }
                }
                List::with_schema(items, Some(schema))
            }
            Some((schema, ListKind::Map(keys))) => {
                let mut items: Vec<_> = self.iter().collect();
                for item in other.iter() {
                    match items.iter_mut().find(|existing| same_keys(existing, &item, keys)) {
                        Some(existing) => *existing = item,
                        None => items.push(item),
                    }
                }
                List::with_schema(items, Some(schema))
            }
            _ => self.concat(other),
        }
    }

    /// Equality: the order does not matter if the first is a set or a map.
    pub(crate) fn equals(&self, other: &List<'_>) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match self.schema().map(|schema| &schema.kind) {
            Some(ListKind::Set) => {
                let items: Vec<_> = self.iter().collect();
                other.iter().all(|item| items.contains(&item))
            }
            Some(ListKind::Map(keys)) => {
                let items: Vec<_> = self.iter().collect();
                other.iter().all(|item| {
                    let found = items.iter().find(|existing| same_keys(existing, &item, keys));
                    found.is_some_and(|existing| *existing == item)
                })
            }
            _ => self.iter().zip(other.iter()).all(|(a, b)| a == b),
        }
    }

    /// Both lists, one after the other.
    fn concat(&self, other: &List<'a>) -> List<'a> {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let len = self.len().saturating_add(other.len());
        if len <= COPIED {
            return List::from(self.iter().chain(other.iter()).collect::<Vec<_>>());
        }
        if let Repr::Concat(concat) = &self.0 {
            // Appending to a long list copies its last part only.
            if concat.right.depth() == 0 && concat.right.len() + other.len() <= COPIED {
                return Self::join(concat.left.clone(), concat.right.concat(other), len);
            }
        }
        Self::join(self.clone(), other.clone(), len)
    }

    fn join(left: List<'a>, right: List<'a>, len: usize) -> List<'a> {
        let depth = left.depth().max(right.depth()).saturating_add(1);
        let list = List(Repr::Concat(Arc::new(Concat { left, right, len, depth })));
        if depth > DEEP && len <= FLATTENED {
            List::from(list.iter().collect::<Vec<_>>())
        } else {
            list
        }
    }

    fn depth(&self) -> u16 {
        match &self.0 {
            Repr::Concat(concat) => concat.depth,
            _ => 0,
        }
    }

    /// Appends an element; in place if the list is not shared.
    pub(crate) fn push(&mut self, value: Value<'a>) {
        if let Repr::Shared(shared) = &mut self.0
            && let Some(shared) = Arc::get_mut(shared)
        {
            shared.items.push(value);
            return;
        }
        *self = self.concat(&List::from(vec![value]));
    }

    /// The same list with a lifetime of its own.
    pub(crate) fn into_owned(self) -> List<'static> {
        List::from(self.iter().map(Value::into_owned).collect::<Vec<_>>())
    }
}

/// Whether two elements of a map list have the same keys.
fn same_keys(a: &Value<'_>, b: &Value<'_>, keys: &[Box<str>]) -> bool {
    let key = |value: &Value<'_>, key: &str| match value {
        Value::Object(object) => object.get(key).map(Value::into_owned),
        Value::Map(map) => map.get_str(key).map(Value::into_owned),
        _ => None,
    };
    keys.iter().all(|name| key(a, name) == key(b, name))
}

fn element<'a>(item: &'a Json, schema: Option<&'a ListSchema>) -> Value<'a> {
    Value::with_schema(item, schema.map_or(&Schema::Dyn, |schema| &schema.items))
}

impl<'a> From<Vec<Value<'a>>> for List<'a> {
    fn from(items: Vec<Value<'a>>) -> Self {
        Self::with_schema(items, None)
    }
}

/// Iterates over the elements of a list.
pub struct Iter<'a> {
    /// Right parts of concatenations that are still to come.
    stack: Vec<List<'a>>,
    current: List<'a>,
    at: usize,
}

impl Iter<'_> {
    fn descend(mut self) -> Self {
        self.leftmost();
        self
    }

    fn leftmost(&mut self) {
        while let Repr::Concat(concat) = &self.current.0 {
            self.stack.push(concat.right.clone());
            let left = concat.left.clone();
            self.current = left;
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        loop {
            let value = match &self.current.0 {
                Repr::Json(items, schema) => items.get(self.at).map(|item| element(item, *schema)),
                Repr::Shared(shared) => shared.items.get(self.at).cloned(),
                Repr::Concat(_) => None,
            };
            if value.is_some() {
                self.at += 1;
                return value;
            }
            self.current = self.stack.pop()?;
            self.at = 0;
            self.leftmost();
        }
    }
}
