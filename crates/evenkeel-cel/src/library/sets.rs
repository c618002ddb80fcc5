//! `sets.contains`, `sets.equivalent` and `sets.intersects`.

use crate::cost::{CallEstimate, CostEstimate, CostNode, SizeEstimator};
use crate::{CostedCall, Error, Function, List, Overload, Type, Value};

/// cel-go's sets library.
pub(super) fn functions() -> Vec<Function> {
    let list = Type::list(Type::param("T"));
    let both = [list.clone(), list];
    vec![
        Function::new("sets.contains").overload(
            Overload::global("list_sets_contains_list", both.clone(), Type::Bool, |arguments| {
                let (list, part) = lists(arguments)?;
                Ok(Value::Bool(contains(list, part)))
            })
            .estimate(|sizes, _, _, arguments| estimate(sizes, arguments, 1.0))
            .cost(|call| cost(call, 1)),
        ),
        Function::new("sets.equivalent").overload(
            Overload::global("list_sets_equivalent_list", both.clone(), Type::Bool, |arguments| {
                let (first, second) = lists(arguments)?;
                Ok(Value::Bool(contains(first, second) && contains(second, first)))
            })
            .estimate(|sizes, _, _, arguments| estimate(sizes, arguments, 2.0))
            .cost(|call| cost(call, 2)),
        ),
        Function::new("sets.intersects").overload(
            Overload::global("list_sets_intersects_list", both, Type::Bool, |arguments| {
                let (first, second) = lists(arguments)?;
                let second: Vec<_> = second.iter().collect();
                Ok(Value::Bool(first.iter().any(|element| second.contains(&element))))
            })
            .estimate(|sizes, _, _, arguments| estimate(sizes, arguments, 1.0))
            .cost(|call| cost(call, 1)),
        ),
    ]
}

fn lists<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<(&'v List<'a>, &'v List<'a>), Error> {
    match arguments {
        [Value::List(first), Value::List(second)] => Ok((first, second)),
        _ => Err(Error::no_such_overload()),
    }
}

fn contains(list: &List<'_>, part: &List<'_>) -> bool {
    let elements: Vec<_> = list.iter().collect();
    part.iter().all(|element| elements.contains(&element))
}

fn estimate(
    sizes: &dyn SizeEstimator,
    arguments: &[CostNode<'_>],
    factor: f64,
) -> Option<CallEstimate> {
    let [first, second] = arguments else { return None };
    let pairs = first.size_or_unknown(sizes).times(second.size_or_unknown(sizes));
    Some(pairs.cost(factor).plus(CostEstimate::fixed(1)).into())
}

fn cost(call: &CostedCall<'_, '_>, factor: u64) -> Option<u64> {
    let [first, second] = call.arguments else { return None };
    Some(first.size().saturating_mul(second.size()).saturating_mul(factor).saturating_add(1))
}
