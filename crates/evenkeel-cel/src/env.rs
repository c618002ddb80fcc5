//! Environments: the declarations that expressions are compiled against.
//!
//! An [`Env`] is immutable and cheap to clone; [`Env::extend`] shares all that it holds. Kubernetes makes
//! one base environment and extends it with the variables of each schema.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::check::check;
use crate::cost::estimate::estimate;
use crate::cost::{CostEstimate, SizeEstimator};
use crate::declare::{CallCost, EstimateCall, Overload};
use crate::library;
use crate::parser::{Syntax, parse};
use crate::schema::Schema;
use crate::source::{Issues, Location};
use crate::{Ast, Function, Program, Type};

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
    /// First parts of dotted names of variables and types.
    pub(crate) dotted_roots: Arc<HashSet<Arc<str>>>,
    /// Names of functions by the id of their overloads.
    pub(crate) overloads: Arc<HashMap<&'static str, &'static str>>,
    pub(crate) provider: Option<Arc<dyn TypeProvider>>,
    /// The namespace in which names are looked up first.
    pub(crate) container: Arc<str>,
    pub(crate) syntax: Syntax,
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

/// Finds object types by name. Implemented for [`Schema`], with all objects in it.
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
                dotted_roots: Arc::default(),
                overloads: Arc::default(),
                provider: None,
                container: "".into(),
                syntax: Syntax::default(),
                options: Options {
                    homogeneous_literals: false,
                    presence_test_has_cost: true,
                    validate_literals: false,
                },
            },
            error: None,
        }
    }

    /// Parses and checks an expression.
    pub fn compile(&self, expression: &str) -> Result<Ast, Issues> {
        check(parse(expression, self.0.syntax)?, &self.0)
    }

    /// Compiles an expression to a program.
    pub fn program(&self, expression: &str) -> Result<Program, Issues> {
        let ast = self.compile(expression)?;
        Program::new(self, &ast).map_err(|error| {
            let mut issues = Issues::new(ast.source.clone());
            let location = error.expression().map_or(Location::NONE, |id| ast.location(id));
            issues.report(location, error.message());
            issues
        })
    }

    /// Bounds of what an evaluation of a compiled expression costs.
    pub fn estimate_cost(&self, ast: &Ast, sizes: &dyn SizeEstimator) -> CostEstimate {
        estimate(ast, &self.0, sizes)
    }

    /// The position of a variable in the values of an evaluation.
    pub fn variable(&self, name: &str) -> Option<usize> {
        self.0.variables.iter().position(|(variable, _)| &**variable == name)
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
        let ids = Arc::make_mut(&mut self.declarations.overloads);
        for function in functions {
            ids.extend(function.overloads.iter().map(|overload| (overload.id, function.name)));
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
        self.declarations.add_root(&name);
        self.declarations.variables.push((name, type_));
        self
    }

    /// Makes the name of a type usable in expressions: `type(x) == net.IP`.
    #[must_use]
    pub fn type_name(mut self, type_: Type) -> Self {
        let name: Arc<str> = Arc::from(type_.name());
        self.declarations.add_root(&name);
        Arc::make_mut(&mut self.declarations.type_names).insert(name, type_);
        self
    }

    /// Adds the functions, operators and types of the language's standard.
    #[must_use]
    pub fn standard_library(mut self) -> Self {
        for type_ in library::standard_types() {
            self = self.type_name(type_);
        }
        self.functions(library::standard())
    }

    /// Adds optional types: `a.?b`, `a[?b]`, `optional.of(x)`, `optMap` and `optFlatMap`.
    #[must_use]
    pub fn optional_types(mut self) -> Self {
        self.declarations.syntax.optional_types = true;
        self.type_name(Type::optional(Type::param("V"))).functions(library::optional())
    }

    /// Adds macros with two variables: `map.all(k, v, …)`, `transformList`, `transformMap` and
    /// `transformMapEntry`.
    #[must_use]
    pub fn two_variable_comprehensions(mut self) -> Self {
        self.declarations.syntax.two_variable_comprehensions = true;
        self.functions(library::comprehensions())
    }

    /// Adds cel-go's extensions for strings (version 2), sets and lists (version 3), with the macro
    /// `sortBy`.
    #[must_use]
    pub fn extensions(mut self) -> Self {
        self.declarations.syntax.sort_by = true;
        self.functions(library::extensions())
    }

    /// Adds the macro `cel.bind(name, value, expression)`.
    #[must_use]
    pub fn bindings(mut self) -> Self {
        self.declarations.syntax.bindings = true;
        self
    }

    /// Accepts field names in backticks.
    #[must_use]
    pub fn escaped_identifiers(mut self) -> Self {
        self.declarations.syntax.escaped_identifiers = true;
        self
    }

    /// Sets the namespace in which names are looked up first.
    #[must_use]
    pub fn container(mut self, name: &str) -> Self {
        self.declarations.container = name.into();
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

impl Declarations {
    fn add_root(&mut self, name: &str) {
        if let Some((root, _)) = name.split_once('.') {
            Arc::make_mut(&mut self.dotted_roots).insert(root.into());
        }
    }

    /// What a name may stand for in the container, the longest first.
    pub(crate) fn candidates<'n>(&self, name: &'n str) -> impl Iterator<Item = Cow<'n, str>> {
        let container = if name.starts_with('.') { "".into() } else { self.container.clone() };
        let mut end = Some(container.len()).filter(|len| *len > 0);
        let name = name.strip_prefix('.').unwrap_or(name);
        let qualified = std::iter::from_fn(move || {
            let prefix = &container[..end?];
            end = prefix.rfind('.');
            Some(Cow::Owned(format!("{prefix}.{name}")))
        });
        qualified.chain([Cow::Borrowed(name)])
    }

    /// The type of this name.
    pub(crate) fn find_type(&self, name: &str) -> Option<Type> {
        if let Some(type_) = self.type_names.get(name) {
            return Some(type_.clone());
        }
        let known = self.provider.as_ref().is_some_and(|provider| provider.has_type(name));
        known.then(|| Type::object(name))
    }

    /// The name of the function that an overload belongs to.
    pub(crate) fn function_of(&self, overload: &Overload) -> Option<&'static str> {
        self.overloads.get(overload.id).copied()
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
