//! Plans: checked expressions prepared for evaluation.
//!
//! Names are slots, overloads are chosen, constants are folded and regular expressions compiled. Nothing
//! is folded that cel-go does not fold, since folded parts cost nothing: lists and maps of constants,
//! conversions of constants, and membership in constant lists.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Ast, Comprehension, Expr, Kind, Reference, operators};
use crate::declare::Overload;
use crate::env::Declarations;
use crate::ops::Binary;
use crate::value::Map;
use crate::{Error, Value};

mod node;

pub(crate) use node::{
    Append, BinaryNode, Call, Cost, Fold, Insert, Key, ListNode, MapNode, Members, Node,
    ObjectNode, Path, Quantifier, Root, StandardCost, Step, Unary, UnaryNode,
};

/// The plan of an expression, and the number of slots for variables of comprehensions.
pub(crate) fn plan(ast: &Ast, env: &Declarations) -> Result<(Node, usize), Error> {
    let mut planner = Planner { ast, env, scopes: HashMap::new(), slots: 0, used: 0 };
    let node = planner.node(&ast.root)?;
    Ok((node, planner.slots))
}

struct Planner<'p> {
    ast: &'p Ast,
    env: &'p Declarations,
    /// Slots of the variables in scope, innermost last.
    scopes: HashMap<Arc<str>, Vec<usize>>,
    slots: usize,
    used: usize,
}

