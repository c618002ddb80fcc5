//! CustomResourceDefinitions: each write to one is followed by its reconciliation, which sets
//! conditions, serves or withdraws resources, and deletes the objects of a terminating CRD.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::codec;
use crate::context::{Core, Deletion, HookFuture, Hooks, RequestContext};
use crate::object::{Metadata as _, set_finalizers, set_meta};
use crate::pipeline;
use crate::registry::custom::{is_true, serve};
use crate::registry::resource::{Part, Resource};
use crate::request::delete_options::DeleteOptions;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::{Key, Range, Record};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The hooks of CustomResourceDefinitions.
pub(super) struct CustomResourceDefinitions;

impl Hooks for CustomResourceDefinitions {
    fn decide_deletion(
        &self,
        cx: &RequestContext,
        _: &DeleteOptions,
        crd: &Value,
    ) -> Option<Deletion> {
        mark_terminating(crd, &cx.core.clock_rng.timestamp()).map(Deletion::Mark)
    }

    fn after_write<'a>(
        &'a self,
        cx: &'a RequestContext,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        Some(reconcile(&cx.core, record.key.name()))
    }

    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        _: &'a Value,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        Some(reconcile(&cx.core, record.key.name()))
    }

    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        Some(Box::pin(restore(core)))
    }

    /// A write changes the served resources, and may delete all objects of one.
    fn is_heavy(&self) -> bool {
        true
    }
}

async fn restore(core: &Arc<Core>) -> Result<(), Status> {
    let Some(resource) = core.builtin(GROUP, PLURAL) else { return Ok(()) };
    let crds = super::stored(core, GROUP, PLURAL)?;
    // Record all names first: the names of each CRD are checked against those of the others.
    for record in &crds {
        core.crds.record_names(&codec::value(&resource, record)?);
    }
    for record in crds {
        reconcile(core, record.key.name()).await;
    }
    Ok(())
}

/// Reconciles a CRD after each write to it. Boxed, because its own writes call it again.
pub(super) fn reconcile<'a>(core: &'a Arc<Core>, name: &'a str) -> HookFuture<'a> {
    Box::pin(async move {
        if let Err(status) = try_reconcile(core, name).await
            // Deleting the last object may already have deleted the CRD.
            && status.code() != 404
        {
            tracing::error!(
                crd = name,
                error = status.message(),
                "cannot reconcile a CustomResourceDefinition"
            );
        }
    })
}

async fn try_reconcile(core: &Arc<Core>, name: &str) -> Result<(), Status> {
    let Some(resource) = core.builtin(GROUP, PLURAL) else {
        return Ok(());
    };
    let key = Key::new("", name);
    let Some(record) = resource.table.get(&key) else {
        core.crds.remove(&core.registry, name);
        retry_pending_names(core, name).await;
        return Ok(());
    };
    let crd = codec::value(&resource, &record)?;
    core.crds.record_names(&crd);
    if let Some(status) = next_status(core, &crd) {
        let mut next = crd;
        next["status"] = status.clone();
        // The names are accepted from now on: other CRDs must not get them meanwhile.
        core.crds.record_names(&next);
        // Serve before the status is written, so that clients that see `Established` find the
        // resource.
        serve_if_established(core, &next, record.revision);
        // The write reconciles again with the new status.
        let cx = RequestContext::internal(core, &resource, Verb::Update, &key, Some("status"));
        pipeline::update_internal(&cx, Part::Status, move |crd| crd["status"] = status.clone())
            .await?;
        return Ok(());
    }
    serve_if_established(core, &crd, record.revision);
    if crd.is_deleting() && crd.finalizers().contains(&CLEANUP) {
        clean_up(core, &resource, &crd).await?;
    }
    Ok(())
}

/// Serves the resources of an established CRD.
fn serve_if_established(core: &Core, crd: &Value, revision: u64) {
    if is_true(crd, "Established") {
        core.crds.put(&core.registry, crd, revision, |lifetime, last| {
            serve::resources(&core.store, crd, lifetime, last)
        });
    }
}

/// Retries CRDs of the same group that wait for names, after a CRD was deleted.
async fn retry_pending_names(core: &Arc<Core>, deleted: &str) {
    for other in core.crds.pending_in_group_of(deleted) {
        reconcile(core, &other).await;
    }
}

