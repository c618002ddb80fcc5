//! Costs of functions in Kubernetes: they replace cel-go's for the same names.
//!
//! Any change makes CRDs invalid that were valid, or the reverse: the numbers are those of
//! `library.CostEstimator`.

use std::borrow::Cow;
use std::sync::Arc;

use super::format::{Format, format_type};
use super::{addresses, authorizer, quantities, urls, versions};
use crate::cost::{
    CallEstimate, CostEstimate, CostNode, LIST_CREATE_COST, REGEX_LENGTH_FACTOR,
    STRING_TRAVERSAL_FACTOR, STRUCT_CREATE_COST, SizeEstimate, SizeEstimator,
};
use crate::{CallCost, CostedCall, EnvBuilder, EstimateCall, FunctionCost, Type, Value};

/// The longest name of a format.
const MAX_FORMAT_SIZE: u64 = 64;
/// The longest regular expression of the formats of names.
const MAX_NAME_FORMAT_REGEX_SIZE: f64 = 128.0;
/// Two checks of authorization fit into one expression.
const CHECK_COST: u64 = 350_000;

pub(super) fn install(builder: EnvBuilder) -> EnvBuilder {
    let groups: [(&[&'static str], EstimateCall, CallCost); 18] = [
        (&["check"], |_, _, _, _| fixed(CHECK_COST), |_| Some(CHECK_COST)),
        (&ACCESSORS, |_, _, _, _| fixed(1), |_| Some(1)),
        (&["fieldSelector", "labelSelector"], estimate_selector, selector),
        (
            &["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"],
            estimate_traversal,
            |call| Some(call.arguments.first().map_or(0, traversal)),
        ),
        (&["url", "jsonpatch.escapeKey"], estimate_copied_argument, one_traversal),
        (&["lowerAscii", "upperAscii", "substring", "trim"], estimate_copied_target, one_traversal),
        (&["replace"], estimate_replace, two_traversals),
        (&["split"], estimate_split, two_traversals),
        (&["join"], estimate_join, |call| {
            Some(scaled(call.result.map_or(1, actual_size), 2.0 * STRING_TRAVERSAL_FACTOR))
        }),
        (&["find", "findAll"], estimate_find, |call| {
            let [text, pattern, ..] = call.arguments else { return None };
            Some(regex_cost(actual_size(text), actual_size(pattern)))
        }),
        (
            &["cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"],
            estimate_argument,
            one_traversal,
        ),
        (&["ip"], estimate_ip, |call| match call.arguments.first() {
            Some(Value::Opaque(_)) => Some(1),
            _ => one_traversal(call),
        }),
        (
            &["ip.isCanonical"],
            |sizes, _, _, arguments| {
                let size = size_of(sizes, arguments.first()?);
                Some(size.cost(2.0 * STRING_TRAVERSAL_FACTOR).into())
            },
            two_traversals,
        ),
        (&["containsIP"], estimate_contains_ip, contains_ip),
        (&["containsCIDR"], estimate_contains_cidr, contains_cidr),
        (&["validate"], estimate_validate, validate),
        (&["format.named"], |_, _, _, _| fixed(1), |_| Some(1)),
        (&["_==_"], estimate_equal, equal),
    ];
    let mut builder = builder;
    for (functions, estimate, cost) in groups {
        for function in functions {
            let cost = FunctionCost { estimate: Some(estimate), cost: Some(cost) };
            builder = builder.function_cost(function, cost);
        }
    }
    builder
}

/// Functions that build a check, and that read a part of a value.
const ACCESSORS: [&str; 37] = [
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
];

fn fixed(cost: u64) -> Option<CallEstimate> {
    Some(CostEstimate::fixed(cost).into())
}

/// The size of a part of an expression.
fn size_of(sizes: &dyn SizeEstimator, node: &CostNode<'_>) -> SizeEstimate {
    node.size.or_else(|| sizes.size(node)).unwrap_or(SizeEstimate::UNKNOWN)
}

/// The elements of a list, if it is one.
fn elements<'n>(list: &CostNode<'n>) -> Option<CostNode<'n>> {
    let Type::List(element) = &list.type_ else { return None };
    let mut path = list.path.to_vec();
    if !path.is_empty() {
        path.push(Arc::from("@items"));
    }
    Some(CostNode {
        path: Cow::Owned(path),
        type_: (**element).clone(),
        size: None,
        ..list.clone()
    })
}

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

fn actual_size(value: &Value<'_>) -> u64 {
    value.size()
}

/// The cost of reading all parts of a value once.
fn traversal(value: &Value<'_>) -> u64 {
    let bytes = |length: usize| (length as f64 * STRING_TRAVERSAL_FACTOR) as u64;
    match value {
        Value::String(text) => bytes(text.len()),
        Value::Bytes(data) => bytes(data.len()),
        Value::List(list) => list.iter().map(|item| traversal(&item)).sum(),
        Value::Map(map) => map.iter().map(|(key, item)| traversal(&key) + traversal(&item)).sum(),
        _ => 1,
    }
}

