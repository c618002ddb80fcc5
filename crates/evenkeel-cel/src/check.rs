//! Type checker: infers the type of each sub-expression and the overloads that each call may run.
//!
//! Inference, messages and positions are cel-go's. The result is the same tree in which qualified names
//! and namespaced functions are resolved, with types and references by expression id.

use std::sync::Arc;

use self::unify::Unifier;
use crate::ast::{Ast, Comprehension, Entry, Expr, FieldInit, Kind, Reference, operators};
use crate::env::Declarations;
use crate::library::format;
use crate::source::{Issues, Location};
use crate::{Function, Type, Value};

mod literals;
mod unify;

/// Checks a parsed expression.
pub(crate) fn check(mut ast: Ast, env: &Declarations) -> Result<Ast, Issues> {
    let mut root = std::mem::replace(&mut ast.root, Expr { id: 0, kind: Kind::Unspecified });
    let mut checker = Checker {
        env,
        issues: Issues::new(ast.source.clone()),
        types: vec![None; ast.positions.len()],
        references: vec![None; ast.positions.len()],
        unifier: Unifier::default(),
        locals: Vec::new(),
        ast: &ast,
    };
    checker.check(&mut root);
    let Checker { issues, mut types, references, unifier, .. } = checker;
    for type_ in types.iter_mut().flatten() {
        *type_ = unifier.substitute(type_, true);
    }
    ast.root = root;
    ast.types = types;
    ast.references = references;
    let mut issues = issues;
    if issues.is_empty() {
        if env.options.validate_literals {
            literals::validate_arguments(&ast, &mut issues);
        }
        if env.options.homogeneous_literals {
            literals::validate_aggregates(&ast, &mut issues);
        }
        format::validate(&ast, &mut issues);
    }
    issues.finish()?;
    Ok(ast)
}

struct Checker<'c> {
    env: &'c Declarations,
    ast: &'c Ast,
    issues: Issues,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    unifier: Unifier,
    /// Variables of the comprehensions around, innermost last.
    locals: Vec<(Arc<str>, Type)>,
}

