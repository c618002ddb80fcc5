//! Parser: the text of an expression to a syntax tree without macros.
//!
//! Grammar, limits and positions are cel-go's. Two limits bound the depth of a tree, both 250: one of
//! nested rules of the grammar, one of nested operators, selections and calls in the result. After a
//! syntax error parsing ends, where cel-go tries to continue; only after that of a conditional inside
//! another one does it continue, too. Reserved names, malformed literals and misused macros do not end it.

use std::sync::Arc;

use self::chain::Chain;
use self::lexer::{Token, TokenKind, tokens};
use crate::Value;
use crate::ast::{Ast, Entry, Expr, FieldInit, Kind, operators};
use crate::source::{Issues, Location};
use crate::value::{Bytes, Str};

mod chain;
mod cursor;
mod lexer;
mod literal;
mod macros;

/// What the parser accepts beside the standard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// `a.?b`, `a[?b]`, `optMap`, `optFlatMap`.
    pub(crate) optional_types: bool,
    /// `list.all(i, v, …)`, `transformMap` and the like.
    pub(crate) two_variable_comprehensions: bool,
    /// `cel.bind(name, value, …)`.
    pub(crate) bindings: bool,
    /// `list.sortBy(e, …)`.
    pub(crate) sort_by: bool,
    /// Field names in backticks.
    pub(crate) escaped_identifiers: bool,
}

/// The depth of nested rules and of trees.
const MAX_DEPTH: usize = 250;
/// The number of characters of an expression.
const MAX_SIZE: usize = 100_000;

/// The variable in which comprehensions accumulate.
pub(crate) const ACCUMULATOR: &str = "@result";

/// Words that are not identifiers.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Returns whether a word cannot be an identifier, because it is a keyword of the language or
/// reserved for one.
///
/// ```
/// assert!(evenkeel_cel::is_reserved("in"));
/// assert!(!evenkeel_cel::is_reserved("self"));
/// ```
#[must_use]
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Parses an expression; the tree has no types yet.
pub(crate) fn parse(text: &str, syntax: Syntax) -> Result<Ast, Issues> {
    let source: Arc<str> = text.into();
    let mut issues = Issues::new(source.clone());
    let size = text.chars().count();
    if size > MAX_SIZE {
        let limit =
            format!("expression code point size exceeds limit: size: {size}, limit {MAX_SIZE}");
        issues.report(Location::NONE, limit);
        return Err(issues);
    }
    let tokens = tokens(text, &mut issues);
    let mut parser = Parser {
        text,
        syntax,
        tokens,
        at: 0,
        positions: vec![0],
        issues,
        depths: [0; 3],
        resumes: None,
        resumed: false,
    };
    // An error ends the parse; what it is was reported.
    let root = parser.start().ok();
    let Parser { issues, positions, .. } = parser;
    issues.finish()?;
    let root = root.unwrap_or_else(|| unspecified(0));
    Ok(Ast { source, root, positions, types: Vec::new(), references: Vec::new() })
}

struct Parser<'t> {
    text: &'t str,
    syntax: Syntax,
    tokens: Vec<Token>,
    at: usize,
    /// Offsets by id; id 0 is not used.
    positions: Vec<u32>,
    issues: Issues,
    /// Depths of the recursive rules `expr`, `relation` and `calc`.
    depths: [usize; 3],
    /// Where an enclosing `expr` continues after an error.
    resumes: Option<usize>,
    /// Whether it has gone on.
    resumed: bool,
}

/// Parsing ended; the reason was reported.
struct Abort;

type Parse<T = Node> = Result<T, Abort>;

/// Arguments do not fit a macro, which was reported. Parsing continues.
struct Misuse;

fn unspecified(id: u32) -> Expr {
    Expr { id, kind: Kind::Unspecified }
}

/// A tree with the depth of its operators, selections and calls.
struct Node {
    /// Boxed, so that the frames of the recursive rules stay small.
    expr: Box<Expr>,
    depth: usize,
}

impl Node {
    fn new(expr: Expr, depth: usize) -> Self {
        Self { expr: Box::new(expr), depth }
    }
}

/// Rules of the grammar whose depth is limited.
#[derive(Clone, Copy)]
enum Rule {
    Expr,
    Relation,
    Calc,
}

