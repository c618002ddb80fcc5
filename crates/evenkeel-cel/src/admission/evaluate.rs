//! Evaluates compiled expressions for one request.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

use super::compile::{Compiled, Input, Variable};
use crate::kubernetes::{
    Authorizer, Check, MATCH_CONDITIONS_BUDGET, PER_CALL_LIMIT, RUNTIME_COST_BUDGET, authorizer,
    resource_check,
};
use crate::program::Activation;
use crate::{Error, Evaluation, Limits, Value};

/// The values of the variables of a request. What is absent is `null`.
#[derive(Clone)]
pub struct Inputs<'a> {
    /// The object in its new state.
    pub object: Value<'a>,
    /// The object in its old state.
    pub old_object: Value<'a>,
    /// The namespace of the object.
    pub namespace_object: Value<'a>,
    /// The attributes of the request.
    pub request: Value<'a>,
    /// The parameters of the policy.
    pub params: Value<'a>,
    /// What `authorizer` calls, and the check `authorizer.requestResource`.
    pub authorizer: Option<(Arc<dyn Authorizer>, Check)>,
}

impl Default for Inputs<'_> {
    fn default() -> Self {
        Self {
            object: Value::Null,
            old_object: Value::Null,
            namespace_object: Value::Null,
            request: Value::Null,
            params: Value::Null,
            authorizer: None,
        }
    }
}

/// What evaluations may still cost.
#[derive(Clone, Copy, Debug)]
pub struct Budget(u64);

impl Budget {
    /// The budget of the expressions of a policy.
    pub fn of_object() -> Self {
        Self(RUNTIME_COST_BUDGET)
    }

    /// The budget of match conditions.
    pub fn of_conditions() -> Self {
        Self(MATCH_CONDITIONS_BUDGET)
    }

    /// Whether this many evaluations, each within the limit of a call, cannot exceed the budget.
    pub fn covers(&self, evaluations: usize) -> bool {
        // A call ends after the step that exceeds its limit.
        let most = PER_CALL_LIMIT.saturating_mul(2);
        self.0 >= most.saturating_mul(evaluations as u64)
    }

    fn spend(&mut self, cost: u64) -> Result<(), OutOfBudget> {
        self.0 = self.0.checked_sub(cost).ok_or(OutOfBudget)?;
        Ok(())
    }
}

/// The budget is spent; no other expression is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBudget;

impl fmt::Display for OutOfBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "validation failed due to running out of cost budget, no further validation rules will \
             be run",
        )
    }
}

impl std::error::Error for OutOfBudget {}

/// Evaluates expressions for one request. Variables are evaluated when they are first read.
pub struct Scope<'a> {
    inputs: &'a Inputs<'a>,
    variables: &'a [Variable],
    values: RefCell<Vec<Lazy<'a>>>,
    /// What variables have cost since the last expression.
    cost: Cell<u64>,
}

#[derive(Clone)]
enum Lazy<'a> {
    Unread,
    Evaluating,
    Read(Result<Value<'a>, Error>),
}

impl<'a> Scope<'a> {
    /// A scope without values of variables yet.
    pub fn new(inputs: &'a Inputs<'a>, variables: &'a [Variable]) -> Self {
        let values = RefCell::new(vec![Lazy::Unread; variables.len()]);
        Self { inputs, variables, values, cost: Cell::new(0) }
    }

    /// Evaluates an expression. The inner error is that of the expression, as upstream words it.
    pub fn evaluate(
        &self,
        compiled: &'a Compiled,
        budget: &mut Budget,
    ) -> Result<Result<Value<'a>, String>, OutOfBudget> {
        let expression = match compiled {
            Ok(expression) => expression,
            Err(invalid) => return Ok(Err(format!("compilation error: {invalid}"))),
        };
        let Evaluation { result, cost } = self.run(compiled);
        budget.spend(self.cost.take())?;
        budget.spend(cost)?;
        Ok(result.map_err(|error| {
            format!("expression '{}' resulted in error: {error}", expression.text)
        }))
    }

    fn run(&self, compiled: &'a Compiled) -> Evaluation<'a> {
        match compiled {
            Err(invalid) => Evaluation { result: Err(Error::new(invalid.to_string())), cost: 0 },
            Ok(expression) => {
                let limits = Limits { cost: Some(PER_CALL_LIMIT), ..Limits::default() };
                let bound = Bound { scope: self, inputs: &expression.inputs };
                expression.program.run(&bound, limits)
            }
        }
    }

    /// The value of a variable of the policy.
    fn variable(&self, name: &str) -> Option<Result<Value<'a>, Error>> {
        let at = self.variables.iter().rposition(|variable| &*variable.name == name)?;
        let known = std::mem::replace(self.values.borrow_mut().get_mut(at)?, Lazy::Evaluating);
        let value = match known {
            Lazy::Read(value) => value,
            // Only a variable that is declared twice can read itself.
            Lazy::Evaluating => Err(Error::new(format!("variable {name:?} reads itself"))),
            Lazy::Unread => self.evaluate_variable(&self.variables[at]),
        };
        self.values.borrow_mut()[at] = Lazy::Read(value.clone());
        Some(value)
    }

    fn evaluate_variable(&self, variable: &'a Variable) -> Result<Value<'a>, Error> {
        let name = &variable.name;
        if let Err(invalid) = &variable.compiled {
            let text = format!("composited variable {name:?} fails to compile: {invalid}");
            return Err(Error::new(text));
        }
        let Evaluation { result, cost } = self.run(&variable.compiled);
        self.cost.set(self.cost.get().saturating_add(cost));
        result.map_err(|error| {
            Error::new(format!("composited variable {name:?} fails to evaluate: {error}"))
        })
    }
}

/// A scope with the positions of the variables of a program.
struct Bound<'s, 'a> {
    scope: &'s Scope<'a>,
    inputs: &'a [Input],
}

impl<'a> Activation<'a> for Bound<'_, 'a> {
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        let inputs = self.scope.inputs;
        let value = match self.inputs.get(index)? {
            Input::Object => inputs.object.clone(),
            Input::OldObject => inputs.old_object.clone(),
            Input::Namespace => inputs.namespace_object.clone(),
            Input::Request => inputs.request.clone(),
            Input::Params => inputs.params.clone(),
            Input::Authorizer => authorizer(inputs.authorizer.as_ref()?.0.clone()),
            Input::RequestResource => {
                let (decide, check) = inputs.authorizer.as_ref()?;
                resource_check(decide.clone(), check.clone())
            }
            // Only its fields are values.
            Input::Variables => return Some(Err(Error::no_such_overload())),
        };
        Some(Ok(value))
    }

    fn field(&self, index: usize, name: &str) -> Option<Result<Value<'a>, Error>> {
        match self.inputs.get(index)? {
            Input::Variables => self.scope.variable(name),
            _ => None,
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("object", &self.object).finish_non_exhaustive()
    }
}
