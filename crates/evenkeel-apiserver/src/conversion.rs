//! Conversion of custom objects by the webhook of their CRD.
//!
//! Records are converted where they are read from a table, and objects before they are encoded for
//! it, so everything between sees objects in the version of its request. Resources without a
//! conversion webhook pass through unchanged; `codec.rs` converts them.

mod metadata;

mod review;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::codec;
use crate::context::Core;
use crate::json;
use crate::registry::custom::Conversion;
use crate::registry::resource::Resource;
use crate::status::Status;
use crate::storage::Record;

/// The approximate size of the objects in one review, in bytes.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Returns whether objects in other versions than that of the resource are converted by a webhook.
pub(crate) fn by_webhook(resource: &Resource) -> bool {
    conversion(resource).is_some()
}

fn conversion(resource: &Resource) -> Option<&Conversion> {
    resource.custom()?.conversion.as_deref()
}

/// Returns the records in the version of the resource, in order.
pub(crate) async fn records(
    core: &Core,
    resource: &Resource,
    mut records: Vec<Arc<Record>>,
) -> Result<Vec<Arc<Record>>, Status> {
    if !by_webhook(resource) {
        return Ok(records);
    }
    let other = |record: &Arc<Record>| record.version != resource.api_version;
    let places: Vec<usize> = (0..records.len()).filter(|place| other(&records[*place])).collect();
    let mut stored = Vec::with_capacity(places.len());
    for place in &places {
        stored.push(codec::stored_value(resource, &records[*place])?);
    }
    let converted = Box::pin(objects(core, resource, stored, &resource.api_version)).await?;
    for (place, object) in places.into_iter().zip(converted) {
        records[place] = Arc::new(codec::to_view(resource, object, &records[place])?);
    }
    Ok(records)
}

/// Like [`records`], for one record.
pub(crate) async fn record(
    core: &Core,
    resource: &Resource,
    record: Arc<Record>,
) -> Result<Arc<Record>, Status> {
    if !by_webhook(resource) || record.version == resource.api_version {
        return Ok(record);
    }
    // Boxed, so that the futures of other resources stay small.
    let converted = Box::pin(records(core, resource, vec![record])).await?;
    converted.into_iter().next().ok_or_else(|| Status::internal("no object was converted"))
}

/// Converts an object to the version in which it is stored.
pub(crate) async fn to_storage(
    core: &Core,
    resource: &Resource,
    object: Value,
) -> Result<Value, Status> {
    one(core, resource, object, &resource.storage_version).await
}

/// Converts one object to a version, if the CRD has a conversion webhook.
pub(crate) async fn one(
    core: &Core,
    resource: &Resource,
    mut object: Value,
    to: &str,
) -> Result<Value, Status> {
    if !by_webhook(resource) || object["apiVersion"] == to {
        return Ok(object);
    }
    // What is left of an object after pruning; webhooks never receive it.
    if is_empty(&object) {
        object["apiVersion"] = to.into();
        return Ok(object);
    }
    let converted = Box::pin(objects(core, resource, vec![object], to)).await?;
    converted.into_iter().next().ok_or_else(|| Status::internal("no object was converted"))
}

/// Returns whether the object has nothing but its type (upstream's `isEmptyUnstructuredObject`).
fn is_empty(object: &Value) -> bool {
    let only_type = |map: &Map<String, Value>| {
        map.len() == 2 && map.contains_key("apiVersion") && map.contains_key("kind")
    };
    object.as_object().is_some_and(only_type)
}

