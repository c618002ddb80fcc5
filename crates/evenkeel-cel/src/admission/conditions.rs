//! Match conditions: a webhook is called, and a policy is evaluated, only if all are true.

use std::collections::HashSet;

use super::{Budget, Compiled, Compiler, Inputs, Purpose, Scope, Variable};
use crate::Value;

/// The match conditions of a webhook or of a policy.
#[derive(Clone, Debug, Default)]
pub struct MatchConditions(Vec<Compiled>);

impl MatchConditions {
    /// Compiles conditions. Those that do not compile fail when they are evaluated.
    pub fn compile<'e>(
        compiler: &Compiler,
        expressions: impl IntoIterator<Item = &'e str>,
    ) -> Self {
        let compile = |expression| compiler.compile(expression, Purpose::Condition);
        Self(expressions.into_iter().map(compile).collect())
    }

    /// Whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all conditions are true. A false one decides even if others have errors; otherwise the
    /// errors are returned as one text.
    pub fn matches<'a>(
        &'a self,
        inputs: &'a Inputs<'a>,
        variables: &'a [Variable],
    ) -> Result<bool, String> {
        let scope = Scope::new(inputs, variables);
        let mut budget = Budget::of_conditions();
        let mut results = Vec::with_capacity(self.0.len());
        for condition in &self.0 {
            let result = scope.evaluate(condition, &mut budget);
            results.push(result.map_err(|out_of_budget| out_of_budget.to_string())?);
        }
        let mut errors = Vec::new();
        for result in results {
            match result {
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(true) } else { Err(joined(errors)) }
    }
}

/// Several errors as upstream prints them, each once.
fn joined(mut errors: Vec<String>) -> String {
    let mut seen = HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match &errors[..] {
        [one] => one.clone(),
        _ => format!("[{}]", errors.join(", ")),
    }
}
