//! The estimate of an expression: a walk over the checked tree, as in cel-go's `checker/cost.go`.
//!
//! Sizes flow with values: a literal has its own, a variable that of the estimator for its path, a call
//! what its estimate states, an iteration variable that of the elements of its range.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::{
    CallEstimate, CostEstimate, CostNode, LIST_CREATE_COST, MAP_CREATE_COST, REGEX_LENGTH_FACTOR,
    SELECT_COST, STRING_TRAVERSAL_FACTOR, STRUCT_CREATE_COST, SizeEstimate, SizeEstimator,
};
use crate::ast::{Ast, Comprehension, Expr, Kind, Reference};
use crate::env::Declarations;
use crate::{Overload, Type, Value};

/// Bounds of what an evaluation of a checked expression costs.
pub(crate) fn estimate(ast: &Ast, env: &Declarations, sizes: &dyn SizeEstimator) -> CostEstimate {
    let count = ast.positions.len();
    let mut coster = Coster {
        ast,
        env,
        sizes,
        paths: vec![None; count],
        computed: vec![None; count],
        entries: vec![None; count],
        locals: HashMap::new(),
    };
    coster.cost(&ast.root)
}

type Names = Vec<Arc<str>>;

struct Coster<'c> {
    ast: &'c Ast,
    env: &'c Declarations,
    sizes: &'c dyn SizeEstimator,
    /// Paths from variables, by expression.
    paths: Vec<Option<Names>>,
    /// Sizes of values, by expression.
    computed: Vec<Option<SizeEstimate>>,
    /// Sizes of the keys and values in lists and maps, by expression.
    entries: Vec<Option<EntrySize>>,
    /// Variables of comprehensions, innermost last.
    locals: HashMap<Arc<str>, Vec<Local>>,
}

#[derive(Clone, Copy)]
struct EntrySize {
    list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

struct Local {
    path: Names,
    size: Option<SizeEstimate>,
    entry: Option<EntrySize>,
}

/// Which part of the entries of a range a variable stands for.
#[derive(Clone, Copy)]
enum Part {
    Key,
    Value,
    /// The value of a list, the key of a map.
    Single,
}

impl EntrySize {
    fn union(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        let (first, second) = (first?, second?);
        Some(Self {
            list: first.list,
            key: first.key.union(second.key),
            value: first.value.union(second.value),
        })
    }
}

const NOTHING: CostEstimate = CostEstimate::fixed(0);
/// The start of a union of sizes.
const EMPTY: SizeEstimate = SizeEstimate { min: u64::MAX, max: 0 };

impl<'c> Coster<'c> {
    fn cost(&mut self, expr: &'c Expr) -> CostEstimate {
        match &expr.kind {
            Kind::Unspecified | Kind::Literal(_) => NOTHING,
            Kind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                self.set_path(expr, path);
                CostEstimate::fixed(SELECT_COST)
            }
            Kind::Select { operand, field, test_only } => {
                self.select(expr, operand, field, *test_only)
            }
            Kind::Call { function, target, args } => {
                self.call(expr, function, target.as_deref(), args)
            }
            Kind::List { elements, .. } => {
                let mut sum = NOTHING;
                let mut size = if elements.is_empty() { SizeEstimate::fixed(0) } else { EMPTY };
                for element in elements {
                    sum = sum.plus(self.cost(element));
                    size = size.union(self.size_or_unknown(element));
                }
                let entry = EntrySize { list: true, key: SizeEstimate::fixed(1), value: size };
                self.set_entry(expr, Some(entry));
                sum.plus(CostEstimate::fixed(LIST_CREATE_COST))
            }
            Kind::Map { entries } => {
                let mut sum = NOTHING;
                let start = if entries.is_empty() { SizeEstimate::fixed(0) } else { EMPTY };
                let (mut key, mut value) = (start, start);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.set_entry(expr, Some(EntrySize { list: false, key, value }));
                sum.plus(CostEstimate::fixed(MAP_CREATE_COST))
            }
            Kind::Struct { fields, .. } => {
                let mut sum = NOTHING;
                for field in fields {
                    sum = sum.plus(self.cost(&field.value));
                }
                sum.plus(CostEstimate::fixed(STRUCT_CREATE_COST))
            }
            Kind::Comprehension(comprehension) if is_bind(comprehension) => {
                self.bind(expr, comprehension)
            }
            Kind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
        }
    }

