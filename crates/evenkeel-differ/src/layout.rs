//! The layout of a JSON response: order of keys, escapes and final newline. It is independent of
//! the values, so the layouts of two servers can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The layout of a JSON text.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Layout {
    /// The orders of keys by path, where `*` stands for list indices.
    keys: BTreeMap<String, BTreeSet<Vec<String>>>,
    /// The `\u` escapes in the text.
    escapes: BTreeSet<String>,
    /// Whether the text is a single line.
    compact: bool,
    /// Whether the text ends with a newline.
    newline: bool,
}

impl Layout {
    /// Returns the layout of a text; none if it is not JSON.
    pub fn of(text: &[u8]) -> Option<Self> {
        let mut layout = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(text);
        Node { place: "", layout: &mut layout }.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        for window in text.windows(6).filter(|window| window.starts_with(b"\\u")) {
            layout.escapes.insert(String::from_utf8_lossy(window).to_lowercase());
        }
        layout.newline = text.ends_with(b"\n");
        layout.compact = !text.trim_ascii_end().contains(&b'\n');
        Some(layout)
    }

    /// Returns the differing parts of the layouts: the path and both values.
    pub fn differences(&self, ours: &Self) -> Vec<(String, Value, Value)> {
        let mut found = Vec::new();
        for (place, theirs) in &self.keys {
            let Some(orders) = ours.keys.get(place) else { continue };
            let conflicting = theirs.iter().find_map(|theirs| {
                orders.iter().find_map(|ours| {
                    let theirs = common(theirs, ours);
                    let ours = common(ours, &theirs);
                    (theirs != ours).then_some((theirs, ours))
                })
            });
            if let Some((theirs, ours)) = conflicting {
                found.push((format!("text/order{place}"), theirs.into(), ours.into()));
            }
        }
        let list = |escapes: &BTreeSet<String>| escapes.iter().cloned().collect::<Value>();
        let parts = [
            ("text/escapes", list(&self.escapes), list(&ours.escapes)),
            ("text/compact", self.compact.into(), ours.compact.into()),
            ("text/newline", self.newline.into(), ours.newline.into()),
        ];
        found.extend(
            parts
                .into_iter()
                .filter(|(_, theirs, ours)| theirs != ours)
                .map(|(at, theirs, ours)| (at.to_owned(), theirs, ours)),
        );
        found
    }
}

/// Returns the keys of `keys` that are also in `others`.
fn common(keys: &[String], others: &[String]) -> Vec<String> {
    keys.iter().filter(|key| others.contains(key)).cloned().collect()
}

struct Node<'a> {
    place: &'a str,
    layout: &'a mut Layout,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let place = format!("{}/*", self.place);
        while items.next_element_seed(Node { place: &place, layout: &mut *self.layout })?.is_some()
        {
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut keys = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            let place = format!("{}/{key}", self.place);
            entries.next_value_seed(Node { place: &place, layout: &mut *self.layout })?;
            keys.push(key);
        }
        self.layout.keys.entry(self.place.to_owned()).or_default().insert(keys);
        Ok(())
    }

    fn visit_newtype_struct<D: serde::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        serde::Deserialize::deserialize(reader).map(|IgnoredAny| ())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(theirs: &str, ours: &str, places: &[&str]) {
        let layout = |text: &str| Layout::of(text.as_bytes()).unwrap();
        let found = layout(theirs).differences(&layout(ours));
        let found: Vec<_> = found.iter().map(|(at, ..)| at.as_str()).collect();
        assert_eq!(found, places, "{theirs} {ours}");
    }

    #[test]
    fn key_order_escapes_and_newlines_are_compared_but_values_are_not() {
        check("{\"a\":1,\"b\":[2]}\n", "{\"a\":\"x\",\"b\":null}\n", &[]);
        check("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", &["text/order"]);
        check("{\"a\":[{\"b\":1,\"c\":2}]}", "{\"a\":[{\"c\":1,\"b\":1}]}", &["text/order/a/*"]);
        // Keys that only one text has do not affect the order.
        check("{\"a\":1,\"x\":0,\"b\":2}", "{\"y\":0,\"a\":1,\"b\":2}", &[]);
        check("{\"a\":\"\\u003c\"}", "{\"a\":\"<\"}", &["text/escapes"]);
        check("{\"a\":1}\n", "{\"a\":1}", &["text/newline"]);
        check("{\"a\":1}", "{\n\"a\":1}", &["text/compact"]);
        assert_eq!(Layout::of(b"{} x"), None);
        let found = Layout::of(b"{\"a\":1,\"b\":2}").unwrap();
        let found = found.differences(&Layout::of(b"{\"b\":1,\"a\":2,\"c\":3}").unwrap());
        assert_eq!(found, [("text/order".to_owned(), json!(["a", "b"]), json!(["b", "a"]))]);
    }
}
