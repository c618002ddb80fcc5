//! Environments: the declarations that expressions are compiled against.
//!
//! An [`Env`] is immutable and cheap to clone; [`Env::extend`] shares all that it holds. Kubernetes makes
//! one base environment and extends it with the variables of each schema.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::declare::{CallCost, EstimateCall};
use crate::schema::Schema;
use crate::{Function, Type};

/// What expressions are compiled against: functions, macros, variables and types.
#[derive(Clone)]
pub struct Env(pub(crate) Arc<Declarations>);

/// Builds an [`Env`].
#[derive(Clone)]
pub struct EnvBuilder {
    declarations: Declarations,
    error: Option<DeclarationError>,
}

#[derive(Clone)]
pub(crate) struct Declarations {
    pub(crate) functions: Arc<HashMap<&'static str, Function>>,
    /// Costs of whole functions, which take precedence over the defaults of overloads.
    pub(crate) function_costs: Arc<HashMap<&'static str, FunctionCost>>,
    /// Variables in the order of declaration, which is that of `Program::evaluate`.
    pub(crate) variables: Vec<(Arc<str>, Type)>,
    /// Names of types that expressions can use as values.
    pub(crate) type_names: Arc<BTreeMap<Arc<str>, Type>>,
    pub(crate) provider: Option<Arc<dyn TypeProvider>>,
    pub(crate) options: Options,
}

#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) homogeneous_literals: bool,
    pub(crate) presence_test_has_cost: bool,
    pub(crate) validate_literals: bool,
}

/// Costs of all overloads of a function.
#[derive(Clone, Copy, Default)]
pub struct FunctionCost {
    /// The static cost.
    pub estimate: Option<EstimateCall>,
    /// The run-time cost.
    pub cost: Option<CallCost>,
}

/// Knows object types by name. Implemented for [`Schema`], with all objects in it.
pub trait TypeProvider: Send + Sync {
    /// Whether there is an object type of this name.
    fn has_type(&self, name: &str) -> bool;

    /// The type of a field of an object type.
    fn field(&self, type_name: &str, field: &str) -> Option<Type>;
}

/// A declaration contradicts another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclarationError(String);

impl fmt::Display for DeclarationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeclarationError {}

impl Env {
    /// An environment with the macros but without functions, variables and types.
    pub fn builder() -> EnvBuilder {
        EnvBuilder {
            declarations: Declarations {
                functions: Arc::default(),
                function_costs: Arc::default(),
                variables: Vec::new(),
                type_names: Arc::default(),
                provider: None,
                options: Options {
                    homogeneous_literals: false,
                    presence_test_has_cost: true,
                    validate_literals: false,
                },
            },
            error: None,
        }
    }

    /// A builder with all declarations of this environment.
    pub fn extend(&self) -> EnvBuilder {
        EnvBuilder { declarations: (*self.0).clone(), error: None }
    }
}

impl EnvBuilder {
    /// Adds functions. Overloads of functions that exist are added to them.
    #[must_use]
    pub fn functions(mut self, functions: impl IntoIterator<Item = Function>) -> Self {
        let table = Arc::make_mut(&mut self.declarations.functions);
        for function in functions {
            let existing =
                table.entry(function.name).or_insert_with(|| Function::new(function.name));
            existing.overloads.extend(function.overloads);
        }
        self
    }

    /// Sets the costs of all overloads of a function (Kubernetes' `library.CostEstimator`).
    #[must_use]
    pub fn function_cost(mut self, function: &'static str, cost: FunctionCost) -> Self {
        Arc::make_mut(&mut self.declarations.function_costs).insert(function, cost);
        self
    }

    /// Declares a variable. Its position among the variables is that of its value in
    /// `Program::evaluate`.
    #[must_use]
    pub fn variable(mut self, name: impl Into<Arc<str>>, type_: Type) -> Self {
        let name = name.into();
        if self.declarations.variables.iter().any(|(existing, _)| *existing == name) {
            self.error.get_or_insert(DeclarationError(format!(
                "overlapping identifier for name '{name}'"
            )));
        }
        self.declarations.variables.push((name, type_));
        self
    }

    /// Makes the name of a type usable in expressions: `type(x) == net.IP`.
    #[must_use]
    pub fn type_name(mut self, type_: Type) -> Self {
        let name = Arc::from(type_.name());
        Arc::make_mut(&mut self.declarations.type_names).insert(name, type_);
        self
    }

    /// Sets where object types are found.
    #[must_use]
    pub fn type_provider(mut self, provider: Arc<dyn TypeProvider>) -> Self {
        self.declarations.provider = Some(provider);
        self
    }

    /// Elements of list and map literals must be of one type. Off by default.
    #[must_use]
    pub fn homogeneous_literals(mut self, on: bool) -> Self {
        self.declarations.options.homogeneous_literals = on;
        self
    }

    /// Whether `has(x.y)` costs as much as reading a field. On by default.
    #[must_use]
    pub fn presence_test_has_cost(mut self, on: bool) -> Self {
        self.declarations.options.presence_test_has_cost = on;
        self
    }

    /// Literals of durations, timestamps and regular expressions are checked when compiled. Off by
    /// default.
    #[must_use]
    pub fn validate_literals(mut self, on: bool) -> Self {
        self.declarations.options.validate_literals = on;
        self
    }

    /// The environment, or the first declaration that contradicts another one.
    pub fn build(self) -> Result<Env, DeclarationError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Env(Arc::new(self.declarations))),
        }
    }
}

impl TypeProvider for Schema {
    fn has_type(&self, name: &str) -> bool {
        self.object(name).is_some()
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        Some(self.object(type_name)?.fields.get(field)?.schema.type_())
    }
}