    fn select(
        &mut self,
        expr: &'c Expr,
        operand: &'c Expr,
        field: &Arc<str>,
        test_only: bool,
    ) -> CostEstimate {
        if test_only {
            let presence = u64::from(self.env.options.presence_test_has_cost);
            return CostEstimate::fixed(presence).plus(self.cost(operand));
        }
        let mut sum = self.cost(operand);
        if matches!(self.ast.type_of(operand), Type::Map(_) | Type::Struct(_) | Type::Param(_)) {
            sum = sum.plus(CostEstimate::fixed(SELECT_COST));
        }
        let mut path = self.path(operand);
        path.push(field.clone());
        self.set_path(expr, path);
        sum
    }

    fn call(
        &mut self,
        expr: &'c Expr,
        function: &str,
        target: Option<&'c Expr>,
        args: &'c [Expr],
    ) -> CostEstimate {
        if function == "dyn" && target.is_none() {
            let Some(argument) = args.first() else { return NOTHING };
            let cost = self.cost(argument);
            self.copy_sizes(expr, argument);
            return CostEstimate::fixed(1).plus(cost);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut nodes = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            nodes.push(self.node(arg));
        }
        let Some(Reference::Overloads(overloads)) = self.ast.reference(expr) else {
            return NOTHING;
        };
        let mut sum = NOTHING;
        let target = target.map(|target| {
            sum = sum.plus(self.cost(target));
            self.node(target)
        });
        let mut total = CostEstimate { min: u64::MAX, max: 0 };
        let mut size: Option<SizeEstimate> = None;
        for overload in overloads {
            let call =
                Call { expr, function, overload, target: target.as_ref(), args, nodes: &nodes };
            let estimate = self.overload(&call, &costs);
            total = total.union(estimate.cost);
            if let Some(result) = estimate.result_size {
                size = Some(size.map_or(result, |size| size.union(result)));
            }
            let part = match overload.id {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(part), Some(container)) = (part, args.first()) {
                size = self.entry(container).map(|entry| entry.value);
                let mut path = self.path(container);
                path.push(part.into());
                self.set_path(expr, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        self.set_size(expr, size);
        sum.plus(total)
    }

    fn overload(&mut self, call: &Call<'_, 'c>, costs: &[CostEstimate]) -> CallEstimate {
        let of_arguments = costs.iter().fold(NOTHING, |sum, cost| sum.plus(*cost));
        let of_function = self.env.function_costs.get(call.function).and_then(|cost| cost.estimate);
        for custom in [call.overload.estimate, of_function].into_iter().flatten() {
            if let Some(estimate) = custom(self.sizes, call.overload.id, call.target, call.nodes) {
                return CallEstimate { cost: estimate.cost.plus(of_arguments), ..estimate };
            }
        }
        let mut estimate = self.standard(call, costs);
        if !matches!(call.overload.id, "logical_and" | "logical_or" | "conditional") {
            estimate.cost = estimate.cost.plus(of_arguments);
        }
        estimate
    }

    /// The cost of an overload of the standard; those that are lazy include their arguments.
    fn standard(&mut self, call: &Call<'_, 'c>, costs: &[CostEstimate]) -> CallEstimate {
        let sized = |node: Option<&CostNode<'_>>| {
            node.and_then(|node| node.size).unwrap_or(SizeEstimate::UNKNOWN)
        };
        let arg = |at: usize| sized(call.nodes.get(at));
        let one = CallEstimate::from(CostEstimate::fixed(1));
        match (call.overload.id, call.nodes.len(), call.target.is_some()) {
            ("string_format", _, true) => sized(call.target).cost(STRING_TRAVERSAL_FACTOR).into(),
            ("string_to_bytes", 1, _) => CallEstimate {
                cost: arg(0).cost(STRING_TRAVERSAL_FACTOR),
                result_size: Some(SizeEstimate {
                    min: arg(0).min,
                    max: arg(0).max.wrapping_mul(4),
                }),
            },
            ("bytes_to_string", 1, _) => CallEstimate {
                cost: arg(0).cost(STRING_TRAVERSAL_FACTOR),
                result_size: Some(SizeEstimate { min: arg(0).min / 4, max: arg(0).max }),
            },
            ("strings_quote", 1, _) => CallEstimate {
                cost: arg(0).cost(STRING_TRAVERSAL_FACTOR),
                result_size: Some(SizeEstimate {
                    min: arg(0).min.wrapping_add(2),
                    max: arg(0).max.wrapping_mul(2).wrapping_add(2),
                }),
            },
            ("starts_with_string" | "ends_with_string", 1, _) => {
                arg(0).cost(STRING_TRAVERSAL_FACTOR).into()
            }
            ("in_list", 2, _) => arg(1).cost(1.0).into(),
            ("matches_string", 1, true) => {
                let text =
                    sized(call.target).plus(SizeEstimate::fixed(1)).cost(STRING_TRAVERSAL_FACTOR);
                text.times(arg(0).cost(REGEX_LENGTH_FACTOR)).into()
            }
            ("contains_string", 1, true) => {
                let text = sized(call.target).cost(STRING_TRAVERSAL_FACTOR);
                text.times(arg(0).cost(STRING_TRAVERSAL_FACTOR)).into()
            }
            ("logical_and" | "logical_or", 2, _) => {
                let (left, right) = (costs[0], costs[1]);
                CostEstimate { min: left.min, max: left.plus(right).max }.into()
            }
            ("conditional", 3, _) => {
                let size = arg(1).union(arg(2));
                let entry = EntrySize::union(self.entry(&call.args[1]), self.entry(&call.args[2]));
                self.set_entry(call.expr, entry);
                CallEstimate {
                    cost: costs[0].plus(costs[1].union(costs[2])),
                    result_size: Some(size),
                }
            }
            (id @ ("add_string" | "add_bytes" | "add_list"), 2, _) => {
                let size = arg(0).plus(arg(1));
                let entry = EntrySize::union(self.entry(&call.args[0]), self.entry(&call.args[1]));
                self.set_entry(call.expr, entry);
                let cost = match id {
                    "add_list" => CostEstimate::fixed(1),
                    _ => size.cost(STRING_TRAVERSAL_FACTOR),
                };
                CallEstimate { cost, result_size: Some(size) }
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                2,
                _,
            ) => {
                let max = arg(0).max.min(arg(1).max);
                let min = u64::from(max > 0);
                CostEstimate { min, max }.scale(STRING_TRAVERSAL_FACTOR).into()
            }
            _ => one,
        }
    }

    fn comprehension(&mut self, expr: &'c Expr, c: &'c Comprehension) -> CostEstimate {
        let mut sum = self.cost(&c.range).plus(self.cost(&c.init));
        self.push_value(&c.accu, &c.init);
        match &c.var2 {
            Some(var2) => {
                self.push_part(&c.var, &c.range, Part::Key);
                self.push_part(var2, &c.range, Part::Value);
            }
            None => self.push_part(&c.var, &c.range, Part::Single),
        }
        let condition = self.cost(&c.condition);
        let step = self.cost(&c.step);
        self.pop(&c.var);
        if let Some(var2) = &c.var2 {
            self.pop(var2);
        }
        sum = sum.plus(self.cost(&c.result));
        self.pop(&c.accu);
        let iterations = self.size_or_unknown(&c.range);
        sum = sum.plus(iterations.times_cost(step.plus(condition)));
        match &c.init.kind {
            Kind::Literal(_) => {
                let size = self.size(&c.init);
                self.set_size(expr, size);
            }
            Kind::List { .. } | Kind::Map { .. } => {
                self.set_size(expr, Some(iterations));
                let entry = self.entry(&c.step);
                self.set_entry(expr, entry);
            }
            _ => {}
        }
        sum
    }

    fn bind(&mut self, expr: &'c Expr, c: &'c Comprehension) -> CostEstimate {
        let mut sum = self.cost(&c.range).plus(self.cost(&c.init));
        self.push_value(&c.accu, &c.init);
        sum = sum.plus(self.cost(&c.result));
        self.pop(&c.accu);
        self.copy_sizes(expr, &c.result);
        sum
    }

    // === Variables of comprehensions ===

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name).and_then(|locals| locals.last())
    }

