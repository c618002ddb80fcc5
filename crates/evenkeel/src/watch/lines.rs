//! Splits a watch stream into lines.
//!
//! A line within one frame is borrowed from it; only a line that spans frames is copied.

use std::io::BufRead;
use std::ops::Range;

use bytes::Bytes;

use super::{Error, OBJECT_SIZE_MAX, reuse};

#[derive(Default)]
pub(super) struct Lines {
    frame: Bytes,
    /// The offset of the unread part of the frame.
    next: usize,
    /// The start of a line that ends in a later frame.
    carry: Vec<u8>,
    line: Line,
}

#[derive(Default)]
enum Line {
    #[default]
    None,
    Frame(Range<usize>),
    Carry,
}

impl Lines {
    /// Adds the next frame; the last one must have been consumed.
    pub(super) fn push(&mut self, frame: Bytes) {
        debug_assert_eq!(self.next, self.frame.len());
        self.frame = frame;
        self.next = 0;
    }

    /// Advances to the next line; returns false if it is not complete.
    pub(super) fn advance(&mut self) -> Result<bool, Error> {
        if matches!(self.line, Line::Carry) {
            reuse(&mut self.carry);
        }
        self.line = Line::None;
        let begin = self.next;
        let mut rest = &self.frame[begin..];
        // Uses the standard library's `memchr`, which is not public.
        let length = rest.skip_until(b'\n').map_err(|e| Error::unexpected(e.to_string()))?;
        self.next += length;
        let found = &self.frame[begin..self.next];
        let complete = found.last() == Some(&b'\n');
        if complete && self.carry.is_empty() {
            self.line = Line::Frame(begin..self.next);
            return Ok(true);
        }
        if self.carry.len() + found.len() > OBJECT_SIZE_MAX {
            return Err(Error::unexpected("watch event is too large"));
        }
        self.carry.extend_from_slice(found);
        if complete {
            self.line = Line::Carry;
        } else {
            // Releases the consumed frame.
            self.push(Bytes::new());
        }
        Ok(complete)
    }

    /// Advances to an unterminated last line at the end of the stream; returns false if there is
    /// none.
    pub(super) fn finish(&mut self) -> bool {
        if matches!(self.line, Line::Carry) {
            reuse(&mut self.carry);
        }
        let rest = !self.carry.is_empty();
        self.line = if rest { Line::Carry } else { Line::None };
        rest
    }

    /// Returns the current line.
    pub(super) fn line(&self) -> &[u8] {
        match &self.line {
            Line::None => &[],
            Line::Frame(range) => &self.frame[range.clone()],
            Line::Carry => &self.carry,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_independent_of_the_framing(
            lines in vec("[a-z]{0,12}", 0..12),
            rest in "[a-z]{0,5}",
            sizes in vec(1_usize..20, 1..6),
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let text = text + &rest;
            let mut unread = text.as_bytes();
            let mut cut = Lines::default();
            let mut found = Vec::new();
            for size in sizes.iter().cycle() {
                if unread.is_empty() {
                    break;
                }
                let (frame, after) = unread.split_at((*size).min(unread.len()));
                unread = after;
                cut.push(Bytes::copy_from_slice(frame));
                while cut.advance().unwrap() {
                    found.push(String::from_utf8(cut.line().to_vec()).unwrap());
                }
            }
            let ended: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
            prop_assert_eq!(found, ended);
            prop_assert_eq!(cut.finish(), !rest.is_empty());
            prop_assert_eq!(cut.line(), rest.as_bytes());
        }
    }

    #[test]
    fn unterminated_line_is_rejected() {
        let mut lines = Lines::default();
        let frame = Bytes::from(vec![b'x'; 1 << 20]);
        let frames = (0..100).take_while(|_| {
            lines.push(frame.clone());
            lines.advance().is_ok()
        });
        assert_eq!(frames.count(), 64);
    }
}
