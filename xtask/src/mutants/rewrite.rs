//! Rewrites the source of an operator so that one build has all its mutants: what can be changed becomes
//! a branch on the number of the active mutant.
//!
//! The text is changed only by insertions at places of its syntax tree, so the lines stay as they are.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;

use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Lit, Signature, Stmt, UnOp};

use super::edits::{self, Edit, one_line};

/// A change of the operator.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    pub(super) number: usize,
    pub(super) line: usize,
    pub(super) function: String,
    /// What is changed, as in the list of equivalent mutants.
    pub(super) description: String,
}

/// A source file and its mutants.
pub(super) struct Source {
    text: String,
    edits: Vec<Edit>,
    pub(super) mutants: Vec<Mutant>,
}

/// The arguments of these are texts for people: Events, and messages of webhooks.
const TEXTS: &[&str] = &["event", "expect", "forbidden", "value"];

/// Functions with the reason and the message of a condition as arguments.
const REASONS: &[&str] = &["Err", "wait"];

/// Methods that register what a controller watches, and the one that takes fields over.
const REMOVED: &[&str] = &["force", "owns", "watches"];

/// Types with a default that a function can return.
const DEFAULTS: &[&str] = &["BTreeMap", "ConfigMap", "Deployment", "ObjectMeta", "Pod", "Service"];

/// What the names of simulations end with.
const SIMULATION: &str = "survives_faults";

const DONE: &str = "Ok(Action::done())";

impl Source {
    /// Finds the mutants of a file, except in the functions in `excluded`. Their numbers begin with
    /// `first`.
    ///
    /// # Errors
    /// If the text is not Rust.
    pub(super) fn new(text: &str, excluded: &[&str], first: usize) -> Result<Self, Box<dyn Error>> {
        let tree = syn::parse_file(text)?;
        let mut visitor = Visitor {
            source: Self { text: text.to_owned(), edits: Vec::new(), mutants: Vec::new() },
            excluded,
            next: first,
            constants: BTreeMap::new(),
            function: String::new(),
            counts: BTreeMap::new(),
            scope: Scope::Simulation,
            returns_action: false,
            text: false,
        };
        for item in &tree.items {
            if let syn::Item::Const(item) = item
                && let Expr::Lit(literal) = &*item.expr
            {
                let literal = match &literal.lit {
                    Lit::Str(it) => it.token(),
                    Lit::Int(it) => it.token(),
                    _ => continue,
                };
                visitor.constants.insert(item.ident.to_string(), literal);
            }
        }
        visitor.visit_file(&tree);
        Ok(visitor.source)
    }

    /// Returns the rewritten text, and for each edit its number and range in it.
    pub(super) fn render(&self) -> (String, Vec<(usize, Range<usize>)>) {
        edits::render(&self.text, &self.edits)
    }

    /// Drops a mutant, because it does not compile.
    pub(super) fn drop_mutant(&mut self, number: usize) {
        self.edits.retain(|edit| edit.number != number);
        self.mutants.retain(|mutant| mutant.number != number);
    }
}

/// Which mutants are made.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    /// None: a test.
    Test,
    /// Only those of what is registered.
    Simulation,
    Operator,
}

struct Visitor<'a> {
    source: Source,
    excluded: &'a [&'a str],
    next: usize,
    /// The constants of the file, which are changed where they are used.
    constants: BTreeMap<String, Literal>,
    function: String,
    /// How often there is the same description in a function.
    counts: BTreeMap<(String, String), usize>,
    scope: Scope,
    /// Whether `return Ok(Action::done())` is possible.
    returns_action: bool,
    /// Whether literals are texts for people.
    text: bool,
}

