//! The parser's place in the text: tokens, ids of expressions, limits and syntax errors.

use super::lexer::{Token, TokenKind, escape};
use super::{Abort, MAX_DEPTH, Node, Parse, Parser, Rule, unspecified};
use crate::ast::{Expr, Kind};
use crate::source::Location;

impl Parser<'_> {
    pub(super) fn peek(&self) -> Token {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Token {
        // The last token is the end, which is never passed.
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    pub(super) fn peek_is(&self, text: &'static str) -> bool {
        self.peek().is(TokenKind::Punctuation(text))
    }

    pub(super) fn advance(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    pub(super) fn take(&mut self, text: &'static str) -> Option<Token> {
        self.peek_is(text).then(|| self.advance())
    }

    pub(super) fn expect(&mut self, text: &'static str) -> Parse<Token> {
        if let Some(token) = self.take(text) {
            return Ok(token);
        }
        // ANTLR reports a token as missing if what follows it is there.
        let token = self.peek();
        let missing = match text {
            ":" => token.begins_value(),
            // After a conditional that was completed, a second `:` follows nothing.
            _ if self.resumed && token.is(TokenKind::Punctuation(":")) => false,
            _ => token.follows_value(),
        };
        if missing {
            let found = self.found(token);
            return Err(
                self.report(token.start, format!("Syntax error: missing '{text}' at '{found}'"))
            );
        }
        Err(self.unexpected(&format!("'{text}'")))
    }

    /// The end of a list of elements.
    pub(super) fn expect_end(&mut self, text: &'static str, expected: &str) -> Parse<Token> {
        match self.take(text) {
            Some(token) => Ok(token),
            None => Err(self.unexpected(expected)),
        }
    }

    /// Reports a token that does not begin a value, with what may be at this place.
    pub(super) fn expect_value(&mut self, expected: &str) -> Parse<()> {
        if self.peek().begins_value() { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    pub(super) fn text_of(&self, token: Token) -> &str {
        self.text.get(token.start as usize..token.end as usize).unwrap_or_default()
    }

    pub(super) fn id(&mut self, token: Token) -> u32 {
        self.id_at(token.start)
    }

    pub(super) fn id_at(&mut self, offset: u32) -> u32 {
        self.positions.push(offset);
        u32::try_from(self.positions.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn enter(&mut self, rule: Rule) -> Parse<()> {
        let depth = &mut self.depths[rule as usize];
        *depth += 1;
        if *depth > MAX_DEPTH {
            let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            self.issues.report(Location::NONE, message);
            return Err(Abort);
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, rule: Rule) {
        self.depths[rule as usize] -= 1;
    }

    /// The depth of a tree around `node`.
    pub(super) fn deeper(&mut self, node: &Node) -> Parse<usize> {
        self.limit(node.depth + 1)?;
        Ok(node.depth + 1)
    }

    pub(super) fn limit(&mut self, depth: usize) -> Parse<()> {
        if depth > MAX_DEPTH {
            self.issues.report(Location::NONE, "max recursion depth exceeded");
            return Err(Abort);
        }
        Ok(())
    }

    pub(super) fn operation(&mut self, id: u32, function: &str, args: Vec<Node>) -> Parse {
        let depth = args.iter().map(|arg| arg.depth).max().unwrap_or_default() + 1;
        self.limit(depth)?;
        let args = args.into_iter().map(|arg| *arg.expr).collect();
        Ok(Node::new(self.call(id, function, args), depth))
    }

    pub(super) fn call(&self, id: u32, function: &str, args: Vec<Expr>) -> Expr {
        Expr { id, kind: Kind::Call { function: function.into(), target: None, args } }
    }

    pub(super) fn report(&mut self, offset: u32, message: impl Into<String>) -> Abort {
        self.issues.report(Location::of(self.text, offset as usize), message);
        Abort
    }

    /// Reports what is grammatical but not valid; the parser continues.
    pub(super) fn invalid(&mut self, offset: u32, message: impl Into<String>) -> Node {
        let Abort = self.report(offset, message);
        let id = self.id_at(offset);
        Node::new(unspecified(id), 0)
    }

    /// The next token does not continue the expression.
    pub(super) fn unexpected(&mut self, expected: &str) -> Abort {
        let token = self.peek();
        let found = self.found(token);
        // ANTLR reports a token that could be left out as extraneous.
        let extraneous = match expected {
            "<EOF>" => self.peek_at(1).is(TokenKind::End) && !token.is(TokenKind::End),
            _ if !expected.ends_with("IDENTIFIER}") || expected.contains("ESC_") => false,
            // After an operator of one operand, ANTLR reports the end itself as superfluous.
            _ if token.is(TokenKind::End) => {
                let before = self.at.checked_sub(1).map(|at| self.tokens[at].kind);
                before == Some(TokenKind::Punctuation("!"))
            }
            _ => {
                let next = self.peek_at(1);
                let closes = |text: &str| {
                    expected.contains(&format!("'{text}'"))
                        && matches!(next.kind, TokenKind::Punctuation(found) if found == text)
                };
                next.begins_value() || [")", "]", "}"].into_iter().any(closes)
            }
        };
        let what = if extraneous { "extraneous" } else { "mismatched" };
        let message = format!("Syntax error: {what} input '{found}' expecting {expected}");
        if self.text.is_empty() {
            self.issues.report(Location { line: 1, column: -1 }, message);
            return Abort;
        }
        self.report(token.start, message)
    }

    /// A dot is not followed by a name.
    pub(super) fn no_identifier(&mut self, dot: Token) -> Abort {
        let token = self.peek();
        let found = self.found(token);
        let message = match token.kind {
            TokenKind::End => {
                format!("Syntax error: no viable alternative at input '{}'", self.text_of(dot))
            }
            TokenKind::True | TokenKind::False | TokenKind::Null => {
                format!("Syntax error: mismatched input '{found}' expecting IDENTIFIER")
            }
            _ => format!(
                "Syntax error: no viable alternative at input '{}{found}'",
                self.text_of(dot)
            ),
        };
        self.report(token.start, message)
    }

    pub(super) fn found(&self, token: Token) -> String {
        match token.kind {
            TokenKind::End => "<EOF>".to_owned(),
            _ => escape(self.text_of(token)),
        }
    }
}

impl Token {
    pub(super) fn is(self, kind: TokenKind) -> bool {
        self.kind == kind
    }

    pub(super) fn is_number(self) -> bool {
        matches!(self.kind, TokenKind::Int | TokenKind::Float)
    }

    /// Whether the token may come after a value.
    pub(super) fn follows_value(self) -> bool {
        match self.kind {
            TokenKind::Punctuation(text) => !matches!(text, "(" | "{" | "!"),
            TokenKind::In | TokenKind::End => true,
            _ => false,
        }
    }

    pub(super) fn begins_value(self) -> bool {
        match self.kind {
            TokenKind::Punctuation(text) => matches!(text, "[" | "{" | "(" | "." | "-" | "!"),
            TokenKind::In | TokenKind::EscapedIdentifier | TokenKind::End => false,
            _ => true,
        }
    }
}
