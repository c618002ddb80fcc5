//! Lists: stored bytes between two brackets, produced as the client reads them.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_kinds::columns;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{stored, view};
use crate::body::Pieces;
use crate::registry::resource::Resource;
use crate::status::Status;
use crate::storage::Record;

/// The answer to a list.
pub(crate) struct List {
    resource: Arc<Resource>,
    records: Vec<Arc<Record>>,
    metadata: Map<String, Value>,
    /// How far the encoding has come.
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Head,
    Item(usize),
    Done,
}

/// Bytes per piece, about.
const PIECE: usize = 64 * 1024;

impl List {
    pub(crate) fn new(
        resource: Arc<Resource>,
        records: Vec<Arc<Record>>,
        revision: Option<u64>,
        continue_token: Option<String>,
        remaining: Option<usize>,
    ) -> Self {
        let mut metadata = Map::new();
        if let Some(revision) = revision {
            metadata.insert("resourceVersion".into(), revision.to_string().into());
        }
        if let Some(token) = continue_token {
            metadata.insert("continue".into(), token.into());
        }
        if let Some(remaining) = remaining.filter(|n| *n > 0) {
            metadata.insert("remainingItemCount".into(), remaining.into());
        }
        Self { resource, records, metadata, stage: Stage::Head }
    }

    pub(crate) fn records(&self) -> &[Arc<Record>] {
        &self.records
    }

    /// About how long the encoding will be.
    pub(super) fn size(&self) -> usize {
        self.records.iter().map(|record| record.body.len() + 1).sum()
    }

    /// The whole encoding, if it is no longer than a piece.
    pub(super) fn small_body(&self) -> Option<Vec<u8>> {
        if self.size() > PIECE {
            return None;
        }
        let mut out = self.head();
        for at in 0..self.records.len() {
            self.write_item(&mut out, at);
        }
        out.extend_from_slice(TAIL);
        Some(out)
    }

    /// Lists of custom resources always have a token, be it empty.
    fn whole_metadata(&self) -> Map<String, Value> {
        let mut metadata = self.metadata.clone();
        if self.resource.is_custom() {
            metadata.entry("continue").or_insert_with(|| "".into());
        }
        metadata
    }

    fn head(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PIECE.min(self.size() + 256));
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
            Value::from(&*self.resource.list_kind),
            Value::from(&*self.resource.api_version),
            Value::Object(self.whole_metadata()),
        );
        out.extend_from_slice(head.as_bytes());
        out
    }

    fn write_item(&self, out: &mut Vec<u8>, at: usize) {
        if at > 0 {
            out.push(b',');
        }
        // An object that cannot be converted is given as it is stored: better seen than lost.
        let record = &self.records[at];
        let body = stored::body(&self.resource, record).unwrap_or_else(|_| record.body.clone());
        if self.resource.is_custom() {
            out.extend_from_slice(&body);
        } else {
            // Items of built-in lists do not repeat kind and apiVersion.
            out.push(b'{');
            out.extend_from_slice(body.get(stored::item_prefix(&self.resource)..).unwrap_or(&body));
        }
    }

    fn values(&self) -> impl Iterator<Item = Result<Value, Status>> {
        self.records.iter().map(|record| stored::value(&self.resource, record))
    }

    pub(super) fn to_value(&self) -> Result<Value, Status> {
        let mut items = self.values().collect::<Result<Vec<Value>, Status>>()?;
        if !self.resource.is_custom() {
            for item in items.iter_mut().filter_map(Value::as_object_mut) {
                item.remove("kind");
                item.remove("apiVersion");
            }
        }
        let mut list =
            self.enclose(&self.resource.list_kind, &self.resource.api_version, "items", items);
        list["metadata"] = Value::Object(self.whole_metadata());
        Ok(list)
    }

    pub(super) fn to_metadata(&self) -> Result<Value, Status> {
        let items = self.values().map(|value| Ok(view::to_metadata(self.resource.gvk(), &value?)));
        let items = items.collect::<Result<Vec<Value>, Status>>()?;
        let mut list = self.enclose("PartialObjectMetadataList", "meta.k8s.io/v1", "items", items);
        // A Go slice that nothing was appended to.
        if self.records.is_empty() {
            list["items"] = Value::Null;
        }
        Ok(list)
    }

    pub(super) fn to_table(&self, now: Timestamp, include: view::Include) -> Result<Value, Status> {
        let mut objects = self.values().collect::<Result<Vec<Value>, Status>>()?;
        if let Some(order) = columns::row_order(self.resource.gvk()) {
            objects.sort_by(order);
        }
        let rows = objects.iter().map(|object| view::to_row(&self.resource, object, now, include));
        let rows = rows.collect();
        let definitions = Some(view::table_definitions(&self.resource));
        let mut table = view::table(self.metadata.clone(), definitions, rows);
        let plain = !self.resource.is_custom() && columns::is_plain(self.resource.gvk());
        if plain && self.records.is_empty() {
            table["rows"] = Value::Null;
        }
        Ok(table)
    }

    fn enclose(&self, kind: &str, api_version: &str, field: &str, items: Vec<Value>) -> Value {
        let mut list = Map::new();
        list.insert("kind".into(), kind.into());
        list.insert("apiVersion".into(), api_version.into());
        list.insert("metadata".into(), Value::Object(self.metadata.clone()));
        list.insert(field.into(), items.into());
        Value::Object(list)
    }
}

const TAIL: &[u8] = b"]}\n";

impl Pieces for List {
    async fn next(&mut self) -> Option<Bytes> {
        let (mut out, mut at) = match self.stage {
            Stage::Head => (self.head(), 0),
            Stage::Item(at) => (Vec::with_capacity(PIECE + 4096), at),
            Stage::Done => return None,
        };
        while out.len() < PIECE && at < self.records.len() {
            self.write_item(&mut out, at);
            at += 1;
        }
        self.stage = Stage::Item(at);
        if at == self.records.len() {
            out.extend_from_slice(TAIL);
            self.stage = Stage::Done;
        }
        Some(out.into())
    }
}
