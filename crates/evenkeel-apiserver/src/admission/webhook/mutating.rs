//! Calls mutating webhooks, one after the other.

use evenkeel_apply::patch::JsonPatch;
use evenkeel_types::go::Quoted;
use serde_json::{Value, json};

use super::super::convert::{self, Versioned};
use super::call::{self, Failure};
use super::matching::{self, Invocation};
use super::review::Response;
use crate::context::Attributes;
use crate::json;
use crate::status::Status;

pub(super) async fn dispatch(
    attributes: &mut Attributes<'_>,
    invocations: Vec<Invocation>,
) -> Result<(), Status> {
    let again = &mut attributes.reinvocation;
    if again.is_reinvocation
        && let Some(last) = again.webhooks.last_output.take()
        && attributes.object.as_deref() != Some(&last)
    {
        // Another plugin has changed the object since.
        again.webhooks.repeat_called();
    }
    for invocation in &invocations {
        if !invocation.hook.selectors.matches(attributes)? {
            continue;
        }
        let kind = invocation.kind(attributes.cx.subresource.as_deref());
        let versioned = Versioned::of(attributes, kind).await?;
        if !matching::conditions_match(attributes, invocation, versioned.as_ref())? {
            continue;
        }
        // A webhook that was not called in the first run is not called in the second one.
        let again = &attributes.reinvocation;
        if again.is_reinvocation && !again.webhooks.repeats(&invocation.index) {
            continue;
        }
        call_one(attributes, invocation, versioned).await?;
    }
    let again = &mut attributes.reinvocation;
    if again.requested && !again.is_reinvocation {
        again.webhooks.last_output = attributes.object.as_deref().cloned();
    }
    Ok(())
}

async fn call_one(
    attributes: &mut Attributes<'_>,
    invocation: &Invocation,
    versioned: Option<Versioned>,
) -> Result<(), Status> {
    let hook = &*invocation.hook;
    let round = u8::from(attributes.reinvocation.is_reinvocation);
    let position = format!("round_{round}_index_{}", invocation.index);
    let outcome = mutate(attributes, invocation, versioned, &position).await;
    let changed = *outcome.as_ref().unwrap_or(&false);
    let summary = json!({
        "configuration": hook.configuration, "webhook": hook.name, "mutated": changed,
    });
    let cx = attributes.cx;
    cx.audit.annotate(format!("mutation.webhook.admission.k8s.io/{position}"), summary.to_string());
    if changed {
        attributes.reinvocation.webhooks.repeat_called();
        attributes.reinvocation.requested = true;
    }
    if hook.reinvoked {
        attributes.reinvocation.webhooks.add_called(invocation.index);
    }
    match outcome {
        Ok(_) => Ok(()),
        Err(Failure::Calling(why)) if hook.ignores_failures => {
            tracing::warn!(webhook = hook.name, why, "failed calling webhook, failing open");
            let key = format!("failed-open.mutation.webhook.admission.k8s.io/{position}");
            cx.audit.annotate(key, hook.name.clone());
            call::timed_out(attributes).map_or(Ok(()), Err)
        }
        Err(failure) => Err(call::refusal(failure)),
    }
}

/// Calls a webhook and applies its patch. Returns whether the object has changed.
async fn mutate(
    attributes: &mut Attributes<'_>,
    invocation: &Invocation,
    versioned: Option<Versioned>,
    position: &str,
) -> Result<bool, Failure> {
    let cx = attributes.cx;
    let (own, kind) = (attributes.kind, invocation.kind(cx.subresource.as_deref()));
    let response = {
        let object = Versioned::object(versioned.as_ref(), attributes);
        let old = Versioned::old(versioned.as_ref(), attributes);
        call::call(attributes, invocation, object, old, true).await?
    };
    let Some(patch) = decode_patch(invocation, &response)? else { return Ok(false) };
    let Some(current) = attributes.object.as_deref_mut() else {
        let why = format!(
            "admission webhook {} attempted to modify the object, which is not supported for this \
             operation",
            Quoted(&invocation.hook.name)
        );
        return Err(Failure::Rejected(Status::internal(why)));
    };
    let internal = |status| Failure::Rejected(status);
    let versioned = versioned.and_then(|versioned| versioned.object);
    let before = versioned.unwrap_or_else(|| current.clone());
    let mut patched = patch.apply(before.clone()).map_err(|why| internal(Status::internal(why)))?;
    convert::decode(&invocation.resource, kind, &mut patched).map_err(internal)?;
    let changed = patched != before;
    convert::set_defaults(&invocation.resource, kind, &mut patched);
    let mut patched = convert::convert(cx, patched, kind, own).await.map_err(internal)?;
    convert::keep_valid_managed_fields(cx, current, &mut patched);
    *current = patched;
    let annotation = json!({
        "configuration": invocation.hook.configuration, "webhook": invocation.hook.name,
        "patch": serde_json::from_slice::<Value>(&response.patch).unwrap_or_default(),
        "patchType": "JSONPatch",
    });
    let key = format!("patch.webhook.admission.k8s.io/{position}");
    cx.audit.annotate_request(key, annotation.to_string());
    Ok(changed)
}

/// Returns the patch of a response; none if it has no operations.
fn decode_patch(
    invocation: &Invocation,
    response: &Response,
) -> Result<Option<JsonPatch>, Failure> {
    if response.patch.is_empty() {
        return Ok(None);
    }
    let undecodable = |why: String| {
        let why = format!("received undecodable patch in webhook response: {why}");
        Failure::calling(invocation, &why)
    };
    let (patch, _) = json::decode(&response.patch).map_err(undecodable)?;
    let empty = patch.is_null() || patch.as_array().is_some_and(Vec::is_empty);
    let patch = JsonPatch::decode(patch).map_err(|why| undecodable(why.to_string()))?;
    if empty {
        return Ok(None);
    }
    if response.patch_type != "JSONPatch" {
        let why = format!("unsupported patch type {}", Quoted(&response.patch_type));
        return Err(Failure::calling(invocation, &why));
    }
    Ok(Some(patch))
}
