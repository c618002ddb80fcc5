//! Finds the end of a JSON value in chunked text.
//!
//! Only strings and nesting are tracked. Objects are scanned in blocks of 64 bytes as bit masks; in
//! most blocks it suffices to count the bits.

const BLOCK: usize = 64;

#[derive(Default)]
pub(super) struct Extent {
    /// The number of open objects and arrays.
    depth: usize,
    string: bool,
    /// Whether the next byte is escaped by a backslash.
    escape: bool,
    /// A number, `true`, `false` or `null`, which has no closing delimiter.
    bare: bool,
}

impl Extent {
    /// Starts a value with this first byte, which is not consumed.
    pub(super) fn begin(first: u8) -> Self {
        Self { bare: !matches!(first, b'{' | b'[' | b'"'), ..Self::default() }
    }

    /// Returns the length of the value in `bytes`, if it ends there.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.bare {
            return bytes
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace());
        }
        let mut at = 0;
        let nested = self.depth > 0 || (!self.string && bytes.first() != Some(&b'"'));
        if nested {
            let (blocks, _) = bytes.as_chunks::<BLOCK>();
            for block in blocks {
                if let Some(length) = self.block(block) {
                    return Some(at + length);
                }
                at += BLOCK;
            }
        }
        while at < bytes.len() {
            if self.byte(bytes[at]) {
                return Some(at + 1);
            }
            at += 1;
        }
        None
    }

    /// Consumes one byte; returns true if the value ends with it.
    fn byte(&mut self, byte: u8) -> bool {
        if self.escape {
            self.escape = false;
            return false;
        }
        match byte {
            // JSON has no backslash outside of strings.
            b'\\' => self.escape = true,
            b'"' => self.string = !self.string,
            b'{' | b'[' if !self.string => self.depth += 1,
            // A nested value has at least one open delimiter.
            b'}' | b']' if !self.string => self.depth -= 1,
            _ => {}
        }
        self.depth == 0 && !self.string
    }

    /// Consumes a block of an object or array; returns the length in the block if it ends.
    fn block(&mut self, block: &[u8; BLOCK]) -> Option<usize> {
        let Marks { quotes, backslashes, opens, closes } = Marks::of(block);
        let plain = if backslashes == 0 && !self.escape { !0 } else { !self.escaped(backslashes) };
        // A prefix XOR: each bit is set if the byte is within a string.
        let mut within = quotes & plain;
        for shift in [1, 2, 4, 8, 16, 32] {
            within ^= within << shift;
        }
        if self.string {
            within = !within;
        }
        self.string = within >> 63 == 1;
        let (opens, closes) = (opens & plain & !within, closes & plain & !within);
        if (closes.count_ones() as usize) < self.depth {
            self.depth += opens.count_ones() as usize;
            self.depth -= closes.count_ones() as usize;
            return None;
        }
        let mut marks = opens | closes;
        while marks != 0 {
            let bit = marks.trailing_zeros();
            marks &= marks - 1;
            if opens >> bit & 1 == 1 {
                self.depth += 1;
            } else {
                self.depth -= 1;
                if self.depth == 0 {
                    return Some(bit as usize + 1);
                }
            }
        }
        None
    }

    /// Returns the escaped bytes of a block, given its backslashes.
    fn escaped(&mut self, mut backslashes: u64) -> u64 {
        let mut escaped = u64::from(self.escape);
        backslashes &= !escaped;
        self.escape = false;
        while backslashes != 0 {
            let bit = backslashes.trailing_zeros();
            let next = 2_u64.checked_shl(bit).unwrap_or(0);
            self.escape = bit == 63;
            escaped |= next;
            backslashes &= !(1 << bit | next);
        }
        escaped
    }
}

/// Bit masks of the relevant bytes of a block; the lowest bit is the first byte.
#[derive(Default)]
struct Marks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

impl Marks {
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut marks = Self::default();
        let (words, _) = block.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            // Braces and brackets differ only in this bit, and no other byte becomes a brace by it.
            let braces = word | repeat(0x20);
            let shift = 8 * index;
            marks.quotes |= equal(word, b'"') << shift;
            marks.backslashes |= equal(word, b'\\') << shift;
            marks.opens |= equal(braces, b'{') << shift;
            marks.closes |= equal(braces, b'}') << shift;
        }
        marks
    }
}

const fn repeat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Returns a bit per byte of `word`: whether it equals `byte`.
fn equal(word: u64, byte: u8) -> u64 {
    let differs = word ^ repeat(byte);
    // The top bit of each byte is set unless the byte is zero. There is no carry between bytes.
    let some = ((differs & repeat(0x7f)) + repeat(0x7f)) | differs;
    let none = (!some & repeat(0x80)) >> 7;
    none.wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end(text: &str, size: usize) -> Option<usize> {
        let mut extent = Extent::begin(text.as_bytes()[0]);
        let mut before = 0;
        for piece in text.as_bytes().chunks(size) {
            if let Some(length) = extent.end(piece) {
                return Some(before + length);
            }
            before += piece.len();
        }
        None
    }

    proptest! {
        #[test]
        fn blocks_end_where_single_bytes_do(
            rest in r#"([{}\[\]"\\]|[{\[]{1,70}|[}\]]{1,70}|\\{1,9}|"[^"\\]{0,90}"|.|a{60,70}){0,60}"#,
            first in r#"[{\["]"#,
            size in 1_usize..300,
        ) {
            let text = first + &rest;
            let one_by_one = end(&text, 1);
            prop_assert_eq!(end(&text, text.len()), one_by_one);
            prop_assert_eq!(end(&text, size), one_by_one);
        }
    }

    #[test]
    fn every_byte_is_marked_as_what_it_is() {
        for byte in 0..=u8::MAX {
            for place in 0..BLOCK {
                let mut block = [b'x'; BLOCK];
                block[place] = byte;
                let marks = Marks::of(&block);
                let bit = |is: bool| u64::from(is) << place;
                assert_eq!(marks.quotes, bit(byte == b'"'));
                assert_eq!(marks.backslashes, bit(byte == b'\\'));
                assert_eq!(marks.opens, bit(matches!(byte, b'{' | b'[')));
                assert_eq!(marks.closes, bit(matches!(byte, b'}' | b']')));
            }
        }
    }
}
