//! The Common Expression Language as Kubernetes 1.36 uses it. Pure: no IO, no async, no clock.
//!
//! An expression is compiled once against an [`Env`] of declarations and evaluated many times against
//! borrowed JSON:
//!
//! | step | type |
//! |---|---|
//! | declare functions, variables and types | [`EnvBuilder`], [`Function`], [`Overload`], [`Type`], [`schema::Schema`] |
//! | evaluate against values | [`Value`], [`Error`] |
//! | bound what an evaluation may cost | [`cost`] |

#![expect(dead_code, reason = "the parser, the checker and the evaluator follow")]

pub mod cost;
pub mod schema;

mod declare;
mod env;
mod error;
mod library;
mod types;
mod value;

pub use declare::{
    CallCost, CostedCall, EstimateCall, Function, Implementation, Overload, Specialize,
};
pub use env::{DeclarationError, Env, EnvBuilder, FunctionCost, TypeProvider};
pub use error::{Error, ErrorKind};
pub use types::{Opaque as OpaqueType, Type};
pub use value::{Bytes, Duration, List, Map, Object, Opaque, Str, Timestamp, Value};
