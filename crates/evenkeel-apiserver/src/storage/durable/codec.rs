//! The encoding of commits and records inside frames.
//!
//! Every payload begins with a tag byte. Integers are little-endian and of fixed width, strings and
//! bodies have a 32-bit length.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::storage::record::digits;
use crate::storage::{Event, Key, Labels, Record, Strings};

/// The version of the format.
const FORMAT: u32 = 1;

const TAG_LOG: u8 = b'L';
const TAG_BATCH: u8 = b'B';
const TAG_SNAPSHOT: u8 = b'S';
const TAG_RECORDS: u8 = b'R';
const TAG_END: u8 = b'E';

const OP_PUT: u8 = b'+';
const OP_DELETE: u8 = b'-';

/// The head of a payload. Ops and records follow it, still encoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// The first frame of a log, which starts at `base` and follows a log that ended at `follows`.
    Log { follows: u64, base: u64 },
    /// Ops; the first one has revision `first`.
    Batch { first: u64 },
    /// The first frame of a snapshot taken at `revision`.
    Snapshot { revision: u64 },
    /// Records of a snapshot.
    Records,
    /// The last frame of a snapshot of `count` records.
    End { count: u64 },
}

/// A logged change.
pub(super) enum Op<'a> {
    Put { table: &'a str, record: Record },
    Delete { table: &'a str, key: Key },
}

// === writing ===

pub(super) fn put_payload(out: &mut Vec<u8>, payload: &Payload) {
    match *payload {
        Payload::Log { follows, base } => {
            out.push(TAG_LOG);
            out.extend_from_slice(&FORMAT.to_le_bytes());
            out.extend_from_slice(&follows.to_le_bytes());
            out.extend_from_slice(&base.to_le_bytes());
        }
        Payload::Batch { first } => {
            out.push(TAG_BATCH);
            out.extend_from_slice(&first.to_le_bytes());
        }
        Payload::Snapshot { revision } => {
            out.push(TAG_SNAPSHOT);
            out.extend_from_slice(&FORMAT.to_le_bytes());
            out.extend_from_slice(&revision.to_le_bytes());
        }
        Payload::Records => out.push(TAG_RECORDS),
        Payload::End { count } => {
            out.push(TAG_END);
            out.extend_from_slice(&count.to_le_bytes());
        }
    }
}

pub(super) fn put_event(out: &mut Vec<u8>, table: &str, event: &Event) {
    if event.deleted {
        out.push(OP_DELETE);
        put_str(out, table);
        put_str(out, event.record.key.namespace());
        put_str(out, event.record.key.name());
    } else {
        put_record(out, table, &event.record);
    }
}

pub(super) fn put_record(out: &mut Vec<u8>, table: &str, record: &Record) {
    out.push(OP_PUT);
    put_str(out, table);
    put_str(out, record.key.namespace());
    put_str(out, record.key.name());
    out.extend_from_slice(&record.revision.to_le_bytes());
    out.extend_from_slice(&record.create_revision.to_le_bytes());
    out.extend_from_slice(&record.revision_offset.to_le_bytes());
    out.extend_from_slice(&record.epoch.to_le_bytes());
    put_str(out, &record.version);
    put_str(out, &record.uid);
    put_strings(out, record.labels.as_strings());
    put_strings(out, &record.fields);
    put_bytes(out, &record.body);
}

fn put_strings(out: &mut Vec<u8>, strings: &Strings) {
    out.extend_from_slice(&(strings.len() as u32).to_le_bytes());
    for piece in strings.iter() {
        put_str(out, piece);
    }
}

fn put_str(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

// === reading ===

/// A decoder of payloads. `None` means that the payload is invalid.
pub(super) struct Decoder<'a> {
    rest: &'a [u8],
}

/// Interned API versions: thousands of records share a few of them.
#[derive(Default)]
pub(super) struct Versions(BTreeSet<Arc<str>>);

impl<'a> Decoder<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// Decodes the head of the payload. Returns `None` for another format version; corruption was
    /// already detected by the checksum.
    pub(super) fn payload(&mut self) -> Option<Payload> {
        match self.u8()? {
            TAG_LOG => {
                self.format()?;
                Some(Payload::Log { follows: self.u64()?, base: self.u64()? })
            }
            TAG_BATCH => Some(Payload::Batch { first: self.u64()? }),
            TAG_SNAPSHOT => {
                self.format()?;
                Some(Payload::Snapshot { revision: self.u64()? })
            }
            TAG_RECORDS => Some(Payload::Records),
            TAG_END => Some(Payload::End { count: self.u64()? }),
            _ => None,
        }
    }

    pub(super) fn op(&mut self, versions: &mut Versions) -> Option<Op<'a>> {
        let kind = self.u8()?;
        let table = self.str()?;
        let key = Key::new(self.str()?, self.str()?);
        match kind {
            OP_PUT => Some(Op::Put { table, record: self.record(key, versions)? }),
            OP_DELETE => Some(Op::Delete { table, key }),
            _ => None,
        }
    }

    /// Returns whether everything has been decoded.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn record(&mut self, key: Key, versions: &mut Versions) -> Option<Record> {
        let record = Record {
            key,
            revision: self.u64()?,
            create_revision: self.u64()?,
            revision_offset: self.u32()?,
            epoch: self.u32()?,
            version: versions.intern(self.str()?),
            uid: self.str()?.into(),
            labels: Labels::from_strings(self.strings()?),
            fields: self.strings()?,
            body: self.bytes()?.to_vec().into(),
            measured: Default::default(),
        };
        let revision_end = record.revision_offset as usize + digits(record.revision);
        (revision_end <= record.body.len()).then_some(record)
    }

    fn format(&mut self) -> Option<()> {
        (self.u32()? == FORMAT).then_some(())
    }

    fn strings(&mut self) -> Option<Strings> {
        let count = self.u32()?;
        (0..count).map(|_| self.str()).collect::<Option<Vec<_>>>().map(Strings::from_iter)
    }

    fn str(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }
}

