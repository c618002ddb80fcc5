//! Queries of the cache, and matching of objects.

use kube::core::{Expression, Selector};
use serde_json::Value;

use super::meta::Meta;
use crate::select::Select;
use crate::uid::Uid;

/// The conditions of a [`Select`] that the cache evaluates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) labels: Option<&'a Selector>,
    /// A name and a value.
    pub(crate) index: Option<(&'a str, &'a str)>,
    /// With an owner reference to this uid.
    pub(crate) owner: Option<&'a Uid>,
}

impl<K, Op> Select<K, Op> {
    pub(crate) fn query(&self) -> Query<'_> {
        Query {
            namespace: self.namespace.as_deref().filter(|namespace| !namespace.is_empty()),
            labels: Some(&self.labels),
            index: self.index.as_ref().map(|(name, value)| (name.as_str(), value.as_str())),
            owner: self.owner.as_ref(),
        }
    }
}

/// A query with a parsed label selector.
#[derive(Debug)]
pub(super) struct Conditions<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) labels: Vec<Expression>,
    pub(super) index: Option<(&'a str, &'a str)>,
    pub(super) owner: Option<&'a Uid>,
}

impl<'a> Conditions<'a> {
    pub(super) fn new(query: &Query<'a>) -> Self {
        let Query { namespace, labels, index, owner } = *query;
        let labels = labels.into_iter().flat_map(|labels| labels.clone()).collect();
        Self { namespace, labels, index, owner }
    }

    /// Returns whether the object matches all conditions except the index.
    pub(super) fn accept(&self, meta: &Meta) -> bool {
        self.namespace.is_none_or(|namespace| meta.key().namespace() == Some(namespace))
            && self.owner.is_none_or(|uid| meta.owners().iter().any(|owner| owner.uid == *uid))
            && select(&self.labels, meta)
    }
}

/// Returns whether all expressions match the object.
pub(super) fn select(labels: &[Expression], meta: &Meta) -> bool {
    labels.iter().all(|expression| match expression {
        Expression::Equal(name, value) => meta.label(name) == Some(value),
        Expression::NotEqual(name, value) => meta.label(name) != Some(value),
        Expression::In(name, values) => {
            meta.label(name).is_some_and(|value| values.contains(value))
        }
        Expression::NotIn(name, values) => {
            meta.label(name).is_none_or(|value| !values.contains(value))
        }
        Expression::Exists(name) => meta.label(name).is_some(),
        Expression::DoesNotExist(name) => meta.label(name).is_none(),
    })
}

/// A field selector. The server applies it; the cache applies it only to responses of own writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(String);

/// One condition of a field selector.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Term {
    path: String,
    equal: bool,
    value: String,
}

impl Fields {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses the conditions, or returns the error message.
    pub(super) fn terms(&self) -> Result<Vec<Term>, String> {
        let mut terms = Vec::new();
        for text in split_terms(&self.0).into_iter().filter(|text| !text.is_empty()) {
            let (path, equal, value) = if let Some((path, value)) = text.split_once("!=") {
                (path, false, value)
            } else if let Some((path, value)) = text.split_once("==") {
                (path, true, value)
            } else if let Some((path, value)) = text.split_once('=') {
                (path, true, value)
            } else {
                return Err(format!("the field selector {text:?} has no `=`"));
            };
            terms.push(Term { path: path.to_owned(), equal, value: unescape(value) });
        }
        Ok(terms)
    }

    /// Returns whether the object in `raw` matches.
    pub(super) fn select(&self, raw: &[u8]) -> bool {
        if self.is_empty() {
            return true;
        }
        let Ok(terms) = self.terms() else { return true };
        let body: Value = serde_json::from_slice(raw).unwrap_or_default();
        terms.iter().all(|term| {
            let found = term.path.split('.').try_fold(&body, |value, name| value.get(name));
            let text = match found {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            (text == term.value) == term.equal
        })
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut pieces, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            pieces.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    pieces.push(&text[start..]);
    pieces
}

/// Removes the backslashes before `\`, `,` and `=`.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        if c == '\\' && !escaped {
            escaped = true;
            continue;
        }
        escaped = false;
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_selectors_parse_as_on_the_server() {
        let terms = Fields::new(r"a.b=c,d!=e\,f\\,g==,".to_owned()).terms().unwrap();
        let term = |path: &str, equal, value: &str| Term {
            path: path.to_owned(),
            equal,
            value: value.to_owned(),
        };
        assert_eq!(terms, [term("a.b", true, "c"), term("d", false, r"e,f\"), term("g", true, "")]);
        assert!(Fields::new("a".to_owned()).terms().is_err());
    }
}