fn one_traversal(call: &CostedCall<'_, '_>) -> Option<u64> {
    Some(scaled(actual_size(call.arguments.first()?), STRING_TRAVERSAL_FACTOR))
}

fn two_traversals(call: &CostedCall<'_, '_>) -> Option<u64> {
    Some(scaled(actual_size(call.arguments.first()?), 2.0 * STRING_TRAVERSAL_FACTOR))
}

/// The estimate of a traversal of the only argument, which the result is as large as.
fn estimate_copied_argument(
    sizes: &dyn SizeEstimator,
    _: &str,
    _: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let [argument] = arguments else { return None };
    Some(copied(size_of(sizes, argument)))
}

/// The estimate of a traversal of the target, which the result is as large as.
fn estimate_copied_target(
    sizes: &dyn SizeEstimator,
    _: &str,
    target: Option<&CostNode<'_>>,
    _: &[CostNode<'_>],
) -> Option<CallEstimate> {
    Some(copied(size_of(sizes, target?)))
}

fn copied(size: SizeEstimate) -> CallEstimate {
    CallEstimate { cost: size.cost(STRING_TRAVERSAL_FACTOR), result_size: Some(size) }
}

fn estimate_argument(
    sizes: &dyn SizeEstimator,
    _: &str,
    _: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    Some(size_of(sizes, arguments.first()?).cost(STRING_TRAVERSAL_FACTOR).into())
}

fn estimate_ip(
    sizes: &dyn SizeEstimator,
    overload: &str,
    target: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    match overload {
        "cidr_ip" => fixed(1),
        _ => estimate_argument(sizes, overload, target, arguments),
    }
}

fn estimate_traversal(
    sizes: &dyn SizeEstimator,
    _: &str,
    target: Option<&CostNode<'_>>,
    _: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let target = target?;
    let size = size_of(sizes, target);
    let Some(element) = elements(target) else {
        // A string, which `indexOf` and `lastIndexOf` support.
        return Some(size.cost(STRING_TRAVERSAL_FACTOR).into());
    };
    let mut each = CostEstimate::fixed(1);
    if matches!(element.type_, Type::String | Type::Bytes) {
        each = each.plus(size_of(sizes, &element).cost(STRING_TRAVERSAL_FACTOR));
    }
    Some(size.times_cost(each).into())
}

fn selector_cost(size: SizeEstimate) -> CostEstimate {
    // The shortest requirement has two characters; each is a list and a structure.
    let requirements = size.cost(0.5).scale((LIST_CREATE_COST + STRUCT_CREATE_COST) as f64);
    CostEstimate::fixed(LIST_CREATE_COST)
        .plus(size.cost(STRING_TRAVERSAL_FACTOR))
        .plus(requirements)
}

fn estimate_selector(
    sizes: &dyn SizeEstimator,
    _: &str,
    _: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let [argument] = arguments else { return None };
    Some(selector_cost(size_of(sizes, argument)).into())
}

fn selector(call: &CostedCall<'_, '_>) -> Option<u64> {
    Some(selector_cost(SizeEstimate::fixed(actual_size(call.arguments.get(1)?))).max)
}

fn estimate_replace(
    sizes: &dyn SizeEstimator,
    _: &str,
    target: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let (target, [replaced, with, ..]) = (target?, arguments) else { return None };
    let size = size_of(sizes, target);
    let replaced = size_of(sizes, replaced);
    let with = size_of(sizes, with);
    let divided = |size: u64, by: u64| (size as f64 / by as f64).ceil() as u64;
    let (mut count, mut kept) = (SizeEstimate::default(), SizeEstimate::default());
    // The longest result: an empty string is found around every character.
    if replaced.min == 0 {
        (count.max, kept.max) = (size.max.saturating_add(1), size.max);
    } else if with.max <= replaced.min {
        kept.max = size.max;
    } else {
        count.max = divided(size.max, replaced.min);
    }
    // The shortest result.
    if replaced.max == 0 {
        (count.min, kept.min) = (size.min.saturating_add(1), size.min);
    } else if replaced.max <= with.min {
        kept.min = size.min;
    } else {
        count.min = divided(size.min, replaced.max);
    }
    Some(CallEstimate {
        cost: size.cost(2.0 * STRING_TRAVERSAL_FACTOR),
        result_size: Some(count.times(with).plus(kept)),
    })
}

fn estimate_split(
    sizes: &dyn SizeEstimator,
    _: &str,
    target: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let size = size_of(sizes, target?);
    // In the worst case each character is an element, unless the number of parts is constant.
    let most = match arguments.get(1).and_then(|limit| limit.literal) {
        Some(Value::Int(limit)) => *limit as u64,
        _ => size.max,
    };
    Some(CallEstimate {
        cost: size.cost(2.0 * STRING_TRAVERSAL_FACTOR),
        result_size: Some(SizeEstimate { min: 0, max: most }),
    })
}

fn estimate_join(
    sizes: &dyn SizeEstimator,
    _: &str,
    target: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let list = target?;
    let count = size_of(sizes, list);
    let mut size = match elements(list) {
        Some(element) => count.times(size_of(sizes, &element)),
        None => SizeEstimate::default(),
    };
    if let Some(separator) = arguments.first() {
        let separators =
            SizeEstimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        size = size.plus(size_of(sizes, separator).times(separators));
    }
    Some(copied(size))
}

fn estimate_find(
    sizes: &dyn SizeEstimator,
    _: &str,
    target: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let size = size_of(sizes, target?);
    let pattern = size_of(sizes, arguments.first()?).cost(REGEX_LENGTH_FACTOR);
    let text = size.plus(SizeEstimate::fixed(1)).cost(STRING_TRAVERSAL_FACTOR);
    Some(CallEstimate {
        cost: text.times(pattern),
        result_size: Some(SizeEstimate { min: 0, max: size.max }),
    })
}

/// One is added to the length, so that an empty text has the cost of its expression.
fn regex_cost(text: u64, pattern: u64) -> u64 {
    let text = ((1.0 + text as f64) * STRING_TRAVERSAL_FACTOR).ceil() as u64;
    text.saturating_mul(scaled(pattern, REGEX_LENGTH_FACTOR))
}

/// The cost of comparing two addresses of 4 or 16 bytes.
fn compared_addresses() -> (SizeEstimate, CostEstimate) {
    let size = SizeEstimate { min: 4, max: 16 };
    (size, size.plus(size).cost(STRING_TRAVERSAL_FACTOR))
}

fn parsed(sizes: &dyn SizeEstimator, node: &CostNode<'_>) -> CostEstimate {
    size_of(sizes, node).cost(STRING_TRAVERSAL_FACTOR)
}

fn estimate_contains_ip(
    sizes: &dyn SizeEstimator,
    overload: &str,
    _: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let mut cost = compared_addresses().1;
    let other = arguments.first()?;
    if overload == "cidr_contains_ip_string" {
        cost = cost.plus(parsed(sizes, other));
    }
    Some(cost.into())
}

fn estimate_contains_cidr(
    sizes: &dyn SizeEstimator,
    overload: &str,
    _: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let (size, cost) = compared_addresses();
    let mut cost = cost.plus(size.cost(STRING_TRAVERSAL_FACTOR)).plus(CostEstimate::fixed(1));
    let other = arguments.first()?;
    if overload == "cidr_contains_cidr_string" {
        cost = cost.plus(parsed(sizes, other));
    }
    Some(cost.into())
}

fn contains_ip(call: &CostedCall<'_, '_>) -> Option<u64> {
    let [cidr, other, ..] = call.arguments else { return None };
    Some(scaled(2 * actual_size(cidr), STRING_TRAVERSAL_FACTOR) + parsing(other))
}

fn contains_cidr(call: &CostedCall<'_, '_>) -> Option<u64> {
    let [cidr, other, ..] = call.arguments else { return None };
    let size = actual_size(cidr);
    let compared = scaled(2 * size, STRING_TRAVERSAL_FACTOR);
    Some(compared + scaled(size, STRING_TRAVERSAL_FACTOR) + 1 + parsing(other))
}

/// The cost of parsing an argument that may also be a string.
fn parsing(value: &Value<'_>) -> u64 {
    match value {
        Value::String(_) => scaled(actual_size(value), STRING_TRAVERSAL_FACTOR),
        _ => 0,
    }
}

fn estimate_validate(
    sizes: &dyn SizeEstimator,
    _: &str,
    _: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let text = size_of(sizes, arguments.first()?).cost(STRING_TRAVERSAL_FACTOR);
    Some(text.scale(MAX_NAME_FORMAT_REGEX_SIZE * REGEX_LENGTH_FACTOR).into())
}

fn validate(call: &CostedCall<'_, '_>) -> Option<u64> {
    let [format, text, ..] = call.arguments else { return None };
    Some(regex_cost(actual_size(text), format.downcast::<Format>()?.regex_size))
}

fn estimate_equal(
    _: &dyn SizeEstimator,
    _: &str,
    _: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate> {
    let [left, right] = arguments else { return None };
    let type_ = &left.type_;
    if *type_ != right.type_ {
        return None;
    }
    if *type_ == format_type() {
        let size = CostEstimate { min: 1, max: MAX_FORMAT_SIZE };
        return Some(size.scale(STRING_TRAVERSAL_FACTOR).into());
    }
    if *type_ == urls::url_type() {
        let size = CostEstimate { min: 1, max: right.size.map_or(1, |size| size.max) };
        return Some(size.scale(STRING_TRAVERSAL_FACTOR).into());
    }
    let constant = [
        addresses::ip_type(),
        addresses::cidr_type(),
        quantities::quantity_type(),
        versions::semver_type(),
    ];
    let known = constant.contains(type_) || authorizer::types().contains(type_);
    known.then(|| CostEstimate::fixed(1).into())
}

/// All values of libraries are compared at the same cost.
fn equal(call: &CostedCall<'_, '_>) -> Option<u64> {
    matches!(call.arguments, [Value::Opaque(_), _]).then_some(1)
}
