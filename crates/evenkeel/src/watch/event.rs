//! Watch events.
//!
//! Only the envelope is parsed; the object stays JSON text for the sink.

use std::borrow::Cow;

use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Error;
use crate::nulls;

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
    Unknown,
}

/// A watch event.
pub(super) struct Event<'a> {
    pub(super) change: Change,
    /// The object's JSON text.
    pub(super) object: &'a [u8],
}

/// The layout of the lines of a server; detected from the first line of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Layout {
    #[default]
    Unknown,
    /// `{"type":"…","object":…}`: the object is last and can be extracted without parsing it.
    Plain,
    Other,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<'a> Event<'a> {
    /// Parses a line and detects the layout.
    pub(super) fn read(line: &'a [u8], layout: &mut Layout) -> Result<Self, Error> {
        let line = line.trim_ascii();
        let extracted = match layout {
            Layout::Other => None,
            Layout::Unknown | Layout::Plain => Self::extract(line),
        };
        if let (Layout::Plain, Some(event)) = (*layout, &extracted) {
            return Ok(Self { ..*event });
        }
        let envelope: Envelope<'a> = serde_json::from_slice(line).map_err(|error| {
            let text = String::from_utf8_lossy(&line[..line.len().min(128)]);
            Error::unexpected(format!("not a watch event: {error}: {text}"))
        })?;
        let event = Self {
            change: Change::named(envelope.r#type.as_bytes()),
            object: envelope.object.get().as_bytes(),
        };
        if *layout == Layout::Unknown {
            let same = extracted.is_some_and(|extracted| extracted.object == event.object);
            *layout = if same { Layout::Plain } else { Layout::Other };
        }
        Ok(event)
    }

    fn extract(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"{\"type\":\"")?;
        let quote = rest.iter().take(16).position(|&byte| byte == b'"')?;
        let change = Change::named(&rest[..quote]);
        let object = rest[quote..].strip_prefix(b"\",\"object\":")?.strip_suffix(b"}")?;
        // Errors are rare and are always parsed in full.
        (!matches!(change, Change::Error | Change::Unknown)).then_some(Self { change, object })
    }

    /// Returns the resourceVersion of the object.
    pub(super) fn version(&self) -> Result<Cow<'a, str>, Error> {
        Ok(self.bookmark()?.0)
    }

    /// Returns the resourceVersion of a bookmark, and whether it ends the initial events.
    pub(super) fn bookmark(&self) -> Result<(Cow<'a, str>, bool), Error> {
        let Object { metadata } = serde_json::from_slice(self.object).map_err(|error| {
            Error::unexpected(format!("invalid object in a watch event: {error}"))
        })?;
        if metadata.resource_version.is_empty() {
            return Err(Error::unexpected("watch event without resourceVersion"));
        }
        let end = metadata.annotations.and_then(|annotations| annotations.end);
        Ok((metadata.resource_version, end.as_deref() == Some("true")))
    }

    /// Returns the error of an error event.
    pub(super) fn error(&self) -> Error {
        match nulls::decode::<Status>(self.object) {
            Ok(status) => Error::event(status),
            Err(error) => Error::unexpected(format!("error event of a watch: {error}")),
        }
    }
}

impl Change {
    fn named(name: &[u8]) -> Self {
        match name {
            b"ADDED" => Self::Added,
            b"MODIFIED" => Self::Modified,
            b"DELETED" => Self::Deleted,
            b"BOOKMARK" => Self::Bookmark,
            b"ERROR" => Self::Error,
            _ => Self::Unknown,
        }
    }
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, rename = "k8s.io/initial-events-end")]
    end: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Vec<(Change, String)>, Layout) {
        let mut layout = Layout::default();
        let events = lines.iter().map(|line| {
            let event = Event::read(line.as_bytes(), &mut layout).unwrap();
            (event.change, String::from_utf8(event.object.to_vec()).unwrap())
        });
        (events.collect(), layout)
    }

    #[test]
    fn layout_of_kube_apiserver_is_detected_from_the_first_line() {
        let (events, layout) = read(&[
            "{\"type\":\"ADDED\",\"object\":{\"a\":\"}\"}}\n",
            "{\"type\":\"DELETED\",\"object\":{\"b\":{}}}\r\n",
            "{\"type\":\"ERROR\", \"object\": {}}\n",
        ]);
        assert_eq!(layout, Layout::Plain);
        let expected = [
            (Change::Added, "{\"a\":\"}\"}"),
            (Change::Deleted, "{\"b\":{}}"),
            (Change::Error, "{}"),
        ];
        assert_eq!(events, expected.map(|(change, text)| (change, text.to_owned())));
    }

    #[test]
    fn other_layouts_are_parsed_in_full() {
        for first in [
            "{\"object\":{\"a\":1},\"type\":\"ADDED\"}",
            "{ \"type\" : \"ADDED\", \"object\" : {\"a\":1} }",
            "{\"type\":\"ADDED\",\"object\":{\"a\":1},\"more\":{}}",
        ] {
            let (events, layout) = read(&[first, "{\"type\":\"ADDED\",\"object\":{},\"x\":{}}"]);
            assert_eq!(layout, Layout::Other);
            assert_eq!(events[0], (Change::Added, "{\"a\":1}".to_owned()));
            assert_eq!(events[1], (Change::Added, "{}".to_owned()));
        }
    }

    #[test]
    fn versions_and_final_bookmarks_are_found_at_any_position() {
        let mark = |object: &str| {
            let event = Event { change: Change::Bookmark, object: object.as_bytes() };
            event.bookmark().map(|(version, end)| (version.into_owned(), end)).ok()
        };
        assert_eq!(
            mark(r#"{"spec":{"metadata":{}},"metadata":{"x":[1],"resourceVersion":"7"}}"#),
            Some(("7".to_owned(), false))
        );
        assert_eq!(
            mark(
                r#"{"metadata":{"annotations":{"a":"b","k8s.io\/initial-events-end":"true"},
                "resourceVersion":"\u0037"}}"#
            ),
            Some(("7".to_owned(), true))
        );
        assert_eq!(
            mark(r#"{"metadata":{"resourceVersion":"7","annotations":null}}"#),
            Some(("7".to_owned(), false))
        );
        assert_eq!(mark(r#"{"metadata":{}}"#), None);
        assert_eq!(mark("{}"), None);
    }
}
