//! `format`: text with clauses such as `%s` and `%.2f`, in the words and the locale of cel-go.

use crate::ast::{Ast, Expr, Kind, Reference};
use crate::source::Issues;
use crate::{Error, Type, Value};

/// A clause of a format.
#[derive(Clone, Copy)]
struct Clause {
    letter: char,
    precision: Option<usize>,
}

/// Digits after the point if a clause does not state them.
const PRECISION: usize = 6;
/// Go's text package keeps the precision in a byte.
const PRECISIONS: usize = 256;

/// Replaces the clauses of a format. Returns the text and how many arguments were used.
fn render<E: From<String>>(
    format: &str,
    arguments: usize,
    constant: bool,
    mut replace: impl FnMut(usize, Clause) -> Result<String, E>,
) -> Result<(String, usize), E> {
    let mut output = String::with_capacity(format.len());
    let mut used = 0;
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        output.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            output.push('%');
            rest = after;
            continue;
        }
        // The check of a constant format finds the end first.
        if rest.is_empty() && (constant || used < arguments) {
            return Err("unexpected end of string".to_owned().into());
        }
        if used >= arguments {
            return Err(format!("index {used} out of range").into());
        }
        let (clause, after) = clause(rest)
            .map_err(|reason| format!("could not parse formatting clause: {reason}"))?;
        output.push_str(&replace(used, clause)?);
        used += 1;
        rest = after;
    }
    output.push_str(rest);
    Ok((output, used))
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let mut rest = text;
    let mut precision = None;
    if let Some(after) = text.strip_prefix('.') {
        let digits = after
            .find(|c: char| !c.is_ascii_digit())
            .ok_or("error while parsing precision: could not find end of precision specifier")?;
        let number = &after[..digits];
        precision = Some(number.parse::<usize>().map_err(|_| {
            format!(
                "error while parsing precision: error while converting precision to integer: \
                 strconv.Atoi: parsing {number:?}: {}",
                if number.is_empty() { "invalid syntax" } else { "value out of range" }
            )
        })?);
        rest = &after[digits..];
    }
    let letter = rest.chars().next().unwrap_or_default();
    if !"sdfebxXo".contains(letter) {
        return Err(format!("unrecognized formatting clause \"{letter}\""));
    }
    Ok((Clause { letter, precision }, &rest[letter.len_utf8()..]))
}

/// `'…'.format([…])`
pub(super) fn format<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(format), Value::List(list)] = arguments else {
        return Err(Error::no_such_overload());
    };
    let (text, _) = render(format, list.len(), false, |at, clause| {
        let value = list.get(at).unwrap_or(Value::Null);
        apply(clause, &value).map_err(|reason| format!("error during formatting: {reason}"))
    })
    .map_err(|reason: String| Error::new(reason))?;
    Ok(Value::from(text))
}

fn apply(clause: Clause, value: &Value<'_>) -> Result<String, String> {
    let precision = clause.precision.unwrap_or(PRECISION);
    let wrong = || wrong_type(clause.letter, value.type_().name());
    match (clause.letter, value) {
        ('s', _) => string(value),
        ('d', Value::Int(value)) => Ok(value.to_string()),
        ('d', Value::Uint(value)) => Ok(value.to_string()),
        ('f', _) => Ok(fixed(double(value).ok_or_else(wrong)?, precision)),
        ('e', _) => Ok(scientific(double(value).ok_or_else(wrong)?, precision)),
        ('b', Value::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('b', Value::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:b}"))),
        ('b', Value::Uint(value)) => Ok(format!("{value:b}")),
        ('o', Value::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:o}"))),
        ('o', Value::Uint(value)) => Ok(format!("{value:o}")),
        ('x', Value::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:x}"))),
        ('X', Value::Int(value)) => Ok(signed(*value, |magnitude| format!("{magnitude:X}"))),
        ('x', Value::Uint(value)) => Ok(format!("{value:x}")),
        ('X', Value::Uint(value)) => Ok(format!("{value:X}")),
        ('x' | 'X', Value::String(text)) => Ok(hex(text.as_bytes(), clause.letter)),
        ('x' | 'X', Value::Bytes(bytes)) => Ok(hex(bytes, clause.letter)),
        _ => Err(wrong()),
    }
}

fn wrong_type(letter: char, given: &str) -> String {
    let rule = match letter {
        'b' => "only integers and bools can be formatted as binary",
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        'o' => "octal clause can only be used on integers",
        'e' => "scientific clause can only be used on doubles",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
             durations, and timestamps"
        }
    };
    format!("{rule}, was given {given}")
}

fn signed(value: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", digits(value.unsigned_abs()))
}

fn hex(bytes: &[u8], letter: char) -> String {
    let digit =
        |byte: &u8| if letter == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") };
    bytes.iter().map(digit).collect()
}

/// A double, or the text of one that is not a number.
fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// With groups of three digits, as in English.
fn fixed(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    let text = format!("{:.*}", precision % PRECISIONS, value.abs());
    let (whole, fraction) =
        text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut output = String::new();
    if value.is_sign_negative() {
        output.push('-');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            output.push(',');
        }
        output.push(digit);
    }
    if let Some(fraction) = fraction {
        output.push('.');
        output.push_str(fraction);
    }
    output
}

