//! The Common Expression Language as Kubernetes 1.36 uses it. Pure: no IO, no async, no clock.
//!
//! An expression is compiled once against an [`Env`] of declarations and evaluated many times against
//! borrowed JSON:
//!
//! | step | type |
//! |---|---|
//! | declare functions, variables and types | [`EnvBuilder`], [`Function`], [`Overload`], [`Type`], [`schema::Schema`] |
//! | compile | [`Env::compile`], [`Ast`], [`Issues`] |
//! | evaluate against values | [`Program`], [`Value`], [`Error`] |
//! | bound what an evaluation may cost | [`cost`] |
//! | explain why a condition is not true | [`Env::explain`], [`Explanation`] |
//! | expressions of webhooks and admission policies | [`admission`] |

pub mod admission;
pub mod cost;
pub mod schema;

mod ast;
mod check;
mod declare;
mod env;
mod error;
mod eval;
mod explain;
mod library;
mod ops;
mod parser;
mod plan;
mod program;
mod source;
mod types;
mod value;

pub use ast::Ast;
pub use declare::{
    CallCost, CostedCall, EstimateCall, Function, Implementation, Overload, Specialize,
};
pub use env::{DeclarationError, Env, EnvBuilder, FunctionCost, TypeProvider};
pub use error::{Error, ErrorKind};
pub use explain::Explanation;
pub use library::kubernetes;
pub use program::{Activation, Evaluation, Limits, Program};
pub use source::{Issue, Issues, Location};
pub use types::{Opaque as OpaqueType, Type};
pub use value::{Bytes, Duration, List, Map, Object, Opaque, Str, Timestamp, Value};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