impl Visitor<'_> {
    /// Returns the text of a part, in one line and without comments.
    fn code(&self, span: Span) -> String {
        let text = &self.source.text[span.byte_range()];
        match text.parse::<TokenStream>() {
            Ok(_) => one_line(text),
            Err(_) => String::new(),
        }
    }

    fn first_line(&self, span: Span) -> String {
        self.source.text[span.byte_range()].lines().next().unwrap_or_default().to_owned()
    }

    fn mutant(&mut self, span: Span, description: String) -> usize {
        let number = self.next;
        self.next += 1;
        let (line, function) = (span.start().line, self.function.clone());
        let earlier = self.counts.entry((function.clone(), description.clone())).or_insert(0);
        *earlier += 1;
        // The list of equivalent mutants names each of them.
        let description = match *earlier {
            1 => description,
            nth => format!("{description} #{nth}"),
        };
        self.source.mutants.push(Mutant { number, line, function, description });
        number
    }

    fn edit(&mut self, number: usize, range: Range<usize>, before: String, after: &str) {
        let edit = Edit { number, range, before, cut: 0, after: after.to_owned() };
        self.source.edits.push(edit);
    }

    /// Replaces an expression.
    fn replace(&mut self, span: Span, by: &str) {
        if self.scope != Scope::Operator {
            return;
        }
        let number = self.mutant(span, format!("replace `{}` by `{by}`", self.code(span)));
        let before = format!("(if {} {{ {by} }} else {{ ", active(number));
        self.edit(number, span.byte_range(), before, " })");
    }

    /// Replaces a statement.
    fn replace_statement(&mut self, number: usize, span: Span, by: &str) {
        let before = format!("if {} {{ {by} }} else {{ ", active(number));
        self.edit(number, span.byte_range(), before, " }");
    }

    /// Forces a condition.
    fn condition(&mut self, condition: &Expr) {
        if self.scope != Scope::Operator {
            return;
        }
        if contains_let(condition) {
            let span = condition.span();
            let text = format!("replace condition `{}` by `false`", self.code(span));
            let number = self.mutant(span, text);
            let start = span.byte_range().start;
            self.edit(number, start..start, format!("!{} && ", active(number)), "");
            self.conditions_beside_let(condition);
        } else {
            self.replace(condition.span(), "true");
            self.replace(condition.span(), "false");
        }
    }

    /// Forces those parts of a condition to be true that bind nothing.
    fn conditions_beside_let(&mut self, condition: &Expr) {
        match condition {
            Expr::Binary(it) if contains_let(condition) => {
                self.conditions_beside_let(&it.left);
                self.conditions_beside_let(&it.right);
            }
            Expr::Let(_) => {}
            _ => self.replace(condition.span(), "true"),
        }
    }

    fn literal(&mut self, span: Span, literal: &Lit) {
        match literal {
            Lit::Str(it) if !self.text => self.replace(span, &format!("{:?}", it.value() + "x")),
            Lit::Int(it) => {
                if let Ok(value) = it.base10_parse::<i64>() {
                    self.replace(span, &format!("{}{}", value.saturating_add(1), it.suffix()));
                }
            }
            Lit::Bool(it) => self.replace(span, &format!("{}", !it.value)),
            _ => {}
        }
    }

    /// Changes a text with placeholders.
    fn format(&mut self, span: Span, arguments: &TokenStream) {
        let Some(TokenTree::Literal(format)) = arguments.clone().into_iter().next() else { return };
        let (code, format) = (self.code(span), format.to_string());
        if !self.text && format.starts_with('"') {
            let changed = format!("\"x{}", &format[1..]);
            self.replace(span, &code.replacen(&format, &changed, 1));
        }
    }

    /// Changes the values within `json!`.
    fn json(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let is = |at: usize, mark: char| match tokens.get(at) {
                Some(TokenTree::Punct(it)) => it.as_char() == mark,
                _ => false,
            };
            match token {
                TokenTree::Literal(it) if !is(index + 1, ':') => {
                    self.literal(it.span(), &Lit::new(it.clone()));
                }
                TokenTree::Ident(it) if it == "format" && is(index + 1, '!') => {
                    if let Some(TokenTree::Group(group)) = tokens.get(index + 2)
                        && let Some(span) = it.span().join(group.span())
                    {
                        self.format(span, &group.stream());
                    }
                }
                TokenTree::Group(group) if index < 2 || !is(index - 1, '!') => {
                    // The arguments of a call are no JSON.
                    let called = index > 0 && matches!(&tokens[index - 1], TokenTree::Ident(_));
                    if !called {
                        self.json(group.stream());
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns other values for the whole function.
    fn returns(&mut self, signature: &Signature, block: &Block) {
        let syn::ReturnType::Type(_, returned) = &signature.output else { return };
        let returned = self.code(returned.span());
        let outer = returned.split(['<', ' ']).next().unwrap_or_default();
        let values: &[&str] = match &*returned {
            "bool" => &["true", "false"],
            "i32" | "i64" | "usize" => &["0", "1"],
            "String" => &["String::from(\"xyzzy\")"],
            "Result<bool>" => &["Ok(true)", "Ok(false)"],
            "Result<()>" | "Result<(), Error>" => &["Ok(())"],
            it if it.starts_with("Result<Option<") => &["Ok(None)"],
            it if it.starts_with("Option<") => &["None"],
            _ if DEFAULTS.contains(&outer) => &["Default::default()"],
            _ => &[],
        };
        for value in values {
            self.returns_at_start(block, &format!("return `{value}` at once"), value);
        }
    }

    fn returns_at_start(&mut self, block: &Block, description: &str, value: &str) {
        let Some(first) = block.stmts.first() else { return };
        let number = self.mutant(first.span(), description.to_owned());
        let start = first.span().byte_range().start;
        self.edit(
            number,
            start..start,
            format!("if {} {{ return {value}; }} ", active(number)),
            "",
        );
    }

    fn function(&mut self, attributes: &[syn::Attribute], signature: &Signature, block: &Block) {
        let name = signature.ident.to_string();
        let is_test =
            attributes.iter().any(|it| it.path().segments.iter().any(|it| it.ident == "test"));
        let scope = match () {
            () if self.excluded.contains(&&*name) => Scope::Test,
            () if is_test && name.ends_with(SIMULATION) => Scope::Simulation,
            () if is_test => Scope::Test,
            () if name.starts_with("simulate") => Scope::Simulation,
            () if name == "main" => Scope::Test,
            () => Scope::Operator,
        };
        let before = (self.scope, self.returns_action, std::mem::replace(&mut self.function, name));
        self.scope = scope;
        if scope == Scope::Operator {
            self.returns(signature, block);
        }
        let returned = self.code(signature.output.span());
        self.returns_action = scope == Scope::Operator && returned.ends_with("Result<Action>");
        self.visit_block(block);
        (self.scope, self.returns_action, self.function) = before;
    }

    /// Visits code that returns something else than its function.
    fn inner(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.returns_action, false);
        visit(self);
        self.returns_action = before;
    }

    /// Visits code with texts for people.
    fn texts(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.text, true);
        visit(self);
        self.text = before;
    }

    fn statement(&mut self, statement: &Stmt, expression: &Expr) {
        if self.scope != Scope::Operator || !is_deletable(expression) {
            return;
        }
        let (span, code) = (statement.span(), self.code(expression.span()));
        let number = self.mutant(span, format!("delete `{code}`"));
        self.replace_statement(number, span, "");
        if let Expr::Try(it) = expression {
            let inner = self.code(it.expr.span());
            let number = self.mutant(span, format!("ignore the error of `{inner}`"));
            self.replace_statement(number, span, &format!("let _ = {inner};"));
        }
    }

    /// Leaves out an expression without a value that is no statement.
    fn effect(&mut self, expression: &Expr) {
        let code = self.code(expression.span());
        let is_unit = match expression {
            Expr::Assign(_) => true,
            Expr::Binary(it) => is_assignment(&it.op),
            Expr::Call(_) => code.starts_with("drop("),
            Expr::MethodCall(it) => it.method == "push",
            _ => code.ends_with(".map(drop)?"),
        };
        if is_unit && self.scope == Scope::Operator {
            let number = self.mutant(expression.span(), format!("delete `{code}`"));
            let before = format!("(if {} {{ }} else {{ ", active(number));
            self.edit(number, expression.span().byte_range(), before, " })");
        }
    }

    /// Exchanges two statements that follow each other.
    fn exchange(&mut self, first: &Stmt, second: &Stmt) {
        let called = |statement: &Stmt| matches!(statement, Stmt::Expr(Expr::Try(it), Some(_)) if is_deletable(&it.expr));
        if self.scope != Scope::Operator || !called(first) || !called(second) {
            return;
        }
        let (one, two) = (self.code(first.span()), self.code(second.span()));
        let number = self.mutant(first.span(), format!("exchange `{one}` and `{two}`"));
        self.replace_statement(number, first.span(), &two);
        self.replace_statement(number, second.span(), &one);
    }

    fn binary(&mut self, it: &syn::ExprBinary) {
        let other = match it.op {
            BinOp::Lt(_) => "<=",
            BinOp::Le(_) => "<",
            BinOp::Gt(_) => ">=",
            BinOp::Ge(_) => ">",
            BinOp::Eq(_) => "!=",
            BinOp::Ne(_) => "==",
            BinOp::And(_) if !contains_let(&it.left) && !contains_let(&it.right) => "||",
            BinOp::Or(_) => "&&",
            BinOp::Add(_) => "-",
            BinOp::Sub(_) => "+",
            BinOp::Mul(_) => "/",
            BinOp::Div(_) => "*",
            _ => return,
        };
        let (left, right) = (self.code(it.left.span()), self.code(it.right.span()));
        self.replace(it.span(), &format!("{left} {other} {right}"));
    }

    fn call(&mut self, it: &syn::ExprCall) {
        let name = self.code(it.func.span());
        if name == "Action::requeue_after" {
            self.replace(it.span(), "Action::done()");
        }
        let texts = match &*name {
            "Condition::new" => 2,
            name if REASONS.contains(&name) => 0,
            _ => usize::MAX,
        };
        for (index, argument) in it.args.iter().enumerate() {
            match index >= texts {
                true => self.texts(|this| this.visit_expr(argument)),
                false => self.visit_expr(argument),
            }
        }
    }

    fn method_call(&mut self, it: &syn::ExprMethodCall) {
        let method = it.method.to_string();
        if TEXTS.contains(&&*method) {
            return self.visit_expr(&it.receiver);
        }
        if REMOVED.contains(&&*method) && self.scope != Scope::Test {
            let (all, receiver) = (it.span().byte_range(), it.receiver.span().byte_range());
            let call = one_line(&self.source.text[receiver.end..all.end]);
            let number = self.mutant(it.method.span(), format!("delete `{call}`"));
            let before = "({ let it = ".to_owned();
            let after = format!("; if {} {{ it }} else {{ it{call} }} }})", active(number));
            let cut = all.end - receiver.end;
            self.source.edits.push(Edit { number, range: all, before, cut, after });
        }
        self.visit_expr(&it.receiver);
        it.args.iter().for_each(|argument| self.visit_expr(argument));
    }
}

impl Visit<'_> for Visitor<'_> {
    fn visit_item_fn(&mut self, it: &syn::ItemFn) {
        self.function(&it.attrs, &it.sig, &it.block);
    }

    fn visit_impl_item_fn(&mut self, it: &syn::ImplItemFn) {
        self.function(&it.attrs, &it.sig, &it.block);
    }

    // A constant expression cannot call a function.
    fn visit_item_const(&mut self, _: &syn::ItemConst) {}

    fn visit_attribute(&mut self, _: &syn::Attribute) {}

    // A pattern is no expression.
    fn visit_pat(&mut self, _: &syn::Pat) {}

    fn visit_type(&mut self, _: &syn::Type) {}

    fn visit_block(&mut self, block: &Block) {
        let begins = block.stmts.first().map(|it| self.first_line(it.span())).unwrap_or_default();
        // An Event is no behavior, nor is what ends anyway.
        if self.returns_action
            && !begins.contains(DONE)
            && !begins.starts_with("tracing::info!(difference")
        {
            self.returns_at_start(block, &format!("return `{DONE}` before `{begins}`"), DONE);
        }
        for (index, statement) in block.stmts.iter().enumerate() {
            if let Some(next) = block.stmts.get(index + 1) {
                self.exchange(statement, next);
            }
            match statement {
                Stmt::Expr(expression, Some(_)) => {
                    self.statement(statement, expression);
                    self.visit_expr(expression);
                }
                Stmt::Local(local) => {
                    let name = self.code(local.pat.span());
                    match name == "message" {
                        true => self.texts(|this| visit::visit_local(this, local)),
                        false => visit::visit_local(self, local),
                    }
                }
                Stmt::Macro(_) => {}
                _ => visit::visit_stmt(self, statement),
            }
        }
    }

    fn visit_arm(&mut self, arm: &syn::Arm) {
        if let syn::Pat::Guard(it) = &arm.pat {
            self.condition(&it.guard);
            self.visit_expr(&it.guard);
        }
        self.effect(&arm.body);
        self.visit_expr(&arm.body);
    }

    fn visit_expr(&mut self, expression: &Expr) {
        match expression {
            Expr::If(it) => self.condition(&it.cond),
            Expr::Binary(it) => self.binary(it),
            Expr::Unary(it) if matches!(it.op, UnOp::Not(_)) => {
                let operand = self.code(it.expr.span());
                self.replace(it.span(), &operand);
            }
            Expr::Lit(it) => self.literal(it.span(), &it.lit),
            Expr::Path(it) => {
                let name = it.path.get_ident().map(ToString::to_string).unwrap_or_default();
                if let Some(literal) = self.constants.get(&name) {
                    let literal = Lit::new(literal.clone());
                    self.literal(it.span(), &literal);
                }
            }
            Expr::Struct(it) if it.rest.is_some() => {
                for field in &it.fields {
                    let range = field.expr.span();
                    if field.colon_token.is_some() && self.scope == Scope::Operator {
                        let name = self.code(field.member.span());
                        let number = self.mutant(
                            range,
                            format!("delete field `{name}` of {}", self.code(it.path.span())),
                        );
                        let before =
                            format!("if {} {{ Default::default() }} else {{ ", active(number));
                        self.edit(number, range.byte_range(), before, " }");
                    }
                    self.visit_expr(&field.expr);
                }
                return;
            }
            Expr::Macro(it) => {
                let name = self.code(it.mac.path.span());
                match &*name {
                    "format" => self.format(it.span(), &it.mac.tokens),
                    "json" => self.json(it.mac.tokens.clone()),
                    "vec" => {
                        let parser =
                            syn::punctuated::Punctuated::<Expr, syn::Token![,]>::parse_terminated;
                        if let Ok(elements) = it.mac.parse_body_with(parser) {
                            elements.iter().for_each(|element| self.visit_expr(element));
                        }
                    }
                    _ => {}
                }
                return;
            }
            Expr::Call(it) => return self.call(it),
            Expr::MethodCall(it) => return self.method_call(it),
            // The key stays.
            Expr::Index(it) if matches!(&*it.index, Expr::Lit(it) if matches!(it.lit, Lit::Str(_))) =>
            {
                return self.visit_expr(&it.expr);
            }
            Expr::Closure(it) => {
                return self.inner(|this| {
                    this.effect(&it.body);
                    this.visit_expr(&it.body);
                });
            }
            Expr::Async(it) => return self.inner(|this| this.visit_block(&it.block)),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }
}

/// Returns the condition of a mutant.
fn active(number: usize) -> String {
    format!("::mutants::active({number})")
}

/// Whether a statement has an effect of its own that can be left out.
fn is_deletable(expression: &Expr) -> bool {
    match expression {
        Expr::Assign(_) => true,
        Expr::Binary(it) => is_assignment(&it.op),
        Expr::Try(it) => is_deletable(&it.expr),
        Expr::Await(it) => is_deletable(&it.base),
        Expr::MethodCall(it) => !TEXTS.contains(&&*it.method.to_string()),
        Expr::Call(_) => true,
        _ => false,
    }
}

fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_)
    )
}

fn contains_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(it) => contains_let(&it.left) || contains_let(&it.right),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
