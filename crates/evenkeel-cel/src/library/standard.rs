//! The standard of the language: operators, sizes, strings, conversions, regular expressions, time.

use super::{convert, regex, time};
use crate::ast::operators;
use crate::{Error, Function, Overload, Type, Value};

/// Types that expressions can name.
pub(crate) fn standard_types() -> Vec<Type> {
    vec![
        Type::Bool,
        Type::Bytes,
        Type::Double,
        Type::Duration,
        Type::Int,
        Type::list(Type::param("A")),
        Type::map(Type::param("A"), Type::param("B")),
        Type::Null,
        Type::String,
        Type::Timestamp,
        Type::Type(None),
        Type::Uint,
    ]
}

/// All functions of the standard.
pub(crate) fn standard() -> Vec<Function> {
    let mut functions = [logic(), arithmetic(), comparisons(), aggregates(), strings()].concat();
    functions.extend(convert::functions());
    functions.extend(super::unguarded(regex::functions()));
    functions.extend(time::functions());
    functions
}

/// An operator: the evaluator implements it, and this is for calls of operators by other means.
fn operator(id: &'static str, arguments: &[Type], result: Type) -> Overload {
    let mut overload = Overload::global(id, arguments, result, |_| Err(Error::no_such_overload()));
    overload.standard = true;
    overload
}

fn logic() -> Vec<Function> {
    let any = Type::param("A");
    vec![
        Function::new(operators::CONDITIONAL).overload(operator(
            "conditional",
            &[Type::Bool, any.clone(), any.clone()],
            any.clone(),
        )),
        Function::new(operators::AND).overload(operator(
            "logical_and",
            &[Type::Bool, Type::Bool],
            Type::Bool,
        )),
        Function::new(operators::OR).overload(operator(
            "logical_or",
            &[Type::Bool, Type::Bool],
            Type::Bool,
        )),
        Function::new(operators::NOT).overload(operator("logical_not", &[Type::Bool], Type::Bool)),
        Function::new(operators::NOT_STRICTLY_FALSE).overload(operator(
            "not_strictly_false",
            &[Type::Bool],
            Type::Bool,
        )),
        Function::new(operators::EQUALS).overload(operator(
            "equals",
            &[any.clone(), any.clone()],
            Type::Bool,
        )),
        Function::new(operators::NOT_EQUALS).overload(operator(
            "not_equals",
            &[any.clone(), any],
            Type::Bool,
        )),
    ]
}

