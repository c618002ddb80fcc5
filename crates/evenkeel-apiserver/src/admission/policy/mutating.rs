//! Mutating policies: applies their mutations to the object, one after the other.

mod patch;

use std::sync::Arc;

use evenkeel_cel::Value as CelValue;
use evenkeel_cel::admission::{Compiled, Compiler, MatchConditions, Purpose};
use serde_json::Value;

use self::patch::{Failure, Target};
use super::super::convert::{self, Versioned};
use super::super::{expressions, request, selection};
use super::index::{Binding, Definition, Evaluator, Policy};
use super::{namespace, params};
use crate::context::Attributes;
use crate::object::Metadata as _;
use crate::registry::resource::Resource;
use crate::status::Status;

/// The compiled expressions of a mutating policy.
pub(crate) struct Mutations {
    compiler: Compiler,
    conditions: MatchConditions,
    mutations: Vec<Mutation>,
    /// Whether it is evaluated again if a later mutation changes the object.
    reinvoked: bool,
}

/// One mutation of a policy.
struct Mutation {
    kind: PatchKind,
    compiled: Compiled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchKind {
    ApplyConfiguration,
    JsonPatch,
}

impl Evaluator for Mutations {
    const TABLES: [&'static str; 2] = [
        "admissionregistration.k8s.io/mutatingadmissionpolicies",
        "admissionregistration.k8s.io/mutatingadmissionpolicybindings",
    ];

    fn compile(spec: &Value) -> Self {
        let compiler = expressions::policy_compiler(spec);
        let mutations = spec["mutations"].as_array().into_iter().flatten().map(|mutation| {
            let (kind, field, purpose) = match mutation["patchType"].as_str() {
                Some("JSONPatch") => (PatchKind::JsonPatch, "jsonPatch", Purpose::JsonPatch),
                _ => {
                    let purpose = Purpose::ApplyConfiguration;
                    (PatchKind::ApplyConfiguration, "applyConfiguration", purpose)
                }
            };
            let expression = mutation[field]["expression"].as_str().unwrap_or("");
            Mutation { kind, compiled: compiler.compile(expression, purpose) }
        });
        Self {
            conditions: expressions::match_conditions(&compiler, spec),
            mutations: mutations.collect(),
            reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            compiler,
        }
    }
}

/// One evaluation of a policy.
struct Invocation<'a> {
    definition: &'a Definition<Mutations>,
    binding: &'a Binding,
    matched: Arc<Resource>,
    params: Option<Value>,
}

impl Invocation<'_> {
    /// Returns what distinguishes the invocation in a second run.
    fn key(&self) -> String {
        let params = self.params.as_ref();
        let part = |field: &str| params.map_or("", |params| params.meta_str(field));
        let (policy, binding) = (&self.definition.name, &self.binding.name);
        format!("{policy} {binding} {}/{}", part("namespace"), part("name"))
    }
}

/// The errors of policies that do not ignore them.
#[derive(Default)]
struct Errors(Vec<(String, &'static str)>);

impl Errors {
    fn add(
        &mut self,
        definition: &Definition<Mutations>,
        binding: Option<&Binding>,
        why: &str,
        reason: &'static str,
    ) {
        if definition.ignores_failures {
            return;
        }
        let policy = &definition.name;
        let message = match binding {
            Some(binding) => {
                format!("policy '{policy}' with binding '{}' denied request: {why}", binding.name)
            }
            None => format!("policy \"{policy}\" denied request: {why}"),
        };
        self.0.push((message, reason));
    }

    fn misconfigured(
        &mut self,
        definition: &Definition<Mutations>,
        binding: Option<&Binding>,
        why: &str,
    ) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let why = format!("failed to configure {what}: {why}");
        self.add(definition, binding, &why, "Forbidden");
    }
}

pub(super) async fn dispatch(
    attributes: &mut Attributes<'_>,
    policies: &[Policy<Mutations>],
) -> Result<(), Status> {
    let mut errors = Errors::default();
    let mut invocations = Vec::new();
    for policy in policies {
        collect(attributes, policy, &mut invocations, &mut errors).await;
    }
    if !invocations.is_empty() {
        invoke(attributes, invocations, &mut errors).await?;
    }
    let Some((message, reason)) = errors.0.first() else { return Ok(()) };
    // The code remains that of a forbidden request, whatever the reason.
    let status = attributes.forbidden("").with_message(message).with_reason(403, reason);
    let causes = errors.0.iter();
    Err(causes.fold(status, |status, (message, _)| status.with_cause("", message, "")))
}

/// Adds the invocations of a policy that matches the request.
async fn collect<'a>(
    attributes: &Attributes<'_>,
    policy: &'a Policy<Mutations>,
    invocations: &mut Vec<Invocation<'a>>,
    errors: &mut Errors,
) {
    let core = &attributes.cx.core;
    let definition = &*policy.definition;
    let matched = match definition.constraints.matches(attributes) {
        Ok(Some(matched)) => matched,
        Ok(None) => return,
        Err(why) => return errors.misconfigured(definition, None, &why),
    };
    let param_kind = definition.param_kind.as_ref();
    let param_resource = match param_kind.map(|kind| kind.resource(core)) {
        None => None,
        Some(Ok(resource)) => Some(resource),
        Some(Err(why)) => return errors.misconfigured(definition, None, &why),
    };
    for binding in &policy.bindings {
        match binding.resources.as_ref().map(|resources| resources.matches(attributes)) {
            None | Some(Ok(Some(_))) => {}
            Some(Ok(None)) => continue,
            Some(Err(why)) => {
                errors.misconfigured(definition, Some(binding), &why);
                continue;
            }
        }
        let namespace = selection::namespace(attributes);
        let param_ref = binding.param_ref.as_ref();
        match params::collect(core, param_resource.as_deref(), param_ref, namespace).await {
            Ok(found) => invocations.extend(found.into_iter().map(|params| Invocation {
                definition,
                binding,
                matched: matched.clone(),
                params,
            })),
            Err(why) => errors.misconfigured(definition, Some(binding), &why),
        }
    }
}

