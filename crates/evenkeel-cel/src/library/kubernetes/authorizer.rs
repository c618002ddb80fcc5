//! Authorization checks: `authorizer.group('apps').resource('deployments').check('create').allowed()`.
//!
//! The variable `authorizer` is made by [`authorizer()`] and calls an [`Authorizer`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use evenkeel_types::names;

use super::{receiver, text};
use crate::{Error, Function, Opaque, Overload, Type, Value};

/// Decides about checks of expressions.
pub trait Authorizer: Send + Sync {
    /// Decides one check.
    fn authorize(&self, check: &Check) -> Decision;
}

/// What is to be authorized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Who would act.
    pub subject: Subject,
    /// The verb of the API, or of HTTP in lower case if there is a path.
    pub verb: Box<str>,
    /// The path, if it is not a resource.
    pub path: Option<Box<str>>,
    /// The API group; empty for the core group.
    pub group: Box<str>,
    /// The resource in the plural.
    pub resource: Box<str>,
    /// The subresource; empty if there is none.
    pub subresource: Box<str>,
    /// The namespace; empty for the cluster scope.
    pub namespace: Box<str>,
    /// The name; empty for any.
    pub name: Box<str>,
    /// The field selector, as written; empty if there is none.
    pub field_selector: Box<str>,
    /// The label selector, as written; empty if there is none.
    pub label_selector: Box<str>,
}

/// Who acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// The user of the request.
    #[default]
    Requestor,
    /// A service account.
    ServiceAccount {
        /// The namespace of the service account.
        namespace: Box<str>,
        /// The name of the service account.
        name: Box<str>,
    },
}

/// The answer of an [`Authorizer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed; false also without an opinion.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// Why there is no decision.
    pub error: Option<String>,
}

/// The value of the variable `authorizer`.
pub fn authorizer(decide: Arc<dyn Authorizer>) -> Value<'static> {
    Value::opaque(Step { kind: Kind::Authorizer, check: Check::default(), decide: Decide(decide) })
}

/// The value of the variable `authorizer.requestResource`: a check of the resource of the request.
pub fn resource_check(decide: Arc<dyn Authorizer>, check: Check) -> Value<'static> {
    Value::opaque(Step { kind: Kind::ResourceCheck, check, decide: Decide(decide) })
}

/// A check that is being built.
#[derive(Clone, Debug)]
struct Step {
    kind: Kind,
    check: Check,
    decide: Decide,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Authorizer,
    PathCheck,
    GroupCheck,
    ResourceCheck,
}

#[derive(Clone)]
struct Decide(Arc<dyn Authorizer>);

impl fmt::Debug for Decide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizer")
    }
}

impl Kind {
    fn type_(self) -> Type {
        Type::object(match self {
            Kind::Authorizer => "kubernetes.authorization.Authorizer",
            Kind::PathCheck => "kubernetes.authorization.PathCheck",
            Kind::GroupCheck => "kubernetes.authorization.GroupCheck",
            Kind::ResourceCheck => "kubernetes.authorization.ResourceCheck",
        })
    }
}

pub(super) fn decision_type() -> Type {
    Type::object("kubernetes.authorization.Decision")
}

/// The types whose values upstream cannot compare.
pub(super) fn types() -> [Type; 5] {
    [
        Kind::Authorizer.type_(),
        Kind::PathCheck.type_(),
        Kind::GroupCheck.type_(),
        Kind::ResourceCheck.type_(),
        decision_type(),
    ]
}

impl Opaque for Step {
    fn type_(&self) -> Type {
        self.kind.type_()
    }

    fn equals(&self, _: &Value<'_>) -> Option<bool> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> String {
        self.type_().name().to_owned()
    }
}

impl Opaque for Decision {
    fn type_(&self) -> Type {
        decision_type()
    }

