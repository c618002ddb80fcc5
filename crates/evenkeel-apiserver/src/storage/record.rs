//! One stored version of an object, and the event that created it.
//!
//! A body is the object's JSON, encoded once. Its `metadata.resourceVersion` is known only at
//! commit, so an [`UnsavedRecord`] omits it and the commit inserts the revision.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{Key, Labels, Strings};

/// An encoded object to be stored.
#[derive(Clone, Debug)]
pub struct UnsavedRecord {
    body: Vec<u8>,
    revision_offset: usize,
    /// The object's labels, for selectors.
    pub labels: Labels,
    /// Values of the selectable fields, in an order that the caller defines.
    pub fields: Strings,
    /// The schema generation the body was encoded under. Opaque to the store.
    pub epoch: u32,
    /// The `apiVersion` the body is encoded in. Opaque to the store.
    pub version: Arc<str>,
    /// The uid of the object. Opaque to the store.
    pub uid: Box<str>,
}

/// One committed version of one object.
#[derive(Debug)]
pub struct Record {
    /// The key of the object.
    pub key: Key,
    /// The commit that created this version.
    pub revision: u64,
    /// The commit that created the object.
    pub create_revision: u64,
    /// The object's JSON, with [`revision`](Self::revision) in it.
    pub body: Bytes,
    /// The offset of the revision's digits in the body.
    pub(super) revision_offset: u32,
    /// See [`UnsavedRecord::epoch`].
    pub epoch: u32,
    /// See [`UnsavedRecord::labels`].
    pub labels: Labels,
    /// See [`UnsavedRecord::fields`].
    pub fields: Strings,
    /// See [`UnsavedRecord::version`].
    pub version: Arc<str>,
    /// See [`UnsavedRecord::uid`].
    pub uid: Box<str>,
    /// See [`Measure`]; 0 if unknown.
    pub(super) measured: [AtomicU32; 2],
}

/// A length that an encoder caches.
#[derive(Clone, Copy, Debug)]
pub enum Measure {
    /// The length of the object in protobuf.
    Object,
    /// The length of its metadata in protobuf.
    Metadata,
}

/// A committed change of one object.
#[derive(Debug)]
pub struct Event {
    /// The object after the change; if it was deleted, its last state with the revision of the
    /// deletion.
    pub record: Arc<Record>,
    /// The object before the change; `None` if it was created.
    pub previous: Option<Arc<Record>>,
    /// Whether the object was deleted.
    pub deleted: bool,
    /// Bytes that the window may hold for this event: the superseded version, the last state of a
    /// deleted object, and the frame, which is about as long as the body.
    pub(super) cost: usize,
    frame: OnceLock<Bytes>,
}

// === impl UnsavedRecord ===

impl UnsavedRecord {
    /// Creates a record from a body; the resource version is inserted at byte `revision_offset`.
    ///
    /// # Panics
    ///
    /// If `revision_offset` is outside the body.
    pub fn new(body: Vec<u8>, revision_offset: usize, version: Arc<str>) -> Self {
        assert!(revision_offset <= body.len(), "revision_offset must be within the body");
        let (labels, fields) = Default::default();
        Self { body, revision_offset, labels, fields, epoch: 0, version, uid: Box::default() }
    }

    /// Returns the body without a resource version, and the offset at which it is inserted.
    pub fn body(&self) -> (&[u8], usize) {
        (&self.body, self.revision_offset)
    }

    /// Returns a record with this content in place of that of `record`, such as the same object in
    /// another version.
    pub fn into_view_of(self, record: &Record) -> Record {
        self.into_record(record.key.clone(), record.revision, record.create_revision)
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> usize {
        self.body.len()
            + self.labels.as_strings().heap_size()
            + self.fields.heap_size()
            + self.version.len()
            + self.uid.len()
    }

    pub(super) fn into_record(self, key: Key, revision: u64, create_revision: u64) -> Record {
        Record {
            key,
            revision,
            create_revision,
            body: splice(
                &self.body[..self.revision_offset],
                revision,
                &self.body[self.revision_offset..],
            ),
            revision_offset: self.revision_offset as u32,
            epoch: self.epoch,
            labels: self.labels,
            fields: self.fields,
            version: self.version,
            uid: self.uid,
            measured: Default::default(),
        }
    }
}

// === impl Record ===

impl Record {
    /// Returns the body with another resource version.
    ///
    /// When an object no longer matches the selector of a watch, the watcher gets its last matching
    /// state with the revision of the change.
    pub fn body_at(&self, revision: u64) -> Bytes {
        if revision == self.revision {
            return self.body.clone();
        }
        let (head, tail) = self.around_revision();
        splice(head, revision, tail)
    }

