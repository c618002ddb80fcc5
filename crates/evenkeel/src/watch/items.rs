//! A streaming parser for the items of a list.
//!
//! A list may be larger than memory, so the parser scans the JSON text of the envelope and returns
//! each element of `items` when it is complete. It only tracks nesting and strings; the objects are
//! not validated. The fields of the envelope may be in any order.

mod extent;

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;

use self::extent::Extent;
use super::{Error, OBJECT_SIZE_MAX, reuse};

/// The metadata of a list.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    /// The token of the next page; empty on the last page.
    pub(super) r#continue: String,
}

pub(super) struct Items {
    frame: Bytes,
    /// The offset of the unread part of the frame.
    next: usize,
    /// The part of the current value from earlier frames, unless it is skipped.
    carry: Vec<u8>,
    item: Item,
    at: At,
    extent: Extent,
    meta: ListMeta,
    kind: String,
    /// Whether the envelope has `items`, including `null`.
    has_items: bool,
}

enum Item {
    None,
    Frame(Range<usize>),
    Carry,
}

/// The parser state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    /// Before the first key, or the end of the envelope.
    FirstKey,
    /// Before a key.
    Key,
    InKey,
    /// After the key of this field.
    Colon(Field),
    /// Before the value of this field.
    Value(Field),
    InValue(Field),
    AfterValue,
    /// In `items`, before the first element, or the end.
    FirstItem,
    /// In `items`, before an element.
    NextItem,
    InItem,
    AfterItem,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Items,
    Kind,
    Metadata,
    Other,
}

impl Items {
    pub(super) fn new() -> Self {
        Self {
            frame: Bytes::new(),
            next: 0,
            carry: Vec::new(),
            item: Item::None,
            at: At::Start,
            extent: Extent::default(),
            meta: ListMeta::default(),
            kind: String::new(),
            has_items: false,
        }
    }

    /// Adds the next frame; the last one must have been consumed.
    pub(super) fn push(&mut self, frame: Bytes) {
        debug_assert_eq!(self.next, self.frame.len());
        self.frame = frame;
        self.next = 0;
    }

    /// Returns the current object.
    pub(super) fn item(&self) -> &[u8] {
        match &self.item {
            Item::None => &[],
            Item::Frame(range) => &self.frame[range.clone()],
            Item::Carry => &self.carry,
        }
    }

    /// Advances to the next object; returns false if it is not complete.
    pub(super) fn advance(&mut self) -> Result<bool, Error> {
        if matches!(self.item, Item::Carry) {
            reuse(&mut self.carry);
        }
        self.item = Item::None;
        while let Some(&byte) = self.frame.get(self.next) {
            match self.at {
                At::InKey | At::InValue(_) | At::InItem => {
                    if self.scan()? {
                        return Ok(true);
                    }
                }
                _ if byte.is_ascii_whitespace() => self.next += 1,
                at => self.step(at, byte)?,
            }
        }
        // Releases the consumed frame.
        self.push(Bytes::new());
        Ok(false)
    }

    /// Returns the metadata at the end of the body.
    pub(super) fn finish(self) -> Result<ListMeta, Error> {
        if self.at != At::End {
            return Err(Error::Incomplete);
        }
        // A Table or Status has none.
        if !self.has_items {
            return Err(Error::unexpected(format!("not a list but kind {:?}", self.kind)));
        }
        Ok(self.meta)
    }

    /// Parses one structural token of the envelope.
    fn step(&mut self, at: At, byte: u8) -> Result<(), Error> {
        use At::*;
        self.at = match (at, byte) {
            (Start, b'{') => FirstKey,
            (FirstKey | Key, b'"') => InKey,
            (Colon(field), b':') => Value(field),
            (Value(Field::Items), b'[') => FirstItem,
            (Value(Field::Items), b'n') => InValue(Field::Other),
            (Value(Field::Items), _) => return Err(Error::unexpected("items is not a list")),
            (Value(field), b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                InValue(field)
            }
            (FirstItem | NextItem, b'{') => InItem,
            (AfterItem, b',') => NextItem,
            (FirstItem | AfterItem, b']') => AfterValue,
            (AfterValue, b',') => Key,
            (FirstKey | AfterValue, b'}') => End,
            _ => return Err(Error::unexpected("invalid JSON of a list")),
        };
        self.has_items |= at == Value(Field::Items);
        if matches!(self.at, InKey | InValue(_) | InItem) {
            // The first byte is part of the value.
            self.extent = Extent::begin(byte);
        } else {
            self.next += 1;
        }
        Ok(())
    }

    /// Continues within a key, value or object; returns true if an object is complete.
    fn scan(&mut self) -> Result<bool, Error> {
        let begin = self.next;
        let end = self.extent.end(&self.frame[begin..]);
        self.next = end.map_or(self.frame.len(), |length| begin + length);
        let wanted = self.at != At::InValue(Field::Other);
        if end.is_some() && self.at == At::InItem && self.carry.is_empty() {
            self.item = Item::Frame(begin..self.next);
            self.at = At::AfterItem;
            return Ok(true);
        }
        if wanted {
            if self.carry.len() + (self.next - begin) > OBJECT_SIZE_MAX {
                return Err(Error::unexpected("object is too large"));
            }
            self.carry.extend_from_slice(&self.frame[begin..self.next]);
        }
        if end.is_none() {
            return Ok(false);
        }
        let unreadable = |what| move |error| Error::unexpected(format!("{what}: {error}"));
        match self.at {
            At::InItem => {
                self.item = Item::Carry;
                self.at = At::AfterItem;
                return Ok(true);
            }
            At::InKey => {
                self.at = At::Colon(match &self.carry[..] {
                    b"\"items\"" => Field::Items,
                    b"\"kind\"" => Field::Kind,
                    b"\"metadata\"" => Field::Metadata,
                    _ => Field::Other,
                });
            }
            At::InValue(field) => {
                match field {
                    Field::Kind => {
                        self.kind = serde_json::from_slice(&self.carry)
                            .map_err(unreadable("invalid kind of a list"))?;
                    }
                    Field::Metadata => {
                        self.meta = serde_json::from_slice::<Option<_>>(&self.carry)
                            .map_err(unreadable("invalid metadata of a list"))?
                            .unwrap_or_default();
                    }
                    Field::Items | Field::Other => {}
                }
                self.at = At::AfterValue;
            }
            _ => {}
        }
        self.carry.clear();
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
