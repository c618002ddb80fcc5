//! A list as bytes: stored objects in a JSON array, or messages in an envelope, produced as the
//! client reads them.
//!
//! An envelope begins with its length, so a protobuf list is measured before it is sent. The length
//! of an object is cached with its record; the message is encoded again when it is sent.

use std::borrow::Cow;

use bytes::Bytes;
use evenkeel_types::protobuf::{ENVELOPE_TAIL, EncodeError, Encoder, envelope_head};
use evenkeel_types::{Type, by_name, json};
use serde_json::Value;

use super::List;
use crate::body::Chunks;
use crate::codec;
use crate::pipeline::encode::view;
use crate::registry::resource::{Resource, TypeInfo};
use crate::request::negotiate::{Format, Output, View};
use crate::storage::{Measure, Record};

/// The encodings of a list that need no [`Value`] tree.
#[derive(Clone, Copy, Debug)]
enum Form {
    Json,
    MetadataJson,
    Protobuf(&'static Type),
    MetadataProtobuf(&'static Type),
}

/// A list in one of these encodings.
pub(crate) struct ListBody {
    list: List,
    form: Form,
    /// The kind and the API version of the list.
    kind: Cow<'static, str>,
    api_version: Cow<'static, str>,
    stage: Stage,
    encoder: Encoder,
}

/// The progress of the encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Measuring { at: usize, total: usize },
    Head { total: usize },
    Item(usize),
    Done,
}

/// The approximate size of a chunk in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// Protobuf lists up to this size are buffered, which avoids measuring them.
const BUFFERED_MAX: usize = 1024 * 1024;

/// Bytes measured before yielding to other tasks.
const YIELD_BYTES: usize = 1024 * 1024;

/// The field numbers of all lists: metadata and items.
const METADATA: u32 = 1;
const ITEMS: u32 = 2;

impl Form {
    /// Returns the negotiated encoding, unless it needs a tree.
    fn of(list: &List, output: Output) -> Option<Self> {
        Some(match (output.view, output.format, &list.resource.type_info) {
            (View::Object, Format::Json { pretty: false }, _) => Self::Json,
            (View::Object, Format::Protobuf, TypeInfo::Builtin(builtin)) => {
                Self::Protobuf(builtin.ty)
            }
            (View::MetadataList, Format::Json { pretty: false }, _) => Self::MetadataJson,
            (View::MetadataList, Format::Protobuf, _) => Self::MetadataProtobuf(object_meta()?),
            _ => return None,
        })
    }
}

impl ListBody {
    /// Creates the body in the negotiated encoding; returns the list if that needs a tree.
    pub(in crate::pipeline::encode) fn new(list: List, output: Output) -> Result<Self, List> {
        let Some(form) = Form::of(&list, output) else { return Err(list) };
        let (kind, api_version) = match form {
            Form::Json | Form::Protobuf(_) => {
                let resource = &list.resource;
                (resource.list_kind.to_string().into(), resource.api_version.to_string().into())
            }
            Form::MetadataJson | Form::MetadataProtobuf(_) => {
                (view::METADATA_LIST.into(), view::meta(output.beta).into())
            }
        };
        let stage = match form {
            Form::Json | Form::MetadataJson => Stage::Head { total: 0 },
            Form::Protobuf(_) | Form::MetadataProtobuf(_) => Stage::Measuring { at: 0, total: 0 },
        };
        Ok(Self { list, form, kind, api_version, stage, encoder: Encoder::default() })
    }

    /// Returns whether the list can be streamed in the negotiated encoding.
    pub(in crate::pipeline::encode) fn has_form(list: &List, output: Output) -> bool {
        Form::of(list, output).is_some()
    }

    /// Returns the approximate length of the encoding.
    pub(in crate::pipeline::encode) fn size(&self) -> usize {
        self.list.size()
    }

