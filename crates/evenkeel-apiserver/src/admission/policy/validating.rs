//! Validating policies: evaluates their validations and acts on those that fail.

mod evaluate;

use evenkeel_types::{Gvk, go};

pub(crate) use self::evaluate::Validations;
use self::evaluate::{Annotation, Decision, Request};
use super::super::convert::Versioned;
use super::super::selection;
use super::index::{Binding, Definition, Policy};
use super::{namespace, params};
use crate::context::Attributes;
use crate::status::Status;

/// Longer values of audit annotations are cut.
const MAX_ANNOTATION: usize = 10 * 1024;

/// The first decision that denies the request.
struct Denied {
    message: String,
    reason: &'static str,
}

/// What the policies decide about one request.
struct Dispatch<'a> {
    attributes: &'a Attributes<'a>,
    denied: Option<Denied>,
}

pub(super) async fn dispatch(
    attributes: &Attributes<'_>,
    policies: &[Policy<Validations>],
) -> Result<(), Status> {
    let mut dispatch = Dispatch { attributes, denied: None };
    for policy in policies {
        dispatch.policy(policy).await?;
    }
    let Some(Denied { message, reason }) = dispatch.denied else { return Ok(()) };
    let code = match reason {
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        "Unauthorized" => 401,
        _ => 422,
    };
    let status = attributes.forbidden(&message).with_reason(code, reason);
    Err(status.with_cause("", &message, ""))
}

impl<'a> Dispatch<'a> {
    async fn policy(&mut self, policy: &Policy<Validations>) -> Result<(), Status> {
        let Policy { definition, bindings } = policy;
        let attributes = self.attributes;
        let matched = match definition.constraints.matches(attributes) {
            Ok(Some(matched)) => matched,
            Ok(None) => return Ok(()),
            Err(why) => {
                self.misconfigured(definition, None, &why);
                return Ok(());
            }
        };
        let param_kind = definition.param_kind.as_ref();
        let param_resource = match param_kind.map(|kind| kind.resource(&attributes.cx.core)) {
            None => None,
            Some(Ok(resource)) => Some(resource),
            Some(Err(why)) => {
                self.misconfigured(definition, None, &why);
                return Ok(());
            }
        };
        let kind = matched.gvk_of(attributes.cx.subresource.as_deref());
        let mut versioned = None;
        let mut published: Vec<(String, Vec<String>)> = Vec::new();
        for binding in bindings {
            match binding.resources.as_ref().map(|resources| resources.matches(attributes)) {
                None | Some(Ok(Some(_))) => {}
                Some(Ok(None)) => continue,
                Some(Err(why)) => {
                    self.misconfigured(definition, Some(binding), &why);
                    continue;
                }
            }
            let found = params::collect(
                &attributes.cx.core,
                param_resource.as_deref(),
                binding.param_ref.as_ref(),
                selection::namespace(attributes),
            );
            let params = match found.await {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(definition, Some(binding), &why);
                    continue;
                }
            };
            if versioned.is_none() && !params.is_empty() {
                match converted(attributes, kind).await {
                    Ok(converted) => versioned = Some(converted),
                    Err(why) => {
                        self.misconfigured(definition, Some(binding), &why);
                        continue;
                    }
                }
            }
            let namespace = namespace::of(attributes)?;
            let versioned = versioned.as_ref().and_then(Option::as_ref);
            for params in &params {
                let request = Request {
                    attributes,
                    matched: &matched,
                    object: Versioned::object(versioned, attributes),
                    old: Versioned::old(versioned, attributes),
                    params: params.as_ref(),
                    namespace: namespace.as_ref(),
                };
                self.evaluate(definition, binding, &request, &mut published);
            }
        }
        for (key, values) in published {
            let key = format!("{}/{key}", definition.name);
            attributes.cx.audit.annotate(key, values.join(", "));
        }
        Ok(())
    }

    /// Evaluates a policy for one binding and one set of parameters.
    fn evaluate(
        &mut self,
        definition: &Definition<Validations>,
        binding: &Binding,
        request: &Request<'_>,
        published: &mut Vec<(String, Vec<String>)>,
    ) {
        let result = definition.evaluator.validate(request, definition.ignores_failures);
        for (at, decision) in result.decisions.into_iter().enumerate() {
            let Decision::Deny { message, reason } = decision else { continue };
            for action in &binding.actions {
                match &**action {
                    "Deny" => self.deny(definition, Some(binding), &message, reason),
                    "Audit" => self.record_failure(definition, binding, at, &message),
                    "Warn" => self.attributes.cx.warnings.add(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': \
                         {message}",
                        definition.name, binding.name
                    )),
                    _ => {}
                }
            }
        }
        for annotation in result.annotations {
            match annotation {
                Annotation::Publish { key, mut value } => {
                    value.truncate(value.floor_char_boundary(MAX_ANNOTATION));
                    let at = published.iter().position(|(known, _)| *known == key);
                    let at = at.unwrap_or_else(|| {
                        published.push((key, Vec::new()));
                        published.len() - 1
                    });
                    let values = &mut published[at].1;
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                Annotation::Failed(why) => self.deny(definition, Some(binding), &why, "Invalid"),
            }
        }
    }

    fn deny(
        &mut self,
        definition: &Definition<Validations>,
        binding: Option<&Binding>,
        why: &str,
        reason: &'static str,
    ) {
        let policy = &definition.name;
        self.denied.get_or_insert_with(|| {
            let message = match binding {
                Some(binding) => format!(
                    "ValidatingAdmissionPolicy '{policy}' with binding '{}' denied request: {why}",
                    binding.name
                ),
                None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {why}"),
            };
            Denied { message, reason }
        });
    }

    /// Denies the request because of an error in the configuration, unless errors are ignored.
    fn misconfigured(
        &mut self,
        definition: &Definition<Validations>,
        binding: Option<&Binding>,
        why: &str,
    ) {
        if !definition.ignores_failures {
            let what = if binding.is_some() { "binding" } else { "policy" };
            let why = format!("failed to configure {what}: {why}");
            self.deny(definition, binding, &why, "Invalid");
        }
    }

    /// Adds a failed validation to the audit event.
    fn record_failure(
        &self,
        definition: &Definition<Validations>,
        binding: &Binding,
        expression: usize,
        message: &str,
    ) {
        let text = |text: &str| go::json(&text.into());
        // In the order of upstream's fields.
        let failure = format!(
            r#"[{{"message":{},"policy":{},"binding":{},"expressionIndex":{expression},"validationActions":{}}}]"#,
            text(message),
            text(&definition.name),
            text(&binding.name),
            go::json(&binding.actions.clone().into()),
        );
        let key = "validation.policy.admission.k8s.io/validation_failure";
        self.attributes.cx.audit.annotate(key, failure);
    }
}

async fn converted(
    attributes: &Attributes<'_>,
    kind: Gvk<'_>,
) -> Result<Option<Versioned>, String> {
    let versioned = Versioned::of(attributes, kind).await;
    versioned.map_err(|status| format!("failed to convert object version: {}", status.message()))
}
