//! Lists: `slice`, `flatten`, `sort`, `sortBy`, `lists.range`, `reverse` and `distinct`.

use std::cmp::Ordering;

use crate::cost::{
    CallEstimate, CostEstimate, CostNode, LIST_CREATE_COST, SizeEstimate, SizeEstimator,
};
use crate::error::ErrorKind;
use crate::{CostedCall, Error, Function, List, Overload, Type, Value};

/// Types of elements that can be sorted, with the ids of `sort` and `sortBy`.
const SORTED: [(&str, &str, Type); 8] = [
    ("list_int_sort", "list_int_sortByAssociatedKeys", Type::Int),
    ("list_uint_sort", "list_uint_sortByAssociatedKeys", Type::Uint),
    ("list_double_sort", "list_double_sortByAssociatedKeys", Type::Double),
    ("list_bool_sort", "list_bool_sortByAssociatedKeys", Type::Bool),
    (
        "list_google.protobuf.Duration_sort",
        "list_google.protobuf.Duration_sortByAssociatedKeys",
        Type::Duration,
    ),
    (
        "list_google.protobuf.Timestamp_sort",
        "list_google.protobuf.Timestamp_sortByAssociatedKeys",
        Type::Timestamp,
    ),
    ("list_string_sort", "list_string_sortByAssociatedKeys", Type::String),
    ("list_bytes_sort", "list_bytes_sortByAssociatedKeys", Type::Bytes),
];

/// Longer ranges exceed any limit of cost.
const MAX_RANGE: i64 = 1 << 24;

/// cel-go's lists library, version 3.
pub(super) fn functions() -> Vec<Function> {
    let list = Type::list(Type::param("T"));
    let nested = Type::list(list.clone());
    let any = Type::list(Type::Dyn);
    let mut sort = Function::new("sort");
    let mut sort_by = Function::new("@sortByAssociatedKeys");
    for (id, id_by, type_) in SORTED {
        let keys = Type::list(type_.clone());
        sort = sort.overload(
            Overload::member(id, [keys.clone()], keys.clone(), |arguments| match arguments {
                [Value::List(list)] => sorted(list, list),
                _ => Err(Error::no_such_overload()),
            })
            .estimate(|sizes, id, target, _| self_compare_estimate(sizes, id, target?))
            .cost(|call| self_compare(call.arguments.first()?)),
        );
        sort_by =
            sort_by.overload(
                Overload::member(id_by, [list.clone(), keys], list.clone(), |arguments| {
                    match arguments {
                        [Value::List(list), Value::List(keys)] => sorted(list, keys),
                        _ => Err(Error::no_such_overload()),
                    }
                })
                .estimate(|sizes, id, _, arguments| {
                    self_compare_estimate(sizes, id, arguments.first()?)
                })
                .cost(|call| self_compare(call.arguments.get(1)?)),
            );
    }
    vec![
        Function::new("slice").overload(
            Overload::member(
                "list_slice",
                [list.clone(), Type::Int, Type::Int],
                list.clone(),
                slice,
            )
            .estimate(estimate_slice)
            .cost(output_size),
        ),
        Function::new("flatten")
            .overload(
                Overload::member("list_flatten", [nested], list.clone(), flatten)
                    .estimate(estimate_flatten)
                    .cost(cost_flatten),
            )
            .overload(
                Overload::member("list_flatten_int", [any.clone(), Type::Int], any, flatten)
                    .estimate(estimate_flatten)
                    .cost(cost_flatten),
            ),
        Function::new("lists.range").overload(
            Overload::global("lists_range", [Type::Int], Type::list(Type::Int), range)
                .estimate(|_, _, _, arguments| {
                    let size = literal(arguments.first()?, u64::MAX);
                    Some(allocating(1.0, SizeEstimate::fixed(size)))
                })
                .cost(output_size),
        ),
        Function::new("reverse").overload(
            Overload::member("list_reverse", [list.clone()], list.clone(), |arguments| {
                match arguments {
                    [Value::List(list)] => {
                        let mut elements: Vec<_> = list.iter().collect();
                        elements.reverse();
                        Ok(Value::list(elements))
                    }
                    _ => Err(Error::no_such_overload()),
                }
            })
            .estimate(|sizes, _, target, _| Some(allocating(1.0, target?.size_or_unknown(sizes))))
            .cost(output_size),
        ),
        Function::new("distinct").overload(
            Overload::member("list_distinct", [list.clone()], list, distinct)
                .estimate(|sizes, _, target, _| {
                    let size = target?.size_or_unknown(sizes);
                    Some(allocating(2.0, size.times(size)))
                })
                .cost(|call| self_compare(call.arguments.first()?)),
        ),
    ]
    .into_iter()
    .chain(super::unguarded(vec![sort, sort_by]))
    .collect()
}