    fn push(&mut self, name: &Arc<str>, local: Local) {
        self.locals.entry(name.clone()).or_default().push(local);
    }

    fn pop(&mut self, name: &Arc<str>) {
        if let Some(locals) = self.locals.get_mut(name) {
            locals.pop();
        }
    }

    fn push_value(&mut self, name: &Arc<str>, expr: &'c Expr) {
        let local = Local { path: self.path(expr), size: self.size(expr), entry: self.entry(expr) };
        self.push(name, local);
    }

    fn push_part(&mut self, name: &Arc<str>, range: &'c Expr, part: Part) {
        let entry = self.entry(range);
        let list = match entry {
            Some(entry) => entry.list,
            None => matches!(self.ast.type_of(range), Type::List(_)),
        };
        let value = match part {
            Part::Key => false,
            Part::Value => true,
            Part::Single => list,
        };
        let size = entry.map(|entry| if value { entry.value } else { entry.key });
        let mut path = self.path(range);
        path.push(
            match (value, list) {
                (true, true) => "@items",
                (true, false) => "@values",
                (false, true) => "@indices",
                (false, false) => "@keys",
            }
            .into(),
        );
        self.push(name, Local { path, size, entry: None });
    }

    // === Paths and sizes ===

    fn path(&self, expr: &Expr) -> Names {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(expr.id as usize).cloned().flatten().unwrap_or_default()
    }