impl Parser<'_> {
    fn start(&mut self) -> Parse<Expr> {
        let node = self.expr()?;
        if self.peek().kind != TokenKind::End {
            return Err(self.unexpected("<EOF>"));
        }
        Ok(*node.expr)
    }

    fn expr(&mut self) -> Parse {
        self.enter(Rule::Expr)?;
        let depths = self.depths;
        let condition = match self.disjunction() {
            Err(Abort) if self.resumes.take() == Some(self.at) => {
                self.depths = depths;
                self.resumed = true;
                let id = self.id(self.peek());
                Node::new(unspecified(id), 0)
            }
            parsed => parsed?,
        };
        let node = match self.take("?") {
            None => condition,
            Some(op) => {
                let then = self.disjunction()?;
                // As ANTLR does: a second `?` continues an expression around this one.
                let again = self.peek().is(TokenKind::Punctuation("?")).then_some(self.at);
                self.expect(":").inspect_err(|Abort| self.resumes = again)?;
                let otherwise = self.expr()?;
                let id = self.id(op);
                self.operation(id, operators::CONDITIONAL, vec![condition, then, otherwise])?
            }
        };
        self.leave(Rule::Expr);
        Ok(node)
    }

    /// A chain of `||` of chains of `&&`.
    fn disjunction(&mut self) -> Parse {
        let mut alternatives = Chain::default();
        loop {
            let mut terms = Chain::default();
            loop {
                let term = self.relation()?;
                terms.push(term);
                let Some(op) = self.take("&&") else { break };
                terms.ops.push(self.id(op));
            }
            alternatives.push(terms.balanced(operators::AND)?);
            let Some(op) = self.take("||") else { break };
            alternatives.ops.push(self.id(op));
        }
        alternatives.balanced(operators::OR)
    }

    fn relation(&mut self) -> Parse {
        self.enter(Rule::Relation)?;
        let mut left = self.calc(0)?;
        while let Some((op, function)) = self.take_relation() {
            let id = self.id(op);
            self.enter(Rule::Relation)?;
            let right = self.calc(0)?;
            self.leave(Rule::Relation);
            left = self.operation(id, function, vec![left, right])?;
        }
        self.leave(Rule::Relation);
        Ok(left)
    }

    fn take_relation(&mut self) -> Option<(Token, &'static str)> {
        let token = self.peek();
        let function = match token.kind {
            TokenKind::In => operators::IN,
            TokenKind::Punctuation(text) => match text {
                "<" => operators::LESS,
                "<=" => operators::LESS_EQUALS,
                ">" => operators::GREATER,
                ">=" => operators::GREATER_EQUALS,
                "==" => operators::EQUALS,
                "!=" => operators::NOT_EQUALS,
                _ => return None,
            },
            _ => return None,
        };
        self.at += 1;
        Some((token, function))
    }

    /// Sums, and products of higher precedence.
    fn calc(&mut self, precedence: u8) -> Parse {
        self.enter(Rule::Calc)?;
        let mut left = self.unary()?;
        while let TokenKind::Punctuation(text) = self.peek().kind {
            let (function, of_operator) = match text {
                "+" => (operators::ADD, 1),
                "-" => (operators::SUBTRACT, 1),
                "*" => (operators::MULTIPLY, 2),
                "/" => (operators::DIVIDE, 2),
                "%" => (operators::MODULO, 2),
                _ => break,
            };
            if of_operator <= precedence {
                break;
            }
            let op = self.advance();
            let id = self.id(op);
            let right = self.calc(of_operator)?;
            left = self.operation(id, function, vec![left, right])?;
        }
        self.leave(Rule::Calc);
        Ok(left)
    }

    fn unary(&mut self) -> Parse {
        for (text, function) in [("!", operators::NOT), ("-", operators::NEGATE)] {
            let Some(first) = self.peek_is(text).then(|| self.peek()) else { continue };
            if text == "-" && self.peek_at(1).is_number() {
                // The sign belongs to the literal.
                break;
            }
            let mut count = 0;
            while self.take(text).is_some() {
                count += 1;
            }
            let operand = self.member()?;
            if count % 2 == 0 {
                return Ok(operand);
            }
            let id = self.id(first);
            let depth = operand.depth;
            return Ok(Node::new(self.call(id, function, vec![*operand.expr]), depth));
        }
        self.member()
    }

    fn member(&mut self) -> Parse {
        let mut node = self.primary()?;
        loop {
            if let Some(dot) = self.take(".") {
                node = self.selection(node, dot)?;
            } else if let Some(bracket) = self.take("[") {
                let question = self.take("?");
                let id = self.id(bracket);
                self.expect_value(INDEX_START)?;
                let index = self.expr()?;
                self.expect("]")?;
                if question.is_some() && !self.syntax.optional_types {
                    return Err(self.report(bracket.start, "unsupported syntax '[?'"));
                }
                let function =
                    if question.is_some() { operators::OPT_INDEX } else { operators::INDEX };
                node = self.operation(id, function, vec![node, index])?;
            } else {
                return Ok(node);
            }
        }
    }

    /// A field or a method after a dot.
    fn selection(&mut self, operand: Node, dot: Token) -> Parse {
        let optional = self.take("?").is_some();
        let name = self.peek();
        let field = match name.kind {
            TokenKind::Identifier => self.text_of(name).to_owned(),
            TokenKind::EscapedIdentifier if self.syntax.escaped_identifiers => {
                self.text_of(name).trim_matches('`').to_owned()
            }
            TokenKind::EscapedIdentifier => {
                return Err(self.report(name.start, "unsupported syntax: '`'"));
            }
            _ => return Err(self.no_identifier(dot)),
        };
        self.at += 1;
        let depth = self.deeper(&operand)?;
        if name.kind == TokenKind::Identifier
            && !optional
            && let Some(open) = self.take("(")
        {
            let id = self.id(open);
            let (args, args_depth) = self.arguments()?;
            let depth = depth.max(args_depth + 1);
            self.limit(depth)?;
            let call = self.member_call(id, &field, *operand.expr, args);
            return Ok(Node::new(call.unwrap_or_else(|Misuse| unspecified(id)), depth));
        }
        if optional {
            if !self.syntax.optional_types {
                return Err(self.report(dot.start, "unsupported syntax '.?'"));
            }
            let id = self.id(dot);
            let literal = self.id(name);
            let field = Kind::Literal(Value::String(Str::Shared(field.into())));
            let field = Expr { id: literal, kind: field };
            return Ok(Node::new(
                self.call(id, operators::OPT_SELECT, vec![*operand.expr, field]),
                depth,
            ));
        }
        let id = self.id(dot);
        let kind = Kind::Select { operand: operand.expr, field: field.into(), test_only: false };
        Ok(Node::new(Expr { id, kind }, depth))
    }

    fn primary(&mut self) -> Parse {
        let token = self.peek();
        match token.kind {
            TokenKind::Punctuation("(") => {
                self.at += 1;
                let node = self.expr()?;
                self.expect(")")?;
                Ok(node)
            }
            TokenKind::Punctuation("[") => self.list(),
            TokenKind::Punctuation("{") => self.map(),
            TokenKind::Punctuation(".") | TokenKind::Identifier => self.name(),
            _ => self.literal(),
        }
    }

    /// An identifier, a call or an object: all begin with a name.
    fn name(&mut self) -> Parse {
        let first = self.peek();
        let dot = self.take(".");
        let token = self.peek();
        if token.kind != TokenKind::Identifier {
            return Err(match dot {
                Some(dot) => self.no_identifier(dot),
                None => self.unexpected(PRIMARY),
            });
        }
        if let Some(node) = self.object()? {
            return Ok(node);
        }
        self.at += 1;
        let id = self.text_of(token);
        if is_reserved(id) {
            let message = format!("reserved identifier: {id}");
            return Ok(self.invalid(first.start, message));
        }
        let name = if dot.is_some() { format!(".{id}") } else { id.to_owned() };
        if let Some(open) = self.take("(") {
            let id = self.id(open);
            let (args, depth) = self.arguments()?;
            let call = self.global_call(id, &name, args);
            return Ok(Node::new(call.unwrap_or_else(|Misuse| unspecified(id)), depth));
        }
        let id = self.id(token);
        Ok(Node::new(Expr { id, kind: Kind::Ident(name.into()) }, 0))
    }

    /// `a.b.C{field: value}`, if that is what follows.
    fn object(&mut self) -> Parse<Option<Node>> {
        let mut ahead = 0;
        while self.peek_at(ahead).is(TokenKind::Identifier)
            && self.peek_at(ahead + 1).is(TokenKind::Punctuation("."))
        {
            ahead += 2;
        }
        if !self.peek_at(ahead).is(TokenKind::Identifier)
            || !self.peek_at(ahead + 1).is(TokenKind::Punctuation("{"))
        {
            return Ok(None);
        }
        let leading = self.at > 0 && self.tokens[self.at - 1].kind == TokenKind::Punctuation(".");
        let mut name = String::new();
        if leading {
            name.push('.');
        }
        for token in &self.tokens[self.at..=self.at + ahead] {
            name.push_str(self.text_of(*token));
        }
        self.at += ahead + 1;
        let open = self.advance();
        let id = self.id(open);
        let (mut fields, mut depth) = (Vec::new(), 0);
        while !self.peek_is("}") {
            let optional = self.take("?");
            let token = self.peek();
            let field = match token.kind {
                TokenKind::Identifier => self.text_of(token).to_owned(),
                TokenKind::EscapedIdentifier if self.syntax.escaped_identifiers => {
                    self.text_of(token).trim_matches('`').to_owned()
                }
                TokenKind::EscapedIdentifier => {
                    return Err(self.report(token.start, "unsupported syntax: '`'"));
                }
                _ => {
                    return Err(self.unexpected("{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"));
                }
            };
            self.at += 1;
            let colon = self.expect(":")?;
            if let Some(optional) = optional
                && !self.syntax.optional_types
            {
                return Err(self.report(optional.start, "unsupported syntax '?'"));
            }
            let field_id = self.id(colon);
            let value = self.expr()?;
            depth = depth.max(value.depth);
            fields.push(FieldInit {
                id: field_id,
                name: field.into(),
                value: *value.expr,
                optional: optional.is_some(),
            });
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect_end("}", "{'}', ','}")?;
        let kind = Kind::Struct { name: name.into(), fields };
        Ok(Some(Node::new(Expr { id, kind }, depth)))
    }

    fn list(&mut self) -> Parse {
        let open = self.advance();
        let id = self.id(open);
        let (mut elements, mut optional, mut depth) = (Vec::new(), Vec::new(), 0);
        while !self.peek_is("]") {
            if let Some(question) = self.take("?") {
                if !self.syntax.optional_types {
                    return Err(self.report(question.start, "unsupported syntax '?'"));
                }
                optional.push(elements.len());
            }
            self.expect_value(if elements.is_empty() { LIST_START } else { PRIMARY })?;
            let element = self.expr()?;
            depth = depth.max(element.depth);
            elements.push(*element.expr);
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect_end("]", "{']', ','}")?;
        Ok(Node::new(Expr { id, kind: Kind::List { elements, optional } }, depth))
    }

    fn map(&mut self) -> Parse {
        let open = self.advance();
        let id = self.id(open);
        let (mut entries, mut depth) = (Vec::new(), 0);
        while !self.peek_is("}") {
            let optional = self.take("?");
            if let Some(question) = optional
                && !self.syntax.optional_types
            {
                return Err(self.report(question.start, "unsupported syntax '?'"));
            }
            self.expect_value(if entries.is_empty() { MAP_START } else { PRIMARY })?;
            let key = self.expr()?;
            self.expect(":")?;
            let value = self.expr()?;
            depth = depth.max(key.depth).max(value.depth);
            entries.push(Entry {
                key: *key.expr,
                value: *value.expr,
                optional: optional.is_some(),
            });
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect_end("}", "{'}', ','}")?;
        Ok(Node::new(Expr { id, kind: Kind::Map { entries } }, depth))
    }

    /// Arguments up to the closing parenthesis.
    fn arguments(&mut self) -> Parse<(Vec<Expr>, usize)> {
        let (mut args, mut depth) = (Vec::new(), 0);
        if self.take(")").is_some() {
            return Ok((args, depth));
        }
        self.expect_value(ARGUMENTS_START)?;
        loop {
            let arg = self.expr()?;
            depth = depth.max(arg.depth);
            args.push(*arg.expr);
            if self.take(",").is_none() {
                break;
            }
        }
        // What ANTLR expects after an error is what the innermost rule expects.
        self.expect_end(")", if self.resumed { "')'" } else { "{')', ','}" })?;
        Ok((args, depth))
    }

    fn literal(&mut self) -> Parse {
        let first = self.peek();
        let negative = self.peek_is("-");
        if negative {
            self.at += 1;
        }
        let token = self.peek();
        let text = self.text_of(token);
        let value = match token.kind {
            TokenKind::Int => literal::int(text, negative).ok_or("invalid int literal"),
            TokenKind::Uint if !negative => literal::uint(text).ok_or("invalid uint literal"),
            TokenKind::Float => literal::double(text, negative).ok_or("invalid double literal"),
            TokenKind::String if !negative => literal::unescape(text, false).and_then(|bytes| {
                let text = String::from_utf8(bytes).map_err(|_| "unable to unescape string")?;
                Ok(Value::String(Str::Shared(text.into())))
            }),
            TokenKind::Bytes if !negative => literal::unescape(&text[1..], true)
                .map(|bytes| Value::Bytes(Bytes::Shared(bytes.into()))),
            TokenKind::True if !negative => Ok(Value::Bool(true)),
            TokenKind::False if !negative => Ok(Value::Bool(false)),
            TokenKind::Null if !negative => Ok(Value::Null),
            _ => return Err(self.unexpected(PRIMARY)),
        };
        self.at += 1;
        match value {
            Ok(value) => {
                let id = self.id(first);
                Ok(Node::new(Expr { id, kind: Kind::Literal(value) }, 0))
            }
            Err(message) => Ok(self.invalid(first.start, message)),
        }
    }
}

/// What may begin a value, as messages list it.
const PRIMARY: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// What may follow `a[`.
const INDEX_START: &str = "{'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// What may follow `f(`.
const ARGUMENTS_START: &str = "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// What may follow `[`.
const LIST_START: &str = "{'[', ']', '{', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// What may follow `{`.
const MAP_START: &str = "{'[', '{', '}', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