    /// Returns the whole encoding, if it is short.
    pub(in crate::pipeline::encode) fn encode_small(&mut self) -> Option<Vec<u8>> {
        let size = self.size();
        match self.form {
            Form::Json | Form::MetadataJson if size <= CHUNK_BYTES => {
                let mut out = self.head(0);
                (0..self.list.records.len()).for_each(|at| self.write_json(&mut out, at));
                out.extend_from_slice(&self.tail());
                Some(out)
            }
            Form::Protobuf(_) | Form::MetadataProtobuf(_) if size <= BUFFERED_MAX => {
                self.write_list_metadata();
                (0..self.list.records.len()).for_each(|at| self.write_message(at));
                let messages = self.encoder.take();
                let mut out = envelope_head(&self.api_version, &self.kind, messages.len());
                out.extend_from_slice(&messages);
                out.extend_from_slice(&ENVELOPE_TAIL);
                Some(out)
            }
            _ => None,
        }
    }

    /// Returns the bytes before the first item.
    fn head(&mut self, total: usize) -> Vec<u8> {
        match self.form {
            Form::Json if self.list.resource.is_custom() => {
                format!("{{\"apiVersion\":{},\"items\":[", Value::from(&*self.api_version)).into()
            }
            Form::Json | Form::MetadataJson => {
                let mut out = format!(
                    "{{\"kind\":{},\"apiVersion\":{},\"metadata\":",
                    Value::from(&*self.kind),
                    Value::from(&*self.api_version)
                )
                .into_bytes();
                out.extend_from_slice(&self.list_metadata());
                // As a nil slice in Go.
                let none = matches!(self.form, Form::MetadataJson) && self.list.records.is_empty();
                out.extend_from_slice(if none { b",\"items\":null" } else { b",\"items\":[" });
                out
            }
            Form::Protobuf(_) | Form::MetadataProtobuf(_) => {
                self.write_list_metadata();
                let metadata = self.encoder.take();
                let length = metadata.len() + total;
                let mut out = envelope_head(&self.api_version, &self.kind, length);
                out.extend_from_slice(&metadata);
                out
            }
        }
    }

    /// Returns the bytes after the last item.
    fn tail(&self) -> Vec<u8> {
        match self.form {
            Form::Json if self.list.resource.is_custom() => {
                let metadata = Value::Object(self.list.whole_metadata());
                let mut out =
                    format!("],\"kind\":{},\"metadata\":", Value::from(&*self.kind)).into_bytes();
                json::any(&mut out, &metadata);
                out.extend_from_slice(b"}\n");
                out
            }
            Form::MetadataJson if self.list.records.is_empty() => b"}\n".to_vec(),
            Form::Json | Form::MetadataJson => b"]}\n".to_vec(),
            Form::Protobuf(_) | Form::MetadataProtobuf(_) => ENVELOPE_TAIL.to_vec(),
        }
    }

    /// Returns the list metadata of a typed list.
    fn list_metadata(&self) -> Vec<u8> {
        let mut out = Vec::new();
        json::write(&mut out, list_meta(), &Value::Object(self.list.metadata.clone()));
        out
    }

    fn write_list_metadata(&mut self) {
        let metadata = self.list_metadata();
        let written = match list_meta() {
            Some(ty) => self.encoder.message(METADATA, ty, &metadata),
            None => Ok(()),
        };
        if let Err(why) = written {
            tracing::error!(%why, "cannot encode the metadata of a list");
        }
    }

    fn write_json(&self, out: &mut Vec<u8>, at: usize) {
        if at > 0 {
            out.push(b',');
        }
        let (resource, record) = (&self.list.resource, &self.list.records[at]);
        if let Form::MetadataJson = self.form {
            let head = format!(
                "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":",
                view::METADATA,
                self.api_version
            );
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(&metadata(resource, record));
            out.push(b'}');
            return;
        }
        let body = codec::body_or_stored(resource, record);
        if resource.is_custom() {
            out.extend_from_slice(&body);
        } else {
            // Items of built-in lists do not repeat kind and apiVersion.
            out.push(b'{');
            out.extend_from_slice(body.get(codec::item_prefix(resource)..).unwrap_or(&body));
        }
    }

