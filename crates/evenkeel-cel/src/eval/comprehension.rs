//! Evaluation of comprehensions.

use super::{Evaluator, INTERRUPT_CHECKS, Local, Outcome};
use crate::ast::operators;
use crate::cost::LIST_CREATE_COST;
use crate::error::ErrorKind;
use crate::ops;
use crate::plan::{Append, Fold, Insert, Quantifier};
use crate::value::List;
use crate::{Error, Value};

impl<'a> Evaluator<'a, '_> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        self.locals[fold.accu] = Local::Lazy(&fold.init);
        self.each(fold.id, &range, fold.var, fold.var2, |evaluator| {
            if let Ok(Value::Bool(false)) = evaluator.operand(&fold.condition)? {
                return Ok(false);
            }
            let outcome = evaluator.operand(&fold.step)?;
            evaluator.locals[fold.accu] = Local::of(outcome);
            Ok(true)
        })?;
        self.eval(&fold.result)
    }

    /// Costs what the fold costs that the macro stands for: each iteration reads the accumulator in the
    /// condition and in the step.
    pub(super) fn quantifier(&mut self, node: &'a Quantifier) -> Outcome<'a> {
        let range = self.eval(&node.range)?;
        let mut decided = false;
        let mut failure = None;
        self.each(node.id, &range, node.var, node.var2, |evaluator| {
            evaluator.charge(1)?;
            evaluator.charge(1)?;
            if node.exists {
                evaluator.charge(1)?;
            }
            if decided {
                return Ok(false);
            }
            evaluator.charge(1)?;
            for term in &node.terms {
                match evaluator.eval(term) {
                    Ok(Value::Bool(value)) if value == node.exists => {
                        decided = true;
                        break;
                    }
                    Ok(Value::Bool(_)) => {}
                    Ok(_) => {
                        failure.get_or_insert_with(Error::no_such_overload);
                    }
                    Err(error) if error.is_final() => return Err(error),
                    Err(error) => {
                        failure.get_or_insert(error);
                    }
                }
            }
            Ok(true)
        })?;
        self.charge(1)?;
        match failure {
            Some(error) if !decided => Err(error),
            _ => Ok(Value::Bool(decided == node.exists)),
        }
    }

    /// Calls `step` with each element of a range in the variables, until it returns false.
    fn each(
        &mut self,
        id: u32,
        range: &Value<'a>,
        var: usize,
        var2: Option<usize>,
        mut step: impl FnMut(&mut Self) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut iterate = |evaluator: &mut Self, first, second| {
            evaluator.locals[var] = Local::Value(first);
            if let Some(var2) = var2 {
                evaluator.locals[var2] = Local::Value(second);
            }
            let more = step(evaluator)?;
            if more {
                evaluator.check_interrupt()?;
            }
            Ok::<_, Error>(more)
        };
        match range {
            Value::List(list) => {
                for (at, element) in list.iter().enumerate() {
                    let (first, second) = match var2 {
                        Some(_) => (Value::Int(i64::try_from(at).unwrap_or(i64::MAX)), element),
                        None => (element, Value::Null),
                    };
                    if !iterate(self, first, second)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    if !iterate(self, key, value)? {
                        break;
                    }
                }
            }
            Value::Object(object) => {
                for (name, value) in object.fields() {
                    if !iterate(self, Value::String(crate::Str::Shared(name)), value)? {
                        break;
                    }
                }
            }
            other => {
                let found = go_type(other);
                let message = match var2 {
                    Some(_) => format!("unsupported comprehension range type: {found}"),
                    None => format!("got '{found}', expected iterable type"),
                };
                return Err(Error::new(message).at(id));
            }
        }
        self.locals[var] = Local::Unset;
        Ok(())
    }

    fn check_interrupt(&mut self) -> Result<(), Error> {
        self.iterations = self.iterations.wrapping_add(1);
        if self.iterations.is_multiple_of(INTERRUPT_CHECKS)
            && self.interrupted.is_some_and(|interrupted| interrupted())
        {
            return Err(Error::of_kind(ErrorKind::Interrupted, "operation interrupted"));
        }
        Ok(())
    }

    pub(super) fn append(&mut self, append: &'a Append) -> Outcome<'a> {
        // What follows costs what the sum of the accumulator and a list costs.
        let accu = self.force(append.accu)?;
        self.charge(1)?;
        let element = self.operand(&append.element)?;
        self.charge(LIST_CREATE_COST)?;
        self.charge_call(&append.cost, &[Value::Null, Value::Null], None)?;
        accu?;
        let element = element?;
        match std::mem::replace(&mut self.locals[append.accu], Local::Unset) {
            Local::Value(Value::List(mut list)) => {
                list.push(element);
                Ok(Value::List(list))
            }
            Local::Value(other) => {
                let element = Value::List(List::from(vec![element]));
                ops::Binary::Add.apply(&other, &element)
            }
            _ => Err(Error::no_such_overload()),
        }
    }

    pub(super) fn insert(&mut self, insert: &'a Insert) -> Outcome<'a> {
        self.force(insert.accu)??;
        self.charge(1)?;
        let key = self.eval(&insert.key)?;
        let value = self.eval(&insert.value)?;
        self.charge_call(&insert.cost, &[Value::Null, Value::Null, Value::Null], None)?;
        match std::mem::replace(&mut self.locals[insert.accu], Local::Unset) {
            Local::Value(Value::Map(mut map)) => match map.insert(key.clone(), value) {
                true => Ok(Value::Map(map)),
                false => {
                    let key = ops::text(&key);
                    Err(Error::new(format!("insert failed: key {key} already exists")))
                }
            },
            _ => Err(Error::new(format!("no such overload: {}", operators::MAP_INSERT))),
        }
    }

    /// Computes an accumulator if it was not read yet.
    fn force(&mut self, slot: usize) -> Result<Result<(), Error>, Error> {
        match &self.locals[slot] {
            Local::Value(_) => Ok(Ok(())),
            _ => match self.local(slot) {
                Ok(_) => Ok(Ok(())),
                Err(error) if error.is_final() => Err(error),
                Err(error) => Ok(Err(error)),
            },
        }
    }
}

/// Go's name of the type of a value, for messages.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Optional(_) => "*types.Optional",
        Value::Type(_) => "*types.Type",
        _ => "ref.Val",
    }
}
