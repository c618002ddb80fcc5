//! `ResourceQuota`: charges what a write uses to the quotas of its namespace, and rejects it if one
//! would be exceeded.
//!
//! The charge is a write of the quota's status, conditional on the version that was checked. So of
//! concurrent requests only as many succeed as fit. A charge whose object is not stored is taken
//! back, unless the quota has changed since: then its controller may have counted again, and
//! corrects the usage at its next resync.

use evenkeel_kinds::compute::ResourceList;
use evenkeel_kinds::quota::{self, Evaluator, Quota, Request};
use serde_json::{Map, Value};

use crate::context::{
    Attributes, HookFuture, Operation, Plugin, RequestContext, Reservation, Reserved,
};
use crate::object::set_meta;
use crate::pipeline::{self, persist};
use crate::registry::resource::Part;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::{Key, Range, Record};

pub(super) struct ResourceQuota;

impl Plugin for ResourceQuota {
    fn reserve<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> Option<HookFuture<'a, Result<Reserved, Status>>> {
        let cx = attributes.cx;
        let operation = match attributes.operation {
            Operation::Create => quota::Operation::Create,
            Operation::Update => quota::Operation::Update,
            Operation::Delete | Operation::Connect => return None,
        };
        // A namespace has itself as its namespace in some requests.
        if cx.namespace.is_empty() || cx.resource.is("", "namespaces") || !has_quotas(cx) {
            return None;
        }
        let evaluator = Evaluator::of(&cx.resource.group, &cx.resource.plural)?;
        let request = Request {
            operation,
            subresource: cx.subresource.as_deref().unwrap_or_default(),
            object: attributes.object.as_deref()?,
            old: attributes.old,
            now: cx.core.clock_rng.now().as_second(),
        };
        if !evaluator.handles(&request) {
            return None;
        }
        Some(Box::pin(async move {
            let mut charges = Charges(Vec::new());
            match charges.add(attributes, &evaluator, &request).await {
                Ok(()) if charges.0.is_empty() => Ok(None),
                Ok(()) => Ok(Some(Box::new(charges) as Box<dyn Reservation>)),
                Err(status) => {
                    charges.take_back(cx).await;
                    Err(status)
                }
            }
        }))
    }
}

fn has_quotas(cx: &RequestContext) -> bool {
    let one = Range { namespace: Some(&cx.namespace), limit: Some(1), ..Range::default() };
    let table = cx.core.store.table("resourcequotas");
    table.list(one, None).is_ok_and(|page| !page.items.is_empty())
}

/// One version of a quota.
struct Checked {
    key: Key,
    revision: u64,
    quota: Quota,
}

/// Returns the quotas of the namespace, or only those that are named.
fn quotas(cx: &RequestContext, names: Option<&[String]>) -> Result<Vec<Checked>, Status> {
    let range = Range { namespace: Some(&cx.namespace), ..Range::default() };
    let page = cx.core.store.table("resourcequotas").list(range, None);
    let page = page.map_err(Status::internal)?;
    let wanted = |record: &Record| {
        names.is_none_or(|names| names.iter().any(|name| name == record.key.name()))
    };
    page.items
        .iter()
        .filter(|record| wanted(record))
        .map(|record| {
            let value: Value = serde_json::from_slice(&record.body).map_err(Status::internal)?;
            let quota = Quota::of(&value);
            Ok(Checked { key: record.key.clone(), revision: record.revision, quota })
        })
        .collect()
}

/// What a write has added to the usage of quotas.
struct Charges(Vec<Charge>);

struct Charge {
    key: Key,
    /// The revision of the quota with the charge.
    revision: u64,
    /// The usage before.
    before: ResourceList,
}

impl Charges {
    /// Charges all quotas of the namespace. A quota that another request has changed is checked
    /// again; the others are charged already.
    async fn add(
        &mut self,
        attributes: &Attributes<'_>,
        evaluator: &Evaluator<'_>,
        request: &Request<'_>,
    ) -> Result<(), Status> {
        let cx = attributes.cx;
        let mut names: Option<Vec<String>> = None;
        for _ in 0..persist::ATTEMPTS {
            let checked = quotas(cx, names.as_deref())?;
            let all: Vec<Quota> = checked.iter().map(|checked| checked.quota.clone()).collect();
            let raised =
                quota::check(evaluator, &all, request).map_err(|why| attributes.forbidden(&why))?;
            if cx.is_dry_run() {
                return Ok(());
            }
            let mut changed = Vec::new();
            for (at, used) in raised {
                let Checked { key, revision, quota } = &checked[at];
                match write_usage(cx, key, *revision, &used).await {
                    Ok(Some(revision)) => self.0.push(Charge {
                        key: key.clone(),
                        revision,
                        before: quota.used.clone(),
                    }),
                    // It is deleted, so it limits nothing.
                    Ok(None) => {}
                    Err(status) if status.reason() == "Conflict" => {
                        changed.push(quota.name.clone());
                    }
                    Err(status) => return Err(status),
                }
            }
            if changed.is_empty() {
                return Ok(());
            }
            names = Some(changed);
        }
        Err(Status::internal("resource quota evaluation timed out"))
    }

    /// Restores the usage of quotas that nothing else has changed since.
    async fn take_back(self, cx: &RequestContext) {
        for Charge { key, revision, before } in self.0 {
            if let Err(status) = write_usage(cx, &key, revision, &before).await {
                let (quota, why) = (key.name(), status.message());
                tracing::debug!(quota, why, "usage of a failed write stays until the next resync");
            }
        }
    }
}

impl Reservation for Charges {
    fn commit(self: Box<Self>, _: Option<&Value>, _: &Record) {}

    fn release<'a>(self: Box<Self>, cx: &'a RequestContext) -> Option<HookFuture<'a>> {
        Some(Box::pin(self.take_back(cx)))
    }
}

/// Writes the usage of a quota if it is at `revision`. Returns the new revision, or `None` if the
/// quota does not exist.
async fn write_usage(
    cx: &RequestContext,
    key: &Key,
    revision: u64,
    used: &ResourceList,
) -> Result<Option<u64>, Status> {
    let core = &cx.core;
    let Some(resource) = core.builtin("", "resourcequotas") else { return Ok(None) };
    let cx = RequestContext::internal(core, &resource, Verb::Update, key, Some("status"));
    let used: Map<String, Value> =
        used.iter().map(|(name, quantity)| (name.clone(), quantity.to_string().into())).collect();
    let edit = |quota: &mut Value| {
        set_meta(quota, "resourceVersion", Some(revision.to_string().into()));
        quota["status"]["used"] = used.clone().into();
    };
    match pipeline::update_internal(&cx, Part::Status, edit).await {
        Ok(persist::Persisted::Stored(record)) => Ok(Some(record.revision)),
        Ok(persist::Persisted::Value(_)) => Ok(None),
        Err(status) if status.reason() == "NotFound" => Ok(None),
        Err(status) => Err(status),
    }
}
