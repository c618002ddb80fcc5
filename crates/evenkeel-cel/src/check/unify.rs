//! Assignability of types with variables, and what is known of the variables so far.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{OpaqueType, Overload, Type};

/// Bindings of type variables.
#[derive(Default)]
pub(super) struct Unifier {
    bindings: HashMap<Arc<str>, Type>,
    /// Changes since the last success, with the values before, so that a failed attempt is undone.
    journal: Vec<(Arc<str>, Option<Type>)>,
    variables: usize,
}

impl Unifier {
    /// A type variable of its own.
    pub(super) fn variable(&mut self) -> Type {
        let name = format!("_var{}", self.variables);
        self.variables += 1;
        Type::param(name)
    }

    /// Argument and result types of an overload, with type variables in place of its parameters.
    pub(super) fn instantiate(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        let mut names = Vec::new();
        for type_ in overload.arguments.iter().chain([&overload.result]) {
            parameters(type_, &mut names);
        }
        if names.is_empty() {
            return (overload.arguments.clone(), overload.result.clone());
        }
        let fresh: HashMap<Arc<str>, Type> =
            names.into_iter().map(|name| (name, self.variable())).collect();
        let arguments = overload.arguments.iter().map(|type_| replace(&fresh, type_, false));
        (arguments.collect(), replace(&fresh, &overload.result, false))
    }

    /// Whether a value of `second` can be used as `first`; binds variables if so.
    pub(super) fn assignable(&mut self, first: &Type, second: &Type) -> bool {
        self.attempt(|unifier| unifier.assign(first, second))
    }

    /// Whether all types of one list are assignable to those of the other; binds variables if so.
    pub(super) fn assignable_list(&mut self, first: &[Type], second: &[Type]) -> bool {
        self.attempt(|unifier| unifier.assign_all(first, second))
    }

    /// The type with its variables replaced by what is known; unknown ones become `dyn` on request.
    pub(super) fn substitute(&self, type_: &Type, to_dyn: bool) -> Type {
        replace(&self.bindings, type_, to_dyn)
    }

    fn attempt(&mut self, attempt: impl FnOnce(&mut Self) -> bool) -> bool {
        self.journal.clear();
        let success = attempt(self);
        if !success {
            while let Some((name, before)) = self.journal.pop() {
                match before {
                    Some(type_) => self.bindings.insert(name, type_),
                    None => self.bindings.remove(&name),
                };
            }
        }
        success
    }

    fn bind(&mut self, name: &Arc<str>, type_: Type) {
        let before = self.bindings.insert(name.clone(), type_);
        self.journal.push((name.clone(), before));
    }

    fn assign(&mut self, first: &Type, second: &Type) -> bool {
        if let Type::Param(name) = second {
            let (valid, bound) = self.substitution(first, name, second);
            if valid {
                return true;
            }
            if bound {
                return false;
            }
        }
        if let Type::Param(name) = first {
            return self.substitution(second, name, first).0;
        }
        match (first, second) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::Wrapper(first), Type::Wrapper(second)) => first == second,
            (Type::Wrapper(inner), other) | (other, Type::Wrapper(inner)) => **inner == *other,
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(first), Type::List(second)) => self.assign(first, second),
            (Type::Map(first), Type::Map(second)) => {
                self.assign(&first.0, &second.0) && self.assign(&first.1, &second.1)
            }
            (Type::Opaque(first), Type::Opaque(second)) => {
                first.name == second.name && self.assign_all(&first.parameters, &second.parameters)
            }
            _ => first == second,
        }
    }

    fn assign_all(&mut self, first: &[Type], second: &[Type]) -> bool {
        first.len() == second.len()
            && first.iter().zip(second).all(|(first, second)| self.assign(first, second))
    }

    /// Whether a variable can stand for a type, and whether it was bound before.
    fn substitution(&mut self, type_: &Type, name: &Arc<str>, variable: &Type) -> (bool, bool) {
        if type_ == variable {
            return (true, true);
        }
        if let Some(bound) = self.bindings.get(name).cloned() {
            if *type_ == bound {
                return (true, true);
            }
            if self.assign(type_, &bound) {
                let general = most_general(type_, &bound).clone();
                if self.absent(variable, &general) {
                    self.bind(name, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.absent(variable, type_) {
            self.bind(name, type_.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether a variable does not occur in a type.
    fn absent(&self, variable: &Type, within: &Type) -> bool {
        if variable == within {
            return false;
        }
        match within {
            Type::Param(name) => match self.bindings.get(name) {
                Some(bound) => self.absent(variable, bound),
                None => true,
            },
            Type::List(element) => self.absent(variable, element),
            Type::Map(entry) => self.absent(variable, &entry.0) && self.absent(variable, &entry.1),
            Type::Type(Some(inner)) => self.absent(variable, inner),
            Type::Opaque(opaque) => {
                opaque.parameters.iter().all(|type_| self.absent(variable, type_))
            }
            _ => true,
        }
    }
}

fn nullable(type_: &Type) -> bool {
    matches!(
        type_,
        Type::Null
            | Type::Wrapper(_)
            | Type::Opaque(_)
            | Type::Struct(_)
            | Type::Duration
            | Type::Timestamp
    )
}

/// Names of the type parameters in a type.
fn parameters(type_: &Type, names: &mut Vec<Arc<str>>) {
    match type_ {
        Type::Param(name) if !names.contains(name) => names.push(name.clone()),
        Type::List(element) => parameters(element, names),
        Type::Map(entry) => {
            parameters(&entry.0, names);
            parameters(&entry.1, names);
        }
        Type::Type(Some(inner)) => parameters(inner, names),
        Type::Opaque(opaque) => opaque.parameters.iter().for_each(|type_| parameters(type_, names)),
        _ => {}
    }
}

fn replace(bindings: &HashMap<Arc<str>, Type>, type_: &Type, to_dyn: bool) -> Type {
    let again = |type_: &Type| replace(bindings, type_, to_dyn);
    match type_ {
        Type::Param(name) => match bindings.get(name) {
            Some(bound) => again(bound),
            None if to_dyn => Type::Dyn,
            None => type_.clone(),
        },
        Type::List(element) => Type::list(again(element)),
        Type::Map(entry) => Type::map(again(&entry.0), again(&entry.1)),
        Type::Type(Some(inner)) => Type::type_of(again(inner)),
        Type::Opaque(opaque) if !opaque.parameters.is_empty() => {
            let parameters = opaque.parameters.iter().map(again).collect();
            Type::Opaque(Arc::new(OpaqueType { name: opaque.name.clone(), parameters }))
        }
        _ => type_.clone(),
    }
}

/// The type that covers the other one, of two that are assignable.
pub(super) fn most_general<'t>(first: &'t Type, second: &'t Type) -> &'t Type {
    if less_specific(first, second) { first } else { second }
}

fn less_specific(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Opaque(first), Type::Opaque(second)) => {
            first.name == second.name
                && first.parameters.len() == second.parameters.len()
                && first
                    .parameters
                    .iter()
                    .zip(&second.parameters)
                    .all(|(first, second)| less_specific(first, second))
        }
        (Type::List(first), Type::List(second)) => less_specific(first, second),
        (Type::Map(first), Type::Map(second)) => {
            less_specific(&first.0, &second.0) && less_specific(&first.1, &second.1)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => first == second,
    }
}
