//! Finds `metadata` and `managedFields` in the JSON text of an object.
//!
//! Objects are stored as text, so most of an object is never parsed. The scanner tracks the
//! top-level structure and strings until it has found both fields. The rest of the text is not
//! validated; a malformed object fails when it is decoded.

use std::ops::Range;

/// The positions of the parts of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The value of `metadata`.
    pub(super) metadata: Range<usize>,
    /// `managedFields` including one adjacent comma, which can be removed.
    pub(super) managed: Option<Range<usize>>,
    /// Whether the object has apiVersion and kind; list items often do not.
    pub(super) typed: bool,
    /// Whether there is white space between the scanned tokens.
    pub(super) spaced: bool,
}

/// A text that is not a JSON object with metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("not a JSON object: unexpected end")]
    End,
    #[error("not a JSON object: unexpected byte at {0}")]
    Byte(usize),
    #[error("no metadata")]
    NoMetadata,
}

/// Scans the text of an object.
pub(super) fn layout(text: &[u8]) -> Result<Layout, Malformed> {
    let mut scanner = Scanner { text, at: 0, spaced: false };
    let (mut metadata, mut managed, mut kind, mut version) = (None, None, false, false);
    scanner.space();
    scanner.expect(b'{')?;
    let mut first = true;
    while let Some(key) = scanner.key(&mut first)? {
        let start = scanner.at;
        match &text[key] {
            b"metadata" => {
                managed = scanner.metadata()?;
                metadata = Some(start..scanner.at);
            }
            name => {
                kind |= name == b"kind";
                version |= name == b"apiVersion";
                scanner.value()?;
            }
        }
        if metadata.is_some() && kind && version {
            break;
        }
    }
    let metadata = metadata.ok_or(Malformed::NoMetadata)?;
    Ok(Layout { metadata, managed, typed: kind && version, spaced: scanner.spaced })
}

/// Returns the JSON text of the object's `kind`, including quotes; `None` if it has none.
pub(super) fn kind(text: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let mut scanner = Scanner { text, at: 0, spaced: false };
    scanner.space();
    scanner.expect(b'{')?;
    let mut first = true;
    while let Some(key) = scanner.key(&mut first)? {
        let start = scanner.at;
        scanner.value()?;
        if &text[key] == b"kind" {
            return Ok(Some(&text[start..scanner.at]));
        }
    }
    Ok(None)
}

/// Returns the text without white space between tokens.
pub(super) fn compact(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for &byte in text {
        if quoted {
            quoted = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        } else {
            quoted = byte == b'"';
        }
        out.push(byte);
    }
    out
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    spaced: bool,
}

