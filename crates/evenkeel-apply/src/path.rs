//! Field paths: lists of path elements from the root of an object.
//!
//! Path elements have one total order (field names, keys, values, indexes), as in
//! structured-merge-diff's `fieldpath`. It determines the order of everything that is printed or
//! stored.

use std::{
    borrow::Cow,
    cmp::Ordering,
    fmt::{self, Display},
};

use serde_json::Value;

use crate::{schema::Field, text, value, work};

/// One element of a path.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A struct field or a map key. Names of built-in fields are static and need no copy.
    Field(Cow<'static, str>),
    /// The item of an associative list with these key fields, sorted by name.
    Key(Vec<(String, Value)>),
    /// The item of a set with this value.
    Value(Value),
    /// The item of a list at this position. Decoded from old objects, never generated.
    Index(i64),
}

/// The prefix of field names in FieldsV1.
pub(crate) const FIELD_PREFIX: &str = "f:";

/// A path from the root of an object.
pub type Path = Vec<PathElement>;

/// Builds a path of field names.
pub fn fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Path {
    names.into_iter().map(PathElement::field).collect()
}

/// Formats a path as conflicts do: `.spec.containers[name="c"].image`.
pub fn print(path: &[PathElement]) -> String {
    let mut out = String::new();
    for element in path {
        element.print(&mut out);
    }
    out
}

impl PathElement {
    /// Creates the element of a struct field or map key.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(Cow::Owned(name.into()))
    }

    /// Creates the element of an associative list item; the pairs may be in any order.
    pub fn key<N: Into<String>>(pairs: impl IntoIterator<Item = (N, Value)>) -> Self {
        let mut pairs: Vec<_> =
            pairs.into_iter().map(|(name, value)| (name.into(), value)).collect();
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self::Key(pairs)
    }

    /// Creates the element of a map entry, whose name is static if it is declared by a built-in
    /// type.
    pub(crate) fn of_entry(name: &str, declared: Option<&Field>) -> Self {
        if let Some(Field { name: name @ Cow::Borrowed(_), .. }) = declared {
            return Self::Field(name.clone());
        }
        // With capacity for the FieldsV1 prefix, so that encoding the set does not allocate again.
        let mut owned = String::with_capacity(name.len() + FIELD_PREFIX.len());
        owned.push_str(name);
        Self::Field(Cow::Owned(owned))
    }

    /// Returns the name, if this is a field.
    pub fn as_field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn print(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push('.');
                out.push_str(name);
            }
            Self::Key(pairs) => {
                out.push('[');
                for (i, (name, value)) in pairs.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push('=');
                    text::display(out, value);
                }
                out.push(']');
            }
            Self::Value(value) => {
                out.push_str("[=");
                text::display(out, value);
                out.push(']');
            }
            Self::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl From<&str> for PathElement {
    fn from(name: &str) -> Self {
        Self::field(name)
    }
}

impl Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.print(&mut out);
        f.write_str(&out)
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        work::step();
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_keys(
                a.iter().map(|(name, value)| (name.as_str(), value)),
                b.iter().map(|(name, value)| (name.as_str(), value)),
            ),
            (Self::Value(a), Self::Value(b)) => value::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

/// Compares two sorted key lists lexicographically.
pub(crate) fn compare_keys<'a>(
    mut a: impl Iterator<Item = (&'a str, &'a Value)>,
    mut b: impl Iterator<Item = (&'a str, &'a Value)>,
) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((name_a, a)), Some((name_b, b))) => {
                let order = name_a.cmp(name_b).then_with(|| value::compare(a, b));
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_sort_fields_keys_values_indexes() {
        let ascending = [
            PathElement::field(""),
            PathElement::field("a"),
            PathElement::field("b"),
            PathElement::key([("name", json!("a"))]),
            PathElement::key([("name", json!("a")), ("port", json!(80))]),
            PathElement::key([("name", json!("b"))]),
            PathElement::key([("port", json!(80))]),
            PathElement::key([("port", json!(443))]),
            PathElement::Value(json!(1)),
            PathElement::Value(json!("a")),
            PathElement::Value(json!(true)),
            PathElement::Index(2),
            PathElement::Index(10),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a} against {b}");
            }
        }
    }

    #[test]
    fn paths_are_formatted_as_in_conflicts() {
        let path = [
            "spec".into(),
            "list".into(),
            PathElement::key([("port", json!(80.0)), ("name", json!("a\"b"))]),
            PathElement::Value(json!("x")),
            PathElement::Value(json!(1.5)),
            PathElement::Value(json!(true)),
            PathElement::Index(3),
        ];
        assert_eq!(print(&path), r#".spec.list[name="a\"b",port=80][="x"][=1.5][=true][3]"#);
    }
}
