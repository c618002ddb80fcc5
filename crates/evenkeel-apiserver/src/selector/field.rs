//! Field selectors: `metadata.name=web,status.phase!=Running`.
//!
//! Only fields that a kind declares can be selected. Those of built-in kinds are extracted when an
//! object is stored, so that lists and watches do not decode objects to filter them.

use std::borrow::Cow;

use crate::storage::Record;

/// A field selector. An empty one selects everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldSelector(Vec<Requirement>);

#[derive(Clone, Debug)]
struct Requirement {
    field: Field,
    equals: bool,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    Name,
    Namespace,
    /// The index among the fields that the kind declares.
    Declared(usize),
}

impl FieldSelector {
    /// Parses `text` for a kind whose records contain the values of `known`, in that order.
    ///
    /// `resolve` maps a label of the request to one of those names, or rejects it.
    pub(crate) fn parse<'a>(
        text: &'a str,
        known: &[impl AsRef<str>],
        resolve: impl Fn(&'a str) -> Result<&'a str, String>,
    ) -> Result<Self, String> {
        let mut all = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let (label, equals, value) = split_term(term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let value = unescape(value).map_err(|why| format!("invalid field selector: {why}"))?;
            let field = match resolve(label)? {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                label => known
                    .iter()
                    .position(|k| k.as_ref() == label)
                    .map(Field::Declared)
                    .ok_or_else(|| format!("field label not supported: {label}"))?,
            };
            all.push(Requirement { field, equals, value });
        }
        Ok(Self(all))
    }

    /// Selects the object of this name only.
    pub(crate) fn name(name: &str) -> Self {
        Self(vec![Requirement { field: Field::Name, equals: true, value: name.to_owned() }])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the only name that can match, if there is one.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|r| r.field == Field::Name && r.equals)
            .map(|r| r.value.as_str())
            .filter(|name| !name.is_empty())
    }

    /// Returns whether any field besides name and namespace is selected.
    pub(crate) fn selects_declared_fields(&self) -> bool {
        self.0.iter().any(|requirement| matches!(requirement.field, Field::Declared(_)))
    }

    /// Returns whether the object matches, given the values of the declared fields by index.
    pub(crate) fn matches<'a>(
        &self,
        record: &'a Record,
        declared: impl Fn(usize) -> Cow<'a, str>,
    ) -> bool {
        self.0.iter().all(|requirement| {
            let value = match requirement.field {
                Field::Name => Cow::Borrowed(record.key.name()),
                Field::Namespace => Cow::Borrowed(record.key.namespace()),
                Field::Declared(at) => declared(at),
            };
            (value == requirement.value) == requirement.equals
        })
    }
}

/// Returns the fields whose values a field selector requires, without knowledge of the kind; none if
/// it cannot be parsed.
pub(crate) fn exact_matches(text: &str) -> Vec<(String, String)> {
    let terms = split_terms(text).into_iter().filter(|term| !term.is_empty());
    let parse = |term| {
        let (label, equals, value) = split_term(term)?;
        Some((equals, label.to_owned(), unescape(value).ok()?))
    };
    let Some(all) = terms.map(parse).collect::<Option<Vec<_>>>() else { return Vec::new() };
    all.into_iter().filter(|(equals, ..)| *equals).map(|(_, field, value)| (field, value)).collect()
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (operator, equals) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..at], equals, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => return Err(format!("invalid escape sequence: \\{c}")),
                None => return Err("invalid escape sequence: \\".into()),
            },
            '=' | ',' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_split_at_plain_commas_and_first_operator() {
        assert_eq!(split_terms("a=b\\,c,d!=e"), ["a=b\\,c", "d!=e"]);
        assert_eq!(split_term("a!=b"), Some(("a", false, "b")));
        assert_eq!(split_term("a==b"), Some(("a", true, "b")));
        assert_eq!(split_term("a"), None);
        assert_eq!(unescape("b\\,c").unwrap(), "b,c");
    }

    #[test]
    fn unknown_fields_are_refused_with_the_error_of_the_kind() {
        fn only_y(label: &str) -> Result<&str, String> {
            if label == "y" { Ok("spec.y") } else { Err(format!("{label}: no such field")) }
        }
        let error = FieldSelector::parse("spec.x=1", &["spec.y"], only_y).unwrap_err();
        assert_eq!(error, "spec.x: no such field");
        assert!(FieldSelector::parse("y=1", &["spec.y"], only_y).is_ok());
        assert!(FieldSelector::parse("y", &["spec.y"], only_y).is_err());
    }
}