async fn invoke(
    attributes: &mut Attributes<'_>,
    invocations: Vec<Invocation<'_>>,
    errors: &mut Errors,
) -> Result<(), Status> {
    let again = &mut attributes.reinvocation;
    if again.is_reinvocation && attributes.object.as_deref() != again.policies.last_output.as_ref()
    {
        // Another plugin has changed the object since.
        again.policies.repeat_called();
    }
    let namespace = namespace::of(attributes)?;
    for invocation in &invocations {
        let before = attributes.object.as_deref().cloned();
        let invoked = invoke_one(attributes, invocation, namespace.as_ref(), errors).await?;
        if !invoked {
            continue;
        }
        let again = &mut attributes.reinvocation;
        if before.as_ref() != attributes.object.as_deref() {
            again.policies.repeat_called();
            again.requested = true;
        }
        if invocation.definition.evaluator.reinvoked {
            again.policies.add_called(invocation.key());
        }
    }
    attributes.reinvocation.policies.last_output = attributes.object.as_deref().cloned();
    Ok(())
}

/// Applies the mutations of a policy. Returns whether it matches the request.
async fn invoke_one(
    attributes: &mut Attributes<'_>,
    invocation: &Invocation<'_>,
    namespace: Option<&Value>,
    errors: &mut Errors,
) -> Result<bool, Status> {
    let Invocation { definition, binding, matched, params } = invocation;
    let cx = attributes.cx;
    let evaluator = &definition.evaluator;
    let kind = matched.gvk_of(cx.subresource.as_deref());
    let versioned = Versioned::of(attributes, kind).await?;
    let old = Versioned::old(versioned.as_ref(), attributes);
    let params = params.as_ref().map_or(CelValue::Null, CelValue::from_json);
    if !evaluator.conditions.is_empty() {
        let object = Versioned::object(versioned.as_ref(), attributes);
        let request = request::Request::new(attributes, kind, &cx.resource).to_value(attributes);
        let mut inputs = expressions::inputs(attributes, object, old, &request);
        inputs.params = params.clone();
        match evaluator.conditions.matches(&inputs, evaluator.compiler.variables()) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                errors.add(definition, Some(binding), &why, "Invalid");
                return Ok(false);
            }
        }
    }
    let again = &attributes.reinvocation;
    if again.is_reinvocation && !again.policies.repeats(&invocation.key()) {
        return Ok(false);
    }
    let request = request::Request::new(attributes, kind, matched).to_value(attributes);
    let Some(object) = Versioned::object(versioned.as_ref(), attributes) else { return Ok(true) };
    let mut object = object.clone();
    let mut changed = false;
    for Mutation { kind: patch_kind, compiled } in &evaluator.mutations {
        let mut inputs = expressions::inputs(attributes, Some(&object), old, &request);
        inputs.params = params.clone();
        inputs.namespace_object = namespace.map_or(CelValue::Null, CelValue::from_json);
        let target = Target { resource: matched, kind, object: &object };
        let variables = evaluator.compiler.variables();
        match patch::apply(*patch_kind, compiled, &inputs, variables, &target) {
            Ok(mut patched) => {
                convert::set_defaults(matched, kind, &mut patched);
                object = patched;
                changed = true;
            }
            Err(Failure::Rejected(status)) => return Err(status),
            Err(Failure::Policy(why)) => errors.add(definition, Some(binding), &why, "Invalid"),
        }
    }
    if changed {
        let mut patched = convert::convert(cx, object, kind, attributes.kind).await?;
        if let Some(current) = attributes.object.as_deref_mut() {
            convert::keep_valid_managed_fields(cx, current, &mut patched);
            *current = patched;
        }
    }
    Ok(true)
}