impl Planner<'_> {
    fn node(&mut self, expr: &Expr) -> Result<Node, Error> {
        match &expr.kind {
            Kind::Unspecified => Err(Error::new("unsupported expression")),
            Kind::Literal(value) => Ok(Node::Const(value.clone())),
            Kind::Ident(name) => self.ident(expr, name),
            Kind::Select { operand, field, test_only } => {
                let operand = self.node(operand)?;
                let key = Key::Const(Value::String(crate::Str::Shared(field.clone())));
                let step = Step { key, optional: false, presence: *test_only };
                let mut path = into_path(expr.id, operand);
                path.presence |= test_only;
                Ok(extend(expr.id, path, step))
            }
            Kind::Call { function, target, args } => {
                self.call(expr, function, target.as_deref(), args)
            }
            Kind::List { elements, optional } => {
                let elements = self.nodes(elements)?;
                if let Some(values) = constants(&elements)
                    && optional.is_empty()
                {
                    return Ok(Node::Const(Value::list(values)));
                }
                let optional = optional.clone().into();
                Ok(Node::List(Box::new(ListNode { elements, optional })))
            }
            Kind::Map { entries } => {
                let mut nodes = Vec::with_capacity(entries.len());
                for entry in entries {
                    let key = self.node(&entry.key)?;
                    nodes.push((key, self.node(&entry.value)?, entry.optional));
                }
                Ok(constant_map(&nodes)
                    .unwrap_or_else(|| Node::Map(Box::new(MapNode { entries: nodes.into() }))))
            }
            Kind::Struct { name, fields } => {
                let mut nodes = Vec::with_capacity(fields.len());
                for field in fields {
                    nodes.push((field.name.clone(), self.node(&field.value)?, field.optional));
                }
                let fields = nodes.into();
                Ok(Node::Object(Box::new(ObjectNode { name: name.clone(), fields })))
            }
            Kind::Comprehension(comprehension) => self.fold(expr.id, comprehension),
        }
    }

    fn nodes(&mut self, exprs: &[Expr]) -> Result<Box<[Node]>, Error> {
        exprs.iter().map(|expr| self.node(expr)).collect()
    }

    fn ident(&mut self, expr: &Expr, name: &Arc<str>) -> Result<Node, Error> {
        let root = match self.ast.reference(expr) {
            Some(Reference::Type(type_)) => return Ok(Node::Const(Value::from(type_.clone()))),
            Some(Reference::Variable(at)) => Root::Variable(*at, name.clone()),
            _ => match self.scopes.get(name).and_then(|slots| slots.last()) {
                Some(slot) => Root::Local(*slot),
                None => return Err(Error::new(format!("no such attribute(s): {name}"))),
            },
        };
        let path = Path { id: expr.id, root, steps: Vec::new(), presence: false };
        Ok(Node::Path(Box::new(path)))
    }

    fn call(
        &mut self,
        expr: &Expr,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Result<Node, Error> {
        let id = expr.id;
        let mut nodes = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            nodes.push(self.node(arg)?);
        }
        let overloads: Box<[Arc<Overload>]> = match self.ast.reference(expr) {
            Some(Reference::Overloads(overloads)) => overloads.as_slice().into(),
            _ => Box::default(),
        };
        let cost = self.cost(function, &overloads);
        match function {
            operators::AND => return Ok(Node::And(flatten(nodes, true))),
            operators::OR => return Ok(Node::Or(flatten(nodes, false))),
            operators::CONDITIONAL => {
                let [condition, then, otherwise] = exactly(nodes)?;
                let root = Root::If(condition, then, otherwise);
                let path = Path { id, root, steps: Vec::new(), presence: false };
                return Ok(Node::Path(Box::new(path)));
            }
            operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT => {
                let [operand, key] = exactly(nodes)?;
                let key = match key {
                    Node::Const(value) => Key::Const(value),
                    node => Key::Computed(node),
                };
                let optional = function != operators::INDEX;
                let step = Step { key, optional, presence: false };
                return Ok(extend(id, into_path(id, operand), step));
            }
            "or" | "orValue" if optional_or(&overloads) => {
                let operands: [Node; 2] = exactly(nodes)?;
                return Ok(Node::OptionalOr(Box::new(operands.into()), function == "orValue"));
            }
            _ => {}
        }
        let unary = match function {
            operators::NOT => Some(Unary::Not),
            operators::NEGATE => Some(Unary::Negate),
            operators::NOT_STRICTLY_FALSE => Some(Unary::NotStrictlyFalse),
            _ => None,
        };
        if let Some(op) = unary {
            let [operand] = exactly(nodes)?;
            return Ok(Node::Unary(Box::new(UnaryNode { id, op, operand, cost })));
        }
        if let Some(op) = Binary::named(function).filter(|_| declared_by_standard(&overloads)) {
            let [left, right] = exactly(nodes)?;
            if op == Binary::In
                && cost.overload == "in_list"
                && let Node::Const(Value::List(list)) = &right
            {
                if list.is_empty() {
                    return Ok(Node::Const(Value::Bool(false)));
                }
                if let Some(members) = Members::of(list) {
                    return Ok(Node::Within(Box::new((left, members))));
                }
            }
            return Ok(Node::Binary(Box::new(BinaryNode { id, op, left, right, cost })));
        }
        self.ordinary_call(id, nodes, overloads, cost)
    }

    fn ordinary_call(
        &mut self,
        id: u32,
        args: Vec<Node>,
        overloads: Box<[Arc<Overload>]>,
        cost: Cost,
    ) -> Result<Node, Error> {
        let Some(function) = overloads.first().and_then(|first| self.env.function_of(first)) else {
            return Err(Error::no_such_overload());
        };
        let known: Vec<Option<&Value<'static>>> = args.iter().map(constant).collect();
        // Conversions of constants are constants; those that fail do not compile.
        let conversion = matches!(
            function,
            "bool"
                | "bytes"
                | "double"
                | "duration"
                | "dyn"
                | "int"
                | "string"
                | "timestamp"
                | "type"
                | "uint"
        );
        if conversion && let [Some(argument)] = known[..] {
            let argument = [argument.clone()];
            let overload = overloads.iter().find(|overload| overload.accepts(&argument));
            let overload = overload.ok_or_else(|| Error::no_overload_for(function, &argument))?;
            return (overload.implementation)(&argument).map(Node::Const).map_err(|e| e.at(id));
        }
        let prepare = overloads.iter().find_map(|overload| overload.specialize);
        let prepared = match prepare.and_then(|prepare| prepare(&known)) {
            Some(prepared) => Some(prepared.map_err(|error| error.at(id))?),
            None => None,
        };
        let args = args.into();
        Ok(Node::Call(Box::new(Call { id, function, overloads, prepared, args, cost })))
    }

    fn cost(&self, function: &str, overloads: &[Arc<Overload>]) -> Cost {
        let overload = match (function, overloads) {
            (operators::EQUALS, _) => "equals",
            (operators::NOT_EQUALS, _) => "not_equals",
            (_, [single]) => single.id,
            _ => "",
        };
        let of_overload = match overloads {
            [single] => single.cost,
            _ => None,
        };
        let of_function = self.env.function_costs.get(function).and_then(|costs| costs.cost);
        let standard = match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => StandardCost::Traversal,
            "in_list" => StandardCost::InList,
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals" => StandardCost::Comparison,
            "add_string" | "add_bytes" => StandardCost::Concatenation,
            "matches_string" => StandardCost::Matches,
            "contains_string" => StandardCost::Contains,
            _ => StandardCost::One,
        };
        Cost { custom: [of_overload, of_function], overload, standard }
    }

    fn fold(&mut self, id: u32, c: &Comprehension) -> Result<Node, Error> {
        let init = self.node(&c.init)?;
        let range = self.node(&c.range)?;
        let before = self.used;
        let accu = self.declare(&c.accu);
        let var = self.declare(&c.var);
        let var2 = c.var2.as_ref().map(|var2| self.declare(var2));
        let condition = self.node(&c.condition)?;
        let step = self.node(&c.step)?;
        for name in [Some(&c.var), c.var2.as_ref()].into_iter().flatten() {
            self.forget(name);
        }
        let result = self.node(&c.result)?;
        self.forget(&c.accu);
        self.used = before;
        let (range, step) = match quantifier(accu, &condition, step, &result) {
            Ok((terms, exists)) => {
                let quantifier = Quantifier { id, range, var, var2, terms, exists };
                return Ok(Node::Quantifier(Box::new(quantifier)));
            }
            Err(step) => (range, in_place(step, accu)),
        };
        let fold = Fold { id, range, accu, var, var2, init, condition, step, result };
        Ok(Node::Fold(Box::new(fold)))
    }

    fn declare(&mut self, name: &Arc<str>) -> usize {
        let slot = self.used;
        self.used += 1;
        self.slots = self.slots.max(self.used);
        self.scopes.entry(name.clone()).or_default().push(slot);
        slot
    }

    fn forget(&mut self, name: &Arc<str>) {
        if let Some(slots) = self.scopes.get_mut(name) {
            slots.pop();
        }
    }
}