    fn equals(&self, _: &Value<'_>) -> Option<bool> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> String {
        self.type_().name().to_owned()
    }
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Authorizer, GroupCheck, PathCheck, ResourceCheck};
    let part = |name, id, set: fn(&mut Check, &str)| {
        let arguments = [ResourceCheck.type_(), Type::String];
        Function::new(name).overload(Overload::member(
            id,
            arguments,
            ResourceCheck.type_(),
            move |values| step(values, ResourceCheck, set),
        ))
    };
    let property = |name, id, type_, read: fn(&Decision) -> Value<'static>| {
        Function::new(name).overload(Overload::member(
            id,
            [decision_type()],
            type_,
            move |values| Ok(read(receiver(values)?)),
        ))
    };
    vec![
        Function::new("path").overload(Overload::member(
            "authorizer_path",
            [Authorizer.type_(), Type::String],
            PathCheck.type_(),
            |values| {
                not_empty(values, "path must not be empty")?;
                step(values, PathCheck, |check, path| check.path = Some(path.into()))
            },
        )),
        Function::new("group").overload(Overload::member(
            "authorizer_group",
            [Authorizer.type_(), Type::String],
            GroupCheck.type_(),
            |values| step(values, GroupCheck, |check, group| check.group = group.into()),
        )),
        Function::new("serviceAccount").overload(Overload::member(
            "authorizer_serviceaccount",
            [Authorizer.type_(), Type::String, Type::String],
            Authorizer.type_(),
            service_account,
        )),
        Function::new("resource").overload(Overload::member(
            "groupcheck_resource",
            [GroupCheck.type_(), Type::String],
            ResourceCheck.type_(),
            |values| {
                not_empty(values, "resource must not be empty")?;
                step(values, ResourceCheck, |check, resource| check.resource = resource.into())
            },
        )),
        part("subresource", "resourcecheck_subresource", |check, text| {
            check.subresource = text.into();
        }),
        part("namespace", "resourcecheck_namespace", |check, text| check.namespace = text.into()),
        part("name", "resourcecheck_name", |check, text| check.name = text.into()),
        part("fieldSelector", "authorizer_fieldselector", |check, text| {
            check.field_selector = text.into();
        }),
        part("labelSelector", "authorizer_labelselector", |check, text| {
            check.label_selector = text.into();
        }),
        Function::new("check")
            .overload(Overload::member(
                "pathcheck_check",
                [PathCheck.type_(), Type::String],
                decision_type(),
                decide,
            ))
            .overload(Overload::member(
                "resourcecheck_check",
                [ResourceCheck.type_(), Type::String],
                decision_type(),
                decide,
            )),
        property("errored", "decision_errored", Type::Bool, |decision| {
            Value::Bool(decision.error.is_some())
        }),
        property("error", "decision_error", Type::String, |decision| {
            Value::from(decision.error.clone().unwrap_or_default())
        }),
        property("allowed", "decision_allowed", Type::Bool, |decision| {
            Value::Bool(decision.allowed)
        }),
        property("reason", "decision_reason", Type::String, |decision| {
            Value::from(decision.reason.clone())
        }),
    ]
}

fn argument<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v str, Error> {
    text(values.get(at).ok_or_else(Error::no_such_overload)?)
}

fn not_empty(values: &[Value<'_>], message: &'static str) -> Result<(), Error> {
    match argument(values, 1)?.trim() {
        "" => Err(Error::new(message)),
        _ => Ok(()),
    }
}

fn step<'a>(
    values: &[Value<'a>],
    kind: Kind,
    set: impl Fn(&mut Check, &str),
) -> Result<Value<'a>, Error> {
    let mut next = Step { kind, ..receiver::<Step>(values)?.clone() };
    set(&mut next.check, argument(values, 1)?);
    Ok(Value::opaque(next))
}

fn service_account<'a>(values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let name = argument(values, 2)?;
    if !names::subdomain_name(name, false).is_empty() {
        return Err(Error::new("Invalid service account name"));
    }
    if !names::label_name(argument(values, 1)?, false).is_empty() {
        return Err(Error::new("Invalid service account namespace"));
    }
    step(values, Kind::Authorizer, |check, namespace| {
        check.subject = Subject::ServiceAccount { namespace: namespace.into(), name: name.into() };
    })
}

fn decide<'a>(values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let step: &Step = receiver(values)?;
    let check = Check { verb: argument(values, 1)?.into(), ..step.check.clone() };
    Ok(Value::opaque(step.decide.0.authorize(&check)))
}
