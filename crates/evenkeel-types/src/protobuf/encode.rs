//! Encodes JSON to messages, with the order and the zero values of Go.
//!
//! Fields that are not pointers are written even if they are zero, and so are empty structs. The
//! bytes are therefore those of Go for the same object.
//!
//! The JSON is read as text in one pass: [`crate::json`] encodes the members of a struct in
//! declaration order, so each is searched only at its position. An object in any other order is
//! indexed first.

use std::borrow::Cow;

use super::text::Text;
use super::wire::Writer;
use super::{DEPTH_MAX, EncodeError};
use crate::table::{Member, schema_type};
use crate::time::{Precision, Timestamp};
use crate::{Custom, Expr, Field, Shape, Type, base64};

type Done = Result<(), EncodeError>;

/// Writes messages into a buffer.
#[derive(Debug, Default)]
pub struct Encoder {
    out: Writer,
    /// Numbers and positions of members that are not in the order of their numbers.
    segments: Vec<(u32, usize, usize)>,
    scratch: Vec<u8>,
}

/// The keys and values of an object.
type Index<'t> = Vec<(&'t [u8], &'t [u8])>;

impl Encoder {
    /// Creates an encoder that appends to `buffer`.
    pub fn new(buffer: Vec<u8>) -> Self {
        Self { out: Writer::new(buffer), ..Self::default() }
    }

