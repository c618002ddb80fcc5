//! Compiles expressions, with the errors that upstream reports.

use std::fmt;
use std::sync::Arc;

use super::types::{NAMESPACE, REQUEST, Types, VARIABLES};
use crate::kubernetes::{self, environment};
use crate::schema::Schema;
use crate::{Ast, Env, Program, Type};

/// What an expression is for, which decides about its result and its variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A match condition or a validation: a boolean.
    Condition,
    /// The message of a failed validation: a string, without `authorizer`.
    Message,
    /// The value of an audit annotation: a string or null.
    AuditAnnotation,
    /// A variable: anything.
    Variable,
    /// What is merged into the object: `Object{…}`.
    ApplyConfiguration,
    /// Operations on the object: a list of `JSONPatch{…}`.
    JsonPatch,
}

impl Purpose {
    fn results(self) -> Vec<Type> {
        match self {
            Self::Condition => vec![Type::Bool],
            Self::Message => vec![Type::String],
            Self::AuditAnnotation => vec![Type::String, Type::Null],
            Self::Variable => Vec::new(),
            Self::ApplyConfiguration => vec![Type::object("Object")],
            Self::JsonPatch => vec![Type::list(Type::object("JSONPatch"))],
        }
    }

    fn patches(self) -> bool {
        matches!(self, Self::ApplyConfiguration | Self::JsonPatch)
    }
}

/// A compiled expression, or why it does not compile.
pub type Compiled = Result<Expression, Invalid>;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {
    pub(super) text: Arc<str>,
    pub(super) program: Program,
    /// What the variables of the program are, by their position.
    pub(super) inputs: Arc<[Input]>,
}

/// What a variable of a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Object,
    OldObject,
    Namespace,
    Request,
    Params,
    Authorizer,
    RequestResource,
    Variables,
}

impl Input {
    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::OldObject => "oldObject",
            Self::Namespace => "namespaceObject",
            Self::Request => "request",
            Self::Params => "params",
            Self::Authorizer => "authorizer",
            Self::RequestResource => "authorizer.requestResource",
            Self::Variables => "variables",
        }
    }
}

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The reason, as upstream words it.
    pub detail: String,
    /// Whether upstream reports it as an internal error.
    pub internal: bool,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Invalid {}

impl Invalid {
    fn of_user(detail: String) -> Self {
        Self { detail, internal: false }
    }

    fn internal(detail: String) -> Self {
        Self { detail, internal: true }
    }
}

/// A variable of a policy.
#[derive(Clone, Debug)]
pub struct Variable {
    pub(super) name: Arc<str>,
    pub(super) type_: Type,
    pub(super) compiled: Compiled,
}

/// Compiles the expressions of a webhook or of a policy.
#[derive(Clone, Debug)]
pub struct Compiler {
    params: bool,
    /// `None` if expressions cannot use `variables`.
    variables: Option<Vec<Variable>>,
    object: Option<Schema>,
    params_schema: Option<Schema>,
    /// Whether expressions are only checked, and never evaluated.
    checks_types: bool,
}

impl Compiler {
    /// A compiler of expressions without `variables`. With `params`, they can use `params`.
    pub fn new(params: bool) -> Self {
        Self { params, variables: None, object: None, params_schema: None, checks_types: false }
    }

    /// A compiler of the expressions of a policy, which can use `variables`.
    pub fn of_policy(params: bool) -> Self {
        Self { variables: Some(Vec::new()), ..Self::new(params) }
    }

    /// The type of `object` and `oldObject`, and that of `params`, for type checking with
    /// [`check`](Self::check). Their names must be different. As in upstream's type checking, there is
    /// no `authorizer.requestResource`.
    #[must_use]
    pub fn typed(self, object: Option<Schema>, params_schema: Option<Schema>) -> Self {
        Self { object, params_schema, checks_types: true, ..self }
    }

    /// Compiles a variable, which later expressions can use even if it is not valid.
    pub fn variable(&mut self, name: &str, expression: &str) -> Result<(), Invalid> {
        let (type_, compiled) = match self.checked(expression, Purpose::Variable) {
            Ok((env, ast, inputs)) => {
                let compiled = instantiate(expression, &env, &ast, inputs);
                // As upstream, a variable that cannot be instantiated has no type.
                let typed = compiled.is_ok() || self.checks_types;
                (if typed { field_type(ast.result_type()) } else { Type::Dyn }, compiled)
            }
            Err(invalid) => (Type::Dyn, Err(invalid)),
        };
        let outcome = compiled.as_ref().map(|_| ()).map_err(Clone::clone);
        let variable = Variable { name: name.into(), type_, compiled };
        self.variables.get_or_insert_default().push(variable);
        outcome
    }

    /// The variables that were compiled.
    pub fn variables(&self) -> &[Variable] {
        self.variables.as_deref().unwrap_or_default()
    }

