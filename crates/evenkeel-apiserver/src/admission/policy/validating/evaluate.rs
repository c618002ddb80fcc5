//! Evaluates the expressions of a validating policy for one request and one set of parameters.

use evenkeel_cel::Value as CelValue;
use evenkeel_cel::admission::{Budget, Compiled, Compiler, MatchConditions, Purpose, Scope};
use serde_json::Value;

use super::super::super::{expressions, request};
use super::super::index::Evaluator;
use crate::context::Attributes;
use crate::registry::resource::Resource;

/// Longer messages of message expressions are not used.
const MAX_MESSAGE: usize = 5 * 1024;

/// The compiled expressions of a validating policy.
pub(crate) struct Validations {
    compiler: Compiler,
    conditions: MatchConditions,
    validations: Vec<Validation>,
    annotations: Vec<(String, Compiled)>,
}

struct Validation {
    expression: String,
    compiled: Compiled,
    message: String,
    message_expression: Option<Compiled>,
    reason: &'static str,
}

/// What a policy is evaluated for. The objects are in the version that it matches.
pub(super) struct Request<'a> {
    pub(super) attributes: &'a Attributes<'a>,
    pub(super) matched: &'a Resource,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
    pub(super) params: Option<&'a Value>,
    pub(super) namespace: Option<&'a Value>,
}

/// The result of a validation.
pub(super) enum Decision {
    Admit,
    Deny { message: String, reason: &'static str },
}

/// The result of the expression of an audit annotation.
pub(super) enum Annotation {
    Publish { key: String, value: String },
    Failed(String),
}

/// The results of a policy.
#[derive(Default)]
pub(super) struct Results {
    /// By the position of the validation.
    pub(super) decisions: Vec<Decision>,
    pub(super) annotations: Vec<Annotation>,
}

impl Evaluator for Validations {
    const TABLES: [&'static str; 2] = [
        "admissionregistration.k8s.io/validatingadmissionpolicies",
        "admissionregistration.k8s.io/validatingadmissionpolicybindings",
    ];

    fn compile(spec: &Value) -> Self {
        let compiler = expressions::policy_compiler(spec);
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or("").to_owned();
        let validations = list("validations").map(|validation| {
            let expression = text(validation, "expression");
            let message_expression = text(validation, "messageExpression");
            Validation {
                compiled: compiler.compile(&expression, Purpose::Condition),
                expression,
                message: text(validation, "message"),
                message_expression: (!message_expression.is_empty())
                    .then(|| compiler.compile(&message_expression, Purpose::Message)),
                reason: match validation["reason"].as_str() {
                    Some("Forbidden") => "Forbidden",
                    Some("Unauthorized") => "Unauthorized",
                    Some("RequestEntityTooLarge") => "RequestEntityTooLarge",
                    _ => "Invalid",
                },
            }
        });
        let annotations = list("auditAnnotations").map(|annotation| {
            let expression = text(annotation, "valueExpression");
            let compiled = compiler.compile(&expression, Purpose::AuditAnnotation);
            (text(annotation, "key"), compiled)
        });
        Self {
            conditions: expressions::match_conditions(&compiler, spec),
            validations: validations.collect(),
            annotations: annotations.collect(),
            compiler,
        }
    }
}

impl Validations {
    pub(super) fn validate(&self, request: &Request<'_>, ignores_failures: bool) -> Results {
        let failed = |message: String| match ignores_failures {
            true => Decision::Admit,
            false => Decision::Deny { message, reason: "Invalid" },
        };
        let only = |decision| Results { decisions: vec![decision], annotations: Vec::new() };
        let Request { attributes, matched, object, old, .. } = *request;
        let own = &attributes.cx.resource;
        let kind = matched.gvk_of(attributes.cx.subresource.as_deref());
        let of_resource = |resource| request::Request::new(attributes, kind, resource);
        let of_request = of_resource(matched).to_value(attributes);
        let mut inputs = expressions::inputs(attributes, object, old, &of_request);
        inputs.params = request.params.map_or(CelValue::Null, CelValue::from_json);
        let variables = self.compiler.variables();
        if !self.conditions.is_empty() {
            // Conditions see the resource of the request itself, and no namespace.
            let of_request = of_resource(own).to_value(attributes);
            let mut inputs = inputs.clone();
            inputs.request = CelValue::from_json(&of_request);
            match self.conditions.matches(&inputs, variables) {
                Ok(true) => {}
                Ok(false) => return Results::default(),
                Err(_) if ignores_failures => return Results::default(),
                Err(why) => return only(failed(why)),
            }
        }
        inputs.namespace_object = request.namespace.map_or(CelValue::Null, CelValue::from_json);
        let mut budget = Budget::of_object();
        let scope = Scope::new(&inputs, variables);
        let mut results = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            match scope.evaluate(&validation.compiled, &mut budget) {
                Ok(result) => results.push(result),
                Err(out_of_budget) => return only(failed(out_of_budget.to_string())),
            }
        }
        let mut without_authorizer = inputs.clone();
        without_authorizer.authorizer = None;
        let all_hold = results.iter().all(|result| matches!(result, Ok(CelValue::Bool(true))));
        // Messages are only needed for failures, but they may exceed the budget for any request.
        let expressions = self.validations.len() + variables.len();
        let messages = match all_hold && budget.covers(expressions) {
            true => Ok(Vec::new()),
            false => {
                let scope = Scope::new(&without_authorizer, variables);
                let messages = self.validations.iter().map(|validation| {
                    match &validation.message_expression {
                        None => Ok(None),
                        Some(compiled) => scope.evaluate(compiled, &mut budget).map(Some),
                    }
                });
                messages.collect::<Result<Vec<_>, _>>()
            }
        };
        let decisions = self.validations.iter().zip(results).enumerate();
        let decisions = decisions.map(|(at, (validation, result))| match (result, &messages) {
            (Err(why), _) => failed(why),
            (Ok(_), Err(out_of_budget)) => {
                failed(format!("failed messageExpression: {out_of_budget}"))
            }
            (Ok(CelValue::Bool(true)), Ok(_)) => Decision::Admit,
            (Ok(_), Ok(messages)) => Decision::Deny {
                message: validation.text(messages.get(at).and_then(Option::as_ref)),
                reason: validation.reason,
            },
        });
        let decisions = decisions.collect();
        let scope = Scope::new(&without_authorizer, variables);
        let mut budget = Budget::of_object();
        let mut annotations = Vec::new();
        for (key, compiled) in &self.annotations {
            match scope.evaluate(compiled, &mut budget) {
                Err(out_of_budget) => return only(failed(out_of_budget.to_string())),
                Ok(Err(_)) if ignores_failures => {}
                Ok(Err(why)) => annotations.push(Annotation::Failed(why)),
                Ok(Ok(CelValue::String(text))) if !text.trim().is_empty() => {
                    let value = text.trim().to_owned();
                    annotations.push(Annotation::Publish { key: key.clone(), value });
                }
                Ok(Ok(_)) => {}
            }
        }
        Results { decisions, annotations }
    }
}

impl Validation {
    /// The message of a validation that failed.
    fn text(&self, evaluated: Option<&Result<CelValue<'_>, String>>) -> String {
        if let Some(Ok(CelValue::String(text))) = evaluated {
            let text = text.trim();
            if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
                return text.to_owned();
            }
        }
        match self.message.trim() {
            "" => format!("failed expression: {}", self.expression.trim()),
            message => message.to_owned(),
        }
    }
}
