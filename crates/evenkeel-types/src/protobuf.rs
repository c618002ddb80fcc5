//! The binary wire form of the built-in kinds, to JSON and back.
//!
//! A message is an envelope: four magic bytes, then a `runtime.Unknown` with the `apiVersion`, the
//! `kind` and the object's own bytes. [`decode`] gives exactly the JSON that Go prints after
//! decoding the same bytes, [`encode`] the bytes that Go writes after decoding the same JSON; both
//! are driven by the table of types.
//!
//! Input may be hostile: nesting is bounded, nothing is reserved on the word of a length, and what
//! is cut short is an error.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod text;
mod wire;

use serde_json::Value;

use crate::{Gvk, Type, json, lookup};
pub use encode::Encoder;
pub use text::member;
use wire::{Payload, Reader, Writer};

/// What every enveloped message begins with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// As deep as JSON documents may be.
const DEPTH_MAX: usize = 128;

/// An object that came as protobuf.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The envelope's `apiVersion`, which the object has too if its type does.
    pub api_version: String,
    /// The envelope's `kind`, which the object has too if its type does.
    pub kind: String,
    /// The object as Go would print it.
    pub object: Value,
}

/// Why bytes could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// There were none.
    #[error("empty data")]
    Empty,
    /// The magic is missing.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NotProtobuf,
    /// The table has no such kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The envelope's `apiVersion`.
        api_version: String,
        /// The envelope's `kind`.
        kind: String,
    },
    /// The kind has no protobuf form.
    #[error("{0} has no protobuf form")]
    NoProtobuf(&'static str),
    /// The bytes end too early.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// A number takes more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A tag that cannot be.
    #[error("proto: illegal tag {0}")]
    IllegalTag(u64),
    /// A known field in an unexpected encoding.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType {
        /// The encoding found.
        wire: u8,
        /// The JSON name of the field.
        field: &'static str,
    },
    /// Messages within messages, beyond what JSON documents may be.
    #[error("exceeded max depth")]
    TooDeep,
    /// A value that Go could not print.
    #[error("{0}")]
    Value(String),
}

/// Why an object could not be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The object does not say what it is, or the table does not know it.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The object's `apiVersion`.
        api_version: String,
        /// The object's `kind`.
        kind: String,
    },
    /// The kind has no protobuf form.
    #[error("{0} has no protobuf form")]
    NoProtobuf(&'static str),
    /// The object was not conformed: a field holds a value of another type.
    #[error("field {0} holds a value of the wrong type")]
    Mismatch(&'static str),
    /// Deeper than JSON documents may be.
    #[error("exceeded max depth")]
    TooDeep,
}

/// Decodes an enveloped message.
///
/// # Errors
///
/// When the bytes are no message of a built-in kind.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    decode_at(bytes, 0)
}

fn decode_at(bytes: &[u8], depth: usize) -> Result<Decoded, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty);
    }
    let body = bytes.strip_prefix(&MAGIC).ok_or(DecodeError::NotProtobuf)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(body);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Bytes(bytes)) => {
                let mut meta = Reader::new(bytes);
                while let Some((number, payload)) = meta.next()? {
                    match (number, payload) {
                        (1, Payload::Bytes(text)) => api_version = lossy(text),
                        (2, Payload::Bytes(text)) => kind = lossy(text),
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let Some(ty) = lookup(Gvk::from_api_version(&api_version, &kind)) else {
        return Err(DecodeError::UnknownKind { api_version, kind });
    };
    let mut object = decode::object(ty, raw, depth)?;
    if let Value::Object(map) = &mut object
        && ty.field("apiVersion").is_some()
    {
        // The message leaves these to the envelope.
        map.insert("apiVersion".to_owned(), Value::String(api_version.clone()));
        map.insert("kind".to_owned(), Value::String(kind.clone()));
    }
    Ok(Decoded { api_version, kind, object })
}

/// Decodes a message that came without an envelope.
///
/// # Errors
///
/// When the bytes are no message of that type.
pub fn decode_bare(ty: &'static Type, bytes: &[u8]) -> Result<Value, DecodeError> {
    decode::object(ty, bytes, 0)
}

/// Encodes an object of a built-in kind, with its envelope.
///
/// # Errors
///
/// When the kind is unknown, or the object is not as [`conform`](fn@crate::conform) leaves it.
pub fn encode(object: &Value) -> Result<Vec<u8>, EncodeError> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some(ty) = lookup(Gvk::from_api_version(api_version, kind)) else {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        return Err(EncodeError::UnknownKind { api_version, kind });
    };
    let mut printed = Vec::new();
    json::write(&mut printed, Some(ty), object);
    encode_json(ty, api_version, kind, &printed)
}

/// Encodes the JSON of an object, with an envelope of these names.
///
/// # Errors
///
/// When the JSON is not compact, or not that of an object as [`conform`](fn@crate::conform) leaves
/// it.
pub fn encode_json(
    ty: &'static Type,
    api_version: &str,
    kind: &str,
    json: &[u8],
) -> Result<Vec<u8>, EncodeError> {
    let mut out = Encoder::new(MAGIC.to_vec());
    out.nested(1, |out| {
        out.bytes(1, api_version.as_bytes());
        out.bytes(2, kind.as_bytes());
        Ok(())
    })?;
    out.message(2, ty, json)?;
    let mut bytes = out.take();
    bytes.extend_from_slice(&ENVELOPE_TAIL);
    Ok(bytes)
}

/// What an envelope begins with, up to an object whose message takes `length` bytes.
pub fn envelope_head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut names = Writer::default();
    names.bytes(1, api_version.as_bytes());
    names.bytes(2, kind.as_bytes());
    let mut out = Writer::new(MAGIC.to_vec());
    out.bytes(1, names.as_bytes());
    out.head(2, length);
    out.finish()
}

/// What an envelope ends with: content encoding and type, always empty and always written.
pub const ENVELOPE_TAIL: [u8; 4] = [3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// One event of a watch stream: its length in four bytes, then a bare `WatchEvent` that holds the
/// enveloped object.
pub fn watch_frame(event: &str, enveloped: &[u8]) -> Vec<u8> {
    let mut out = Writer::new(vec![0; 4]);
    out.bytes(1, event.as_bytes());
    let mark = out.begin(2);
    out.bytes(1, enveloped);
    out.end(mark);
    let mut frame = out.finish();
    // A frame beyond 4 GiB is beyond anything the server stores.
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Go's strings may hold anything; its JSON replaces what is no UTF-8.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
