//! Macros: calls that stand for other expressions.
//!
//! Expansions are those of cel-go, node by node, because static costs depend on them.

use std::sync::Arc;

use super::{ACCUMULATOR, Misuse, Parser};
use crate::Value;
use crate::ast::{Comprehension, Expr, Kind, operators};

type Expand<T> = Result<T, Misuse>;

/// The accumulator of earlier versions, which iteration variables may not shadow either.
const OLD_ACCUMULATOR: &str = "__result__";
/// The number of nodes of an expression with copies that macros make.
const MAX_NODES: usize = 200_000;
/// The variable of comprehensions that do not iterate.
const UNUSED: &str = "#unused";

impl Parser<'_> {
    pub(super) fn global_call(&mut self, id: u32, function: &str, args: Vec<Expr>) -> Expand<Expr> {
        if function == "has" && args.len() == 1 {
            let [argument] = <[Expr; 1]>::try_from(args).map_err(|_| Misuse)?;
            let at = argument.id;
            return match argument.kind {
                Kind::Select { operand, field, test_only: false } => {
                    Ok(self.node(id, Kind::Select { operand, field, test_only: true }))
                }
                _ => Err(self.misuse(at, "invalid argument to has() macro")),
            };
        }
        Ok(self.call(id, function, args))
    }

    pub(super) fn member_call(
        &mut self,
        id: u32,
        function: &str,
        target: Expr,
        args: Vec<Expr>,
    ) -> Expand<Expr> {
        let two_variables = self.syntax.two_variable_comprehensions;
        let optional = self.syntax.optional_types;
        match (function, args.len()) {
            ("all" | "exists" | "exists_one", 2) => self.quantifier(id, function, target, args, 1),
            ("all" | "exists" | "exists_one" | "existsOne", 3) if two_variables => {
                self.quantifier(id, function, target, args, 2)
            }
            ("map", 2 | 3) => self.list_macro(id, target, args, 1),
            ("transformList", 3 | 4) if two_variables => self.list_macro(id, target, args, 2),
            ("filter", 2) => self.filter(id, target, args),
            ("transformMap", 3 | 4) if two_variables => self.map_macro(id, target, args, false),
            ("transformMapEntry", 3 | 4) if two_variables => self.map_macro(id, target, args, true),
            ("optMap", 2) if optional => self.opt_map(id, target, args, false),
            ("optFlatMap", 2) if optional => self.opt_map(id, target, args, true),
            ("sortBy", 2) if self.syntax.sort_by => self.sort_by(id, target, args),
            ("bind", 3)
                if self.syntax.bindings
                    && target.as_ident().is_some_and(|name| &**name == "cel") =>
            {
                self.bind(id, args)
            }
            _ => {
                let target = Some(Box::new(target));
                Ok(Expr { id, kind: Kind::Call { function: function.into(), target, args } })
            }
        }
    }

    fn quantifier(
        &mut self,
        id: u32,
        function: &str,
        range: Expr,
        args: Vec<Expr>,
        variables: usize,
    ) -> Expand<Expr> {
        let (var, var2) = self.variables(&args, variables, "argument must be a simple name")?;
        let predicate = args.into_iter().next_back().ok_or(Misuse)?;
        let (init, condition, step, result);
        match function {
            "all" => {
                init = self.value(id, Value::Bool(true));
                let accu = self.accu(id);
                condition = self.make(id, operators::NOT_STRICTLY_FALSE, vec![accu]);
                let accu = self.accu(id);
                step = self.make(id, operators::AND, vec![accu, predicate]);
                result = self.accu(id);
            }
            "exists" => {
                init = self.value(id, Value::Bool(false));
                let accu = self.accu(id);
                let not = self.make(id, operators::NOT, vec![accu]);
                condition = self.make(id, operators::NOT_STRICTLY_FALSE, vec![not]);
                let accu = self.accu(id);
                step = self.make(id, operators::OR, vec![accu, predicate]);
                result = self.accu(id);
            }
            _ => {
                init = self.value(id, Value::Int(0));
                condition = self.value(id, Value::Bool(true));
                let (accu, one) = (self.accu(id), self.value(id, Value::Int(1)));
                let add = self.make(id, operators::ADD, vec![accu, one]);
                let accu = self.accu(id);
                step = self.make(id, operators::CONDITIONAL, vec![predicate, add, accu]);
                let (accu, one) = (self.accu(id), self.value(id, Value::Int(1)));
                result = self.make(id, operators::EQUALS, vec![accu, one]);
            }
        }
        let accu = ACCUMULATOR.into();
        Ok(self.comprehension(
            id,
            Comprehension { range, var, var2, accu, init, condition, step, result },
        ))
    }

    /// `map` and `transformList`, with an optional filter.
    fn list_macro(
        &mut self,
        id: u32,
        range: Expr,
        args: Vec<Expr>,
        variables: usize,
    ) -> Expand<Expr> {
        let message = match variables {
            1 => "argument is not an identifier",
            _ => "argument must be a simple name",
        };
        let (var, var2) = self.variables(&args, variables, message)?;
        let (filter, transform) = split(args, variables)?;
        let init = self.list_of(id, Vec::new());
        let accu = self.accu(id);
        let element = self.list_of(id, vec![transform]);
        let step = self.make(id, operators::ADD, vec![accu, element]);
        self.collect(id, range, var, var2, init, filter, step)
    }

    fn filter(&mut self, id: u32, range: Expr, args: Vec<Expr>) -> Expand<Expr> {
        let (var, _) = self.variables(&args, 1, "argument is not an identifier")?;
        let [element, filter] = <[Expr; 2]>::try_from(args).map_err(|_| Misuse)?;
        let init = self.list_of(id, Vec::new());
        let accu = self.accu(id);
        let element = self.list_of(id, vec![element]);
        let step = self.make(id, operators::ADD, vec![accu, element]);
        self.collect(id, range, var, None, init, Some(filter), step)
    }

    /// `transformMap` and `transformMapEntry`.
    fn map_macro(&mut self, id: u32, range: Expr, args: Vec<Expr>, entry: bool) -> Expand<Expr> {
        let (var, var2) = self.variables(&args, 2, "argument must be a simple name")?;
        let (filter, transform) = split(args, 2)?;
        let init = self.node(id, Kind::Map { entries: Vec::new() });
        let mut insert = vec![self.accu(id)];
        if !entry {
            insert.push(self.node(id, Kind::Ident(var.clone())));
        }
        insert.push(transform);
        let step = self.make(id, operators::MAP_INSERT, insert);
        self.collect(id, range, var, var2, init, filter, step)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a comprehension")]
    fn collect(
        &mut self,
        id: u32,
        range: Expr,
        var: Arc<str>,
        var2: Option<Arc<str>>,
        init: Expr,
        filter: Option<Expr>,
        step: Expr,
    ) -> Expand<Expr> {
        let condition = self.value(id, Value::Bool(true));
        let step = match filter {
            None => step,
            Some(filter) => {
                let accu = self.accu(id);
                self.make(id, operators::CONDITIONAL, vec![filter, step, accu])
            }
        };
        let result = self.accu(id);
        let accu = ACCUMULATOR.into();
        Ok(self.comprehension(
            id,
            Comprehension { range, var, var2, accu, init, condition, step, result },
        ))
    }

    fn opt_map(&mut self, id: u32, target: Expr, args: Vec<Expr>, flat: bool) -> Expand<Expr> {
        let [name, body] = <[Expr; 2]>::try_from(args).map_err(|_| Misuse)?;
        let Some(var) = name.as_ident().cloned() else {
            let function = if flat { "optFlatMap" } else { "optMap" };
            let message = format!("{function}() variable name must be a simple identifier");
            return Err(self.misuse(name.id, message));
        };
        // The target occurs twice, so nested calls would double it each time.
        let mut nodes = 0;
        target.walk(&mut |_| nodes += 1);
        if self.positions.len() + nodes > MAX_NODES {
            return Err(self.misuse(id, format!("expression node limit exceeded: {MAX_NODES}")));
        }
        let copy = self.copy(&target);
        let member = |target: Expr, function: &str| Kind::Call {
            function: function.into(),
            target: Some(Box::new(target)),
            args: Vec::new(),
        };
        let has_value = self.node(id, member(target, "hasValue"));
        let value = self.node(id, member(copy, "value"));
        let mut mapped = self.let_in(id, var, value, body);
        if !flat {
            mapped = self.make(id, "optional.of", vec![mapped]);
        }
        let none = self.make(id, "optional.none", Vec::new());
        Ok(self.make(id, operators::CONDITIONAL, vec![has_value, mapped, none]))
    }

    fn bind(&mut self, id: u32, args: Vec<Expr>) -> Expand<Expr> {
        let [name, value, body] = <[Expr; 3]>::try_from(args).map_err(|_| Misuse)?;
        let Some(var) = name.as_ident().cloned() else {
            return Err(
                self.misuse(name.id, "cel.bind() variable names must be simple identifiers")
            );
        };
        Ok(self.let_in(id, var, value, body))
    }

    /// Sorts a list by the keys that a `map` computes.
    fn sort_by(&mut self, id: u32, target: Expr, args: Vec<Expr>) -> Expand<Expr> {
        if matches!(target.kind, Kind::Literal(_) | Kind::Map { .. } | Kind::Struct { .. }) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select \
                           expression";
            return Err(self.misuse(target.id, message));
        }
        let name: Arc<str> = "@__sortBy_input__".into();
        let range = self.node(id, Kind::Ident(name.clone()));
        let keys = self.list_macro(id, range, args, 1)?;
        let receiver = self.node(id, Kind::Ident(name.clone()));
        let sorted = Kind::Call {
            function: "@sortByAssociatedKeys".into(),
            target: Some(Box::new(receiver)),
            args: vec![keys],
        };
        let sorted = self.node(id, sorted);
        Ok(self.let_in(id, name, target, sorted))
    }

    /// A comprehension that does not iterate: it binds its accumulator.
    fn let_in(&mut self, id: u32, accu: Arc<str>, init: Expr, result: Expr) -> Expr {
        let range = self.list_of(id, Vec::new());
        let condition = self.value(id, Value::Bool(false));
        let step = self.node(id, Kind::Ident(accu.clone()));
        let var = UNUSED.into();
        self.comprehension(
            id,
            Comprehension { range, var, var2: None, accu, init, condition, step, result },
        )
    }

    /// The names of one or two iteration variables.
    fn variables(
        &mut self,
        args: &[Expr],
        count: usize,
        not_a_name: &str,
    ) -> Expand<(Arc<str>, Option<Arc<str>>)> {
        let mut names: Vec<Arc<str>> = Vec::with_capacity(2);
        for arg in &args[..count] {
            match arg.as_ident() {
                Some(name) => names.push(name.clone()),
                None => return Err(self.misuse(arg.id, not_a_name)),
            }
        }
        if let [first, second] = &names[..]
            && first == second
        {
            return Err(self.misuse(args[1].id, format!("duplicate variable name: {first}")));
        }
        for (arg, name) in args.iter().zip(&names) {
            if matches!(&**name, ACCUMULATOR | OLD_ACCUMULATOR) {
                let message = "iteration variable overwrites accumulator variable";
                return Err(self.misuse(arg.id, message));
            }
        }
        let mut names = names.into_iter();
        Ok((names.next().ok_or(Misuse)?, names.next()))
    }

    // Nodes of expansions are at the position of the call.

    fn node(&mut self, at: u32, kind: Kind) -> Expr {
        let offset = self.positions.get(at as usize).copied().unwrap_or_default();
        Expr { id: self.id_at(offset), kind }
    }

    fn make(&mut self, at: u32, function: &str, args: Vec<Expr>) -> Expr {
        self.node(at, Kind::Call { function: function.into(), target: None, args })
    }

    fn value(&mut self, at: u32, value: Value<'static>) -> Expr {
        self.node(at, Kind::Literal(value))
    }

    fn accu(&mut self, at: u32) -> Expr {
        self.node(at, Kind::Ident(ACCUMULATOR.into()))
    }

    fn list_of(&mut self, at: u32, elements: Vec<Expr>) -> Expr {
        self.node(at, Kind::List { elements, optional: Vec::new() })
    }

    fn comprehension(&mut self, at: u32, comprehension: Comprehension) -> Expr {
        self.node(at, Kind::Comprehension(Box::new(comprehension)))
    }

    /// The same tree with ids of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let kind = match &expr.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => expr.kind.clone(),
            Kind::Select { operand, field, test_only } => Kind::Select {
                operand: Box::new(self.copy(operand)),
                field: field.clone(),
                test_only: *test_only,
            },
            Kind::Call { function, target, args } => Kind::Call {
                function: function.clone(),
                target: target.as_ref().map(|target| Box::new(self.copy(target))),
                args: args.iter().map(|arg| self.copy(arg)).collect(),
            },
            Kind::List { elements, optional } => Kind::List {
                elements: elements.iter().map(|element| self.copy(element)).collect(),
                optional: optional.clone(),
            },
            Kind::Map { entries } => Kind::Map {
                entries: entries
                    .iter()
                    .map(|entry| crate::ast::Entry {
                        key: self.copy(&entry.key),
                        value: self.copy(&entry.value),
                        optional: entry.optional,
                    })
                    .collect(),
            },
            Kind::Struct { name, fields } => Kind::Struct {
                name: name.clone(),
                fields: fields
                    .iter()
                    .map(|field| {
                        let value = self.copy(&field.value);
                        let offset = self.positions.get(field.id as usize).copied();
                        crate::ast::FieldInit {
                            id: self.id_at(offset.unwrap_or_default()),
                            name: field.name.clone(),
                            value,
                            optional: field.optional,
                        }
                    })
                    .collect(),
            },
            Kind::Comprehension(c) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(&c.range),
                var: c.var.clone(),
                var2: c.var2.clone(),
                accu: c.accu.clone(),
                init: self.copy(&c.init),
                condition: self.copy(&c.condition),
                step: self.copy(&c.step),
                result: self.copy(&c.result),
            })),
        };
        let offset = self.positions.get(expr.id as usize).copied().unwrap_or_default();
        Expr { id: self.id_at(offset), kind }
    }

    fn misuse(&mut self, at: u32, message: impl Into<String>) -> Misuse {
        let offset = self.positions.get(at as usize).copied().unwrap_or_default();
        self.report(offset, message);
        Misuse
    }
}

/// The optional filter and the transformation after the variables.
fn split(args: Vec<Expr>, variables: usize) -> Expand<(Option<Expr>, Expr)> {
    let mut rest = args.into_iter().skip(variables);
    let first = rest.next().ok_or(Misuse)?;
    Ok(match rest.next() {
        Some(transform) => (Some(first), transform),
        None => (None, first),
    })
}
