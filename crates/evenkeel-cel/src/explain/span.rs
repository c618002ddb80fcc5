//! The text of a part of an expression, as written.

use crate::ast::{Ast, Expr};

/// The text of a part. Positions are those of operators, parentheses and names, so the text starts
/// at the first of them and ends with the last, once all brackets are closed.
pub(super) fn text(ast: &Ast, expr: &Expr) -> String {
    let source = &*ast.source;
    let (mut start, mut last) = (source.len(), 0);
    expr.walk(&mut |part| {
        if let Some(position) = ast.positions.get(part.id as usize) {
            start = start.min(*position as usize);
            last = last.max(*position as usize);
        }
    });
    let Some(before) = source.get(..start) else { return source.trim().to_owned() };
    if source[start..].starts_with('(') || source[start..].starts_with('.') {
        // The name of a function precedes its parenthesis.
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        start = before.trim_end_matches(is_name).len();
    }
    let end = closed(source, start, token_end(source, last));
    source.get(start..end).unwrap_or(source).trim().to_owned()
}

/// The end of the token at a position; with a dot, that of the name after it.
fn token_end(source: &str, at: usize) -> usize {
    let rest = source.get(at..).unwrap_or("");
    let mut characters = rest.char_indices().peekable();
    match characters.next() {
        Some((_, quote @ ('"' | '\''))) => string_end(rest, quote) + at,
        Some((_, '.')) => {
            let name = rest[1..].trim_start_matches('?');
            let skipped = rest.len() - name.len();
            at + skipped + name_length(name)
        }
        Some((_, c)) if c.is_ascii_alphanumeric() || c == '_' => {
            let length = name_length(rest);
            // A prefix of a string, such as `r`.
            match rest[length..].chars().next() {
                Some(quote @ ('"' | '\'')) => at + length + string_end(&rest[length..], quote),
                _ => at + length,
            }
        }
        Some((_, c)) => at + c.len_utf8(),
        None => at,
    }
}

/// The length of a name or of a number, which can have a dot.
fn name_length(text: &str) -> usize {
    let number = text.starts_with(|c: char| c.is_ascii_digit());
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || (number && c == '.');
    text.find(|c: char| !is_part(c)).unwrap_or(text.len())
}

/// The length of a string with its quotes.
fn string_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Extends a text until all brackets that it opens are closed.
fn closed(source: &str, start: usize, mut end: usize) -> usize {
    let mut depth = 0_i32;
    let mut at = start;
    while at < source.len() {
        if at >= end && depth <= 0 {
            return end;
        }
        let rest = &source[at..];
        let Some(c) = rest.chars().next() else { break };
        match c {
            '"' | '\'' => {
                at += string_end(rest, c);
                end = end.max(at.min(source.len()));
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        at += c.len_utf8();
        if depth > 0 || at > end {
            end = end.max(at);
        }
    }
    end.min(source.len())
}