fn slice<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = arguments else {
        return Err(Error::no_such_overload());
    };
    let failed =
        |reason: String| Err(Error::new(format!("cannot slice({start}, {end}), {reason}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return failed("negative indexes not supported".to_owned());
    };
    if from > to {
        return failed("start index must be less than or equal to end index".to_owned());
    }
    if list.len() < to {
        return failed(format!("list is length {}", list.len()));
    }
    Ok(Value::list(list.iter().skip(from).take(to - from).collect::<Vec<_>>()))
}

fn flatten<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (list, depth) = match arguments {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(Error::no_such_overload()),
    };
    if depth < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let mut elements = Vec::new();
    flatten_into(list, depth, &mut elements);
    Ok(Value::list(elements))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, elements: &mut Vec<Value<'a>>) {
    for element in list.iter() {
        match element {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, elements),
            other => elements.push(other),
        }
    }
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Result<Value<'a>, Error> {
    if list.len() != keys.len() {
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, \
             but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.iter().zip(list.iter()).collect();
    let Some((first, _)) = pairs.first() else { return Ok(Value::List(list.clone())) };
    let type_ = first.type_();
    if pairs.iter().any(|(key, _)| key.type_() != type_) {
        return Err(Error::new("list elements must have the same type"));
    }
    if crate::ops::compare(first, first, "").is_err() && !matches!(first, Value::Double(_)) {
        return Err(Error::new("list elements must be comparable"));
    }
    pairs.sort_by(|(a, _), (b, _)| crate::ops::compare(a, b, "").unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect::<Vec<_>>()))
}

fn range<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::Int(end)] if *end > MAX_RANGE => Err(Error::of_kind(
            ErrorKind::CostLimit,
            "operation cancelled: actual cost limit exceeded",
        )),
        [Value::Int(end)] => Ok(Value::list((0..*end).map(Value::Int).collect::<Vec<_>>())),
        _ => Err(Error::no_such_overload()),
    }
}

fn distinct<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list)] = arguments else { return Err(Error::no_such_overload()) };
    let mut elements: Vec<Value<'a>> = Vec::new();
    for element in list.iter() {
        if !elements.contains(&element) {
            elements.push(element);
        }
    }
    Ok(Value::list(elements))
}

// === Costs ===

fn allocating(factor: f64, size: SizeEstimate) -> CallEstimate {
    let cost = size.cost(factor).plus(CostEstimate::fixed(1 + LIST_CREATE_COST));
    CallEstimate { cost, result_size: Some(size) }
}

/// The value of a literal; negative ones are 0.
fn literal(node: &CostNode<'_>, default: u64) -> u64 {
    match node.literal {
        Some(Value::Int(value)) => u64::try_from(*value).unwrap_or_default(),
        _ => default,
    }
}

fn estimate_slice(
    sizes: &dyn SizeEstimator,
    _: &str,
    target: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let ([start, end], Some(target)) = (arguments, target) else { return None };
    let size = target.size_or_unknown(sizes);
    let length = literal(end, size.max).wrapping_sub(literal(start, 0));
    Some(allocating(1.0, SizeEstimate::fixed(length)))
}

fn estimate_flatten(
    sizes: &dyn SizeEstimator,
    _: &str,
    target: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let depth = arguments.first().map_or(1, |depth| literal(depth, u64::MAX));
    Some(allocating(depth as f64, target?.size_or_unknown(sizes)))
}

fn self_compare_estimate(
    sizes: &dyn SizeEstimator,
    id: &str,
    node: &CostNode<'_>,
) -> Option<CallEstimate> {
    let text = id.starts_with("list_string_") || id.starts_with("list_bytes_");
    let size = node.size_or_unknown(sizes);
    Some(allocating(if text { 2.1 } else { 2.0 }, size.times(size)))
}

fn cost_of(factor: f64, size: u64) -> Option<u64> {
    Some(((size as f64 * factor) as u64).saturating_add(1 + LIST_CREATE_COST))
}

fn output_size(call: &CostedCall<'_, '_>) -> Option<u64> {
    cost_of(1.0, call.result.map_or(1, Value::size))
}

fn cost_flatten(call: &CostedCall<'_, '_>) -> Option<u64> {
    let depth = match call.arguments.get(1) {
        Some(Value::Int(depth)) => *depth as f64,
        _ => 1.0,
    };
    cost_of(depth, call.arguments.first().map_or(1, Value::size))
}

fn self_compare(list: &Value<'_>) -> Option<u64> {
    let Value::List(list) = list else { return None };
    let text = matches!(list.get(0), Some(Value::String(_) | Value::Bytes(_)));
    let size = list.len() as u64;
    cost_of(if text { 2.1 } else { 2.0 }, size.saturating_mul(size))
}
