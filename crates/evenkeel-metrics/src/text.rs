//! The Prometheus text format, version 0.0.4: printing, and a strict parser for tests.

mod parse;

use std::fmt;

pub use parse::{ParseError, ParsedFamily, Sample, parse};

use crate::registry::Kind;

/// Prints the lines before the series of a family.
pub(crate) fn head(text: &mut String, name: &str, help: &str, kind: Kind) {
    text.extend(["# HELP ", name, " "]);
    for character in help.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text.extend(["\n# TYPE ", name, " "]);
    // Writing to a String cannot fail.
    let _ = fmt::write(text, format_args!("{kind}\n"));
}

/// Prints the name and the labels of a sample, up to the space before the value. An empty `bound`
/// is omitted.
pub(crate) fn series(text: &mut String, name: &str, suffix: &str, labels: &str, bound: &str) {
    text.push_str(name);
    text.push_str(suffix);
    if !labels.is_empty() || !bound.is_empty() {
        text.push('{');
        text.push_str(labels);
        if !bound.is_empty() {
            text.push_str(if labels.is_empty() { "le=\"" } else { ",le=\"" });
            text.push_str(bound);
            text.push('"');
        }
        text.push('}');
    }
    text.push(' ');
}

/// Prints labels as `a="x",b="y"`.
pub(crate) fn labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        if !text.is_empty() {
            text.push(',');
        }
        text.extend([name, "=\""]);
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    text
}

pub(crate) fn is_metric_name(name: &str) -> bool {
    is_name(name, |byte| byte == b':')
}

pub(crate) fn is_label_name(name: &str) -> bool {
    is_name(name, |_| false) && !name.starts_with("__")
}

fn is_name(name: &str, also: impl Fn(u8) -> bool) -> bool {
    let begins = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || also(byte))
}

/// A number as Go prints it (`%g` with the shortest precision), as Prometheus' client for Go does.
pub(crate) struct Float(pub(crate) f64);

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value.is_nan() {
            return f.write_str("NaN");
        }
        if value.is_infinite() {
            return f.write_str(if value > 0.0 { "+Inf" } else { "-Inf" });
        }
        if value == 0.0 || (1e-4..1e6).contains(&value.abs()) {
            return write!(f, "{value}");
        }
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        write!(f, "{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_by_go() {
        let cases = [
            (0.0, "0"),
            (-1.0, "-1"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e-8, "1e-08"),
            (999_999.0, "999999"),
            (1_000_000.0, "1e+06"),
            (1_048_576.0, "1.048576e+06"),
            (16_777_216.0, "1.6777216e+07"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, text) in cases {
            assert_eq!(Float(value).to_string(), text);
        }
    }
}
