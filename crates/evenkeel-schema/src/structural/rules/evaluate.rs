//! Evaluates the rules of an object against it and its old version.
//!
//! Mirrors upstream's `cel.Validator`: a budget for the whole object, old values that are correlated by
//! name or by list keys, and failures of values that did not change, which become warnings.

use std::fmt;

use evenkeel_cel::kubernetes::{PER_CALL_LIMIT, RUNTIME_COST_BUDGET};
use evenkeel_cel::schema::Schema;
use evenkeel_cel::{
    Error as CelError, ErrorKind, Evaluation, Explanation, Limits, Value as CelValue,
};
use evenkeel_types::go;
use serde_json::{Map, Value};

use super::{CompiledRule, Compiler, Declared, Expression, RuleNode};
use crate::field::{Error, ErrorType};
use crate::structural::correlate::{self, OldItems};
use crate::structural::{JsonTypes, ListType, Node};

/// Longer messages of message expressions are not used.
const MAX_MESSAGE: usize = 5 * 1024;

/// What the rules found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<Error>,
    /// Failures that do not reject the update, because the values did not change.
    pub(crate) warnings: Vec<String>,
}

/// Evaluates all rules. Without an old version, transition rules do not run.
pub(crate) fn evaluate(
    rules: &RuleNode,
    node: &Node,
    object: &Value,
    old: Option<&Value>,
) -> Findings {
    let mut walk = Walk::new(false);
    let pair = old.map(|old| Pair { node, new: object, old });
    // The error is recorded; it only ends the walk.
    let _ = walk.node(rules, node, object, old, Ratchet { current: pair, parent: None });
    walk.findings
}

/// A rule that an object does not fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleFailure {
    /// The path of the value with the rule; empty for the object itself.
    pub path: String,
    /// The rule.
    pub rule: String,
    /// The message of the API server.
    pub message: String,
    /// The part of the rule that is not true, with the values it depends on.
    pub explanation: Option<Explanation>,
}

impl fmt::Display for RuleFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.explanation {
            Some(explanation) => write!(f, " ({explanation})"),
            None => write!(f, " (rule {})", self.rule),
        }
    }
}

/// Evaluates the rules at and below a node against its default at `path`: first as a value that does
/// not change, then as a new one.
pub(crate) fn check_default(node: &Node, default: &Value, path: &str) -> Vec<Error> {
    let Some(rules) = RuleNode::compile(node, node.embedded) else { return Vec::new() };
    let run = |old| {
        let mut walk = Walk::new(false);
        path.clone_into(&mut walk.path);
        let _ = walk.node(&rules, node, default, old, Ratchet::default());
        walk.findings.errors
    };
    let errors = run(Some(default));
    if errors.is_empty() { run(None) } else { errors }
}

/// Evaluates all rules and explains those that fail.
pub(crate) fn explain(
    rules: &RuleNode,
    node: &Node,
    object: &Value,
    old: Option<&Value>,
) -> Vec<RuleFailure> {
    let mut walk = Walk::new(true);
    let _ = walk.node(rules, node, object, old, Ratchet::default());
    walk.failures.unwrap_or_default()
}

/// The walk ended because the budget is spent.
struct Exhausted;

struct Walk {
    /// What rules may still cost.
    budget: i64,
    path: String,
    findings: Findings,
    /// Explained failures, if wanted.
    failures: Option<Vec<RuleFailure>>,
}

/// A value with its old counterpart.
#[derive(Clone, Copy)]
struct Pair<'a> {
    node: &'a Node,
    new: &'a Value,
    old: &'a Value,
}

/// What decides whether a failure rejects an update.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    /// The value and its old counterpart, if it has one.
    current: Option<Pair<'a>>,
    /// The nearest value above that has one.
    parent: Option<Pair<'a>>,
}

impl<'a> Ratchet<'a> {
    fn is_unchanged(self) -> bool {
        let pair = self.current.or(self.parent);
        pair.is_some_and(|pair| correlate::is_unchanged(pair.node, pair.new, pair.old))
    }

