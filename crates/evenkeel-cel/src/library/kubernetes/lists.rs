//! `isSorted`, `sum`, `min`, `max`, `indexOf` and `lastIndexOf` of lists.

use std::cmp::Ordering;

use crate::ops::{add, compare};
use crate::{Duration, Error, Function, List, Overload, Type, Value};

pub(super) fn functions() -> Vec<Function> {
    let of = Type::list;
    let summable: [(_, _, fn() -> Value<'static>); 4] = [
        ("list_int_sum_int", Type::Int, || Value::Int(0)),
        ("list_uint_sum_uint", Type::Uint, || Value::Uint(0)),
        ("list_double_sum_double", Type::Double, || Value::Double(0.0)),
        ("list_duration_sum_duration", Type::Duration, || Value::Duration(Duration::default())),
    ];
    let comparable = [
        ("list_int_is_sorted_bool", "list_int_max_int", "list_int_min_int", Type::Int),
        ("list_uint_is_sorted_bool", "list_uint_max_uint", "list_uint_min_uint", Type::Uint),
        (
            "list_double_is_sorted_bool",
            "list_double_max_double",
            "list_double_min_double",
            Type::Double,
        ),
        ("list_bool_is_sorted_bool", "list_bool_max_bool", "list_bool_min_bool", Type::Bool),
        (
            "list_duration_is_sorted_bool",
            "list_duration_max_duration",
            "list_duration_min_duration",
            Type::Duration,
        ),
        (
            "list_timestamp_is_sorted_bool",
            "list_timestamp_max_timestamp",
            "list_timestamp_min_timestamp",
            Type::Timestamp,
        ),
        (
            "list_string_is_sorted_bool",
            "list_string_max_string",
            "list_string_min_string",
            Type::String,
        ),
        ("list_bytes_is_sorted_bool", "list_bytes_max_bytes", "list_bytes_min_bytes", Type::Bytes),
    ];
    let mut sorted = Function::new("isSorted");
    let mut max = Function::new("max");
    let mut min = Function::new("min");
    for (sorted_id, max_id, min_id, type_) in comparable {
        let arguments = [of(type_.clone())];
        sorted =
            sorted.overload(Overload::member(sorted_id, arguments.clone(), Type::Bool, is_sorted));
        max = max.overload(Overload::member(max_id, arguments.clone(), type_.clone(), |values| {
            extreme(values, "max", Ordering::Less)
        }));
        min = min.overload(Overload::member(min_id, arguments, type_, |values| {
            extreme(values, "min", Ordering::Greater)
        }));
    }
    let mut sum = Function::new("sum");
    for (id, type_, zero) in summable {
        sum = sum.overload(Overload::member(id, [of(type_.clone())], type_, move |values| {
            list(values)?.iter().try_fold(zero(), |total, next| add(&total, &next))
        }));
    }
    let element = || [of(Type::param("A")), Type::param("A")];
    vec![
        sorted,
        sum,
        max,
        min,
        Function::new("indexOf").overload(Overload::member(
            "list_a_index_of_int",
            element(),
            Type::Int,
            |values| position(values, |list, item| list.iter().position(|next| next == *item)),
        )),
        Function::new("lastIndexOf").overload(Overload::member(
            "list_a_last_index_of_int",
            element(),
            Type::Int,
            |values| {
                position(values, |list, item| {
                    (0..list.len()).rev().find(|at| list.get(*at).is_some_and(|next| next == *item))
                })
            },
        )),
    ]
}

fn list<'v, 'a>(values: &'v [Value<'a>]) -> Result<&'v List<'a>, Error> {
    match values.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(Error::no_such_overload()),
    }
}

fn is_sorted<'a>(values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut previous: Option<Value<'a>> = None;
    for next in list(values)?.iter() {
        if !is_comparable(&next) {
            return Err(Error::no_such_overload());
        }
        // Elements that cannot be compared with each other do not count as out of order.
        let unordered = previous.as_ref().map(|previous| compare(previous, &next, "isSorted"));
        if matches!(unordered, Some(Ok(Ordering::Greater))) {
            return Ok(Value::Bool(false));
        }
        previous = Some(next);
    }
    Ok(Value::Bool(true))
}

/// The element that no other one replaces; one is replaced if its order to the next one is `replaced`.
fn extreme<'a>(
    values: &[Value<'a>],
    name: &'static str,
    replaced: Ordering,
) -> Result<Value<'a>, Error> {
    let mut found: Option<Value<'a>> = None;
    for next in list(values)?.iter() {
        if !is_comparable(&next) {
            return Err(Error::no_such_overload());
        }
        let better = match &found {
            None => true,
            Some(found) => {
                matches!(compare(found, &next, name), Ok(order) if order == replaced)
            }
        };
        if better {
            found = Some(next);
        }
    }
    found.ok_or_else(|| Error::new(format!("{name} called on empty list")))
}

fn is_comparable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
    )
}

fn position<'a>(
    values: &[Value<'a>],
    find: impl Fn(&List<'a>, &Value<'a>) -> Option<usize>,
) -> Result<Value<'a>, Error> {
    let item = values.get(1).ok_or_else(Error::no_such_overload)?;
    let found = find(list(values)?, item).and_then(|at| i64::try_from(at).ok());
    Ok(Value::Int(found.unwrap_or(-1)))
}
