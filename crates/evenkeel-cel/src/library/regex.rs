//! Regular expressions of RE2, matched in linear time.

use std::sync::Arc;

use evenkeel_types::pattern::Pattern;

use crate::{Error, Function, Implementation, Overload, Type, Value};

/// Compiles a pattern with Go's error.
pub(crate) fn compile(pattern: &str) -> Result<Pattern, Error> {
    Pattern::new(pattern).map_err(Error::new)
}

/// `matches`
pub(super) fn functions() -> Vec<Function> {
    let arguments = [Type::String, Type::String];
    vec![
        Function::new("matches")
            .overload(
                Overload::global("matches", arguments.clone(), Type::Bool, matches)
                    .specialize(prepare),
            )
            .overload(
                Overload::member("matches_string", arguments, Type::Bool, matches)
                    .specialize(prepare),
            ),
    ]
}

fn matches<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::String(text), Value::String(pattern)] => {
            Ok(Value::Bool(compile(pattern)?.is_match(text)))
        }
        _ => Err(Error::no_such_overload()),
    }
}

/// A constant pattern is compiled once.
fn prepare(constants: &[Option<&Value<'static>>]) -> Option<Result<Implementation, Error>> {
    let [_, Some(Value::String(pattern))] = constants else { return None };
    Some(compile(pattern).map(|regex| -> Implementation {
        Arc::new(move |arguments| match arguments.first() {
            Some(Value::String(text)) => Ok(Value::Bool(regex.is_match(text))),
            _ => Err(Error::no_such_overload()),
        })
    }))
}