    fn field(self, name: &str) -> Self {
        let Some(current) = self.current else { return self };
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            // Both versions were converted to the same type.
            return Self::default();
        }
        let child = || {
            let (new, old) =
                (current.new.as_object()?.get(name)?, current.old.as_object()?.get(name)?);
            Some(Pair { node: current.node.field(name)?, new, old })
        };
        Self { current: child(), parent: Some(current) }
    }

    fn item(self, new: &'a Value, old: Option<&'a Value>) -> Self {
        let Some(current) = self.current else { return self };
        let child = || Some(Pair { node: current.node.items.as_deref()?, new, old: old? });
        Self { current: child(), parent: Some(current) }
    }
}

impl Walk {
    fn new(explains: bool) -> Self {
        Self {
            budget: i64::try_from(RUNTIME_COST_BUDGET).unwrap_or(i64::MAX),
            path: String::new(),
            findings: Findings::default(),
            failures: explains.then(Vec::new),
        }
    }

    /// Explains the failure that was found last.
    fn explain(
        &mut self,
        compiled: &CompiledRule,
        declared: &Declared,
        node: &Node,
        variables: &[Option<CelValue<'_>>],
    ) {
        let (Some(failures), Some(error)) = (&mut self.failures, self.findings.errors.last())
        else {
            return;
        };
        let compiler = Compiler::new(node, declared);
        failures.push(RuleFailure {
            path: self.path.clone(),
            rule: compiled.rule.rule.clone(),
            message: error.detail.clone(),
            explanation: compiler.and_then(|it| it.explain(&compiled.rule, variables)),
        });
    }

    fn node<'a>(
        &mut self,
        rules: &'a RuleNode,
        node: &'a Node,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) -> Result<(), Exhausted> {
        if value.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        if let Some(declared) = &rules.declared {
            self.rules(rules, declared, node, value, old, ratchet)?;
        }
        match value {
            Value::Array(items) => self.items(rules, node, items, old, ratchet),
            Value::Object(fields) => {
                let old = old.and_then(Value::as_object);
                self.fields(rules, node, fields, old, ratchet)
            }
            _ => Ok(()),
        }
    }

