//! Programs: compiled expressions, ready to be evaluated any number of times, from any thread.

use std::sync::Arc;

use crate::eval::{Evaluator, Local};
use crate::plan::{Node, plan};
use crate::{Ast, Env, Error, Value};

/// A compiled expression. Evaluation allocates nothing for reading variables and fields.
#[derive(Clone)]
pub struct Program(Arc<Inner>);

struct Inner {
    root: Node,
    slots: usize,
    presence_has_cost: bool,
}

/// Values of the variables of an evaluation.
///
/// Implemented for slices of values in the order in which variables were declared. Other implementations
/// may compute values when they are read.
pub trait Activation<'a> {
    /// The value of the variable at this position; `None` if it has none.
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, Error>>;

    /// The value of a field of the variable at this position, for variables whose fields are computed
    /// when they are read; `None` if the field is one of the variable's value.
    fn field(&self, index: usize, name: &str) -> Option<Result<Value<'a>, Error>> {
        let _ = (index, name);
        None
    }
}

impl<'a> Activation<'a> for [Value<'a>] {
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        self.get(index).cloned().map(Ok)
    }
}

impl<'a> Activation<'a> for [Option<Value<'a>>] {
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        self.get(index).cloned().flatten().map(Ok)
    }
}

impl<'a> Activation<'a> for Vec<Value<'a>> {
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        self.as_slice().variable(index)
    }
}

impl<'a, const N: usize> Activation<'a> for [Value<'a>; N] {
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        self.as_slice().variable(index)
    }
}

impl<'a, const N: usize> Activation<'a> for [Option<Value<'a>>; N] {
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        self.as_slice().variable(index)
    }
}

/// What ends an evaluation early.
#[derive(Clone, Copy, Default)]
pub struct Limits<'l> {
    /// The highest cost; an evaluation that exceeds it fails with
    /// [`ErrorKind::CostLimit`](crate::ErrorKind::CostLimit).
    pub cost: Option<u64>,
    /// Called now and then in loops; if it returns true, the evaluation fails with
    /// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted).
    pub interrupted: Option<&'l dyn Fn() -> bool>,
}

/// The result of an evaluation and what it cost.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// The value of the expression.
    pub result: Result<Value<'a>, Error>,
    /// The cost, as cel-go counts it.
    pub cost: u64,
}

impl Program {
    /// Prepares a checked expression. Fails where cel-go's `Env.Program` does: at constants that cannot
    /// be converted and regular expressions that do not compile.
    pub fn new(env: &Env, ast: &Ast) -> Result<Self, Error> {
        let (root, slots) = plan(ast, &env.0)?;
        let presence_has_cost = env.0.options.presence_test_has_cost;
        Ok(Self(Arc::new(Inner { root, slots, presence_has_cost })))
    }

    /// Evaluates the expression with the values of all variables, without limits.
    pub fn evaluate<'a>(&'a self, variables: &[Value<'a>]) -> Result<Value<'a>, Error> {
        self.run(&Slice(variables), Limits::default()).result
    }

    /// Evaluates the expression with limits, and returns the cost.
    pub fn run<'a>(
        &'a self,
        activation: &dyn Activation<'a>,
        limits: Limits<'_>,
    ) -> Evaluation<'a> {
        let mut evaluator = Evaluator {
            activation,
            locals: vec![Local::Unset; self.0.slots],
            cost: 0,
            limit: limits.cost.unwrap_or(u64::MAX),
            presence_has_cost: self.0.presence_has_cost,
            interrupted: limits.interrupted,
            iterations: 0,
        };
        let result = evaluator.eval(&self.0.root);
        Evaluation { result, cost: evaluator.cost }
    }
}

/// A slice as a sized activation.
struct Slice<'s, 'a>(&'s [Value<'a>]);

impl<'a> Activation<'a> for Slice<'_, 'a> {
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        self.0.variable(index)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Program")
    }
}
