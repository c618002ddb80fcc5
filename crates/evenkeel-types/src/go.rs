//! Formats values as Go does: `%q`, `%v`, `%T` and `json.Marshal`.
//!
//! Users and tests compare error messages and annotations with upstream's, so every value in a
//! message is formatted here.

use std::fmt::{self, Write as _};

use serde_json::{Number, Value};

use crate::json;

/// Displays a string as `strconv.Quote` does.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{c}' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{b}' => f.write_str("\\v")?,
                c if is_print(c) => f.write_char(c)?,
                '\0'..='\u{7f}' => write!(f, "\\x{:02x}", u32::from(c))?,
                '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c))?,
                _ => write!(f, "\\U{:08x}", u32::from(c))?,
            }
        }
        f.write_char('"')
    }
}

/// Quotes a string as `strconv.Quote`.
pub fn quote(text: &str) -> String {
    Quoted(text).to_string()
}

/// Formats a list of strings with `%q`: `["a" "b"]`.
pub fn quote_list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(quote).collect();
    format!("[{}]", items.join(" "))
}

/// Returns whether a character is printable, as `unicode.IsPrint`.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    if c.is_whitespace() {
        return false;
    }
    // The standard library exposes which characters are printable only through its escaping. A
    // leading letter keeps combining marks from being escaped for their position.
    let mut buffer = [b'a'; 5];
    let len = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..len]).is_ok_and(|s| s.escape_debug().nth(1) == Some(c))
}

/// A JSON number as Kubernetes decodes it: `int64` if it fits, `float64` otherwise.
///
/// `Display` is `%v`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are self-explanatory")]
pub enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    /// Converts a JSON number as Kubernetes' decoder does.
    pub fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// Returns the number as a float, rounded if necessary.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Int(int) => int.fmt(f),
            Self::Float(float) => f.write_str(&self::float(float)),
        }
    }
}

/// Formats a `float64` with `%v`: shortest digits, an exponent below 1e-4 and from 1e6.
pub fn float(float: f64) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if float == 0.0 || (1e-4..1e6).contains(&float.abs()) {
        return float.to_string();
    }
    let (mantissa, sign, exponent) = scientific(float);
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// Returns the mantissa, the sign of the exponent, and its digits.
pub(crate) fn scientific(float: f64) -> (String, char, String) {
    let text = format!("{float:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    (mantissa.to_owned(), sign, digits.to_owned())
}

/// Converts as `int64(float)` does on amd64: out of range becomes the smallest integer.
pub fn truncate(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&float) { float as i64 } else { i64::MIN }
}

/// Formats a decoded JSON value with `%v`.
pub fn format_v(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => Num::of(number).to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(format_v).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let entries = sorted(map).map(|(key, value)| format!("{key}:{}", format_v(value)));
            format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
        }
    }
}

/// Formats a decoded JSON value with `%#v`.
pub fn format_sharp_v(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) => format_v(value),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(format_sharp_v).collect();
            format!("{}{{{}}}", type_name(value), items.join(", "))
        }
        Value::Object(map) => {
            let entries =
                sorted(map).map(|(key, item)| format!("{}:{}", Quoted(key), format_sharp_v(item)));
            format!("{}{{{}}}", type_name(value), entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns the Go type of a decoded JSON value, as `%T`.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) => match Num::of(number) {
            Num::Int(_) => "int64",
            Num::Float(_) => "float64",
        },
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Returns the type of a JSON value as Go's decoder names it.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Encodes as `json.Marshal`: keys sorted, HTML characters escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    json::any(&mut out, value);
    out
}

/// Returns the entries of a map sorted by key.
fn sorted(map: &serde_json::Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_quote_like_strconv() {
        for (text, want) in [
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
            ("\u{1}\u{7f}", r#""\x01\x7f""#),
            ("é<中\u{301}", "\"é<中\u{301}\""),
            ("\u{a0}\u{200b}\u{feff}", r#""\u00a0\u200b\ufeff""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quote(text), want);
        }
        assert_eq!(quote_list(["a", "b"]), r#"["a" "b"]"#);
    }

    #[test]
    fn floats_print_like_percent_v() {
        for (value, want) in [
            (0.0, "0"),
            (80.0, "80"),
            (-1.5, "-1.5"),
            (123_456.0, "123456"),
            (1e6, "1e+06"),
            (1.234567e6, "1.234567e+06"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (1.25e-5, "1.25e-05"),
            (-2.5e100, "-2.5e+100"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(float(value), want);
        }
    }

    #[test]
    fn json_escapes_html_and_sorts_keys() {
        assert_eq!(
            json(&json!({"b": "<&>\u{8}\u{b}", "a": [1.0, null, 1_000_000.0]})),
            r#"{"a":[1,null,1000000],"b":"\u003c\u0026\u003e\b\u000b"}"#
        );
        assert_eq!(json(&json!([1e-7, 1e21])), "[1e-7,1e+21]");
    }

    #[test]
    fn maps_print_by_key() {
        assert_eq!(
            format_v(&json!({"a": 1e6, "a!": null, "b": [true, "x"]})),
            "map[a:1e+06 a!:<nil> b:[true x]]"
        );
    }
}
