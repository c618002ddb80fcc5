//! Syntax trees, as the parser builds them and the checker annotates them.

use std::sync::Arc;

use crate::source::Location;
use crate::{Overload, Type, Value};

/// An expression that was parsed and checked.
#[derive(Clone, Debug)]
pub struct Ast {
    pub(crate) source: Arc<str>,
    pub(crate) root: Expr,
    /// Byte offsets by the id of the expression.
    pub(crate) positions: Vec<u32>,
    /// What the checker found, by the id of the expression; empty before.
    pub(crate) types: Vec<Option<Type>>,
    pub(crate) references: Vec<Option<Reference>>,
}

/// What a name or a call refers to.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A declared variable, by its position.
    Variable(usize),
    /// A variable of a comprehension.
    Local,
    /// The name of a type.
    Type(Type),
    /// The overloads that a call may run.
    Overloads(Vec<Arc<Overload>>),
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: u32,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// What could not be parsed.
    Unspecified,
    Literal(Value<'static>),
    Ident(Arc<str>),
    Select {
        operand: Box<Expr>,
        field: Arc<str>,
        test_only: bool,
    },
    Call {
        function: Arc<str>,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List {
        elements: Vec<Expr>,
        optional: Vec<usize>,
    },
    Map {
        entries: Vec<Entry>,
    },
    Struct {
        name: Arc<str>,
        fields: Vec<FieldInit>,
    },
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct FieldInit {
    pub(crate) id: u32,
    pub(crate) name: Arc<str>,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A loop over a list or a map that computes an accumulator.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) var: Arc<str>,
    pub(crate) var2: Option<Arc<str>>,
    pub(crate) accu: Arc<str>,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Ast {
    /// The type of the value of the expression.
    pub fn result_type(&self) -> &Type {
        self.type_of(&self.root)
    }

    /// The text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the expression reads the variable at this position of the environment.
    pub fn uses_variable(&self, index: usize) -> bool {
        let is =
            |reference: &Reference| matches!(reference, Reference::Variable(at) if *at == index);
        self.references.iter().flatten().any(is)
    }

    /// The position of a sub-expression by its id, as an [`Error`](crate::Error) reports it.
    pub fn location(&self, expression: u32) -> Location {
        match self.positions.get(expression as usize) {
            Some(offset) => Location::of(&self.source, *offset as usize),
            None => Location::NONE,
        }
    }

    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id as usize).and_then(Option::as_ref).unwrap_or(&Type::Dyn)
    }

    pub(crate) fn reference(&self, expr: &Expr) -> Option<&Reference> {
        self.references.get(expr.id as usize).and_then(Option::as_ref)
    }
}

impl Expr {
    /// The name of an identifier.
    pub(crate) fn as_ident(&self) -> Option<&Arc<str>> {
        match &self.kind {
            Kind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// The dotted name that a chain of selections spells.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select { operand, field, test_only: false } => {
                Some(format!("{}.{field}", operand.qualified_name()?))
            }
            _ => None,
        }
    }

    /// Calls `visit` with the expression and all parts of it, parents first.
    pub(crate) fn walk<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        visit(self);
        match &self.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => operand.walk(visit),
            Kind::Call { target, args, .. } => {
                if let Some(target) = target {
                    target.walk(visit);
                }
                args.iter().for_each(|arg| arg.walk(visit));
            }
            Kind::List { elements, .. } => elements.iter().for_each(|element| element.walk(visit)),
            Kind::Map { entries } => {
                for entry in entries {
                    entry.key.walk(visit);
                    entry.value.walk(visit);
                }
            }
            Kind::Struct { fields, .. } => fields.iter().for_each(|field| field.value.walk(visit)),
            Kind::Comprehension(c) => {
                for part in [&c.range, &c.init, &c.condition, &c.step, &c.result] {
                    part.walk(visit);
                }
            }
        }
    }
}

/// Names of operators, as declarations and messages spell them.
pub(crate) mod operators {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const LESS: &str = "_<_";
    pub(crate) const LESS_EQUALS: &str = "_<=_";
    pub(crate) const GREATER: &str = "_>_";
    pub(crate) const GREATER_EQUALS: &str = "_>=_";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const SUBTRACT: &str = "_-_";
    pub(crate) const MULTIPLY: &str = "_*_";
    pub(crate) const DIVIDE: &str = "_/_";
    pub(crate) const MODULO: &str = "_%_";
    pub(crate) const IN: &str = "@in";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPT_INDEX: &str = "_[?_]";
    pub(crate) const OPT_SELECT: &str = "_?._";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
}