fn constant(node: &Node) -> Option<&Value<'static>> {
    match node {
        Node::Const(value) => Some(value),
        _ => None,
    }
}

fn constants(nodes: &[Node]) -> Option<Vec<Value<'static>>> {
    nodes.iter().map(|node| constant(node).cloned()).collect()
}

/// A map of constants.
fn constant_map(entries: &[(Node, Node, bool)]) -> Option<Node> {
    let mut constants = Vec::with_capacity(entries.len());
    for (key, value, optional) in entries {
        if *optional {
            return None;
        }
        constants.push((constant(key)?.clone(), constant(value)?.clone()));
    }
    Some(Node::Const(Value::Map(Map::last_wins(constants))))
}

fn exactly<const N: usize>(nodes: Vec<Node>) -> Result<[Node; N], Error> {
    nodes.try_into().map_err(|_| Error::no_such_overload())
}

/// A node as the start of a path.
fn into_path(id: u32, node: Node) -> Path {
    match node {
        // A presence test is a value of its own.
        Node::Path(path) if !path.presence => *path,
        node => Path { id, root: Root::Value(node), steps: Vec::new(), presence: false },
    }
}

fn extend(id: u32, mut path: Path, step: Step) -> Node {
    path.steps.push(step);
    path.id = id;
    Node::Path(Box::new(path))
}

