//! Decides which webhooks a request is sent to.

use std::cell::OnceCell;
use std::sync::Arc;

use evenkeel_types::Gvk;

use super::super::convert::Versioned;
use super::super::expressions;
use super::super::request::Request;
use super::super::selection::{self, requested, served_versions};
use super::hook::Hook;
use super::index::Index;
use crate::context::Attributes;
use crate::registry::resource::Resource;
use crate::status::Status;

/// The kinds that configure admission itself, which webhooks do not see.
const EXEMPT: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// A webhook whose rules match the request.
pub(super) struct Invocation {
    pub(super) hook: Arc<Hook>,
    /// The position among all webhooks.
    pub(super) index: usize,
    /// The version of the resource that the rules match.
    pub(super) resource: Arc<Resource>,
}

impl Invocation {
    /// Returns the kind that the webhook receives.
    pub(super) fn kind(&self, subresource: Option<&str>) -> Gvk<'_> {
        self.resource.gvk_of(subresource)
    }
}

/// Returns the webhooks whose rules match the request. Selectors are evaluated for the object as it
/// is when the webhook is called.
pub(super) fn invocations(index: &Index, attributes: &Attributes<'_>) -> Vec<Invocation> {
    let hooks = index.hooks();
    let kind = attributes.kind;
    let exempt = kind.group == "admissionregistration.k8s.io" && EXEMPT.contains(&kind.kind);
    if hooks.is_empty() || exempt {
        return Vec::new();
    }
    let cx = attributes.cx;
    let equivalents = OnceCell::new();
    let matching = |hook: &Hook| {
        let own = &cx.resource;
        if hook.rules.iter().any(|rule| rule.matches(requested(attributes, own))) {
            return Some(own.clone());
        }
        if !hook.equivalent {
            return None;
        }
        let others: &Vec<Arc<Resource>> = equivalents.get_or_init(|| served_versions(attributes));
        // Earlier rules first.
        hook.rules.iter().find_map(|rule| {
            let mut others = others.iter();
            others.find(|other| rule.matches(requested(attributes, other))).cloned()
        })
    };
    let found = (0..).zip(&*hooks).filter_map(|(index, hook)| {
        Some(Invocation { resource: matching(hook)?, hook: hook.clone(), index })
    });
    found.collect()
}

/// Returns whether the match conditions of the webhook are true for the request. An error is one of
/// the conditions, unless failures are ignored: then the webhook is not called.
pub(super) fn conditions_match(
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    versioned: Option<&Versioned>,
) -> Result<bool, Status> {
    let hook = &invocation.hook;
    if hook.conditions.is_empty() {
        return Ok(true);
    }
    let object = Versioned::object(versioned, attributes);
    let old = Versioned::old(versioned, attributes);
    let kind = invocation.kind(attributes.cx.subresource.as_deref());
    let request = Request::new(attributes, kind, &attributes.cx.resource).to_value(attributes);
    let inputs = expressions::inputs(attributes, object, old, &request);
    match hook.conditions.matches(&inputs, &[]) {
        Ok(matches) => Ok(matches),
        Err(_) if hook.ignores_failures => Ok(false),
        Err(why) => {
            tracing::warn!(webhook = hook.name, why, "failed evaluating match conditions");
            let what = attributes.cx.resource.group_resource();
            Err(Status::forbidden(what, selection::name(attributes), &why))
        }
    }
}
