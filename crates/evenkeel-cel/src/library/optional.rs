//! Optional values, and the functions that macros expand to.

use std::sync::Arc;

use crate::ast::operators;
use crate::value::Map;
use crate::{Error, Function, Overload, Type, Value};

/// Optional types, version 2.
pub(crate) fn optional() -> Vec<Function> {
    let (key, value) = (Type::param("K"), Type::param("V"));
    let optional = Type::optional(value.clone());
    let list = Type::list(value.clone());
    let map = Type::map(key.clone(), value.clone());
    let optionals = Type::list(optional.clone());
    vec![
        Function::new("optional.of").overload(Overload::global(
            "optional_of",
            [value.clone()],
            optional.clone(),
            of,
        )),
        Function::new("optional.ofNonZeroValue").overload(Overload::global(
            "optional_ofNonZeroValue",
            [value.clone()],
            optional.clone(),
            of_non_zero,
        )),
        Function::new("optional.none").overload(Overload::global(
            "optional_none",
            [],
            optional.clone(),
            |_| Ok(Value::Optional(None)),
        )),
        Function::new("value").overload(Overload::member(
            "optional_value",
            [optional.clone()],
            value.clone(),
            unwrap,
        )),
        Function::new("hasValue").overload(Overload::member(
            "optional_hasValue",
            [optional.clone()],
            Type::Bool,
            has_value,
        )),
        // The evaluator implements the rest, up to `last`, itself.
        Function::new("or").overload(Overload::member(
            "optional_or_optional",
            [optional.clone(), optional.clone()],
            optional.clone(),
            unreachable,
        )),
        Function::new("orValue").overload(Overload::member(
            "optional_orValue_value",
            [optional.clone(), value.clone()],
            value,
            unreachable,
        )),
        Function::new(operators::OPT_SELECT).overload(Overload::global(
            "select_optional_field",
            [Type::Dyn, Type::String],
            optional.clone(),
            unreachable,
        )),
        Function::new(operators::OPT_INDEX)
            .overload(Overload::global(
                "list_optindex_optional_int",
                [list.clone(), Type::Int],
                optional.clone(),
                unreachable,
            ))
            .overload(Overload::global(
                "optional_list_optindex_optional_int",
                [Type::optional(list.clone()), Type::Int],
                optional.clone(),
                unreachable,
            ))
            .overload(Overload::global(
                "map_optindex_optional_value",
                [map.clone(), key.clone()],
                optional.clone(),
                unreachable,
            ))
            .overload(Overload::global(
                "optional_map_optindex_optional_value",
                [Type::optional(map.clone()), key.clone()],
                optional.clone(),
                unreachable,
            )),
        Function::new(operators::INDEX)
            .overload(Overload::global(
                "optional_list_index_int",
                [Type::optional(list.clone()), Type::Int],
                optional.clone(),
                unreachable,
            ))
            .overload(Overload::global(
                "optional_map_index_value",
                [Type::optional(map), key],
                optional.clone(),
                unreachable,
            )),
        Function::new("last").overload(Overload::member(
            "list_last",
            [list.clone()],
            optional.clone(),
            last,
        )),
        Function::new("first").overload(Overload::member(
            "list_first",
            [list.clone()],
            optional,
            first,
        )),
        Function::new("optional.unwrap").overload(Overload::global(
            "optional_unwrap",
            [optionals.clone()],
            list.clone(),
            unwrap_all,
        )),
        Function::new("unwrapOpt").overload(Overload::member(
            "optional_unwrapOpt",
            [optionals],
            list,
            unwrap_all,
        )),
    ]
}

/// What `transformMap` and `transformMapEntry` expand to.
pub(crate) fn comprehensions() -> Vec<Function> {
    let (key, value) = (Type::param("K"), Type::param("V"));
    let map = Type::map(key.clone(), value.clone());
    vec![
        Function::new(operators::MAP_INSERT)
            .overload(Overload::global(
                "@mapInsert_map_key_value",
                [map.clone(), key, value],
                map.clone(),
                insert,
            ))
            .overload(Overload::global(
                "@mapInsert_map_map",
                [map.clone(), map.clone()],
                map,
                insert_all,
            )),
    ]
}

fn unreachable<'a>(_: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Err(Error::no_such_overload())
}

fn of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::optional(arguments.first().cloned()))
}

fn of_non_zero<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = arguments.first().filter(|value| !is_zero(value));
    Ok(Value::optional(value.cloned()))
}

/// Whether a value is the zero value of its type.
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Duration(value) => value.0 == 0,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Object(object) => object.fields().is_empty(),
        // The zero value in Go is the first second of year 1.
        Value::Timestamp(time) => {
            time.seconds() == crate::Timestamp::MIN_SECONDS && time.nanos() == 0
        }
        Value::Optional(value) => value.is_none(),
        Value::Type(_) | Value::Opaque(_) => false,
    }
}

fn unwrap<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err(Error::new("optional.none() dereference")),
        _ => Err(Error::no_such_overload()),
    }
}

fn has_value<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(Error::no_such_overload()),
    }
}

fn first<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::List(list)] => Ok(Value::optional(list.get(0))),
        _ => Err(Error::no_such_overload()),
    }
}

fn last<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::List(list)] => {
            Ok(Value::optional(list.len().checked_sub(1).and_then(|at| list.get(at))))
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn unwrap_all<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list)] = arguments else { return Err(Error::no_such_overload()) };
    let mut values = Vec::with_capacity(list.len());
    for element in list.iter() {
        match element {
            Value::Optional(value) => values.extend(value.map(Arc::unwrap_or_clone)),
            other => {
                let text = crate::ops::text(&other);
                return Err(Error::new(format!("value {text} is not optional")));
            }
        }
    }
    Ok(Value::list(values))
}

fn insert<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::Map(map), key, value] = arguments else { return Err(Error::no_such_overload()) };
    add(map.clone(), [(key.clone(), value.clone())])
}

fn insert_all<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::Map(map), Value::Map(entries)] = arguments else {
        return Err(Error::no_such_overload());
    };
    add(map.clone(), entries.iter())
}

fn add<'a>(
    mut map: Map<'a>,
    entries: impl IntoIterator<Item = (Value<'a>, Value<'a>)>,
) -> Result<Value<'a>, Error> {
    for (key, value) in entries {
        if !map.insert(key.clone(), value) {
            let key = crate::ops::text(&key);
            return Err(Error::new(format!("insert failed: key {key} already exists")));
        }
    }
    Ok(Value::Map(map))
}
