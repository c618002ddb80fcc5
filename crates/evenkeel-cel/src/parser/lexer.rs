//! Tokens of an expression, with the longest match as in cel-go's grammar.

use crate::source::{Issues, Location};

/// A token with its place in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Kinds of tokens. Punctuation is named by its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Punctuation(&'static str),
    True,
    False,
    Null,
    In,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscapedIdentifier,
    End,
}

/// Longer ones first.
const PUNCTUATION: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%", "",
];

/// The tokens of a text, with one at the end. What is no token is reported and skipped.
pub(super) fn tokens(text: &str, issues: &mut Issues) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len() / 3 + 1);
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let skipped = space(rest);
        if skipped > 0 {
            at += skipped;
            continue;
        }
        match token(rest) {
            Ok((kind, len)) => {
                tokens.push(Token { kind, start: offset(at), end: offset(at + len) });
                at += len;
            }
            Err(len) => {
                // The text ends with the character that does not continue any token.
                let failed = rest[len..].chars().next().map_or(0, char::len_utf8);
                let location = Location::of(text, at);
                let found = &rest[..len + failed];
                issues.report(
                    location,
                    format!("Syntax error: token recognition error at: '{found}'"),
                );
                at += (len + failed).max(1);
            }
        }
    }
    let end = offset(text.len());
    tokens.push(Token { kind: TokenKind::End, start: end, end });
    tokens
}

/// The length of a text is limited far below.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// As ANTLR escapes text in messages.
pub(super) fn escape(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

fn space(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    rest.len() - rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']).len()
}

/// The kind and length of the token at the start; or how much was read before it failed.
fn token(rest: &str) -> Result<(TokenKind, usize), usize> {
    let bytes = rest.as_bytes();
    let first = bytes[0];
    let next = bytes.get(1).copied().unwrap_or_default();
    if first.is_ascii_digit() || (first == b'.' && next.is_ascii_digit()) {
        return Ok(number(bytes));
    }
    let quoted = |at: usize| matches!(bytes.get(at), Some(b'"' | b'\''));
    let is = |at: usize, letter: u8| bytes.get(at).is_some_and(|b| b.eq_ignore_ascii_case(&letter));
    // A failed string with a prefix may still be an identifier.
    let (prefix, raw, kind) = if quoted(0) {
        (0, false, TokenKind::String)
    } else if is(0, b'r') && quoted(1) {
        (1, true, TokenKind::String)
    } else if is(0, b'b') && quoted(1) {
        (1, false, TokenKind::Bytes)
    } else if is(0, b'b') && is(1, b'r') && quoted(2) {
        (2, true, TokenKind::Bytes)
    } else {
        (usize::MAX, false, TokenKind::End)
    };
    if prefix != usize::MAX {
        match string(&rest[prefix..], raw) {
            Ok(len) => return Ok((kind, prefix + len)),
            Err(len) if prefix == 0 => return Err(len),
            Err(_) => return Ok((TokenKind::Identifier, prefix)),
        }
    }
    if first.is_ascii_alphabetic() || first == b'_' {
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let len = bytes.iter().position(|b| !word(b)).unwrap_or(bytes.len());
        let kind = match &rest[..len] {
            "true" => TokenKind::True,
            "false" => TokenKind::False,
            "null" => TokenKind::Null,
            "in" => TokenKind::In,
            _ => TokenKind::Identifier,
        };
        return Ok((kind, len));
    }
    if first == b'`' {
        let word = |b: &u8| b.is_ascii_alphanumeric() || b"_.-/ ".contains(b);
        let len = bytes[1..].iter().position(|b| !word(b)).map_or(bytes.len(), |len| len + 1);
        if len > 1 && bytes.get(len) == Some(&b'`') {
            return Ok((TokenKind::EscapedIdentifier, len + 1));
        }
        return Err(len);
    }
    match PUNCTUATION.iter().find(|text| rest.starts_with(**text)) {
        Some(text) if !text.is_empty() => Ok((TokenKind::Punctuation(text), text.len())),
        _ => Err(usize::from(matches!(first, b'&' | b'|' | b'='))),
    }
}

fn number(bytes: &[u8]) -> (TokenKind, usize) {
    let digits = |from: usize| {
        bytes[from..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| from + n)
    };
    let unsigned = |at: usize| matches!(bytes.get(at), Some(b'u' | b'U'));
    if bytes.starts_with(b"0x") && bytes.get(2).is_some_and(u8::is_ascii_hexdigit) {
        let end =
            bytes[2..].iter().position(|b| !b.is_ascii_hexdigit()).map_or(bytes.len(), |n| n + 2);
        return if unsigned(end) { (TokenKind::Uint, end + 1) } else { (TokenKind::Int, end) };
    }
    let whole = digits(0);
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1 + sign);
        }
    }
    match end > whole {
        true => (TokenKind::Float, end),
        false if unsigned(whole) => (TokenKind::Uint, whole + 1),
        false => (TokenKind::Int, whole),
    }
}

/// The length of a quoted string; or how much was read before it failed.
fn string(rest: &str, raw: bool) -> Result<usize, usize> {
    let quote = &rest[..1];
    let triple = quote.repeat(3);
    if rest.starts_with(&triple) {
        match body(&rest[3..], &triple, raw, true) {
            Ok(len) => return Ok(len + 3),
            // An empty string, followed by another one that does not end.
            Err(_) => return Ok(2),
        }
    }
    body(&rest[1..], quote, raw, false).map(|len| len + 1).map_err(|len| len + 1)
}

fn body(rest: &str, end: &str, raw: bool, lines: bool) -> Result<usize, usize> {
    let bytes = rest.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if rest.is_char_boundary(at) && rest[at..].starts_with(end) {
            return Ok(at + end.len());
        }
        match bytes[at] {
            b'\n' | b'\r' if !lines => return Err(at),
            b'\\' if !raw => at += escape_sequence(&bytes[at..]).map_err(|len| at + len)?,
            _ => at += 1,
        }
    }
    Err(at)
}

/// The length of an escape sequence; or how much of it was read before it failed.
fn escape_sequence(bytes: &[u8]) -> Result<usize, usize> {
    let digits = |count: usize, valid: fn(&u8) -> bool| {
        (2..2 + count).find(|at| !bytes.get(*at).is_some_and(valid)).map_or(Ok(2 + count), Err)
    };
    match bytes.get(1) {
        Some(
            b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`',
        ) => Ok(2),
        Some(b'0'..=b'3') => digits(2, |b| (b'0'..=b'7').contains(b)),
        Some(b'x' | b'X') => digits(2, u8::is_ascii_hexdigit),
        Some(b'u') => digits(4, u8::is_ascii_hexdigit),
        Some(b'U') => digits(8, u8::is_ascii_hexdigit),
        _ => Err(1),
    }
}
