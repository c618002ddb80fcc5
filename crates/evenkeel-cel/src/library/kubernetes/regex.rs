//! `find` and `findAll`: matches of regular expressions.

use std::sync::Arc;

use evenkeel_types::pattern::Pattern;

use super::{list_of_strings, text};
use crate::{Error, Function, Implementation, Overload, Str, Type, Value};

pub(super) fn functions() -> Vec<Function> {
    let two = [Type::String, Type::String];
    let three = [Type::String, Type::String, Type::Int];
    vec![
        Function::new("find").overload(
            Overload::member("string_find_string", two.clone(), Type::String, |values| {
                find(&compile(values)?, values)
            })
            .specialize(|constants| prepare(constants, find)),
        ),
        Function::new("findAll")
            .overload(
                Overload::member("string_find_all_string", two, list_of_strings(), |values| {
                    find_all(&compile(values)?, values)
                })
                .specialize(|constants| prepare(constants, find_all)),
            )
            .overload(
                Overload::member(
                    "string_find_all_string_int",
                    three,
                    list_of_strings(),
                    |values| find_all(&compile(values)?, values),
                )
                .specialize(|constants| prepare(constants, find_all)),
            ),
    ]
}

fn compile(values: &[Value<'_>]) -> Result<Pattern, Error> {
    let pattern = text(values.get(1).ok_or_else(Error::no_such_overload)?)?;
    Pattern::new(pattern).map_err(|reason| Error::new(format!("Illegal regex: {reason}")))
}

type Search = for<'a> fn(&Pattern, &[Value<'a>]) -> Result<Value<'a>, Error>;

/// A constant pattern is compiled once; one that is malformed prevents the program.
fn prepare(
    constants: &[Option<&Value<'static>>],
    search: Search,
) -> Option<Result<Implementation, Error>> {
    let Some(Some(Value::String(pattern))) = constants.get(1) else { return None };
    Some(match Pattern::new(pattern) {
        Ok(pattern) => Ok(Arc::new(move |values| search(&pattern, values))),
        Err(reason) => Err(Error::new(reason)),
    })
}

fn find<'a>(pattern: &Pattern, values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match values.first() {
        Some(Value::String(subject)) => {
            let found = pattern.find(subject).unwrap_or_default();
            Ok(part(subject, found))
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn find_all<'a>(pattern: &Pattern, values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let Some(Value::String(subject)) = values.first() else {
        return Err(Error::no_such_overload());
    };
    let most = match values.get(2) {
        Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        Some(_) => return Err(Error::no_such_overload()),
        None => usize::MAX,
    };
    let found = pattern.find_all(subject).take(most).map(|found| part(subject, found));
    Ok(Value::list(found.collect::<Vec<_>>()))
}

/// A part of a string, borrowed if the string is.
fn part<'a>(subject: &Str<'a>, found: &str) -> Value<'a> {
    let start = (found.as_ptr() as usize).wrapping_sub(subject.as_ptr() as usize);
    match subject {
        Str::Borrowed(all) => match all.get(start..start.wrapping_add(found.len())) {
            Some(part) => Value::from(part),
            None => Value::from(found.to_owned()),
        },
        Str::Shared(_) => Value::from(found.to_owned()),
    }
}