    /// Returns the body before and after the resource version.
    pub fn around_revision(&self) -> (&[u8], &[u8]) {
        let start = self.revision_offset as usize;
        (&self.body[..start], &self.body[start + digits(self.revision)..])
    }

    /// Returns the same object with another revision, for a deletion.
    pub(super) fn at(&self, revision: u64) -> Self {
        Self {
            key: self.key.clone(),
            revision,
            create_revision: self.create_revision,
            body: self.body_at(revision),
            revision_offset: self.revision_offset,
            epoch: self.epoch,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            version: self.version.clone(),
            uid: self.uid.clone(),
            measured: Default::default(),
        }
    }

    /// Returns a cached length.
    pub fn measured(&self, what: Measure) -> Option<usize> {
        let length = self.measured[what as usize].load(Ordering::Relaxed);
        (length > 0).then_some(length as usize)
    }

    /// Caches a length.
    pub fn set_measured(&self, what: Measure, length: usize) {
        if let Ok(length) = u32::try_from(length) {
            self.measured[what as usize].store(length, Ordering::Relaxed);
        }
    }

    /// Returns the approximate size of this version in bytes.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>()
            + self.key.as_str().len()
            + self.body.len()
            + self.labels.as_strings().heap_size()
            + self.fields.heap_size()
            + self.uid.len()
    }
}

// === impl Event ===

impl Event {
    pub(super) fn new(record: Record, previous: Option<Arc<Record>>, deleted: bool) -> Self {
        let superseded = previous.as_ref().map_or(0, |record| record.cost());
        let last_state = if deleted { record.cost() } else { 0 };
        let cost = size_of::<Self>() + superseded + last_state + record.body.len();
        Self { record: Arc::new(record), previous, deleted, cost, frame: OnceLock::new() }
    }

    /// Returns the event with its objects in another version.
    pub fn with_records(&self, record: Arc<Record>, previous: Option<Arc<Record>>) -> Self {
        Self { record, previous, deleted: self.deleted, cost: self.cost, frame: OnceLock::new() }
    }

    /// Returns the revision of the change.
    pub fn revision(&self) -> u64 {
        self.record.revision
    }

    /// Returns the event as sent to watchers: `encode` runs once, later calls share its result.
    /// Callers must agree on the encoding.
    pub fn frame(&self, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.frame.get_or_init(|| encode(self)).clone()
    }
}

fn splice(head: &[u8], revision: u64, tail: &[u8]) -> Bytes {
    let mut buffer = [0; 20];
    let digits = write_digits(revision, &mut buffer);
    let mut body = Vec::with_capacity(head.len() + digits.len() + tail.len());
    body.extend_from_slice(head);
    body.extend_from_slice(digits);
    body.extend_from_slice(tail);
    body.into()
}

/// Returns the number of decimal digits of `n`.
pub(super) fn digits(n: u64) -> usize {
    n.checked_ilog10().unwrap_or(0) as usize + 1
}

fn write_digits(mut n: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let length = digits(n);
    for slot in buffer[..length].iter_mut().rev() {
        *slot = b'0' + (n % 10) as u8;
        n /= 10;
    }
    &buffer[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsaved() -> UnsavedRecord {
        UnsavedRecord::new(br#"{"rv":"","x":1}"#.to_vec(), 7, "v1".into())
    }

    #[test]
    fn a_record_carries_its_own_revision() {
        for revision in [0, 1, 9, 10, 99, 100, u64::MAX] {
            let record = unsaved().into_record(Key::new("a", "b"), revision, 1);
            assert_eq!(record.body, format!(r#"{{"rv":"{revision}","x":1}}"#));
        }
    }

    #[test]
    fn body_can_be_encoded_at_another_revision() {
        let record = unsaved().into_record(Key::new("a", "b"), 1234, 1);
        for revision in [0, 7, 1234, 99_999] {
            assert_eq!(record.body_at(revision), format!(r#"{{"rv":"{revision}","x":1}}"#));
            assert_eq!(record.at(revision).body_at(5), r#"{"rv":"5","x":1}"#);
        }
    }

    #[test]
    fn an_event_is_encoded_once() {
        let event = Event::new(unsaved().into_record(Key::new("a", "b"), 2, 2), None, false);
        let first = event.frame(|event| event.record.body.clone());
        let second = event.frame(|_| unreachable!("encoded before"));
        assert_eq!(first, second);
    }
}