/// Operands of nested conjunctions or disjunctions in a row.
fn flatten(nodes: Vec<Node>, and: bool) -> Box<[Node]> {
    let mut terms = Vec::with_capacity(nodes.len());
    for node in nodes {
        match node {
            Node::And(inner) if and => terms.extend(inner),
            Node::Or(inner) if !and => terms.extend(inner),
            other => terms.push(other),
        }
    }
    terms.into()
}

fn optional_or(overloads: &[Arc<Overload>]) -> bool {
    match overloads {
        [single] => matches!(single.id, "optional_or_optional" | "optional_orValue_value"),
        _ => true,
    }
}

/// Whether only overloads of the standard may run, which the operators implement themselves.
fn declared_by_standard(overloads: &[Arc<Overload>]) -> bool {
    overloads.iter().all(|overload| overload.standard)
}

fn is_local(node: &Node, slot: usize) -> bool {
    match node {
        Node::Path(path) => {
            path.steps.is_empty() && matches!(path.root, Root::Local(local) if local == slot)
        }
        _ => false,
    }
}

/// The terms of a step that `all` or `exists` expands to, and whether it is `exists`; or the step.
fn quantifier(
    accu: usize,
    condition: &Node,
    step: Node,
    result: &Node,
) -> Result<(Box<[Node]>, bool), Node> {
    let plain = |unary: &UnaryNode| unary.cost.custom.iter().all(Option::is_none);
    let exists = match condition {
        Node::Unary(test) if test.op == Unary::NotStrictlyFalse && plain(test) => {
            match &test.operand {
                Node::Unary(not) if not.op == Unary::Not && plain(not) => {
                    is_local(&not.operand, accu).then_some(true)
                }
                operand => is_local(operand, accu).then_some(false),
            }
        }
        _ => None,
    };
    if !is_local(result, accu) {
        return Err(step);
    }
    match (step, exists) {
        (Node::And(terms), Some(false)) | (Node::Or(terms), Some(true))
            if terms.first().is_some_and(|first| is_local(first, accu)) =>
        {
            Ok((terms.into_iter().skip(1).collect(), exists == Some(true)))
        }
        (step, _) => Err(step),
    }
}

/// Appends and inserts into an accumulator, which is not shared, need no copy of it.
fn in_place(step: Node, accu: usize) -> Node {
    let is_accu = |node: &Node| is_local(node, accu);
    match step {
        Node::Binary(binary)
            if binary.op == Binary::Add && is_accu(&binary.left) && single(&binary.right) =>
        {
            let Node::List(list) = binary.right else { return Node::Binary(binary) };
            match <[Node; 1]>::try_from(list.elements.into_vec()) {
                Ok([element]) => {
                    Node::Append(Box::new(Append { accu, element, cost: binary.cost }))
                }
                Err(_) => Node::Const(Value::Null),
            }
        }
        Node::Call(call)
            if call.function == operators::MAP_INSERT
                && call.args.len() == 3
                && is_accu(&call.args[0]) =>
        {
            let cost = call.cost;
            match <[Node; 3]>::try_from(call.args.into_vec()) {
                Ok([_, key, value]) => Node::Insert(Box::new(Insert { accu, key, value, cost })),
                Err(_) => Node::Const(Value::Null),
            }
        }
        Node::Path(mut path) if path.steps.is_empty() && matches!(path.root, Root::If(..)) => {
            if let Root::If(condition, then, otherwise) = path.root {
                path.root = Root::If(condition, in_place(then, accu), in_place(otherwise, accu));
            }
            Node::Path(path)
        }
        other => other,
    }
}

fn single(node: &Node) -> bool {
    matches!(node, Node::List(list) if list.elements.len() == 1 && list.optional.is_empty())
}