    /// Returns the written bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.out.as_bytes()
    }

    /// Takes the written bytes; the next message starts an empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out).finish()
    }

    /// Discards the written bytes and keeps the buffer.
    pub fn clear(&mut self) {
        self.out.truncate(0);
    }

    /// Appends field `number`, a message of type `ty`, from the JSON of an object.
    ///
    /// # Errors
    ///
    /// If the JSON is not such an object; nothing is appended then.
    pub fn message(&mut self, number: u32, ty: &'static Type, json: &[u8]) -> Done {
        self.nested(number, |encoder| encoder.object(ty, json))
    }

    /// Appends field `number`, a message whose fields `write` appends.
    ///
    /// # Errors
    ///
    /// The error of `write`; nothing is appended then.
    pub fn nested(&mut self, number: u32, write: impl FnOnce(&mut Self) -> Done) -> Done {
        let start = self.out.as_bytes().len();
        let mark = self.out.begin(number);
        let done = write(self);
        match done {
            Ok(()) => self.out.end(mark),
            Err(_) => self.out.truncate(start),
        }
        done
    }

    /// Appends field `number`: bytes or text.
    pub fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.out.bytes(number, bytes);
    }

    /// Appends field `number`: an integer or a boolean.
    pub fn varint(&mut self, number: u32, value: u64) {
        self.out.varint(number, value);
    }

    /// Appends field `number`: a floating point number.
    pub fn double(&mut self, number: u32, value: f64) {
        self.out.double(number, value);
    }

    /// Encodes the fields of a whole object.
    pub(super) fn object(&mut self, ty: &'static Type, json: &[u8]) -> Done {
        if ty.members_by_number.is_empty() && !ty.fields.iter().all(|field| field.embed.is_some()) {
            return Err(EncodeError::NoProtobuf(ty.name));
        }
        let mut text = Text::new(json);
        self.members(&mut text, ty, 0)?;
        if text.is_at_end() { Ok(()) } else { Err(EncodeError::Mismatch(ty.name)) }
    }

    /// Encodes the fields of the next object in the text.
    fn members(&mut self, text: &mut Text<'_>, ty: &'static Type, depth: usize) -> Done {
        if depth >= DEPTH_MAX {
            return Err(EncodeError::TooDeep);
        }
        let (begin, start) = (*text, self.out.as_bytes().len());
        text.expect(b'{', ty.name)?;
        self.in_order(ty, depth, &mut |encoder, field, depth| {
            if !text.key(field.name) {
                return encoder.absent(field, depth);
            }
            encoder.field(text, field, depth)?;
            text.take(b',');
            Ok(())
        })?;
        if text.take(b'}') {
            return Ok(());
        }
        self.out.truncate(start);
        *text = begin;
        let index = index(text, ty.name)?;
        self.in_order(ty, depth, &mut |encoder, field, depth| match index
            .iter()
            .find(|(key, _)| *key == field.name.as_bytes())
        {
            Some((_, value)) => encoder.field(&mut Text::new(value), field, depth),
            None => encoder.absent(field, depth),
        })
    }

    /// Writes the members of a struct by number, each with `member`.
    fn in_order<M>(&mut self, ty: &'static Type, depth: usize, member: &mut M) -> Done
    where
        M: FnMut(&mut Self, &'static Field, usize) -> Done,
    {
        let first = self.segments.len();
        for slot in &ty.declared {
            let start = self.out.as_bytes().len();
            let number = match *slot {
                Member::Field(field) => {
                    let field = &ty.fields[field as usize];
                    member(self, field, depth + 1)?;
                    field.number
                }
                Member::Embed(embed) => {
                    let embed = &ty.embeds[embed as usize];
                    let mark = self.out.begin(embed.number);
                    self.in_order(embed.ty.get(), depth + 1, member)?;
                    match embed.number {
                        // Fields of the envelope are read but not written again.
                        0 => self.out.truncate(start),
                        _ => self.out.end(mark),
                    }
                    embed.number
                }
            };
            if !ty.ascending {
                self.segments.push((number, start, self.out.as_bytes().len()));
            }
        }
        if !ty.ascending {
            self.sort_segments(first);
        }
        Ok(())
    }

    /// Sorts the adjacent segments from `first` on by number.
    fn sort_segments(&mut self, first: usize) {
        let segments = &mut self.segments[first..];
        if let Some(&(_, start, _)) = segments.first() {
            segments.sort_by_key(|(number, ..)| *number);
            self.scratch.clear();
            for &(_, from, to) in &*segments {
                self.scratch.extend_from_slice(&self.out.as_bytes()[from..to]);
            }
            self.out.truncate(start);
            self.out.append(&self.scratch);
        }
        self.segments.truncate(first);
    }

    fn field(&mut self, text: &mut Text<'_>, field: &'static Field, depth: usize) -> Done {
        if text.null() {
            return self.absent(field, depth);
        }
        if field.number == 0 {
            return text.value(field.name).map(drop);
        }
        match field.shape {
            Shape::List(element) if !field.expr.wrapped() => {
                self.list(text, field.number, element, field.name, depth)
            }
            Shape::Map { value: element, .. } => {
                text.expect(b'{', field.name)?;
                while !text.take(b'}') {
                    let key = text.string(field.name)?;
                    text.expect(b':', field.name)?;
                    let mark = self.out.begin(field.number);
                    self.out.bytes(1, &key);
                    self.value(text, 2, element, field.name, depth)?;
                    self.out.end(mark);
                    text.take(b',');
                }
                Ok(())
            }
            _ => self.value(text, field.number, field.expr, field.name, depth),
        }
    }

    fn list(
        &mut self,
        text: &mut Text<'_>,
        number: u32,
        element: Expr,
        field: &'static str,
        depth: usize,
    ) -> Done {
        text.expect(b'[', field)?;
        while !text.take(b']') {
            self.value(text, number, element, field, depth)?;
            text.take(b',');
        }
        Ok(())
    }

    fn absent(&mut self, field: &'static Field, depth: usize) -> Done {
        match field.shape {
            _ if field.pointer || field.number == 0 => Ok(()),
            Shape::List(_) | Shape::Map { .. } | Shape::Bytes | Shape::Any => Ok(()),
            _ => self.zero(field.number, field.expr, field.name, depth),
        }
    }

    /// Writes the zero value of a single value.
    fn zero(&mut self, number: u32, expr: Expr, field: &'static str, depth: usize) -> Done {
        match expr.shape() {
            Shape::String | Shape::Bytes => self.out.bytes(number, b""),
            Shape::Bool | Shape::Int32 | Shape::Int64 => self.out.varint(number, 0),
            Shape::Double => self.out.double(number, 0.0),
            Shape::Struct(ty) => {
                let mark = self.out.begin(number);
                self.members(&mut Text::new(b"{}"), ty.get(), depth)?;
                self.out.end(mark);
            }
            Shape::Custom(custom, _) => {
                let mark = self.out.begin(number);
                match custom {
                    Custom::Quantity => self.out.bytes(1, b"0"),
                    Custom::IntOrString => self.int_or_string(0, 0, b""),
                    Custom::JsonSchemaPropsOrBool => self.out.varint(1, 0),
                    _ => {}
                }
                self.out.end(mark);
            }
            Shape::List(_) => self.out.bytes(number, b""),
            Shape::Map { .. } | Shape::Any => return Err(EncodeError::Mismatch(field)),
        }
        Ok(())
    }

    /// Encodes a single value.
    fn value(
        &mut self,
        text: &mut Text<'_>,
        number: u32,
        expr: Expr,
        field: &'static str,
        depth: usize,
    ) -> Done {
        if text.null() {
            return self.zero(number, expr, field, depth);
        }
        let mismatch = EncodeError::Mismatch(field);
        match expr.shape() {
            Shape::String => self.out.bytes(number, &text.string(field)?),
            Shape::Bytes => {
                let bytes = text.string(field)?;
                let bytes = std::str::from_utf8(&bytes).map_err(|_| mismatch.clone())?;
                self.out.bytes(number, &base64::decode(bytes).map_err(|_| mismatch)?);
            }
            Shape::Bool => match text.word() {
                "true" => self.out.varint(number, 1),
                "false" => self.out.varint(number, 0),
                _ => return Err(mismatch),
            },
            Shape::Int32 | Shape::Int64 => {
                // Negative numbers have 64 bits, regardless of their type.
                let integer: i64 = text.word().parse().map_err(|_| mismatch)?;
                self.out.varint(number, integer as u64);
            }
            Shape::Double => {
                self.out.double(number, text.word().parse().map_err(|_| mismatch)?);
            }
            Shape::Struct(ty) => {
                let mark = self.out.begin(number);
                self.members(text, ty.get(), depth)?;
                self.out.end(mark);
            }
            Shape::Custom(custom, _) => {
                let mark = self.out.begin(number);
                self.custom(text, custom, field, depth)?;
                self.out.end(mark);
            }
            Shape::List(element) => {
                let mark = self.out.begin(number);
                self.list(text, 1, element, field, depth)?;
                self.out.end(mark);
            }
            Shape::Map { .. } | Shape::Any => return Err(mismatch),
        }
        Ok(())
    }

    fn custom(
        &mut self,
        text: &mut Text<'_>,
        custom: Custom,
        field: &'static str,
        depth: usize,
    ) -> Done {
        let mismatch = EncodeError::Mismatch(field);
        match (custom, text.peek()) {
            (Custom::Quantity, _) => self.out.bytes(1, &text.string(field)?),
            (Custom::IntOrString, b'"') => {
                let string = text.string(field)?;
                self.int_or_string(1, 0, &string);
            }
            (Custom::IntOrString, _) => {
                let integer: i64 = text.word().parse().map_err(|_| mismatch)?;
                self.int_or_string(0, integer, b"");
            }
            (Custom::Time | Custom::MicroTime, _) => {
                let precision = match custom {
                    Custom::MicroTime => Precision::Micros,
                    _ => Precision::Seconds,
                };
                let time = text.string(field)?;
                let time = std::str::from_utf8(&time).map_err(|_| mismatch.clone())?;
                let timestamp = Timestamp::parse(time, precision).map_err(|_| mismatch)?;
                if !timestamp.is_zero() {
                    let nanos = if precision == Precision::Micros { timestamp.nanos } else { 0 };
                    self.out.varint(1, timestamp.seconds as u64);
                    self.out.varint(2, u64::from(nanos));
                }
            }
            (Custom::RawExtension | Custom::FieldsV1 | Custom::Json, _) => {
                self.out.bytes(1, &without_html_escapes(text.value(field)?));
            }
            (Custom::JsonSchemaPropsOrBool, b'{') => {
                self.out.varint(1, 1);
                self.schema(text, 2, field, depth)?;
            }
            (Custom::JsonSchemaPropsOrBool, _) => match text.word() {
                "true" => self.out.varint(1, 1),
                "false" => self.out.varint(1, 0),
                _ => return Err(mismatch),
            },
            (Custom::JsonSchemaPropsOrArray | Custom::JsonSchemaPropsOrStringArray, b'{') => {
                self.schema(text, 1, field, depth)?;
            }
            (Custom::JsonSchemaPropsOrArray | Custom::JsonSchemaPropsOrStringArray, _) => {
                text.expect(b'[', field)?;
                while !text.take(b']') {
                    if custom == Custom::JsonSchemaPropsOrArray {
                        self.schema(text, 2, field, depth)?;
                    } else {
                        self.out.bytes(2, &text.string(field)?);
                    }
                    text.take(b',');
                }
            }
        }
        Ok(())
    }

    fn int_or_string(&mut self, kind: u64, integer: i64, string: &[u8]) {
        self.out.varint(1, kind);
        self.out.varint(2, integer as u64);
        self.out.bytes(3, string);
    }

    fn schema(
        &mut self,
        text: &mut Text<'_>,
        number: u32,
        field: &'static str,
        depth: usize,
    ) -> Done {
        let ty = schema_type().ok_or(EncodeError::Mismatch(field))?;
        let mark = self.out.begin(number);
        self.members(text, ty, depth)?;
        self.out.end(mark);
        Ok(())
    }
}

/// Returns the keys and values of the next object in the text.
fn index<'t>(text: &mut Text<'t>, field: &'static str) -> Result<Index<'t>, EncodeError> {
    let mut index = Index::new();
    text.expect(b'{', field)?;
    while !text.take(b'}') {
        let key = text.value(field)?;
        text.expect(b':', field)?;
        let value = text.value(field)?;
        let key = key.strip_prefix(b"\"").and_then(|key| key.strip_suffix(b"\""));
        index.push((key.ok_or(EncodeError::Mismatch(field))?, value));
        text.take(b',');
    }
    Ok(index)
}

/// Removes HTML escapes: JSON within a message is what the client sent.
fn without_html_escapes(json: &[u8]) -> Cow<'_, [u8]> {
    if !json.windows(3).any(|window| window == b"\\u0" || window == b"\\u2") {
        return Cow::Borrowed(json);
    }
    match serde_json::from_slice::<serde_json::Value>(json) {
        Ok(value) => Cow::Owned(value.to_string().into_bytes()),
        Err(_) => Cow::Borrowed(json),
    }
}