impl Versions {
    fn intern(&mut self, version: &str) -> Arc<str> {
        if let Some(known) = self.0.get(version) {
            return known.clone();
        }
        let new: Arc<str> = version.into();
        self.0.insert(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::UnsavedRecord;

    fn event() -> Event {
        let mut unsaved = UnsavedRecord::new(br#"{"rv":"","x":"y"}"#.to_vec(), 7, "apps/v1".into());
        unsaved.labels = Labels::new([("app", "shop"), ("tier", "")]);
        unsaved.fields = ["Running", "node-1"].into_iter().collect();
        unsaved.epoch = 7;
        unsaved.uid = "0a1b".into();
        Event::new(unsaved.into_record(Key::new("a", "b"), 1234, 12), None, false)
    }

    #[test]
    fn op_round_trips() {
        let mut out = Vec::new();
        let written = event();
        put_event(&mut out, "pods", &written);
        let mut decoder = Decoder::new(&out);
        let Some(Op::Put { table, record }) = decoder.op(&mut Versions::default()) else {
            panic!("not a put");
        };
        assert!(decoder.is_empty());
        assert_eq!(table, "pods");
        assert_eq!(format!("{record:?}"), format!("{:?}", written.record));
    }

    #[test]
    fn truncated_payload_is_refused() {
        let mut out = Vec::new();
        put_event(&mut out, "pods", &event());
        for length in 0..out.len() {
            assert!(Decoder::new(&out[..length]).op(&mut Versions::default()).is_none());
        }
    }

    #[test]
    fn payload_heads_round_trip() {
        for payload in [
            Payload::Log { follows: 3, base: u64::MAX },
            Payload::Batch { first: 9 },
            Payload::Snapshot { revision: 77 },
            Payload::Records,
            Payload::End { count: 5 },
        ] {
            let mut out = Vec::new();
            put_payload(&mut out, &payload);
            let mut decoder = Decoder::new(&out);
            assert_eq!(decoder.payload().as_ref(), Some(&payload));
            assert!(decoder.is_empty());
        }
    }
}