/// Overloads of operators: the id, the left, the right and the result type.
type Signatures<'s> = &'s [(&'static str, Type, Type, Type)];

fn binary(name: &'static str, signatures: Signatures<'_>) -> Function {
    let mut function = Function::new(name);
    for (id, left, right, result) in signatures {
        function = function.overload(operator(id, &[left.clone(), right.clone()], result.clone()));
    }
    function
}

fn arithmetic() -> Vec<Function> {
    use Type::{Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let list = Type::list(Type::param("A"));
    vec![
        binary(
            operators::ADD,
            &[
                ("add_bytes", Bytes, Bytes, Bytes),
                ("add_double", Double, Double, Double),
                ("add_duration_duration", Duration, Duration, Duration),
                ("add_duration_timestamp", Duration, Timestamp, Timestamp),
                ("add_timestamp_duration", Timestamp, Duration, Timestamp),
                ("add_int64", Int, Int, Int),
                ("add_list", list.clone(), list.clone(), list),
                ("add_string", String, String, String),
                ("add_uint64", Uint, Uint, Uint),
            ],
        ),
        binary(
            operators::SUBTRACT,
            &[
                ("subtract_double", Double, Double, Double),
                ("subtract_duration_duration", Duration, Duration, Duration),
                ("subtract_int64", Int, Int, Int),
                ("subtract_timestamp_duration", Timestamp, Duration, Timestamp),
                ("subtract_timestamp_timestamp", Timestamp, Timestamp, Duration),
                ("subtract_uint64", Uint, Uint, Uint),
            ],
        ),
        binary(
            operators::MULTIPLY,
            &[
                ("multiply_double", Double, Double, Double),
                ("multiply_int64", Int, Int, Int),
                ("multiply_uint64", Uint, Uint, Uint),
            ],
        ),
        binary(
            operators::DIVIDE,
            &[
                ("divide_double", Double, Double, Double),
                ("divide_int64", Int, Int, Int),
                ("divide_uint64", Uint, Uint, Uint),
            ],
        ),
        binary(
            operators::MODULO,
            &[("modulo_int64", Int, Int, Int), ("modulo_uint64", Uint, Uint, Uint)],
        ),
        Function::new(operators::NEGATE)
            .overload(operator("negate_double", &[Double], Double))
            .overload(operator("negate_int64", &[Int], Int)),
    ]
}

/// Ids of the overloads of an operator, in the order of [`COMPARED`].
type Ids = [&'static str; 14];

const LESS: Ids = [
    "less_bool",
    "less_int64",
    "less_int64_double",
    "less_int64_uint64",
    "less_uint64",
    "less_uint64_double",
    "less_uint64_int64",
    "less_double",
    "less_double_int64",
    "less_double_uint64",
    "less_string",
    "less_bytes",
    "less_timestamp",
    "less_duration",
];
const LESS_EQUALS: Ids = [
    "less_equals_bool",
    "less_equals_int64",
    "less_equals_int64_double",
    "less_equals_int64_uint64",
    "less_equals_uint64",
    "less_equals_uint64_double",
    "less_equals_uint64_int64",
    "less_equals_double",
    "less_equals_double_int64",
    "less_equals_double_uint64",
    "less_equals_string",
    "less_equals_bytes",
    "less_equals_timestamp",
    "less_equals_duration",
];
const GREATER: Ids = [
    "greater_bool",
    "greater_int64",
    "greater_int64_double",
    "greater_int64_uint64",
    "greater_uint64",
    "greater_uint64_double",
    "greater_uint64_int64",
    "greater_double",
    "greater_double_int64",
    "greater_double_uint64",
    "greater_string",
    "greater_bytes",
    "greater_timestamp",
    "greater_duration",
];
const GREATER_EQUALS: Ids = [
    "greater_equals_bool",
    "greater_equals_int64",
    "greater_equals_int64_double",
    "greater_equals_int64_uint64",
    "greater_equals_uint64",
    "greater_equals_uint64_double",
    "greater_equals_uint64_int64",
    "greater_equals_double",
    "greater_equals_double_int64",
    "greater_equals_double_uint64",
    "greater_equals_string",
    "greater_equals_bytes",
    "greater_equals_timestamp",
    "greater_equals_duration",
];

/// The types that are compared.
const COMPARED: [(Type, Type); 14] = {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    [
        (Bool, Bool),
        (Int, Int),
        (Int, Double),
        (Int, Uint),
        (Uint, Uint),
        (Uint, Double),
        (Uint, Int),
        (Double, Double),
        (Double, Int),
        (Double, Uint),
        (String, String),
        (Bytes, Bytes),
        (Timestamp, Timestamp),
        (Duration, Duration),
    ]
};

fn comparisons() -> Vec<Function> {
    let operators = [
        (operators::LESS, LESS),
        (operators::LESS_EQUALS, LESS_EQUALS),
        (operators::GREATER, GREATER),
        (operators::GREATER_EQUALS, GREATER_EQUALS),
    ];
    let overloads = |name: &'static str, ids: Ids| {
        let mut function = Function::new(name);
        for (id, (left, right)) in ids.into_iter().zip(COMPARED) {
            function = function.overload(operator(id, &[left, right], Type::Bool));
        }
        function
    };
    operators.into_iter().map(|(name, ids)| overloads(name, ids)).collect()
}

fn aggregates() -> Vec<Function> {
    let (a, b) = (Type::param("A"), Type::param("B"));
    let list = Type::list(a.clone());
    let map = Type::map(a.clone(), b.clone());
    let mut size_of = Function::new("size");
    for (global, member, type_) in [
        ("size_bytes", "bytes_size", Type::Bytes),
        ("size_list", "list_size", list.clone()),
        ("size_map", "map_size", map.clone()),
        ("size_string", "string_size", Type::String),
    ] {
        size_of = size_of
            .overload(Overload::global(global, [type_.clone()], Type::Int, size))
            .overload(Overload::member(member, [type_], Type::Int, size));
    }
    vec![
        Function::new(operators::INDEX)
            .overload(operator("index_list", &[list.clone(), Type::Int], a.clone()))
            .overload(operator("index_map", &[map.clone(), a.clone()], b)),
        Function::new(operators::IN)
            .overload(operator("in_list", &[a.clone(), list], Type::Bool))
            .overload(operator("in_map", &[a, map], Type::Bool)),
    ]
    .into_iter()
    .chain(super::unguarded(vec![size_of]))
    .collect()
}

fn size<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
        }
        [Value::Object(object)] => {
            Ok(Value::Int(i64::try_from(object.fields().len()).unwrap_or(i64::MAX)))
        }
        _ => Err(Error::new("no such overload: size")),
    }
}

fn strings() -> Vec<Function> {
    let member = |name: &'static str, id, test: fn(&str, &str) -> bool| {
        let arguments = [Type::String, Type::String];
        Function::new(name).overload(Overload::member(
            id,
            arguments,
            Type::Bool,
            move |arguments| match arguments {
                [Value::String(text), Value::String(part)] => Ok(Value::Bool(test(text, part))),
                _ => Err(Error::no_such_overload()),
            },
        ))
    };
    super::unguarded(vec![
        member("contains", "contains_string", |text, part| text.contains(part)),
        member("endsWith", "ends_with_string", |text, part| text.ends_with(part)),
        member("startsWith", "starts_with_string", |text, part| text.starts_with(part)),
    ])
}
