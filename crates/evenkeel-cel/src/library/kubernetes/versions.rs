//! `semver` and `isSemver`, parts and comparison of semantic versions.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;

use evenkeel_types::go;

use super::{operand, receiver, text};
use crate::{Error, Function, Opaque, Overload, Type, Value};

/// A semantic version. Build metadata has no influence on order and equality.
#[derive(Debug)]
struct Semver {
    numbers: [u64; 3],
    pre: Vec<Identifier>,
    build: Vec<Box<str>>,
}

/// A part of a pre-release version; numbers are lower than names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Name(Box<str>),
}

pub(super) fn semver_type() -> Type {
    Type::object("kubernetes.Semver")
}

impl Opaque for Semver {
    fn type_(&self) -> Type {
        semver_type()
    }

    fn equals(&self, other: &Value<'_>) -> Option<bool> {
        other.downcast::<Self>().map(|other| self.order(other) == Ordering::Equal)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

pub(super) fn functions() -> Vec<Function> {
    let two = || [semver_type(), semver_type()];
    let normalized = || [Type::String, Type::Bool];
    let part = |name, id, at: usize| {
        Function::new(name).overload(Overload::member(
            id,
            [semver_type()],
            Type::Int,
            move |values| {
                let part = receiver::<Semver>(values)?.numbers.get(at).copied();
                // Larger numbers wrap around, as upstream's conversion does.
                Ok(Value::Int(part.unwrap_or_default() as i64))
            },
        ))
    };
    vec![
        Function::new("semver")
            .overload(Overload::global("string_to_semver", [Type::String], semver_type(), parse))
            .overload(Overload::global(
                "string_bool_to_semver",
                normalized(),
                semver_type(),
                parse,
            )),
        Function::new("isSemver")
            .overload(Overload::global("is_semver_string", [Type::String], Type::Bool, is_semver))
            .overload(Overload::global(
                "is_semver_string_bool",
                normalized(),
                Type::Bool,
                is_semver,
            )),
        Function::new("isGreaterThan").overload(Overload::member(
            "semver_is_greater_than",
            two(),
            Type::Bool,
            |values| Ok(Value::Bool(order(values)? == Ordering::Greater)),
        )),
        Function::new("isLessThan").overload(Overload::member(
            "semver_is_less_than",
            two(),
            Type::Bool,
            |values| Ok(Value::Bool(order(values)? == Ordering::Less)),
        )),
        Function::new("compareTo").overload(Overload::member(
            "semver_compare_to",
            two(),
            Type::Int,
            |values| Ok(Value::Int(order(values)? as i64)),
        )),
        part("major", "semver_major", 0),
        part("minor", "semver_minor", 1),
        part("patch", "semver_patch", 2),
    ]
}

fn version(values: &[Value<'_>]) -> Result<Result<Semver, String>, Error> {
    let text = text(values.first().ok_or_else(Error::no_such_overload)?)?;
    Ok(match values.get(1) {
        None | Some(Value::Bool(false)) => Semver::parse(text),
        Some(Value::Bool(true)) => normalize(text).and_then(|text| Semver::parse(&text)),
        Some(_) => return Err(Error::no_such_overload()),
    })
}

fn parse<'a>(values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    version(values)?.map(Value::opaque).map_err(Error::new)
}

fn is_semver<'a>(values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(version(values)?.is_ok()))
}

fn order(values: &[Value<'_>]) -> Result<Ordering, Error> {
    Ok(receiver::<Semver>(values)?.order(operand(values)?))
}

/// Removes a `v` before the version and zeros before its numbers, and adds missing numbers.
fn normalize(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            let trimmed = part.trim_start_matches('0');
            match trimmed.bytes().next() {
                _ if part.len() <= 1 => part.to_owned(),
                Some(b) if b.is_ascii_digit() => trimmed.to_owned(),
                _ => format!("0{trimmed}"),
            }
        })
        .collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

impl Semver {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number("Major", major)?;
        let minor = number("Minor", minor)?;
        let (rest, build) = split(rest, '+');
        let (patch, pre) = split(rest, '-');
        let patch = number("Patch", patch)?;
        let pre = identifiers(pre).map(pre_release).collect::<Result<_, _>>()?;
        let build = identifiers(build)
            .map(|part| match part {
                "" => Err("Build meta data is empty".to_owned()),
                part if is_alphanumeric(part) => Ok(part.into()),
                part => Err(format!(
                    "Invalid character(s) found in build meta data {}",
                    go::Quoted(part)
                )),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { numbers: [major, minor, patch], pre, build })
    }

    fn order(&self, other: &Self) -> Ordering {
        let pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then_with(pre)
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (at, part) in self.pre.iter().enumerate() {
            f.write_str(if at == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Name(name) => f.write_str(name)?,
            }
        }
        for (at, part) in self.build.iter().enumerate() {
            f.write_str(if at == 0 { "+" } else { "." })?;
            f.write_str(part)?;
        }
        Ok(())
    }
}

fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn identifiers(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.into_iter().flat_map(|text| text.split('.'))
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        let what = what.to_lowercase();
        return Err(format!("Invalid character(s) found in {what} number {}", go::Quoted(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{what} number must not contain leading zeroes {}", go::Quoted(text)));
    }
    parse_uint(text)
}

fn pre_release(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let text = go::Quoted(text);
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text}"
            ));
        }
        return parse_uint(text).map(Identifier::Number);
    }
    if is_alphanumeric(text) {
        return Ok(Identifier::Name(text.into()));
    }
    Err(format!("Invalid character(s) found in prerelease {}", go::Quoted(text)))
}

fn is_alphanumeric(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// As `strconv.ParseUint` of digits.
fn parse_uint(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let what = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {what}", go::Quoted(text))
    })
}
