//! Evaluation of plans, with cost.
//!
//! Costs are counted where cel-go's cost tracker observes values: after each variable with its fields, at
//! each field, call and literal. A branch of a conditional and an index are paths whose variable itself is
//! not counted.

use crate::cost::{LIST_CREATE_COST, MAP_CREATE_COST, STRUCT_CREATE_COST};
use crate::declare::CostedCall;
use crate::error::ErrorKind;
use crate::ops;
use crate::plan::{
    BinaryNode, Call, Cost, Key, ListNode, MapNode, Node, ObjectNode, Path, Root, StandardCost,
    Step, Unary, UnaryNode,
};
use crate::program::Activation;
use crate::value::{Map, Object};
use crate::{Error, Value};

mod comprehension;

type Outcome<'a> = Result<Value<'a>, Error>;

/// The state of an evaluation.
pub(crate) struct Evaluator<'a, 'e> {
    pub(crate) activation: &'e dyn Activation<'a>,
    pub(crate) locals: Vec<Local<'a>>,
    pub(crate) cost: u64,
    pub(crate) limit: u64,
    pub(crate) presence_has_cost: bool,
    pub(crate) interrupted: Option<&'e dyn Fn() -> bool>,
    pub(crate) iterations: u32,
}

/// A variable of a comprehension.
#[derive(Clone)]
pub(crate) enum Local<'a> {
    Unset,
    /// An accumulator is computed when it is first read.
    Lazy(&'a Node),
    Value(Value<'a>),
    Failed(Error),
}

impl<'a> Local<'a> {
    fn of(outcome: Outcome<'a>) -> Self {
        match outcome {
            Ok(value) => Local::Value(value),
            Err(error) => Local::Failed(error),
        }
    }
}

/// How many iterations pass between two checks for an interrupt.
const INTERRUPT_CHECKS: u32 = 100;

impl<'a> Evaluator<'a, '_> {
    pub(crate) fn eval(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Const(value) => Ok(value.borrowed()),
            Node::Path(path) => self.path(path, true),
            Node::And(terms) => self.logical(terms, false),
            Node::Or(terms) => self.logical(terms, true),
            Node::Binary(binary) => self.binary(binary),
            Node::Unary(unary) => self.unary(unary),
            Node::Call(call) => self.call(call),
            Node::List(list) => self.list(list),
            Node::Map(map) => self.map(map),
            Node::Object(object) => self.object(object),
            Node::Fold(fold) => self.fold(fold),
            Node::Quantifier(quantifier) => self.quantifier(quantifier),
            Node::Within(within) => {
                let value = self.eval(&within.0)?;
                Ok(Value::Bool(within.1.contains(&value)))
            }
            Node::OptionalOr(operands, unwrap) => {
                self.optional_or(&operands.0, &operands.1, *unwrap)
            }
            Node::Append(append) => self.append(append),
            Node::Insert(insert) => self.insert(insert),
        }
    }

    fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(Error::of_kind(
                ErrorKind::CostLimit,
                "operation cancelled: actual cost limit exceeded",
            ));
        }
        Ok(())
    }

    // === Paths ===

    /// A variable, a value or a conditional, with its fields. `counted` is off for branches and indexes.
    fn path(&mut self, path: &'a Path, counted: bool) -> Outcome<'a> {
        let outcome = self.resolve(path);
        if let Err(error) = &outcome
            && error.is_final()
        {
            return outcome;
        }
        if counted {
            let conditional = matches!(path.root, Root::If(..));
            let free = path.presence && !self.presence_has_cost;
            match (conditional, free) {
                (false, false) => self.charge(1)?,
                (true, true) => self.cost = self.cost.saturating_sub(1),
                _ => {}
            }
        }
        outcome.map_err(|error| error.at(path.id))
    }

    #[inline]
    fn resolve(&mut self, path: &'a Path) -> Outcome<'a> {
        let mut steps = &path.steps[..];
        let value = match &path.root {
            Root::Variable(at, name) => match self.computed_field(*at, &mut steps)? {
                Some(value) => value,
                None => match self.activation.variable(*at) {
                    Some(value) => value?.checked()?,
                    None => return Err(Error::new(format!("no such attribute(s): {name}"))),
                },
            },
            Root::Local(slot) => self.local(*slot)?.checked()?,
            Root::Value(node) => self.eval(node)?,
            Root::If(condition, then, otherwise) => {
                let branch = match self.eval(condition)? {
                    Value::Bool(true) => then,
                    Value::Bool(false) => otherwise,
                    _ => return Err(Error::no_such_overload()),
                };
                self.uncounted(branch)?
            }
        };
        if steps.is_empty() {
            return Ok(value);
        }
        let value = self.steps(value, steps)?;
        if path.presence
            && let Value::Optional(value) = &value
        {
            return Ok(Value::Bool(value.is_some()));
        }
        Ok(value)
    }

    /// The first field of a variable whose fields are computed when they are read.
    fn computed_field(
        &mut self,
        variable: usize,
        steps: &mut &'a [Step],
    ) -> Result<Option<Value<'a>>, Error> {
        let Some((Step { key: Key::Const(Value::String(name)), optional, presence }, rest)) =
            steps.split_first()
        else {
            return Ok(None);
        };
        let Some(found) = self.activation.field(variable, name) else { return Ok(None) };
        self.charge(1)?;
        *steps = rest;
        Ok(Some(match found? {
            _ if *presence => Value::Bool(true),
            value if *optional => Value::optional(Some(value)),
            value => value,
        }))
    }

    fn uncounted(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Path(path) => self.path(path, false),
            other => self.eval(other),
        }
    }

    fn steps(&mut self, mut value: Value<'a>, steps: &'a [Step]) -> Outcome<'a> {
        let mut optional = false;
        if let Value::Optional(inner) = &value {
            let Some(inner) = inner else { return Ok(value) };
            optional = true;
            value = (**inner).clone();
        }
        for step in steps {
            optional |= step.optional;
            let found = match &step.key {
                Key::Const(key) => ops::index(&value, key),
                Key::Computed(node) => {
                    let key = self.uncounted(node)?;
                    let found = ops::index(&value, &key);
                    match found {
                        Ok(None) if !optional => Err(ops::missing(&value, &key)),
                        found => found,
                    }
                }
            };
            let found = found.and_then(|found| found.map(Value::checked).transpose());
            let found = match found {
                Err(error) => {
                    // What failed was checked.
                    self.charge(1)?;
                    return Err(error);
                }
                Ok(found) => found,
            };
            if optional {
                match found {
                    None => return Ok(Value::Optional(None)),
                    Some(found) => {
                        self.charge(1)?;
                        value = if step.presence { Value::Null } else { found };
                    }
                }
                continue;
            }
            self.charge(1)?;
            value = match (found, &step.key) {
                (found, _) if step.presence => Value::Bool(found.is_some()),
                (Some(found), _) => found,
                (None, Key::Const(key)) => return Err(ops::missing(&value, key)),
                (None, Key::Computed(_)) => return Err(Error::new("invalid attribute")),
            };
        }
        Ok(if optional { Value::optional(Some(value)) } else { value })
    }

    fn local(&mut self, slot: usize) -> Outcome<'a> {
        match self.locals.get(slot) {
            Some(Local::Value(value)) => Ok(value.clone()),
            Some(Local::Failed(error)) => Err(error.clone()),
            Some(Local::Lazy(node)) => {
                let node = *node;
                let outcome = self.eval(node);
                self.locals[slot] = Local::of(outcome.clone());
                outcome
            }
            Some(Local::Unset) | None => Err(Error::new("invalid attribute")),
        }
    }

    // === Operators and calls ===

    /// Conjunctions end at the first `false`, disjunctions at the first `true`; errors matter only if
    /// there is none.
    fn logical(&mut self, terms: &'a [Node], decisive: bool) -> Outcome<'a> {
        let mut failure = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or_else(|| Some(Error::no_such_overload())),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!decisive)),
        }
    }

    fn binary(&mut self, node: &'a BinaryNode) -> Outcome<'a> {
        let left = self.operand(&node.left)?;
        let right = self.operand(&node.right)?;
        match (left, right) {
            (Ok(left), Ok(right)) => {
                let outcome = node.op.apply(&left, &right);
                self.charge_call(&node.cost, &[left, right], outcome.as_ref().ok())?;
                outcome.map_err(|error| error.at(node.id))
            }
            (left, right) => {
                let value =
                    |operand: &Outcome<'a>| operand.as_ref().ok().cloned().unwrap_or(Value::Null);
                self.charge_call(&node.cost, &[value(&left), value(&right)], None)?;
                Err(left.err().or(right.err()).unwrap_or_else(Error::no_such_overload))
            }
        }
    }

    /// An operand, whose error does not end the evaluation of the others unless it is final.
    fn operand(&mut self, node: &'a Node) -> Result<Outcome<'a>, Error> {
        match self.eval(node) {
            Err(error) if error.is_final() => Err(error),
            outcome => Ok(outcome),
        }
    }

    fn unary(&mut self, node: &'a UnaryNode) -> Outcome<'a> {
        let operand = self.operand(&node.operand)?;
        let outcome = match (node.op, &operand) {
            (Unary::NotStrictlyFalse, Ok(Value::Bool(value))) => Ok(Value::Bool(*value)),
            (Unary::NotStrictlyFalse, _) => Ok(Value::Bool(true)),
            (_, Err(error)) => Err(error.clone()),
            (Unary::Not, Ok(value)) => ops::not(value),
            (Unary::Negate, Ok(value)) => ops::negate(value),
        };
        let argument = operand.unwrap_or(Value::Null);
        self.charge_call(&node.cost, &[argument], outcome.as_ref().ok())?;
        outcome.map_err(|error| error.at(node.id))
    }

    fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        match &*call.args {
            [] => self.invoke(call, &[]),
            [argument] => match self.operand(argument)? {
                Ok(value) => self.invoke(call, &[value]),
                Err(error) => {
                    self.charge_call(&call.cost, &[Value::Null], None)?;
                    Err(error)
                }
            },
            [first, second] => {
                let first = self.operand(first)?;
                let second = self.operand(second)?;
                match (first, second) {
                    (Ok(first), Ok(second)) => self.invoke(call, &[first, second]),
                    (first, second) => {
                        let value = |operand: &Outcome<'a>| {
                            operand.as_ref().ok().cloned().unwrap_or(Value::Null)
                        };
                        let arguments = [value(&first), value(&second)];
                        self.charge_call(&call.cost, &arguments, None)?;
                        Err(first.err().or(second.err()).unwrap_or_else(Error::no_such_overload))
                    }
                }
            }
            arguments => {
                // As in cel-go, the first error ends such a call, which then costs nothing.
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.eval(argument)?);
                }
                self.invoke(call, &values)
            }
        }
    }

    fn invoke(&mut self, call: &'a Call, arguments: &[Value<'a>]) -> Outcome<'a> {
        let mut overloads = call.overloads.iter();
        let overload = overloads.find(|overload| !overload.guarded || overload.accepts(arguments));
        let outcome = match (overload, &call.prepared) {
            (Some(_), Some(prepared)) => prepared(arguments),
            (Some(overload), None) => (overload.implementation)(arguments),
            (None, _) => Err(Error::no_overload_for(call.function, arguments)),
        };
        self.charge_call(&call.cost, arguments, outcome.as_ref().ok())?;
        outcome.map_err(|error| error.at(call.id))
    }

    fn charge_call(
        &mut self,
        cost: &Cost,
        arguments: &[Value<'a>],
        result: Option<&Value<'a>>,
    ) -> Result<(), Error> {
        for custom in cost.custom.iter().flatten() {
            let call = CostedCall { overload: cost.overload, arguments, result };
            if let Some(cost) = custom(&call) {
                return self.charge(cost);
            }
        }
        let size = |at: usize| arguments.get(at).map_or(1, Value::size);
        let cost = match cost.standard {
            StandardCost::One => 1,
            StandardCost::Traversal => traversal(size(0)),
            StandardCost::InList => size(1),
            StandardCost::Comparison => traversal(size(0).min(size(1))),
            StandardCost::Concatenation => traversal(size(0) + size(1)),
            StandardCost::Matches => {
                let text = traversal(1 + size(0));
                let pattern = (size(1) as f64 * crate::cost::REGEX_LENGTH_FACTOR).ceil() as u64;
                text.saturating_mul(pattern)
            }
            StandardCost::Contains => traversal(size(0)).saturating_mul(traversal(size(1))),
        };
        self.charge(cost)
    }

    fn optional_or(&mut self, left: &'a Node, right: &'a Node, unwrap: bool) -> Outcome<'a> {
        match self.eval(left)? {
            Value::Optional(None) => self.eval(right),
            Value::Optional(Some(value)) if unwrap => Ok((*value).clone()),
            other => Ok(other),
        }
    }

    // === Literals ===

    fn list(&mut self, node: &'a ListNode) -> Outcome<'a> {
        let outcome = self.elements(node);
        self.finish(outcome, LIST_CREATE_COST)
    }

    /// Charges for a literal, even for one that failed.
    fn finish(&mut self, outcome: Outcome<'a>, cost: u64) -> Outcome<'a> {
        match outcome {
            Err(error) if error.is_final() => Err(error),
            outcome => {
                self.charge(cost)?;
                outcome
            }
        }
    }

    fn elements(&mut self, node: &'a ListNode) -> Outcome<'a> {
        let mut elements = Vec::with_capacity(node.elements.len());
        for (at, element) in node.elements.iter().enumerate() {
            let value = self.eval(element)?;
            if !node.optional.contains(&at) {
                elements.push(value);
                continue;
            }
            match value {
                Value::Optional(None) => {}
                Value::Optional(Some(value)) => elements.push((*value).clone()),
                other => {
                    let text = ops::text(&other);
                    return Err(Error::new(format!(
                        "cannot initialize optional list element from non-optional value {text}"
                    )));
                }
            }
        }
        Ok(Value::list(elements))
    }

    fn map(&mut self, node: &'a MapNode) -> Outcome<'a> {
        let outcome = self.entries(node);
        self.finish(outcome, MAP_CREATE_COST)
    }

    fn entries(&mut self, node: &'a MapNode) -> Outcome<'a> {
        let mut entries = Vec::with_capacity(node.entries.len());
        for (key, value, optional) in &node.entries {
            let key = self.eval(key)?;
            let value = self.eval(value)?;
            if let Some(value) = present(value, *optional, &key)? {
                entries.push((key, value));
            }
        }
        Ok(Value::Map(Map::last_wins(entries)))
    }

    fn object(&mut self, node: &'a ObjectNode) -> Outcome<'a> {
        let outcome = self.fields(node);
        self.finish(outcome, STRUCT_CREATE_COST)
    }

    fn fields(&mut self, node: &'a ObjectNode) -> Outcome<'a> {
        let mut fields = Vec::with_capacity(node.fields.len());
        for (name, value, optional) in &node.fields {
            let value = self.eval(value)?;
            if let Some(value) = present(value, *optional, &Value::from(&**name))? {
                fields.retain(|(existing, _)| existing != name);
                fields.push((name.clone(), value));
            }
        }
        Ok(Value::Object(Object::new(node.name.clone(), fields)))
    }
}

/// The value of an entry, if it is not optional or present.
fn present<'a>(
    value: Value<'a>,
    optional: bool,
    key: &Value<'_>,
) -> Result<Option<Value<'a>>, Error> {
    match value {
        value if !optional => Ok(Some(value)),
        Value::Optional(value) => Ok(value.map(|value| (*value).clone())),
        other => {
            let (key, other) = (ops::text(key), ops::text(&other));
            let message =
                format!("cannot initialize optional entry '{key}' from non-optional value {other}");
            Err(Error::new(message))
        }
    }
}

fn traversal(size: u64) -> u64 {
    (size as f64 * crate::cost::STRING_TRAVERSAL_FACTOR).ceil() as u64
}