impl Scanner<'_> {
    fn peek(&self) -> Result<u8, Malformed> {
        self.text.get(self.at).copied().ok_or(Malformed::End)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.peek()? != byte {
            return Err(Malformed::Byte(self.at));
        }
        self.at += 1;
        Ok(())
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
            self.spaced = true;
        }
    }

    /// Returns the next key and advances to its value; `None` at the end of the object.
    fn key(&mut self, first: &mut bool) -> Result<Option<Range<usize>>, Malformed> {
        self.space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(None);
        }
        if !std::mem::take(first) {
            self.expect(b',')?;
            self.space();
        }
        self.expect(b'"')?;
        let start = self.at;
        self.string()?;
        let key = start..self.at - 1;
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(Some(key))
    }

    /// Skips the rest of a string after its opening quote.
    fn string(&mut self) -> Result<(), Malformed> {
        loop {
            let rest = self.text.get(self.at..).ok_or(Malformed::End)?;
            let length =
                rest.iter().position(|&c| c == b'"' || c == b'\\').ok_or(Malformed::End)?;
            self.at += length + 1;
            if rest[length] == b'"' {
                return Ok(());
            }
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<(), Malformed> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.string()
            }
            b'{' | b'[' => self.nested(),
            _ => {
                let rest = &self.text[self.at..];
                let length = rest
                    .iter()
                    .position(|c| matches!(c, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r'))
                    .ok_or(Malformed::End)?;
                if length == 0 {
                    return Err(Malformed::Byte(self.at));
                }
                self.at += length;
                Ok(())
            }
        }
    }

    /// Skips an object or array; matching of bracket types is not checked.
    fn nested(&mut self) -> Result<(), Malformed> {
        let mut depth = 0_usize;
        loop {
            let rest = self.text.get(self.at..).ok_or(Malformed::End)?;
            let length = rest
                .iter()
                .position(|c| matches!(c, b'"' | b'{' | b'[' | b'}' | b']'))
                .ok_or(Malformed::End)?;
            self.at += length + 1;
            match rest[length] {
                b'"' => self.string()?,
                b'{' | b'[' => depth += 1,
                _ => depth -= 1,
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Skips the metadata object; returns the range of `managedFields` to remove.
    fn metadata(&mut self) -> Result<Option<Range<usize>>, Malformed> {
        let mut managed = None;
        self.expect(b'{')?;
        let (mut first, mut behind) = (true, self.at);
        loop {
            let leading = first;
            let Some(key) = self.key(&mut first)? else { return Ok(managed) };
            self.value()?;
            if &self.text[key] == b"managedFields" {
                // One of the two adjacent commas must stay.
                let comma = leading && self.text.get(self.at) == Some(&b',');
                managed = Some(behind..self.at + usize::from(comma));
            }
            behind = self.at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str) -> String {
        let layout = layout(text.as_bytes()).unwrap();
        let mut text = text.to_owned();
        if let Some(managed) = layout.managed {
            text.replace_range(managed, "");
        }
        text
    }

    #[test]
    fn managed_fields_are_removed_at_any_position() {
        for (with, cut) in [
            (
                r#"{"metadata":{"managedFields":[{"a":"]}\""}],"name":"x"}}"#,
                r#"{"metadata":{"name":"x"}}"#,
            ),
            (
                r#"{"metadata":{"name":"x","managedFields":[],"uid":"u"}}"#,
                r#"{"metadata":{"name":"x","uid":"u"}}"#,
            ),
            (
                r#"{"metadata":{"name":"x","managedFields":[[{}]]},"spec":1}"#,
                r#"{"metadata":{"name":"x"},"spec":1}"#,
            ),
            (r#"{"metadata":{"managedFields":null}}"#, r#"{"metadata":{}}"#),
            (
                r#"{"spec":{"managedFields":[1]},"metadata":{"name":"x"}}"#,
                r#"{"spec":{"managedFields":[1]},"metadata":{"name":"x"}}"#,
            ),
        ] {
            assert_eq!(without(with), cut);
        }
    }

    #[test]
    fn text_with_whitespace_is_compacted() {
        let text = "{ \"metadata\" : {\n \"managedFields\" : [ ] , \"name\" : \"a b\\\" c\" } }";
        let found = layout(text.as_bytes()).unwrap();
        assert!(found.spaced);
        let text = String::from_utf8(compact(text.as_bytes())).unwrap();
        assert_eq!(without(&text), r#"{"metadata":{"name":"a b\" c"}}"#);
    }

    #[test]
    fn type_is_found_before_and_after_the_metadata() {
        for (text, typed) in [
            (r#"{"kind":"A","apiVersion":"v1","metadata":{}}"#, true),
            (r#"{"metadata":{},"spec":{"kind":"A"},"kind":"A","apiVersion":"v1"}"#, true),
            (r#"{"metadata":{},"spec":{"kind":"A","apiVersion":"v1"}}"#, false),
        ] {
            assert_eq!(layout(text.as_bytes()).unwrap().typed, typed, "{text}");
        }
    }

    #[test]
    fn kind_is_read_from_the_top_level_only() {
        for (text, found) in [
            (r#"{"kind":"A","metadata":{}}"#, Some("\"A\"")),
            (r#"{ "spec": {"kind":"B"}, "kind" : "A" }"#, Some("\"A\"")),
            (r#"{"kind":null}"#, Some("null")),
            (r#"{"spec":{"kind":"B"}}"#, None),
        ] {
            assert_eq!(kind(text.as_bytes()).unwrap(), found.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn scanner_does_not_panic_on_any_text() {
        let whole =
            br#"{"kind":"A","metadata":{"managedFields":[{"a":"\\\"]"}],"name":null},"x":[1,{}]}"#;
        for end in 0..whole.len() {
            assert!(layout(&whole[..end]).is_err(), "{end}");
            let _ = kind(&whole[..end]);
            for byte in [b'"', b'\\', b'{', b'}', b'[', b']', b',', b':', b' ', b'x', 0xff] {
                let mut text = whole.to_vec();
                text[end] = byte;
                let _ = (layout(&text), kind(&text));
            }
        }
        assert_eq!(layout(b"{}"), Err(Malformed::NoMetadata));
        assert!(layout(b"]").is_err());
        assert!(layout(b"{\"metadata\":}").is_err());
    }
}