impl<'c> Checker<'c> {
    fn check(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        let type_ = match &mut expr.kind {
            Kind::Unspecified => {
                self.report(id, "unexpected unspecified type: ".to_owned());
                Type::Error
            }
            Kind::Literal(value) => literal_type(value),
            Kind::Ident(name) => {
                let name = name.clone();
                self.ident(expr, &name)
            }
            Kind::Select { .. } => self.select(expr),
            Kind::Call { .. } => self.call(expr),
            Kind::List { elements, optional } => self.list(elements, optional),
            Kind::Map { entries } => self.map(entries),
            Kind::Struct { name, fields } => {
                let (type_, resolved) = self.object(id, name, fields);
                if let Some(resolved) = resolved {
                    *name = resolved;
                }
                type_
            }
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
        };
        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = Some(type_.clone());
        }
        type_
    }

    fn ident(&mut self, expr: &mut Expr, name: &Arc<str>) -> Type {
        match self.lookup(name) {
            Some((resolved, type_, reference)) => {
                self.refer(expr.id, reference);
                expr.kind = Kind::Ident(resolved);
                type_
            }
            None => {
                self.undeclared(expr.id, name);
                Type::Error
            }
        }
    }

    /// What a name refers to in its container: a variable, or the name of a type.
    fn lookup(&self, name: &str) -> Option<(Arc<str>, Type, Reference)> {
        // Variables of comprehensions are not in the container, so they hide what is.
        let plain = name.strip_prefix('.').unwrap_or(name);
        if let Some((name, type_)) = self.locals.iter().rfind(|(local, _)| **local == *plain) {
            return Some((name.clone(), type_.clone(), Reference::Local));
        }
        for candidate in self.env.candidates(name) {
            let variables = &self.env.variables;
            if let Some(at) = variables.iter().position(|(name, _)| **name == *candidate) {
                let (name, type_) = variables[at].clone();
                return Some((name, type_, Reference::Variable(at)));
            }
            if let Some(type_) = self.env.find_type(&candidate) {
                let reference = Reference::Type(type_.clone());
                return Some((candidate.as_ref().into(), Type::type_of(type_), reference));
            }
        }
        None
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        if let Some(name) = self.maybe_qualified(expr)
            && let Some((resolved, type_, reference)) = self.lookup(&name)
        {
            self.refer(expr.id, reference);
            expr.kind = Kind::Ident(resolved);
            return type_;
        }
        let id = expr.id;
        let Kind::Select { operand, field, test_only } = &mut expr.kind else { return Type::Error };
        let field_type = self.field(id, operand, field, false);
        if *test_only { Type::Bool } else { self.unifier.substitute(&field_type, false) }
    }

    /// The dotted name that a selection spells, unless its root is an ordinary variable.
    fn maybe_qualified(&self, expr: &Expr) -> Option<String> {
        let mut root = expr;
        while let Kind::Select { operand, test_only, .. } = &root.kind {
            if *test_only {
                return None;
            }
            root = operand;
        }
        let root = root.as_ident()?;
        if self.locals.iter().any(|(local, _)| local == root) {
            return None;
        }
        let variable = || self.env.variables.iter().any(|(name, _)| name == root);
        let plain = self.env.container.is_empty() && variable();
        if plain && !self.env.dotted_roots.contains(root) { None } else { expr.qualified_name() }
    }

    fn field(&mut self, id: u32, operand: &mut Expr, field: &str, optional: bool) -> Type {
        let operand = self.check(operand);
        let operand = self.unifier.substitute(&operand, false);
        let inner = operand.optional_inner();
        let result = match inner.unwrap_or(&operand) {
            Type::Map(entry) => entry.1.clone(),
            Type::Struct(name) => self.field_type(id, name, field).unwrap_or(Type::Error),
            target @ Type::Param(_) => {
                // A value of unknown type is dynamic from here on.
                self.unifier.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            target => {
                self.report(id, format!("type '{target}' does not support field selection"));
                Type::Dyn
            }
        };
        if inner.is_some() || optional { Type::optional(result) } else { result }
    }

    fn field_type(&mut self, id: u32, type_name: &str, field: &str) -> Option<Type> {
        let provider = self.env.provider.as_ref().filter(|provider| provider.has_type(type_name));
        let Some(provider) = provider else {
            self.report(id, format!("unexpected failed resolution of '{type_name}'"));
            return None;
        };
        let type_ = provider.field(type_name, field);
        if type_.is_none() {
            self.report(id, format!("undefined field '{field}'"));
        }
        type_
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        let Kind::Call { function, target, args } = &mut expr.kind else { return Type::Error };
        if &**function == operators::OPT_SELECT && target.is_none() {
            return self.optional_select(id, args);
        }
        let mut types: Vec<Type> = args.iter_mut().map(|arg| self.check(arg)).collect();
        let Some(receiver) = target else {
            let Some(declared) = self.function(function) else {
                self.undeclared(id, function);
                return Type::Error;
            };
            *function = declared.name.into();
            return self.overload(id, declared, &mut types, args, false);
        };
        // A namespaced function looks like a method.
        if let Some(prefix) = receiver.qualified_name() {
            let name = format!("{prefix}.{function}");
            if let Some(declared) = self.function(&name) {
                *function = declared.name.into();
                *target = None;
                return self.overload(id, declared, &mut types, args, false);
            }
        }
        let receiver = self.check(receiver);
        let Some(declared) = self.function(function) else {
            self.undeclared(id, function);
            return Type::Error;
        };
        types.insert(0, receiver);
        self.overload(id, declared, &mut types, args, true)
    }

    fn function(&self, name: &str) -> Option<&'c Function> {
        let env = self.env;
        env.candidates(name).find_map(|candidate| env.functions.get(candidate.as_ref()))
    }

    fn optional_select(&mut self, id: u32, args: &mut [Expr]) -> Type {
        let [operand, field] = args else { return Type::Error };
        let field = match &field.kind {
            Kind::Literal(Value::String(name)) => {
                let name = name.to_string();
                if let Some(slot) = self.types.get_mut(field.id as usize) {
                    *slot = Some(Type::String);
                }
                name
            }
            _ => return Type::Error,
        };
        let result = self.field(id, operand, &field, true);
        if let Some(function) = self.function(operators::OPT_SELECT) {
            self.refer(id, Reference::Overloads(function.overloads.clone()));
        }
        self.unifier.substitute(&result, false)
    }

    /// The type of a call, and the overloads that it may run.
    fn overload(
        &mut self,
        id: u32,
        function: &Function,
        types: &mut [Type],
        args: &[Expr],
        member: bool,
    ) -> Type {
        let logical = matches!(function.name, operators::AND | operators::OR);
        let mut result: Option<Type> = None;
        let mut matching = Vec::new();
        for overload in function.overloads.iter().filter(|overload| overload.member == member) {
            if logical {
                let mut fits = true;
                for (arg, type_) in args.iter().zip(&*types) {
                    if !self.unifier.assignable(type_, &Type::Bool) {
                        self.mismatch(arg.id, &Type::Bool, type_);
                        fits = false;
                    }
                }
                if !fits {
                    return Type::Error;
                }
                self.refer(id, Reference::Overloads(vec![overload.clone()]));
                return Type::Bool;
            }
            if overload.arguments.len() != types.len() {
                continue;
            }
            let (declared, returned) = self.unifier.instantiate(overload);
            if self.unifier.assignable_list(types, &declared) {
                matching.push(overload.clone());
                let returned = self.unifier.substitute(&returned, false);
                result = Some(match result {
                    None => returned,
                    Some(first) if first.is_dyn() || first == returned => first,
                    Some(_) => Type::Dyn,
                });
            }
        }
        match result {
            Some(result) => {
                self.refer(id, Reference::Overloads(matching));
                result
            }
            None => {
                for type_ in &mut *types {
                    *type_ = self.unifier.substitute(type_, true);
                }
                let (target, args) = if member { types.split_at(1) } else { (&[][..], &*types) };
                let args: Vec<String> = args.iter().map(Type::to_string).collect();
                let target: String = target.iter().map(|target| format!("{target}.")).collect();
                let signature = format!("{target}({})", args.join(", "));
                let name = function.name;
                let message =
                    format!("found no matching overload for '{name}' applied to '{signature}'");
                self.report(id, message);
                Type::Error
            }
        }
    }

    fn list(&mut self, elements: &mut [Expr], optional: &[usize]) -> Type {
        let mut joined = None;
        for (at, element) in elements.iter_mut().enumerate() {
            let type_ = self.check(element);
            let type_ = self.unwrap_optional(element.id, type_, optional.contains(&at));
            joined = Some(self.join(joined, type_));
        }
        Type::list(joined.unwrap_or_else(|| self.unifier.variable()))
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.check(&mut entry.key);
            keys = Some(self.join(keys, key));
            let value = self.check(&mut entry.value);
            let value = self.unwrap_optional(entry.value.id, value, entry.optional);
            values = Some(self.join(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.unifier.variable());
        let values = values.unwrap_or_else(|| self.unifier.variable());
        Type::map(keys, values)
    }

    /// The inner type of an optional element; others are reported.
    fn unwrap_optional(&mut self, id: u32, type_: Type, optional: bool) -> Type {
        if !optional {
            return type_;
        }
        match type_.optional_inner() {
            Some(inner) => inner.clone(),
            None => {
                if !type_.is_dyn() {
                    self.mismatch(id, &Type::optional(type_.clone()), &type_);
                }
                type_
            }
        }
    }

    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.unifier.assignable(&previous, &current) {
            return unify::most_general(&previous, &current).clone();
        }
        Type::Dyn
    }

    fn object(
        &mut self,
        id: u32,
        name: &Arc<str>,
        fields: &mut [FieldInit],
    ) -> (Type, Option<Arc<str>>) {
        let Some((resolved, type_, _)) = self.lookup(name) else {
            self.undeclared(id, name);
            return (Type::Error, None);
        };
        let result = match &type_ {
            Type::Type(Some(inner)) => match &**inner {
                Type::Struct(_) => (**inner).clone(),
                other => {
                    self.report(id, format!("'{}' is not a message type", other.name()));
                    Type::Error
                }
            },
            Type::Error => Type::Error,
            other => {
                self.report(id, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        for field in fields {
            let value = self.check(&mut field.value);
            let name = match &result {
                Type::Struct(name) => name,
                _ => &resolved,
            };
            let declared = self.field_type(field.id, name, &field.name);
            let value = self.unwrap_optional(field.value.id, value, field.optional);
            let declared = declared.unwrap_or(Type::Error);
            if !self.unifier.assignable(&declared, &value) {
                let name = &field.name;
                let message = format!(
                    "expected type of field '{name}' is '{declared}' but provided type is '{value}'"
                );
                self.report(field.id, message);
            }
        }
        (result, Some(resolved))
    }

    fn comprehension(&mut self, c: &mut Comprehension) -> Type {
        let range = self.check(&mut c.range);
        let init = self.check(&mut c.init);
        let range = self.unifier.substitute(&range, false);
        let (first, second) = match &range {
            Type::List(element) if c.var2.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.unifier.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, \
                     map, or dynamic)"
                );
                self.report(c.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let outer = self.locals.len();
        self.locals.push((c.accu.clone(), init.clone()));
        self.locals.push((c.var.clone(), first));
        if let Some(var2) = &c.var2 {
            self.locals.push((var2.clone(), second));
        }
        let condition = self.check(&mut c.condition);
        self.assert_type(c.condition.id, &Type::Bool, &condition);
        let step = self.check(&mut c.step);
        self.assert_type(c.step.id, &init, &step);
        self.locals.truncate(outer + 1);
        let result = self.check(&mut c.result);
        self.locals.truncate(outer);
        self.unifier.substitute(&result, false)
    }

    fn assert_type(&mut self, id: u32, expected: &Type, actual: &Type) {
        if !self.unifier.assignable(expected, actual) {
            self.mismatch(id, expected, actual);
        }
    }

    fn refer(&mut self, id: u32, reference: Reference) {
        if let Some(slot) = self.references.get_mut(id as usize) {
            *slot = Some(reference);
        }
    }

    fn mismatch(&mut self, id: u32, expected: &Type, actual: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{actual}'"));
    }

    fn undeclared(&mut self, id: u32, name: &str) {
        let container = &self.env.container;
        self.report(id, format!("undeclared reference to '{name}' (in container '{container}')"));
    }

    fn report(&mut self, id: u32, message: String) {
        let location: Location = self.ast.location(id);
        self.issues.report(location, message);
    }
}

fn literal_type(value: &Value<'_>) -> Type {
    match value {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Null,
    }
}