    /// Compiles an expression.
    pub fn compile(&self, expression: &str, purpose: Purpose) -> Compiled {
        let (env, ast, inputs) = self.checked(expression, purpose)?;
        let (expected, found) = (purpose.results(), ast.result_type());
        if !expected.is_empty() && !expected.contains(found) {
            let found = declared(found);
            return Err(Invalid::of_user(match &expected[..] {
                [one] => format!("must evaluate to {} but got {found}", declared(one)),
                several => {
                    let names: Vec<String> = several.iter().map(declared).collect();
                    format!("must evaluate to one of [{}] but got {found}", names.join(" "))
                }
            }));
        }
        instantiate(expression, &env, &ast, inputs)
    }

    /// Checks the types of an expression only, whatever its result.
    pub fn check(&self, expression: &str) -> Result<(), Invalid> {
        let inputs: Vec<Input> = self.inputs(Purpose::Variable).collect();
        let env = self.environment(&inputs, Purpose::Variable)?;
        let checked = env.compile(expression);
        checked.map(|_| ()).map_err(|issues| Invalid::of_user(issues.to_string()))
    }

    fn checked(
        &self,
        expression: &str,
        purpose: Purpose,
    ) -> Result<(Env, Ast, Arc<[Input]>), Invalid> {
        let inputs: Arc<[Input]> = self.inputs(purpose).collect();
        let env = self.environment(&inputs, purpose)?;
        let ast = env
            .compile(expression)
            .map_err(|issues| Invalid::of_user(format!("compilation failed: {issues}")))?;
        Ok((env, ast, inputs))
    }

    fn inputs(&self, purpose: Purpose) -> impl Iterator<Item = Input> {
        let authorizer = purpose != Purpose::Message;
        let (params, variables) = (self.params, self.variables.is_some());
        let all = [
            (Input::Variables, variables),
            (Input::Object, true),
            (Input::OldObject, true),
            (Input::Namespace, true),
            (Input::Request, true),
            (Input::Params, params),
            (Input::Authorizer, authorizer),
            (Input::RequestResource, authorizer && !self.checks_types),
        ];
        all.into_iter().filter(|(_, declared)| *declared).map(|(input, _)| input)
    }

    fn environment(&self, inputs: &[Input], purpose: Purpose) -> Result<Env, Invalid> {
        let variables = self.variables.as_ref().map(|variables| {
            let typed = variables.iter().map(|it| (it.name.clone(), it.type_.clone()));
            typed.collect()
        });
        let documents = self.object.iter().chain(&self.params_schema).cloned().collect();
        let types = Types { variables, patches: purpose.patches(), documents };
        let mut builder = environment().extend().type_provider(Arc::new(types));
        for input in inputs {
            builder = builder.variable(input.name(), self.type_of(*input));
        }
        if purpose.patches() {
            builder = builder.functions(kubernetes::json_patch_functions());
        }
        builder.build().map_err(|error| {
            Invalid::internal(format!("unexpected error loading CEL environment: {error}"))
        })
    }

    fn type_of(&self, input: Input) -> Type {
        let of = |schema: &Option<Schema>| schema.as_ref().map_or(Type::Dyn, Schema::type_);
        match input {
            Input::Object | Input::OldObject => of(&self.object),
            Input::Params => of(&self.params_schema),
            Input::Namespace => NAMESPACE.type_(),
            Input::Request => REQUEST.type_(),
            Input::Authorizer => Type::object("kubernetes.authorization.Authorizer"),
            Input::RequestResource => Type::object("kubernetes.authorization.ResourceCheck"),
            Input::Variables => Type::object(VARIABLES),
        }
    }
}

fn instantiate(expression: &str, env: &Env, ast: &Ast, inputs: Arc<[Input]>) -> Compiled {
    let program = Program::new(env, ast)
        .map_err(|error| Invalid::internal(format!("program instantiation failed: {error}")))?;
    Ok(Expression { text: expression.into(), program, inputs })
}

/// The type of a variable as a field of `variables`: objects and other named types are `dyn`.
fn field_type(type_: &Type) -> Type {
    match type_ {
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => type_.clone(),
        Type::List(element) => Type::list(field_type(element)),
        Type::Map(entry) => Type::map(field_type(&entry.0), field_type(&entry.1)),
        _ => Type::Dyn,
    }
}

/// The name of a type with its parameters, as declarations spell it.
fn declared(type_: &Type) -> String {
    match type_ {
        Type::List(element) => format!("list({})", declared(element)),
        Type::Map(entry) => format!("map({}, {})", declared(&entry.0), declared(&entry.1)),
        Type::Type(Some(inner)) => format!("type({})", declared(inner)),
        Type::Wrapper(inner) => format!("wrapper({})", declared(inner)),
        Type::Opaque(opaque) if !opaque.parameters.is_empty() => {
            let parameters: Vec<String> = opaque.parameters.iter().map(declared).collect();
            format!("{}({})", opaque.name, parameters.join(", "))
        }
        other => other.name().to_owned(),
    }
}
