//! Tags, varints and lengths.

use super::DecodeError;

/// The undecoded value of one field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// Four fixed bytes or a group, which Kubernetes does not use.
    Other(u8),
}

impl Payload<'_> {
    pub(super) fn wire_type(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Other(wire) => wire,
        }
    }
}

/// Reads the fields of one message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number and value of the next field; `None` at the end of the message.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire) = self.tag()?;
        let payload = match wire {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| DecodeError::UnexpectedEof)?;
                Payload::Bytes(self.take(length)?)
            }
            3 => {
                self.skip_group()?;
                Payload::Other(wire)
            }
            5 => {
                self.array::<4>()?;
                Payload::Other(wire)
            }
            _ => return Err(DecodeError::IllegalTag(u64::from(number) << 3 | u64::from(wire))),
        };
        Ok(Some((number, payload)))
    }

    /// Returns the next of a run of packed varints.
    pub(super) fn packed(&mut self) -> Result<Option<u64>, DecodeError> {
        if self.rest.is_empty() { Ok(None) } else { self.varint().map(Some) }
    }

    /// Returns the next of a run of packed doubles.
    pub(super) fn packed_fixed64(&mut self) -> Result<Option<u64>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.array().map(|bytes| Some(u64::from_le_bytes(bytes)))
    }

    fn tag(&mut self) -> Result<(u32, u8), DecodeError> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).unwrap_or(0);
        if number == 0 || number > i32::MAX as u32 {
            return Err(DecodeError::IllegalTag(tag));
        }
        Ok((number, (tag & 7) as u8))
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(DecodeError::UnexpectedEof)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Overflow)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::UnexpectedEof)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(DecodeError::UnexpectedEof)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Skips a group. Groups may be nested.
    fn skip_group(&mut self) -> Result<(), DecodeError> {
        let mut open = 1_usize;
        while open > 0 {
            match self.tag()?.1 {
                0 => drop(self.varint()?),
                1 => drop(self.array::<8>()?),
                2 => {
                    let length = usize::try_from(self.varint()?);
                    self.take(length.map_err(|_| DecodeError::UnexpectedEof)?)?;
                }
                3 => open += 1,
                4 => open -= 1,
                5 => drop(self.array::<4>()?),
                wire => return Err(DecodeError::IllegalTag(u64::from(wire))),
            }
        }
        Ok(())
    }
}

/// Writes the fields of one message.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: Vec<u8>,
}

/// The start of a nested message.
#[derive(Clone, Copy)]
#[must_use]
pub(super) struct Mark(usize);

impl Writer {
    pub(super) fn new(out: Vec<u8>) -> Self {
        Self { out }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.out
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.out.truncate(length);
    }

    pub(super) fn append(&mut self, fields: &[u8]) {
        self.out.extend_from_slice(fields);
    }

    pub(super) fn varint(&mut self, number: u32, value: u64) {
        self.tag(number, 0);
        self.raw_varint(value);
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.tag(number, 1);
        self.out.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.head(number, bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Writes the tag and the length of a field whose bytes are appended next.
    pub(super) fn head(&mut self, number: u32, length: usize) {
        self.tag(number, 2);
        self.raw_varint(length as u64);
    }

    /// Starts a nested message. One byte is reserved for its length; a longer length moves the
    /// message, which is cheaper than computing all lengths beforehand.
    pub(super) fn begin(&mut self, number: u32) -> Mark {
        self.tag(number, 2);
        self.out.push(0);
        Mark(self.out.len())
    }

    /// Ends the message that started at `mark`.
    pub(super) fn end(&mut self, mark: Mark) {
        let Mark(start) = mark;
        let end = self.out.len();
        let mut length = end - start;
        let mut more = 0;
        while length >> (7 * (more + 1)) > 0 {
            more += 1;
        }
        if more > 0 {
            self.out.resize(end + more, 0);
            self.out.copy_within(start..end, start + more);
        }
        for at in start - 1..start - 1 + more {
            self.out[at] = length as u8 | 0x80;
            length >>= 7;
        }
        self.out[start - 1 + more] = length as u8;
    }

    fn tag(&mut self, number: u32, wire: u8) {
        self.raw_varint(u64::from(number) << 3 | u64::from(wire));
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
