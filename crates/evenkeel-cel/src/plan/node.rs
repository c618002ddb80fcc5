//! The steps of a plan.

use std::sync::Arc;

use crate::Value;
use crate::declare::{CallCost, Implementation, Overload};
use crate::ops::Binary;
use crate::value::{List, Map};

/// A step of an evaluation.
#[derive(Clone)]
pub(crate) enum Node {
    Const(Value<'static>),
    Path(Box<Path>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
    Binary(Box<BinaryNode>),
    Unary(Box<UnaryNode>),
    Call(Box<Call>),
    List(Box<ListNode>),
    Map(Box<MapNode>),
    Object(Box<ObjectNode>),
    Fold(Box<Fold>),
    /// `all` and `exists`.
    Quantifier(Box<Quantifier>),
    /// Membership in a constant list, which costs nothing.
    Within(Box<(Node, Members)>),
    /// `or` and `orValue` of optional values, which evaluate the right side only if needed.
    OptionalOr(Box<(Node, Node)>, bool),
    /// `accumulator + [element]`.
    Append(Box<Append>),
    /// `cel.@mapInsert(accumulator, key, value)`.
    Insert(Box<Insert>),
}

/// A value and the fields, elements or keys to read from it (an attribute in cel-go).
#[derive(Clone)]
pub(crate) struct Path {
    pub(crate) id: u32,
    pub(crate) root: Root,
    pub(crate) steps: Vec<Step>,
    /// `has(…)`: whether the last step exists.
    pub(crate) presence: bool,
}

#[derive(Clone)]
pub(crate) enum Root {
    Variable(usize, Arc<str>),
    Local(usize),
    Value(Node),
    /// A conditional: the branches are values of the path.
    If(Node, Node, Node),
}

#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) key: Key,
    pub(crate) optional: bool,
    pub(crate) presence: bool,
}

#[derive(Clone)]
pub(crate) enum Key {
    Const(Value<'static>),
    Computed(Node),
}

#[derive(Clone)]
pub(crate) struct BinaryNode {
    pub(crate) id: u32,
    pub(crate) op: Binary,
    pub(crate) left: Node,
    pub(crate) right: Node,
    pub(crate) cost: Cost,
}

#[derive(Clone)]
pub(crate) struct UnaryNode {
    pub(crate) id: u32,
    pub(crate) op: Unary,
    pub(crate) operand: Node,
    pub(crate) cost: Cost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Negate,
    NotStrictlyFalse,
}

#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) id: u32,
    pub(crate) function: &'static str,
    pub(crate) overloads: Box<[Arc<Overload>]>,
    /// Prepared for the constant arguments of this call.
    pub(crate) prepared: Option<Implementation>,
    pub(crate) args: Box<[Node]>,
    pub(crate) cost: Cost,
}

/// What a call costs at run time.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    /// Of the overload and of the function; the first that returns a cost decides.
    pub(crate) custom: [Option<CallCost>; 2],
    /// The id of the overload; empty if there are several.
    pub(crate) overload: &'static str,
    pub(crate) standard: StandardCost,
}

#[derive(Clone, Copy)]
pub(crate) enum StandardCost {
    One,
    /// The first argument is read once.
    Traversal,
    /// Each element of the second argument is compared.
    InList,
    /// Values are compared up to the size of the smaller one.
    Comparison,
    /// Both arguments are read.
    Concatenation,
    Matches,
    Contains,
}

#[derive(Clone)]
pub(crate) struct ListNode {
    pub(crate) elements: Box<[Node]>,
    pub(crate) optional: Box<[usize]>,
}

#[derive(Clone)]
pub(crate) struct MapNode {
    /// Keys, values, and whether the value is an optional one.
    pub(crate) entries: Box<[(Node, Node, bool)]>,
}

#[derive(Clone)]
pub(crate) struct ObjectNode {
    pub(crate) name: Arc<str>,
    pub(crate) fields: Box<[(Arc<str>, Node, bool)]>,
}

#[derive(Clone)]
pub(crate) struct Fold {
    pub(crate) id: u32,
    pub(crate) range: Node,
    pub(crate) accu: usize,
    pub(crate) var: usize,
    pub(crate) var2: Option<usize>,
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

/// A fold whose accumulator is a boolean.
#[derive(Clone)]
pub(crate) struct Quantifier {
    pub(crate) id: u32,
    pub(crate) range: Node,
    pub(crate) var: usize,
    pub(crate) var2: Option<usize>,
    /// What is evaluated for each element, in a row; the first decisive value ends it.
    pub(crate) terms: Box<[Node]>,
    pub(crate) exists: bool,
}

#[derive(Clone)]
pub(crate) struct Append {
    pub(crate) accu: usize,
    pub(crate) element: Node,
    pub(crate) cost: Cost,
}

#[derive(Clone)]
pub(crate) struct Insert {
    pub(crate) accu: usize,
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) cost: Cost,
}

/// The elements of a constant list.
#[derive(Clone)]
pub(crate) enum Members {
    Few(Box<[Value<'static>]>),
    Many(Map<'static>),
}

impl Members {
    pub(super) fn of(list: &List<'static>) -> Option<Self> {
        let items: Vec<_> = list.iter().collect();
        let primitive = |value: &Value<'_>| {
            let key =
                matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::String(_));
            key || matches!(value, Value::Double(_))
        };
        if !items.iter().all(primitive) {
            return None;
        }
        if items.len() <= 8 || items.iter().any(|item| matches!(item, Value::Double(_))) {
            return Some(Self::Few(items.into()));
        }
        let mut map = Map::default();
        for item in items {
            map.insert(item, Value::Null);
        }
        Some(Self::Many(map))
    }

    pub(crate) fn contains(&self, value: &Value<'_>) -> bool {
        match self {
            Self::Few(items) => items.iter().any(|item| item == value),
            Self::Many(map) => map.get(value).is_some(),
        }
    }
}
