//! Kubernetes' libraries, and the environment that its expressions are compiled against.
//!
//! ```
//! use evenkeel_cel::{Type, Value, kubernetes};
//!
//! let env = kubernetes::environment().extend().variable("self", Type::String).build().unwrap();
//! let program = env.program("quantity(self).isLessThan(quantity('2Gi'))").unwrap();
//! assert_eq!(program.evaluate(&[Value::from("500Mi")]).unwrap(), Value::Bool(true));
//! ```

use std::sync::LazyLock;

use crate::{Env, Error, Type, Value};

mod addresses;
mod authorizer;
mod costs;
mod format;
mod json_patch;
mod lists;
mod mutation;
mod quantities;
mod regex;
mod urls;
mod versions;

pub use authorizer::{Authorizer, Check, Decision, Subject, authorizer, resource_check};
pub use mutation::MutationTypes;

/// The cost that one evaluation may have.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// The cost that all validation rules of an object may have together.
pub const RUNTIME_COST_BUDGET: u64 = 10_000_000;
/// The cost that all match conditions of a webhook or policy may have together.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;
/// The largest request, which bounds the sizes of what it contains.
pub const MAX_REQUEST_SIZE: u64 = 3 * 1024 * 1024;

/// The environment of Kubernetes 1.36, without variables: the standard library, cel-go's extensions
/// for strings, sets, lists and comprehensions, and Kubernetes' own libraries.
pub fn environment() -> &'static Env {
    static ENVIRONMENT: LazyLock<Env> = LazyLock::new(build);
    &ENVIRONMENT
}

fn build() -> Env {
    let builder = Env::builder()
        .standard_library()
        .optional_types()
        .two_variable_comprehensions()
        .extensions()
        .homogeneous_literals(true)
        .presence_test_has_cost(false)
        .validate_literals(true)
        .functions(lists::functions())
        .functions(regex::functions())
        .functions(urls::functions())
        .functions(quantities::functions())
        .functions(addresses::functions())
        .functions(format::functions())
        .functions(versions::functions())
        .functions(authorizer::functions())
        .type_name(addresses::ip_type())
        .type_name(addresses::cidr_type());
    costs::install(builder).build().expect("declarations do not contradict each other")
}

/// What mutating admission policies have in addition to [`MutationTypes`]: `jsonpatch.escapeKey`.
pub fn json_patch_functions() -> Vec<crate::Function> {
    json_patch::functions()
}

/// The text of a string argument.
fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, Error> {
    value.as_str().ok_or_else(Error::no_such_overload)
}

/// The library's value in the first argument.
fn receiver<'v, T: crate::Opaque>(arguments: &'v [Value<'_>]) -> Result<&'v T, Error> {
    arguments.first().and_then(Value::downcast).ok_or_else(Error::no_such_overload)
}

/// The library's value in the second argument.
fn operand<'v, T: crate::Opaque>(arguments: &'v [Value<'_>]) -> Result<&'v T, Error> {
    arguments.get(1).and_then(Value::downcast).ok_or_else(Error::no_such_overload)
}

fn list_of_strings() -> Type {
    Type::list(Type::String)
}
