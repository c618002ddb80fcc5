//! Formats values inside field paths: as text in conflicts, and as JSON in the keys of `fieldsV1`.
//!
//! Both are part of the wire format. The JSON is not that of `encoding/json`: structured-merge-diff
//! writes paths with another encoder, whose exponents and control characters differ.

use std::fmt::Write;

use evenkeel_types::go::{self, Num, Quoted};
use serde_json::Value;

/// Formats a value as in a printed path.
pub(crate) fn display(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => {
            let _ = write!(out, "{}", Num::of(n));
        }
        Value::String(s) => {
            let _ = write!(out, "{}", Quoted(s));
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                display(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            for (key, item) in map {
                out.push_str(key);
                out.push('=');
                display(out, item);
            }
        }
    }
}

/// Formats a value as JSON, as embedded in `k:` and `v:` elements (HTML-safe strings).
pub(crate) fn json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match Num::of(n) {
            Num::Int(i) => {
                let _ = write!(out, "{i}");
            }
            Num::Float(f) if f == 0.0 || (1e-6..1e21).contains(&f.abs()) => {
                let _ = write!(out, "{f}");
            }
            // These floats have an exponent under `%v`, too.
            Num::Float(f) => out.push_str(&go::float(f)),
        },
        Value::String(s) => json_string(out, s, true),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                json(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                json_string(out, key, true);
                out.push(':');
                json(out, item);
            }
            out.push('}');
        }
    }
}

/// Formats a JSON string; with `html`, `<`, `>`, `&` and the two Unicode line separators are
/// escaped too.
pub(crate) fn json_string(out: &mut String, s: &str, html: bool) {
    out.push('"');
    let mut plain = 0;
    for (i, c) in s.char_indices() {
        let escape = match c {
            '"' | '\\' | '\0'..='\u{1f}' => true,
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => html,
            _ => false,
        };
        if !escape {
            continue;
        }
        out.push_str(&s[plain..i]);
        plain = i + c.len_utf8();
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
        }
    }
    out.push_str(&s[plain..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_json_escapes_html_but_keeps_plain_numbers() {
        let value = serde_json::json!({"a<": ["&", 1.5, 1000000.0, 1e21, 1e-7, null, true]});
        let mut out = String::new();
        json(&mut out, &value);
        assert_eq!(out, r#"{"a\u003c":["\u0026",1.5,1000000,1e+21,1e-07,null,true]}"#);
    }
}
