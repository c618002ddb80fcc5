//! Calls validating webhooks in parallel.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::super::convert::Versioned;
use super::call::{self, Failure};
use super::matching::{self, Invocation};
use crate::context::{Attributes, HookFuture};
use crate::status::Status;

pub(super) async fn dispatch(
    attributes: &Attributes<'_>,
    invocations: Vec<Invocation>,
) -> Result<(), Status> {
    let mut selected = Vec::new();
    // The versions other than that of the request, converted once.
    let mut versions: HashMap<Arc<str>, Versioned> = HashMap::new();
    for invocation in invocations {
        if !invocation.hook.selectors.matches(attributes)? {
            continue;
        }
        let api_version = &invocation.resource.api_version;
        let kind = invocation.kind(attributes.cx.subresource.as_deref());
        if !versions.contains_key(api_version)
            && let Some(versioned) = Versioned::of(attributes, kind).await?
        {
            versions.insert(api_version.clone(), versioned);
        }
        let versioned = versions.get(api_version);
        if matching::conditions_match(attributes, &invocation, versioned)? {
            selected.push(invocation);
        }
    }
    if selected.is_empty() {
        return Ok(());
    }
    if let Some(timed_out) = call::timed_out(attributes) {
        return Err(timed_out);
    }
    let calls = selected.iter().enumerate().map(|(index, invocation)| {
        let versioned = versions.get(&invocation.resource.api_version);
        Box::pin(validate(attributes, invocation, index, versioned)) as HookFuture<'_, _>
    });
    match first_error(calls.collect()).await {
        Some(status) => Err(status),
        None => Ok(()),
    }
}

async fn validate(
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    index: usize,
    versioned: Option<&Versioned>,
) -> Result<(), Status> {
    let hook = &*invocation.hook;
    let object = Versioned::object(versioned, attributes);
    let old = Versioned::old(versioned, attributes);
    match call::call(attributes, invocation, object, old, false).await {
        Ok(_) => Ok(()),
        Err(Failure::Calling(why)) if hook.ignores_failures => {
            tracing::warn!(webhook = hook.name, why, "failed calling webhook, failing open");
            let key =
                format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}");
            attributes.cx.audit.annotate(key, hook.name.clone());
            Ok(())
        }
        Err(failure) => Err(call::refusal(failure)),
    }
}

/// Waits for all calls; returns the error of the first that failed.
async fn first_error(mut calls: Vec<HookFuture<'_, Result<(), Status>>>) -> Option<Status> {
    let mut error = None;
    poll_fn(|cx| {
        calls.retain_mut(|call| match call.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                if let Err(status) = outcome {
                    error.get_or_insert(status);
                }
                false
            }
        });
        if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    error
}