    fn set_path(&mut self, expr: &Expr, path: Names) {
        if let Some(slot) = self.paths.get_mut(expr.id as usize) {
            *slot = Some(path);
        }
    }

    fn node(&mut self, expr: &'c Expr) -> CostNode<'c> {
        let mut path = self.path(expr);
        // Accumulators are no variables of an estimator.
        if path.first().is_some_and(|first| matches!(&**first, "@result" | "__result__")) {
            path.clear();
        }
        let size = self.size(expr);
        CostNode {
            path: Cow::Owned(path),
            type_: self.ast.type_of(expr).clone(),
            size,
            literal: literal(expr),
        }
    }

    fn size_or_unknown(&mut self, expr: &'c Expr) -> SizeEstimate {
        self.size(expr).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn size(&mut self, expr: &'c Expr) -> Option<SizeEstimate> {
        let at = expr.id as usize;
        if let Some(size) = self.computed.get(at).copied().flatten() {
            return Some(size);
        }
        if let Some(size) = own_size(expr) {
            return Some(SizeEstimate::fixed(size));
        }
        let type_ = self.ast.type_of(expr);
        let node = CostNode {
            path: Cow::Owned(self.path(expr)),
            type_: type_.clone(),
            size: None,
            literal: literal(expr),
        };
        if let Some(size) = self.sizes.size(&node) {
            self.set_size(expr, Some(size));
            return Some(size);
        }
        if is_scalar(type_) {
            return Some(SizeEstimate::fixed(1));
        }
        expr.as_ident().and_then(|name| self.local(name)).and_then(|local| local.size)
    }

    fn set_size(&mut self, expr: &Expr, size: Option<SizeEstimate>) {
        if let (Some(slot), Some(size)) = (self.computed.get_mut(expr.id as usize), size) {
            *slot = Some(size);
        }
    }

    fn entry(&self, expr: &Expr) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(expr.id as usize).copied().flatten() {
            return Some(entry);
        }
        expr.as_ident().and_then(|name| self.local(name)).and_then(|local| local.entry)
    }

    fn set_entry(&mut self, expr: &Expr, entry: Option<EntrySize>) {
        if let (Some(slot), Some(entry)) = (self.entries.get_mut(expr.id as usize), entry) {
            *slot = Some(entry);
        }
    }

    fn copy_sizes(&mut self, to: &'c Expr, from: &'c Expr) {
        let size = self.size(from);
        self.set_size(to, size);
        let entry = self.entry(from);
        self.set_entry(to, entry);
    }
}

/// A call with one of its overloads.
struct Call<'n, 'c> {
    expr: &'c Expr,
    function: &'n str,
    overload: &'n Overload,
    target: Option<&'n CostNode<'c>>,
    args: &'c [Expr],
    nodes: &'n [CostNode<'c>],
}

fn literal(expr: &Expr) -> Option<&Value<'static>> {
    match &expr.kind {
        Kind::Literal(value) => Some(value),
        _ => None,
    }
}

/// The size that an expression itself states.
fn own_size(expr: &Expr) -> Option<u64> {
    match &expr.kind {
        Kind::Literal(value) => Some(value.size()),
        Kind::List { elements, .. } => Some(elements.len() as u64),
        Kind::Map { entries } => Some(entries.len() as u64),
        _ => None,
    }
}

fn is_scalar(type_: &Type) -> bool {
    match type_ {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Wrapper(inner) => is_scalar(inner),
        other => other.optional_inner().is_some_and(is_scalar),
    }
}

/// Whether a comprehension only binds its accumulator.
fn is_bind(c: &Comprehension) -> bool {
    matches!(&c.range.kind, Kind::List { elements, .. } if elements.is_empty())
        && matches!(c.condition.kind, Kind::Literal(Value::Bool(false)))
}
