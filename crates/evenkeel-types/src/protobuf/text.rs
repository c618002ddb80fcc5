//! Reads compact JSON in place.
//!
//! The text was written by [`crate::json`], so the reader checks for the expected token instead of
//! parsing any. Other text is an error, never a panic.

use std::borrow::Cow;

use super::EncodeError;

/// A position in a text.
#[derive(Clone, Copy)]
pub(super) struct Text<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Text<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Consumes this byte, if it is next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && self.at < self.text.len();
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, byte: u8, field: &'static str) -> Result<(), EncodeError> {
        if self.take(byte) { Ok(()) } else { Err(EncodeError::Mismatch(field)) }
    }

    /// Consumes the key with this name and its colon, if they are next.
    pub(super) fn key(&mut self, name: &str) -> bool {
        let rest = &self.text[self.at..];
        let length = name.len();
        let found = rest.get(length + 1) == Some(&b'"')
            && rest.get(length + 2) == Some(&b':')
            && rest[0] == b'"'
            && rest[1..=length] == *name.as_bytes();
        if found {
            self.at += length + 3;
        }
        found
    }

    /// Consumes a `null`, if it is next.
    pub(super) fn null(&mut self) -> bool {
        let found = self.text[self.at..].starts_with(b"null");
        if found {
            self.at += 4;
        }
        found
    }

    /// Reads the contents of the next string.
    pub(super) fn string(&mut self, field: &'static str) -> Result<Cow<'t, [u8]>, EncodeError> {
        let start = self.at;
        let escaped = self.skip_string(field)?;
        if !escaped {
            return Ok(Cow::Borrowed(&self.text[start + 1..self.at - 1]));
        }
        let text: String = serde_json::from_slice(&self.text[start..self.at])
            .map_err(|_| EncodeError::Mismatch(field))?;
        Ok(Cow::Owned(text.into_bytes()))
    }

    /// Skips a string. Returns whether it has escapes.
    fn skip_string(&mut self, field: &'static str) -> Result<bool, EncodeError> {
        self.expect(b'"', field)?;
        let mut escaped = false;
        loop {
            let rest = &self.text[self.at..];
            let stop = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            let stop = stop.ok_or(EncodeError::Mismatch(field))?;
            self.at += stop + 1;
            if rest[stop] == b'"' {
                return Ok(escaped);
            }
            escaped = true;
            // An escaped character never ends the string.
            self.at = (self.at + 1).min(self.text.len());
        }
    }

    /// Reads the next number or literal.
    pub(super) fn word(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']'));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        std::str::from_utf8(word).unwrap_or_default()
    }

    /// Reads the text of the next value.
    pub(super) fn value(&mut self, field: &'static str) -> Result<&'t [u8], EncodeError> {
        let start = self.at;
        let mut open = 0_usize;
        loop {
            match self.peek() {
                b'"' => {
                    self.skip_string(field)?;
                }
                b'{' | b'[' => {
                    open += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' if open > 0 => {
                    open -= 1;
                    self.at += 1;
                }
                b',' | b':' if open > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    if self.word().is_empty() {
                        return Err(EncodeError::Mismatch(field));
                    }
                }
            }
            if open == 0 {
                return Ok(&self.text[start..self.at]);
            }
        }
    }
}

/// Returns the text of the member of an object with this name.
///
/// Returns `None` if there is none, or if the text is not compact JSON.
pub fn member<'t>(object: &'t [u8], name: &str) -> Option<&'t [u8]> {
    let mut text = Text::new(object);
    text.take(b'{').then_some(())?;
    while text.peek() == b'"' {
        if text.key(name) {
            return text.value("").ok();
        }
        text.skip_string("").ok()?;
        text.take(b':').then_some(())?;
        text.value("").ok()?;
        text.take(b',');
    }
    None
}
