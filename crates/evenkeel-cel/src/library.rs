//! Libraries: functions of the language's standard, of cel-go's extensions and of Kubernetes.
//!
//! Each file returns its [`Function`](crate::Function)s; Kubernetes' are in `library/kubernetes/`.

pub(crate) mod convert;
pub(crate) mod format;
pub(crate) mod regex;

mod lists;
mod optional;
mod sets;
mod standard;
mod strings;
mod time;

use crate::Function;

pub(crate) use optional::{comprehensions, optional};
pub(crate) use standard::{standard, standard_types};

/// cel-go's extensions for strings (version 2), sets and lists (version 3).
pub(crate) fn extensions() -> Vec<Function> {
    [strings::functions(), sets::functions(), lists::functions()].concat()
}
