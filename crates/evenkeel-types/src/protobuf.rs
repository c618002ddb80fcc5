//! Converts the protobuf wire format of the built-in kinds to JSON and back.
//!
//! A message is an envelope: four magic bytes, then a `runtime.Unknown` with the `apiVersion`, the
//! `kind` and the bytes of the object. [`decode`] returns the JSON that Go prints after decoding
//! the same bytes, [`encode`] the bytes that Go writes after decoding the same JSON; both use the
//! table of types.
//!
//! Input is untrusted: nesting is limited, no memory is reserved for a declared length, and
//! truncated input is an error.

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

/// The prefix of every enveloped message.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// Maximum depth, as for JSON documents.
const DEPTH_MAX: usize = 128;

/// An object decoded from protobuf.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The envelope's `apiVersion`; also set in the object if its type has the field.
    pub api_version: String,
    /// The envelope's `kind`; also set in the object if its type has the field.
    pub kind: String,
    /// The object as Go prints it.
    pub object: Value,
}

/// Why bytes could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input is empty.
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
    /// The kind has no protobuf encoding.
    #[error("{0} has no protobuf form")]
    NoProtobuf(&'static str),
    /// The input is truncated.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// A number has more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// An invalid tag.
    #[error("proto: illegal tag {0}")]
    IllegalTag(u64),
    /// A known field has an unexpected wire type.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType {
        /// The wire type in the input.
        wire: u8,
        /// The JSON name of the field.
        field: &'static str,
    },
    /// Messages are nested deeper than JSON documents may be.
    #[error("exceeded max depth")]
    TooDeep,
    /// A value that Go cannot print.
    #[error("{0}")]
    Value(String),
}

/// Why an object could not be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The object has no type, or its kind is not in the table.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The object's `apiVersion`.
        api_version: String,
        /// The object's `kind`.
        kind: String,
    },
    /// The kind has no protobuf encoding.
    #[error("{0} has no protobuf form")]
    NoProtobuf(&'static str),
    /// The object was not conformed: a field has a value of the wrong type.
    #[error("field {0} holds a value of the wrong type")]
    Mismatch(&'static str),
    /// The object is nested deeper than JSON documents may be.
    #[error("exceeded max depth")]
    TooDeep,
}

/// Decodes an enveloped message.
///
/// # Errors
///
/// If the bytes are not a message of a built-in kind.
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
        // The message has these only in the envelope.
        map.insert("apiVersion".to_owned(), Value::String(api_version.clone()));
        map.insert("kind".to_owned(), Value::String(kind.clone()));
    }
    Ok(Decoded { api_version, kind, object })
}

/// Encodes an object of a built-in kind, with its envelope.
///
/// # Errors
///
/// If the kind is unknown, or the object was not conformed by [`conform`](fn@crate::conform).
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

/// Encodes the JSON of an object, with an envelope of this `apiVersion` and `kind`.
///
/// # Errors
///
/// If the JSON is not compact, or the object was not conformed by [`conform`](fn@crate::conform).
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

/// Returns the start of an envelope, up to an object whose message has `length` bytes.
pub fn envelope_head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut names = Writer::default();
    names.bytes(1, api_version.as_bytes());
    names.bytes(2, kind.as_bytes());
    let mut out = Writer::new(MAGIC.to_vec());
    out.bytes(1, names.as_bytes());
    out.head(2, length);
    out.finish()
}

/// The end of an envelope: content encoding and type, always empty and always written.
pub const ENVELOPE_TAIL: [u8; 4] = [3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// Go's strings may contain any bytes; its JSON encoder replaces invalid UTF-8.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