    /// Appends an item to the encoder. Items that cannot be encoded are skipped.
    fn write_message(&mut self, at: usize) {
        let (resource, record) = (&self.list.resource, &self.list.records[at]);
        let written: Result<(), EncodeError> = match self.form {
            Form::Protobuf(ty) => {
                let body = codec::body_or_stored(resource, record);
                self.encoder.message(ITEMS, ty, &body)
            }
            Form::MetadataProtobuf(ty) => {
                let metadata = metadata(resource, record);
                self.encoder.nested(ITEMS, |encoder| encoder.message(METADATA, ty, &metadata))
            }
            Form::Json | Form::MetadataJson => Ok(()),
        };
        if let Err(why) = written {
            tracing::error!(%why, key = %record.key, "cannot encode an object in protobuf");
        }
    }

    /// Returns the length of an item's message.
    fn measure(&mut self, at: usize) -> usize {
        let record = self.list.records[at].clone();
        let measure = match self.form {
            Form::MetadataProtobuf(_) => Measure::Metadata,
            _ => Measure::Object,
        };
        let current = codec::is_current(&self.list.resource, &record);
        if let Some(known) = record.measured(measure).filter(|_| current) {
            return known;
        }
        self.encoder.clear();
        self.write_message(at);
        let length = self.encoder.as_bytes().len();
        self.encoder.clear();
        if current {
            record.set_measured(measure, length);
        }
        length
    }

    fn chunk(&mut self, mut at: usize, mut out: Vec<u8>) -> Bytes {
        let count = self.list.records.len();
        match self.form {
            Form::Json | Form::MetadataJson => {
                while out.len() < CHUNK_BYTES && at < count {
                    self.write_json(&mut out, at);
                    at += 1;
                }
            }
            Form::Protobuf(_) | Form::MetadataProtobuf(_) => {
                self.encoder = Encoder::new(out);
                while self.encoder.as_bytes().len() < CHUNK_BYTES && at < count {
                    self.write_message(at);
                    at += 1;
                }
                out = self.encoder.take();
            }
        }
        self.stage = Stage::Item(at);
        if at == count {
            out.extend_from_slice(&self.tail());
            self.stage = Stage::Done;
        }
        out.into()
    }
}

impl Chunks for ListBody {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.stage {
                Stage::Measuring { mut at, mut total } => {
                    let mut since_yield = 0;
                    while at < self.list.records.len() && since_yield < YIELD_BYTES {
                        let length = self.measure(at);
                        (at, total, since_yield) = (at + 1, total + length, since_yield + length);
                    }
                    self.stage = Stage::Measuring { at, total };
                    if at == self.list.records.len() {
                        self.stage = Stage::Head { total };
                    } else {
                        tokio::task::yield_now().await;
                    }
                }
                Stage::Head { total } => {
                    let head = self.head(total);
                    return Some(self.chunk(0, head));
                }
                Stage::Item(at) => {
                    return Some(self.chunk(at, Vec::with_capacity(CHUNK_BYTES + 4096)));
                }
                Stage::Done => return None,
            }
        }
    }
}

/// Returns the JSON of an object's metadata, as Go encodes it.
fn metadata<'r>(resource: &Resource, record: &'r Record) -> Cow<'r, [u8]> {
    if !resource.is_custom()
        && codec::is_current(resource, record)
        && !evenkeel_kinds::strategy::has_versioned_metadata(resource.gvk())
        && let Some(metadata) = evenkeel_types::protobuf::member(&record.body, "metadata")
    {
        return Cow::Borrowed(metadata);
    }
    let object = codec::value(resource, record).unwrap_or_else(|status| {
        tracing::error!(key = %record.key, why = status.message(), "cannot convert an object");
        Value::Null
    });
    let view = view::to_metadata(resource.gvk(), &object);
    let mut out = Vec::new();
    let order = codec::fields_order(resource);
    json::write_in_order(&mut out, object_meta(), &view["metadata"], order);
    Cow::Owned(out)
}

fn object_meta() -> Option<&'static Type> {
    by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

fn list_meta() -> Option<&'static Type> {
    by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta")
}