    fn items<'a>(
        &mut self,
        rules: &'a RuleNode,
        node: &'a Node,
        items: &'a [Value],
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) -> Result<(), Exhausted> {
        let (Some(rules), Some(schema)) = (&rules.items, node.items.as_deref()) else {
            return Ok(());
        };
        let old_items = match (&node.list, old) {
            (ListType::Map(keys), Some(old)) => Some(OldItems::new(keys, old)),
            _ => None,
        };
        for (at, item) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|old| old.counterpart(item));
            let old = old.map(|old| old.value);
            let length = self.path.len();
            self.path.push_str(&format!("[{at}]"));
            let result = self.node(rules, schema, item, old, ratchet.item(item, old));
            self.path.truncate(length);
            result?;
        }
        Ok(())
    }

    fn fields<'a>(
        &mut self,
        rules: &'a RuleNode,
        node: &'a Node,
        fields: &'a Map<String, Value>,
        old: Option<&'a Map<String, Value>>,
        ratchet: Ratchet<'a>,
    ) -> Result<(), Exhausted> {
        for (name, value) in fields {
            let property = rules.property(name).zip(node.property(name));
            let (rules, node, in_brackets) = match (property, &rules.values, node.field(name)) {
                (Some((rules, node)), _, _) => (rules, node, false),
                (None, Some(rules), Some(node)) => (&**rules, node, true),
                _ => continue,
            };
            let length = self.path.len();
            if in_brackets {
                self.path.push_str(&format!("[{name}]"));
            } else {
                if length > 0 {
                    self.path.push('.');
                }
                self.path.push_str(name);
            }
            let old = old.and_then(|old| old.get(name));
            let result = self.node(rules, node, value, old, ratchet.field(name));
            self.path.truncate(length);
            result?;
        }
        Ok(())
    }

    fn rules<'a>(
        &mut self,
        rules: &'a RuleNode,
        declared: &'a Declared,
        node: &'a Node,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) -> Result<(), Exhausted> {
        let type_name = type_name(node);
        if self.budget <= 0 {
            return Err(self.out_of_budget(type_name));
        }
        let value_of = |json| CelValue::with_schema(json, &declared.schema);
        let this = value_of(value);
        // `oldSelf` exists only where a rule of the node uses it.
        let old_needed = rules.rules.iter().any(|rule| rule.uses_old_self);
        let old_value = old.filter(|_| old_needed).map(value_of);
        for compiled in &rules.rules {
            let expression = match &compiled.program {
                None => continue,
                Some(Err(reason)) => {
                    self.reject(type_name, format!("rule compile error: {reason}"));
                    continue;
                }
                Some(Ok(expression)) => expression,
            };
            let optional = compiled.rule.optional_old_self == Some(true);
            if compiled.uses_old_self && old.is_none() && !optional {
                continue;
            }
            let old_self = match optional {
                true if old_needed => Some(optional_old(old, old_value.as_ref())),
                _ => old_value.clone(),
            };
            let variables = [Some(this.clone()), old_self];
            let Evaluation { result, cost } = run(expression, &variables);
            self.spend(cost).map_err(|Exhausted| self.out_of_budget(type_name))?;
            match result {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => {
                    let values = [Some(this.clone()), old_value.clone()];
                    let failed = self.failed(compiled, node, value, &values, ratchet);
                    self.explain(compiled, declared, node, &variables);
                    failed?;
                }
                Err(error) => {
                    let failed = self.error(compiled, &error, type_name);
                    self.explain(compiled, declared, node, &variables);
                    failed?;
                }
            }
        }
        Ok(())
    }

    fn spend(&mut self, cost: u64) -> Result<(), Exhausted> {
        match i64::try_from(cost) {
            Ok(cost) if cost <= self.budget => {
                self.budget -= cost;
                Ok(())
            }
            _ => Err(Exhausted),
        }
    }

    fn out_of_budget(&mut self, type_name: &str) -> Exhausted {
        const DETAIL: &str = "validation failed due to running out of cost budget, no further \
                              validation rules will be run";
        self.reject(type_name, DETAIL.to_owned());
        Exhausted
    }

    fn reject(&mut self, type_name: &str, detail: String) {
        self.findings.errors.push(Error::invalid(self.path.as_str(), type_name, detail));
    }

    /// Reports a rule that has no value.
    fn error(
        &mut self,
        compiled: &CompiledRule,
        error: &CelError,
        type_name: &str,
    ) -> Result<(), Exhausted> {
        let rule = text_of(compiled);
        if error.message().starts_with("no such overload") {
            self.reject(
                type_name,
                format!(
                    "'{error}': call arguments did not match a supported operator, function or \
                     macro signature for rule: {rule}"
                ),
            );
        } else if error.kind() == ErrorKind::CostLimit {
            self.reject(
                type_name,
                format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds \
                     limit for rule: {rule}"
                ),
            );
            return Err(Exhausted);
        } else {
            self.reject(type_name, format!("{error} evaluating rule: {rule}"));
        }
        Ok(())
    }

    /// Reports a rule that is not fulfilled.
    fn failed<'a>(
        &mut self,
        compiled: &'a CompiledRule,
        node: &Node,
        value: &Value,
        variables: &[Option<CelValue<'a>>; 2],
        ratchet: Ratchet<'_>,
    ) -> Result<(), Exhausted> {
        let path = match &compiled.field_path {
            Some(field) if self.path.is_empty() => field.clone(),
            Some(field) => format!("{}.{field}", self.path),
            None => self.path.clone(),
        };
        let warn = !compiled.uses_old_self && ratchet.is_unchanged();
        let message = match &compiled.message {
            Some(Ok(expression)) => self.message(expression, compiled, variables),
            _ => Ok(None),
        };
        let (detail, exhausted) = match message {
            Ok(Some(message)) => (message, false),
            Ok(None) => (message_of(compiled), false),
            Err(detail) => (detail, true),
        };
        let error = match exhausted {
            true => Error::invalid(path, type_name(node), detail),
            false => for_reason(compiled, path, shown(node, value), detail),
        };
        if warn {
            self.findings.warnings.push(error.to_string());
        } else {
            self.findings.errors.push(error);
        }
        if exhausted { Err(Exhausted) } else { Ok(()) }
    }

    /// The text of a message expression; `None` if it has no usable one. The error ends the walk.
    fn message<'a>(
        &mut self,
        expression: &'a Expression,
        compiled: &CompiledRule,
        variables: &[Option<CelValue<'a>>; 2],
    ) -> Result<Option<String>, String> {
        let Evaluation { result, cost } = run(expression, variables);
        if self.spend(cost).is_err() {
            return Err("messageExpression evaluation failed due to running out of cost budget, \
                        no further validation rules will be run"
                .to_owned());
        }
        match result {
            Err(error) if error.kind() == ErrorKind::CostLimit => {
                let source = compiled.rule.message_expression.as_deref().unwrap_or_default();
                Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for \
                     messageExpression: {}",
                    go::Quoted(source)
                ))
            }
            Ok(CelValue::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                Ok(usable.then(|| text.to_owned()))
            }
            _ => Ok(None),
        }
    }
}