/// cel-go passes the precision as a width, and six digits are printed.
fn scientific(value: f64, width: usize) -> String {
    let width = width % PRECISIONS;
    if !value.is_finite() {
        return format!("{:>width$}", not_finite(value));
    }
    let text = format!("{value:.PRECISION$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let digits: String = format!("{digits:0>2}").chars().map(superscript).collect();
    format!("{:>width$}", format!("{mantissa}×10{sign}{digits}"))
}

fn superscript(digit: char) -> char {
    let at = digit.to_digit(10).unwrap_or_default() as usize;
    ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][at]
}

fn not_finite(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        _ if value > 0.0 => "∞".to_owned(),
        _ => "-∞".to_owned(),
    }
}

fn string(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::List(_) | Value::Map(_) | Value::Object(_) => nested(value),
        Value::Null => Ok("null".to_owned()),
        Value::Type(type_) => Ok(type_.name().to_owned()),
        Value::Optional(_) | Value::Opaque(_) => Err(wrong_type('s', value.type_().name())),
        other => match super::convert::to_string(std::slice::from_ref(other)) {
            Ok(Value::String(text)) => Ok(text.to_string()),
            Ok(_) => Err(Error::no_such_overload().to_string()),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// A value in a list or a map.
fn nested(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => format!("{:?}", &**text),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::Timestamp(time) => format!("timestamp(\"{time}\")"),
        Value::Duration(duration) => format!("duration(\"{duration}\")"),
        Value::Double(value) if value.is_nan() => "\"NaN\"".to_owned(),
        Value::Double(value) if value.is_infinite() => {
            if *value > 0.0 { "\"+Inf\"" } else { "\"-Inf\"" }.to_owned()
        }
        Value::Double(value) => format!("{value:.PRECISION$}"),
        Value::List(list) => {
            let elements: Result<Vec<_>, _> = list.iter().map(|element| nested(&element)).collect();
            format!("[{}]", elements?.join(", "))
        }
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, value) in map.iter() {
                entries.push((nested(&key)?, nested(&value)?));
            }
            entries.sort();
            let entries: Vec<_> =
                entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(_) | Value::Opaque(_) | Value::Object(_) => {
            return Err(format!("no formatting function for {}", value.type_().name()));
        }
        other => string(other)?,
    })
}

// === Checks of constant formats ===

/// A problem, and the expression that has it, if it is not the call.
struct Problem(Option<u32>, String);

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Problem(None, message)
    }
}

/// Reports formats that do not fit the literal list of their arguments.
pub(crate) fn validate(ast: &Ast, issues: &mut Issues) {
    ast.root.walk(&mut |expr| {
        let Kind::Call { function, target: Some(target), args } = &expr.kind else { return };
        let declared = match ast.reference(expr) {
            Some(Reference::Overloads(overloads)) => {
                overloads.iter().any(|overload| overload.id == "string_format")
            }
            _ => false,
        };
        if &**function != "format" || !declared {
            return;
        }
        let (
            Kind::Literal(Value::String(format)),
            [Expr { kind: Kind::List { elements, .. }, .. }],
        ) = (&target.kind, &args[..])
        else {
            return;
        };
        let rendered =
            render(format, elements.len(), true, |at, clause| verify(ast, clause, &elements[at]));
        match rendered {
            Ok((_, used)) if elements.len() > used => {
                let given = elements.len();
                let message = format!(
                    "too many arguments supplied to string.format (expected {used}, got {given})"
                );
                issues.report(ast.location(expr.id), message);
            }
            Ok(_) => {}
            Err(Problem(at, message)) => {
                issues.report(ast.location(at.unwrap_or(expr.id)), message);
            }
        }
    });
}

fn verify(ast: &Ast, clause: Clause, argument: &Expr) -> Result<String, Problem> {
    use Type::{Bool, Bytes, Double, Int, String as Text, Uint};
    let accepted: &[Type] = match clause.letter {
        's' => match unprintable(ast, argument) {
            None => return Ok(String::new()),
            Some(part) => {
                let message = wrong_type('s', ast.type_of(part).name());
                return Err(Problem(Some(part.id), format!("error during formatting: {message}")));
            }
        },
        'd' | 'o' => &[Int, Uint],
        'f' | 'e' => &[Double, Text],
        'b' => &[Int, Uint, Bool],
        _ => &[Int, Uint, Text, Bytes],
    };
    let type_ = ast.type_of(argument);
    if type_.is_dyn() || accepted.contains(type_) {
        return Ok(String::new());
    }
    let message = wrong_type(clause.letter, type_.name());
    Err(Problem(Some(argument.id), format!("error during formatting: {message}")))
}

/// The part of an argument that cannot be printed.
fn unprintable<'e>(ast: &Ast, expr: &'e Expr) -> Option<&'e Expr> {
    if matches!(ast.type_of(expr), Type::Opaque(_) | Type::Struct(_) | Type::Wrapper(_)) {
        return Some(expr);
    }
    match &expr.kind {
        Kind::List { elements, .. } => {
            elements.iter().find_map(|element| unprintable(ast, element))
        }
        Kind::Map { entries } => entries.iter().find_map(|entry| {
            unprintable(ast, &entry.key).or_else(|| unprintable(ast, &entry.value))
        }),
        _ => None,
    }
}
