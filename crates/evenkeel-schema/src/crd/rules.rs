//! Static checks of `x-kubernetes-validations` in a new CRD: types, costs and uses of `oldSelf`.
//!
//! Rules are compiled only where the schema is valid, at their level and below. Their errors follow all
//! other errors of the schema.

use std::cell::RefCell;

use serde_json::Value;

use super::render;
use super::schema::Schema;
use crate::field::{Error, ErrorType};
use crate::structural::{Additional, CompiledRule, Compiler, Expression, Node, declare};

/// The highest cost of an expression.
const MAX_EXPRESSION_COST: u64 = 10_000_000;
/// The highest cost of all expressions of a schema.
const MAX_TOTAL_COST: u64 = 100_000_000;
/// How many of the most expensive expressions are named.
const NAMED_EXPRESSIONS: usize = 4;

/// What the checks of one schema have found so far.
#[derive(Default)]
pub(super) struct Report {
    errors: RefCell<Vec<Error>>,
    total: RefCell<Total>,
    suppress_expression_cost: bool,
}

#[derive(Default)]
struct Total {
    cost: u64,
    most_expensive: Vec<(String, u64)>,
}

/// A place in the schema.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    report: &'a Report,
    node: &'a Node,
    root: bool,
    /// How many values there can be at most, if the lists and maps above have limits.
    cardinality: Option<u64>,
    /// The path of the first list above whose items cannot be correlated.
    uncorrelatable: Option<&'a str>,
}

impl<'a> Place<'a> {
    pub(super) fn root(node: &'a Node, report: &'a Report) -> Self {
        Self { report, node, root: true, cardinality: Some(1), uncorrelatable: None }
    }

    pub(super) fn property(self, name: &str) -> Option<Self> {
        self.child(self.node.property(name)?)
    }

    pub(super) fn values(self) -> Option<Self> {
        match &self.node.additional {
            Additional::Schema(values) => self.child(values),
            _ => None,
        }
    }

    /// The items of a list at `path`.
    pub(super) fn items(self, schema: Schema<'_>, path: &'a str) -> Option<Self> {
        let uncorrelatable = match schema.list_type() {
            Some("map") => self.uncorrelatable,
            _ => self.uncorrelatable.or(Some(path)),
        };
        Some(Self { uncorrelatable, ..self.child(self.node.items.as_deref()?)? })
    }

    fn child(self, node: &'a Node) -> Option<Self> {
        let cardinality =
            self.cardinality.zip(self.max_elements()).map(|(all, each)| multiply(all, each));
        Some(Self { node, root: false, cardinality, ..self })
    }

    /// How many children of one kind a value of this node has at most.
    fn max_elements(self) -> Option<u64> {
        use crate::structural::{JsonType, JsonTypes};
        let checks = self.node.checks.as_deref();
        let limit = |limit: Option<i64>| limit.map(|limit| u64::try_from(limit).unwrap_or(0));
        match self.node.types {
            JsonTypes::One(JsonType::Object)
                if !matches!(self.node.additional, Additional::Unset) =>
            {
                limit(checks.and_then(|checks| checks.max_properties))
            }
            JsonTypes::One(JsonType::Array) => limit(checks.and_then(|checks| checks.max_items)),
            _ => Some(1),
        }
    }

    /// Checks the rules of this node. `path` is its path.
    pub(super) fn check(self, schema: Schema<'_>, path: &str) {
        let sources = schema.get("x-kubernetes-validations").and_then(Value::as_array);
        let Some(sources) = sources.filter(|_| !self.node.rules.is_empty()) else { return };
        let path = format!("{path}.x-kubernetes-validations");
        let declared = declare(self.node, self.root || self.node.embedded);
        let compiler = declared.as_ref().and_then(|declared| Compiler::new(self.node, declared));
        let Some(compiler) = compiler else {
            self.report.push(Error {
                error_type: ErrorType::Internal,
                value: None,
                detail: "internal error: failed to construct type information for \
                         x-kubernetes-validations rules: unable to convert structural schema to \
                         CEL declarations"
                    .to_owned(),
                path,
            });
            return;
        };
        for (i, (rule, source)) in self.node.rules.iter().zip(sources).enumerate() {
            let compiled = compiler.rule(rule);
            self.check_rule(&compiled, source, &format!("{path}[{i}]"));
        }
    }

    fn check_rule(self, compiled: &CompiledRule, source: &Value, path: &str) {
        let report = self.report;
        let at = |key: &str| format!("{path}.{key}");
        let cost = |expression: &Expression| expression.max_cost;
        let rule = compiled.program.as_ref().and_then(|program| program.as_ref().ok());
        let times = self.cardinality.unwrap_or(compiled.max_cardinality);
        let rule_cost = multiply(rule.map_or(0, cost), times);
        report.observe(&at("rule"), rule_cost, "estimated rule cost");
        if let Some(Err(reason)) = &compiled.program {
            report.push(Error::invalid_text(at("rule"), &render::rule(source), reason));
        }
        match &compiled.message {
            Some(Err(reason)) => {
                let shown = render::rule(source);
                report.push(Error::invalid_text(at("messageExpression"), &shown, reason));
            }
            Some(Ok(message)) => {
                let name = "estimated messageExpression cost";
                report.observe(&at("messageExpression"), message.max_cost, name);
            }
            None => {}
        }
        if compiled.uses_old_self {
            if let Some(list) = self.uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within \
                     {list}"
                );
                report.push(Error::invalid(at("rule"), &*compiled.rule.rule, detail));
            }
        } else if let Some(optional) = compiled.rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            report.push(Error::invalid(at("optionalOldSelf"), optional, detail));
        }
    }
}

impl Report {
    /// Unchanged schemas may keep expressions that cost too much.
    pub(super) fn new(unchanged: bool) -> Self {
        Self { suppress_expression_cost: unchanged, ..Self::default() }
    }

    fn push(&self, error: Error) {
        self.errors.borrow_mut().push(error);
    }

    /// Counts the cost of an expression, and reports one that is too high.
    fn observe(&self, path: &str, cost: u64, name: &str) {
        if !self.suppress_expression_cost && cost > MAX_EXPRESSION_COST {
            self.push(Error::forbidden(path, advice(name, cost, MAX_EXPRESSION_COST)));
        }
        let mut total = self.total.borrow_mut();
        total.cost = total.cost.saturating_add(cost);
        if cost >= MAX_TOTAL_COST / 100 {
            total.most_expensive.push((path.to_owned(), cost));
            total.most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            total.most_expensive.truncate(NAMED_EXPRESSIONS);
        }
    }

    /// The errors of the rules of a schema at `path`, and of their total cost.
    pub(super) fn finish(self, path: &str, errors: &mut Vec<Error>) {
        errors.append(&mut self.errors.into_inner());
        let total = self.total.into_inner();
        if total.cost > MAX_TOTAL_COST {
            let contributed = "contributed to estimated rule cost total exceeding cost limit for \
                               entire OpenAPIv3 schema";
            let expensive = total.most_expensive.into_iter();
            errors.extend(expensive.map(|(path, _)| Error::forbidden(path, contributed)));
            let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 \
                        schema";
            errors.push(Error::forbidden(path, advice(name, total.cost, MAX_TOTAL_COST)));
        }
    }
}

fn multiply(cost: u64, times: u64) -> u64 {
    cost.saturating_mul(times)
}

fn advice(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