fn run<'a>(expression: &'a Expression, variables: &[Option<CelValue<'a>>; 2]) -> Evaluation<'a> {
    let limits = Limits { cost: Some(PER_CALL_LIMIT), ..Limits::default() };
    expression.program.run(variables, limits)
}

/// The `type` of the schema; empty if it has none.
fn type_name(node: &Node) -> &'static str {
    match node.types {
        JsonTypes::One(json_type) => json_type.name(),
        JsonTypes::Any | JsonTypes::IntOrString => "",
    }
}

/// The value in a message; objects and lists are left out.
fn shown(node: &Node, value: &Value) -> Option<Value> {
    (!matches!(type_name(node), "object" | "array")).then(|| value.clone())
}

fn for_reason(
    compiled: &CompiledRule,
    path: String,
    value: Option<Value>,
    detail: String,
) -> Error {
    let invalid =
        |error_type| Error { error_type, path: path.clone(), value, detail: detail.clone() };
    match compiled.rule.reason.as_deref() {
        Some("FieldValueForbidden") => Error::forbidden(path, detail),
        Some("FieldValueRequired") => Error::required(path, detail),
        Some("FieldValueDuplicate") => {
            Error { detail: String::new(), ..invalid(ErrorType::Duplicate) }
        }
        _ => invalid(ErrorType::Invalid),
    }
}

fn message_of(compiled: &CompiledRule) -> String {
    match &compiled.rule.message {
        Some(message) => message.trim().to_owned(),
        None => format!("failed rule: {}", text_of(compiled)),
    }
}

/// The message of a rule, or its expression.
fn text_of(compiled: &CompiledRule) -> &str {
    compiled.rule.message.as_deref().unwrap_or(&compiled.rule.rule).trim()
}

/// The value of an optional `oldSelf`. cel-go resolves an optional variable to the document: its
/// fields have the types of their JSON, so a `date-time` is a string.
fn optional_old<'a>(old: Option<&'a Value>, typed: Option<&CelValue<'a>>) -> CelValue<'a> {
    CelValue::optional(match old {
        Some(document @ (Value::Object(_) | Value::Array(_))) => {
            Some(CelValue::with_schema(document, &Schema::Dyn))
        }
        _ => typed.cloned(),
    })
}
