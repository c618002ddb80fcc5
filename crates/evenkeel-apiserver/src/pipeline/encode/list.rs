//! The result of a list: the records and the list metadata.

mod body;

use std::sync::Arc;

use evenkeel_kinds::columns;
use serde_json::{Map, Value};

use super::view;
use crate::codec;
use crate::context::RequestContext;
use crate::registry::resource::Resource;
use crate::status::Status;
use crate::storage::Record;

pub(super) use body::ListBody;

/// The result of a list.
#[derive(Clone)]
pub(crate) struct List {
    pub(super) resource: Arc<Resource>,
    pub(super) records: Vec<Arc<Record>>,
    pub(super) metadata: Map<String, Value>,
}

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
        Self { resource, records, metadata }
    }

    /// Returns the approximate number of stored bytes of its objects.
    pub(super) fn size(&self) -> usize {
        self.records.iter().map(|record| record.body.len() + 1).sum()
    }

    pub(crate) fn records(&self) -> &[Arc<Record>] {
        &self.records
    }

    /// Returns the list metadata. Lists of custom resources always have a continue token, possibly
    /// empty.
    pub(super) fn whole_metadata(&self) -> Map<String, Value> {
        let mut metadata = self.metadata.clone();
        if self.resource.is_custom() {
            metadata.entry("continue").or_insert_with(|| "".into());
        }
        metadata
    }

    /// Iterates over the objects, until the request is cancelled.
    fn values(&self, cx: &RequestContext) -> impl Iterator<Item = Result<Value, Status>> {
        self.records.iter().map(|record| {
            cx.check_cancelled()?;
            codec::value(&self.resource, record)
        })
    }

    pub(super) fn to_value(&self, cx: &RequestContext) -> Result<Value, Status> {
        let mut items = self.values(cx).collect::<Result<Vec<Value>, Status>>()?;
        if !self.resource.is_custom() {
            for item in items.iter_mut().filter_map(Value::as_object_mut) {
                item.remove("kind");
                item.remove("apiVersion");
            }
        }
        let mut list = self.enclose(&self.resource.list_kind, &self.resource.api_version, items);
        list["metadata"] = Value::Object(self.whole_metadata());
        Ok(list)
    }

    pub(super) fn to_metadata(&self, cx: &RequestContext) -> Result<Value, Status> {
        let items =
            self.values(cx).map(|value| Ok(view::to_metadata(self.resource.gvk(), &value?)));
        let items = items.collect::<Result<Vec<Value>, Status>>()?;
        let mut list = self.enclose(view::METADATA_LIST, view::META, items);
        // As a nil slice in Go.
        if self.records.is_empty() {
            list["items"] = Value::Null;
        }
        Ok(list)
    }

    pub(super) fn to_table(
        &self,
        cx: &RequestContext,
        include: view::Include,
    ) -> Result<Value, Status> {
        let mut objects = self.values(cx).collect::<Result<Vec<Value>, Status>>()?;
        if let Some(order) = columns::row_order(self.resource.gvk()) {
            objects.sort_by(order);
        }
        let now = cx.core.clock_rng.now();
        let rows = objects.iter().map(|object| {
            cx.check_cancelled()?;
            Ok(view::to_row(&self.resource, object, now, include))
        });
        let rows = rows.collect::<Result<Vec<Value>, Status>>()?;
        let definitions = Some(view::table_definitions(&self.resource));
        let mut table = view::table(self.metadata.clone(), definitions, rows);
        let plain = !self.resource.is_custom() && columns::has_default_columns(self.resource.gvk());
        if plain && self.records.is_empty() {
            table["rows"] = Value::Null;
        }
        Ok(table)
    }

    fn enclose(&self, kind: &str, api_version: &str, items: Vec<Value>) -> Value {
        let mut list = Map::new();
        list.insert("kind".into(), kind.into());
        list.insert("apiVersion".into(), api_version.into());
        list.insert("metadata".into(), Value::Object(self.metadata.clone()));
        list.insert("items".into(), items.into());
        Value::Object(list)
    }
}