/// Returns the next status of the CRD, if it differs from the current one.
fn next_status(core: &Core, crd: &Value) -> Option<Value> {
    let now = core.clock_rng.timestamp();
    let name_check = core.crds.check_names(crd);
    let mut next = crd.clone();
    next["status"]["acceptedNames"] = name_check.accepted;
    match &name_check.conflict {
        Some((reason, message)) => {
            set_condition(&mut next, "NamesAccepted", "False", reason, message, &now);
        }
        None => set_condition(
            &mut next,
            "NamesAccepted",
            "True",
            "NoConflicts",
            "no conflicts found",
            &now,
        ),
    }
    if !is_true(crd, "Established") {
        // Two writes, as upstream: names are accepted first, then the CRD is established.
        let (status, reason, message) = if name_check.conflict.is_some() {
            ("False", "NotAccepted", "not all names are accepted")
        } else if is_true(crd, "NamesAccepted") {
            ("True", "InitialNamesAccepted", "the initial names have been accepted")
        } else {
            ("False", "Installing", "the initial names have been accepted")
        };
        set_condition(&mut next, "Established", status, reason, message, &now);
    }
    (next["status"] != crd["status"]).then(|| next["status"].take())
}

fn set_condition(
    crd: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let mut condition = json!({
        "type": kind, "status": status, "lastTransitionTime": now, "reason": reason,
        "message": message,
    });
    let Some(conditions) = crd["status"]["conditions"].as_array_mut() else {
        crd["status"]["conditions"] = json!([condition]);
        return;
    };
    match conditions.iter_mut().find(|c| c["type"] == kind) {
        Some(existing) => {
            if existing["status"] == status {
                condition["lastTransitionTime"] = existing["lastTransitionTime"].clone();
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
}

/// Marks a CRD as terminating. Returns `None` if no finalizer is left and it can be deleted.
fn mark_terminating(crd: &Value, now: &str) -> Option<Value> {
    if crd.is_deleting() {
        return (!crd.finalizers().is_empty()).then(|| crd.clone());
    }
    let mut next = crd.clone();
    set_meta(&mut next, "deletionTimestamp", Some(now.into()));
    let mut finalizers: Vec<String> =
        crd.finalizers().iter().map(|name| (*name).to_owned()).collect();
    if !finalizers.iter().any(|name| name == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    set_finalizers(&mut next, finalizers);
    set_condition(
        &mut next,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        now,
    );
    Some(next)
}

/// Deletes the objects of a terminating CRD, and removes its finalizer once there are none.
async fn clean_up(core: &Arc<Core>, resource: &Arc<Resource>, crd: &Value) -> Result<(), Status> {
    const REASON: &str = "InstanceDeletionInProgress";
    let key = Key::new("", crd.meta_str("name"));
    let in_progress = crd["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Terminating" && c["reason"] == REASON);
    if !in_progress {
        let now = core.clock_rng.timestamp();
        let cx = RequestContext::internal(core, resource, Verb::Update, &key, Some("status"));
        pipeline::update_internal(&cx, Part::Status, move |crd| {
            let message = "CustomResource deletion is in progress";
            set_condition(crd, "Terminating", "True", REASON, message, &now);
        })
        .await?;
        return Ok(());
    }
    let served = core.crds.resources_of(crd.meta_str("name"));
    let unserved = served.first().and_then(|first| first.custom()).map(|custom| &custom.unserved);
    let all = served.iter().chain(unserved.into_iter().flat_map(|unserved| unserved.iter()));
    // In the stored version, so that nothing needs to be converted.
    let stored = all.into_iter().find(|version| version.api_version == version.storage_version);
    if let Some(served) = stored.or(served.first()) {
        let page = served.table.list(Range::default(), None).map_err(Status::internal)?;
        let deletion = DeleteOptions::default();
        for record in &page.items {
            let cx = RequestContext::internal(core, served, Verb::Delete, &record.key, None);
            match pipeline::delete_internal(&cx, record.key.name(), &deletion).await {
                Ok(_) => {}
                Err(status) if status.code() == 404 => {}
                Err(status) => return Err(status),
            }
        }
        if !served.table.is_empty() {
            // Some objects have finalizers; deleting the last of them reconciles again.
            return Ok(());
        }
    }
    let cx = RequestContext::internal(core, resource, Verb::Update, &key, None);
    pipeline::update_internal(&cx, Part::Main, |crd| {
        let left = crd.finalizers().into_iter().filter(|name| *name != CLEANUP);
        let left = left.map(str::to_owned).collect();
        set_finalizers(crd, left);
    })
    .await?;
    Ok(())
}
