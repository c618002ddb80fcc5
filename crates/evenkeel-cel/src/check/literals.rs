//! Checks of literals beyond their types: durations, timestamps, regular expressions, aggregates.

use std::collections::HashSet;

use crate::ast::{Ast, Expr, Kind};
use crate::library::regex;
use crate::source::Issues;
use crate::{Duration, Timestamp, Type, Value};

/// Reports literals that would fail at run time.
pub(super) fn validate_arguments(ast: &Ast, issues: &mut Issues) {
    for function in ["duration", "timestamp", "matches"] {
        ast.root.walk(&mut |expr| arguments(ast, expr, function, issues));
    }
}

/// Reports lists and maps of mixed types, except in arguments of `format`.
pub(super) fn validate_aggregates(ast: &Ast, issues: &mut Issues) {
    let mut exempt = HashSet::new();
    ast.root.walk(&mut |expr| {
        if matches!(&expr.kind, Kind::Call { function, .. } if &**function == "format") {
            expr.walk(&mut |part| {
                exempt.insert(part.id);
            });
        }
    });
    ast.root.walk(&mut |expr| match &expr.kind {
        Kind::List { elements, optional } if !exempt.contains(&expr.id) => {
            list(ast, elements, optional, issues);
        }
        _ => {}
    });
    ast.root.walk(&mut |expr| {
        if !exempt.contains(&expr.id) {
            map(ast, expr, issues);
        }
    });
}

fn arguments(ast: &Ast, expr: &Expr, function: &str, issues: &mut Issues) {
    let Kind::Call { function: called, args, .. } = &expr.kind else { return };
    let Some(argument) = args.first().filter(|_| &**called == function) else { return };
    let Kind::Literal(literal) = &argument.kind else { return };
    let valid = match (function, literal) {
        ("duration", Value::String(text)) => Duration::parse(text).is_some(),
        ("timestamp", Value::String(text)) => Timestamp::parse(text).is_some(),
        ("timestamp", Value::Int(seconds)) => Timestamp::new(*seconds, 0).is_some(),
        ("matches", Value::String(pattern)) => regex::compile(pattern).is_ok(),
        ("matches", _) => true,
        _ => false,
    };
    if !valid {
        issues.report(ast.location(argument.id), format!("invalid {function} argument"));
    }
}

fn list(ast: &Ast, elements: &[Expr], optional: &[usize], issues: &mut Issues) {
    let mut expected: Option<&Type> = None;
    for (at, element) in elements.iter().enumerate() {
        let type_ = value_type(ast, element, optional.contains(&at));
        match expected {
            None => expected = Some(type_),
            Some(expected) if !equivalent(expected, type_) => {
                mismatch(ast, element, expected, type_, issues);
                break;
            }
            Some(_) => {}
        }
    }
}

fn map(ast: &Ast, expr: &Expr, issues: &mut Issues) {
    let Kind::Map { entries } = &expr.kind else { return };
    let mut expected: Option<(&Type, &Type)> = None;
    for entry in entries {
        let key = ast.type_of(&entry.key);
        let value = value_type(ast, &entry.value, entry.optional);
        let Some((keys, values)) = expected else {
            expected = Some((key, value));
            continue;
        };
        if !equivalent(keys, key) {
            mismatch(ast, &entry.key, keys, key, issues);
        }
        if !equivalent(values, value) {
            mismatch(ast, &entry.value, values, value, issues);
        }
    }
}

fn value_type<'a>(ast: &'a Ast, expr: &Expr, optional: bool) -> &'a Type {
    let type_ = ast.type_of(expr);
    type_.optional_inner().filter(|_| optional).unwrap_or(type_)
}

/// The same type, whatever its parameters are bound to.
fn equivalent(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Wrapper(first), Type::Wrapper(second)) => first == second,
        (Type::Wrapper(inner), other) | (other, Type::Wrapper(inner)) => **inner == *other,
        (Type::List(first), Type::List(second)) => equivalent(first, second),
        (Type::Map(first), Type::Map(second)) => {
            equivalent(&first.0, &second.0) && equivalent(&first.1, &second.1)
        }
        _ => first == second,
    }
}

fn mismatch(ast: &Ast, expr: &Expr, expected: &Type, actual: &Type, issues: &mut Issues) {
    let message = format!("expected type '{expected}' but found '{actual}'");
    issues.report(ast.location(expr.id), message);
}
