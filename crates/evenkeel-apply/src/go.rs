//! Texts as the reference implementation prints them: quoting, floats and JSON inside FieldsV1.
//!
//! These spellings are wire format (field paths in conflicts, keys of `fieldsV1`), so they are
//! reproduced exactly rather than left to Rust's own formatting.

use std::fmt::Write;

use serde_json::Value;

use crate::value::Number;

/// `"s"` with the escapes of `strconv.Quote`.
pub(crate) fn quote(out: &mut String, s: &str) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ' '..='~' => out.push(c),
            '\0'..='\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if printable(c) => out.push(c),
            '\u{80}'..='\u{ffff}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            _ => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
        }
    }
    out.push('"');
}

/// A `[]string` under `%q`: `["a" "b"]`.
pub(crate) fn quote_list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from("[");
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        quote(&mut out, item);
    }
    out.push(']');
    out
}

fn printable(c: char) -> bool {
    // Whitespace other than the ASCII space is not printable for `strconv`; for the rest the two
    // Unicode tables agree. The leading letter keeps combining marks from counting as unprintable.
    if c.is_whitespace() {
        return false;
    }
    let mut buffer = [b'a'; 5];
    let len = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..len]).is_ok_and(|s| s.escape_debug().nth(1) == Some(c))
}

/// A float under `%v`: shortest digits, exponent form below 1e-4 and from 1e6.
pub(crate) fn float(out: &mut String, f: f64) {
    let abs = f.abs();
    if abs != 0.0 && !(1e-4..1e6).contains(&abs) {
        exponent(out, f);
    } else {
        let _ = write!(out, "{f}");
    }
}

fn exponent(out: &mut String, f: f64) {
    let text = format!("{f:e}");
    let (mantissa, exp) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exp.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exp),
    };
    let _ = write!(out, "{mantissa}e{sign}{digits:0>2}");
}

/// The Go type a decoded value has.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) => match Number::of(n) {
            Number::Int(_) => "int64",
            Number::Float(_) => "float64",
        },
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A decoded value under `%v`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(s) => s.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" "))
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("{key}:{}", plain(value)));
            format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
        }
        scalar => {
            let mut out = String::new();
            display(&mut out, scalar);
            out
        }
    }
}

/// A decoded value under `%#v`.
pub(crate) fn sharp(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Array(items) => {
            let items = items.iter().map(sharp).collect::<Vec<_>>().join(", ");
            format!("{}{{{items}}}", type_name(value))
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| {
                let mut entry = String::new();
                quote(&mut entry, key);
                entry + ":" + &sharp(value)
            });
            format!("{}{{{}}}", type_name(value), entries.collect::<Vec<_>>().join(", "))
        }
        scalar => {
            let mut out = String::new();
            display(&mut out, scalar);
            out
        }
    }
}

/// A value for people, as it appears inside a printed path.
pub(crate) fn display(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match Number::of(n) {
            Number::Int(i) => {
                let _ = write!(out, "{i}");
            }
            Number::Float(f) => float(out, f),
        },
        Value::String(s) => quote(out, s),
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

/// A value as JSON, the way it is embedded in `k:` and `v:` elements (HTML-safe strings).
pub(crate) fn json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match Number::of(n) {
            Number::Int(i) => {
                let _ = write!(out, "{i}");
            }
            Number::Float(f) if f != 0.0 && !(1e-6..1e21).contains(&f.abs()) => exponent(out, f),
            Number::Float(f) => {
                let _ = write!(out, "{f}");
            }
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

/// A JSON string; with `html`, `<`, `>`, `&` and the two Unicode line separators are escaped too.
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

    fn text(write: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    #[test]
    fn quotes_like_strconv() {
        for (input, want) in [
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
            ("\u{1}\u{7f}", r#""\x01\x7f""#),
            ("é中\u{301}", "\"é中\u{301}\""),
            ("\u{a0}\u{200b}\u{feff}", r#""\u00a0\u200b\ufeff""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(text(|out| quote(out, input)), want);
        }
        assert_eq!(quote_list(["a", "b"]), r#"["a" "b"]"#);
    }

    #[test]
    fn floats_print_as_percent_v() {
        for (input, want) in [
            (0.0, "0"),
            (80.0, "80"),
            (-1.5, "-1.5"),
            (1e6, "1e+06"),
            (123456.0, "123456"),
            (1.234567e6, "1.234567e+06"),
            (1e-5, "1e-05"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(text(|out| float(out, input)), want);
        }
    }

    #[test]
    fn embedded_json_escapes_html_but_keeps_plain_numbers() {
        let value = serde_json::json!({"a<": ["&", 1.5, 1000000.0, 1e21, 1e-7, null, true]});
        assert_eq!(
            text(|out| json(out, &value)),
            r#"{"a\u003c":["\u0026",1.5,1000000,1e+21,1e-07,null,true]}"#
        );
    }
}
