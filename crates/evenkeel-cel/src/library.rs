//! Libraries: functions of the language's standard, of cel-go's extensions and of Kubernetes.
//!
//! Each file returns its [`Function`](crate::Function)s; Kubernetes' are in `library/kubernetes/`.

pub(crate) mod convert;
pub(crate) mod format;
pub(crate) mod regex;

pub mod kubernetes;
mod lists;
mod optional;
mod sets;
mod standard;
mod strings;
mod time;

use std::sync::Arc;

use crate::Function;

pub(crate) use optional::{comprehensions, optional};
pub(crate) use standard::{standard, standard_types};

/// Functions that check the types of their arguments themselves, with errors of their own.
fn unguarded(functions: Vec<Function>) -> Vec<Function> {
    let unguarded = |function: Function| {
        let overloads = function.overloads.into_iter().map(|overload| {
            // Declarations are not shared yet.
            let mut overload = Arc::try_unwrap(overload).unwrap_or_else(|shared| (*shared).clone());
            overload.guarded = false;
            Arc::new(overload)
        });
        Function { name: function.name, overloads: overloads.collect() }
    };
    functions.into_iter().map(unguarded).collect()
}

/// cel-go's extensions for strings (version 2), sets and lists (version 3).
pub(crate) fn extensions() -> Vec<Function> {
    [strings::functions(), sets::functions(), lists::functions()].concat()
}
