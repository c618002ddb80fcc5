//! `url` and `isURL`, and the parts of URLs.

use std::any::Any;

use evenkeel_types::url::Url;

use super::{list_of_strings, receiver, text};
use crate::{Error, Function, Map, Opaque, Overload, Type, Value};

/// A URL as a value.
#[derive(Debug)]
struct UrlValue(Url);

pub(super) fn url_type() -> Type {
    Type::object("kubernetes.URL")
}

impl Opaque for UrlValue {
    fn type_(&self) -> Type {
        url_type()
    }

    fn equals(&self, other: &Value<'_>) -> Option<bool> {
        let other: &Self = other.downcast()?;
        Some(self.0.to_string() == other.0.to_string())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

pub(super) fn functions() -> Vec<Function> {
    let part = |name, id, read: fn(&Url) -> String| {
        Function::new(name).overload(Overload::member(
            id,
            [url_type()],
            Type::String,
            move |values| Ok(Value::from(read(&receiver::<UrlValue>(values)?.0))),
        ))
    };
    vec![
        Function::new("url").overload(Overload::global(
            "string_to_url",
            [Type::String],
            url_type(),
            parse,
        )),
        Function::new("isURL").overload(Overload::global(
            "is_url_string",
            [Type::String],
            Type::Bool,
            |values| match values {
                [value] => Ok(Value::Bool(Url::parse_request_uri(text(value)?).is_ok())),
                _ => Err(Error::no_such_overload()),
            },
        )),
        part("getScheme", "url_get_scheme", |url| url.scheme.clone()),
        part("getHost", "url_get_host", |url| url.host.clone()),
        part("getHostname", "url_get_hostname", |url| url.hostname().to_owned()),
        part("getPort", "url_get_port", |url| url.port().to_owned()),
        part("getEscapedPath", "url_get_escaped_path", |url| url.path.clone()),
        Function::new("getQuery").overload(Overload::member(
            "url_get_query",
            [url_type()],
            Type::map(Type::String, list_of_strings()),
            query,
        )),
    ]
}

fn parse<'a>(values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [value] = values else { return Err(Error::no_such_overload()) };
    let text = text(value)?;
    // The stricter parser decides; only the other one separates the fragment.
    let url = Url::parse_request_uri(text).and_then(|_| Url::parse(text));
    let failed =
        |reason| Error::new(format!("URL parse error during conversion from string: {reason}"));
    Ok(Value::opaque(UrlValue(url.map_err(failed)?)))
}

fn query<'a>(values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut keys: Vec<(String, Vec<Value<'a>>)> = Vec::new();
    for (key, value) in receiver::<UrlValue>(values)?.0.query_pairs() {
        match keys.iter_mut().find(|(existing, _)| *existing == key) {
            Some((_, values)) => values.push(Value::from(value)),
            None => keys.push((key, vec![Value::from(value)])),
        }
    }
    let entries = keys.into_iter().map(|(key, values)| (Value::from(key), Value::list(values)));
    Map::new(entries).map(Value::Map)
}