/// Converts objects, which are in other versions, to the version `to`.
async fn objects(
    core: &Core,
    resource: &Resource,
    mut objects: Vec<Value>,
    to: &str,
) -> Result<Vec<Value>, Status> {
    let Some(conversion) = conversion(resource) else { return Ok(objects) };
    let schemas = resource.custom().map(|custom| &custom.schemas);
    for object in &objects {
        let from = object["apiVersion"].as_str().unwrap_or("");
        if !schemas.is_some_and(|schemas| schemas.contains_key(from)) {
            return Err(failed(format!(
                "request to convert CR from an invalid group/version: {from}"
            )));
        }
    }
    let mut converted = Vec::with_capacity(objects.len());
    let total = objects.len();
    while !objects.is_empty() {
        let mut size = 0;
        let mut bodies = Vec::new();
        for object in &objects {
            let body = json::to_bytes(object);
            size += body.len();
            if size > BATCH_BYTES && !bodies.is_empty() {
                break;
            }
            bodies.push(body);
        }
        let rest = objects.split_off(bodies.len());
        let batch = std::mem::replace(&mut objects, rest);
        let of = Batch { conversion, list: total > 1, first: converted.len(), to };
        converted.extend(of.convert(core, batch, bodies).await.map_err(failed)?);
    }
    Ok(converted)
}

/// Upstream returns conversion errors without a reason.
fn failed(why: String) -> Status {
    Status::without_reason(500, why)
}

/// Objects that are converted together.
struct Batch<'a> {
    conversion: &'a Conversion,
    /// Whether the objects are those of a list.
    list: bool,
    /// The position of the first object among all that are converted.
    first: usize,
    to: &'a str,
}

impl Batch<'_> {
    async fn convert(
        &self,
        core: &Core,
        originals: Vec<Value>,
        bodies: Vec<Vec<u8>>,
    ) -> Result<Vec<Value>, String> {
        let what = self.describe(&originals);
        let crd = &self.conversion.crd;
        let converted = match core.webhooks.converter(crd) {
            Some(convert) => {
                let converted = originals.iter().map(|object| convert(object.clone(), self.to));
                converted
                    .collect::<Result<Vec<Value>, String>>()
                    .map_err(|why| format!("conversion webhook for {what} failed: {why}"))?
            }
            None => review::send(core, self.conversion, self.to, &bodies)
                .await
                .map_err(|why| format!("conversion webhook for {what} failed: {why}"))?,
        };
        if converted.len() != originals.len() {
            return Err(format!(
                "conversion webhook for {what} returned {} objects, expected {}",
                converted.len(),
                originals.len()
            ));
        }
        let pairs = (self.first..).zip(originals.into_iter().zip(converted));
        pairs
            .map(|(at, (original, converted))| self.check(&what, at, &original, converted))
            .collect()
    }

    /// Returns the kind that messages contain.
    fn describe(&self, originals: &[Value]) -> String {
        let text = |field: &str| originals[0][field].as_str().unwrap_or("");
        let suffix = if self.list { "List" } else { "" };
        format!("{}, Kind={}{suffix}", text("apiVersion"), text("kind"))
    }

    /// Checks a converted object and restores its metadata.
    fn check(
        &self,
        what: &str,
        at: usize,
        original: &Value,
        mut converted: Value,
    ) -> Result<Value, String> {
        let object = if self.list { "converted object" } else { "object" };
        let invalid = |why: String| {
            format!("conversion webhook for {what} returned invalid {object} at index {at}: {why}")
        };
        let text = |object: &Value, field: &str| object[field].as_str().unwrap_or("").to_owned();
        let kind = text(&converted, "kind");
        if !converted.is_object() || kind.is_empty() {
            let why = match &converted {
                Value::Null => "unexpected end of JSON input".to_owned(),
                other => format!("Object 'Kind' is missing in '{other}'"),
            };
            return Err(if self.list { invalid(why) } else { why });
        }
        let received = text(&converted, "apiVersion");
        if received != self.to {
            return Err(invalid(format!(
                "invalid groupVersion (expected {}, received {received})",
                self.to
            )));
        }
        let expected = text(original, "kind");
        if kind != expected {
            return Err(invalid(format!("invalid kind (expected {expected}, received {kind})")));
        }
        let place = if self.list { format!(" at index {at}") } else { String::new() };
        metadata::check(original, &converted).map_err(|why| {
            format!("conversion webhook for {what} returned invalid {object}{place}: {why}")
        })?;
        metadata::restore(original, &mut converted).map_err(|why| {
            let place = if self.list { format!(" in object at index {at}") } else { String::new() };
            format!("conversion webhook for {what} returned invalid metadata{place}: {why}")
        })?;
        Ok(converted)
    }
}
