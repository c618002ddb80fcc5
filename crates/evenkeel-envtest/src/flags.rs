//! Parses command lines as the upstream executables do.
//!
//! A table lists the supported flags. Unknown flags are recorded as ignored instead of rejected.
//! Values are kept as text and parsed on access.

use std::{fmt::Write as _, str::FromStr};

/// A supported flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The name without dashes.
    pub name: &'static str,
    /// Whether it takes a value.
    pub kind: Kind,
    /// The text for `--help`; empty for flags that are not listed.
    pub help: &'static str,
}

/// Whether a flag takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No value, or `=true` and `=false`.
    Switch,
    /// A value of this type, as shown in `--help`.
    Value(&'static str),
}

/// The rules for dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `pflag`, as in Kubernetes: two dashes for names, one for single letters, `_` equals `-`.
    Kubernetes,
    /// Go's `flag` package, as in etcd: one dash and two are equivalent.
    Etcd,
}

/// The flags of one command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    given: Vec<(String, String)>,
    ignored: Vec<String>,
}

/// An invalid command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The last argument is a flag whose value is missing.
    #[error("flag needs an argument: --{0}")]
    MissingValue(String),
    /// The value does not parse.
    #[error("invalid argument {value:?} for \"--{flag}\" flag: {reason}")]
    Invalid {
        /// The flag.
        flag: String,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Flags that are valid each, but not together or not for this server.
    #[error("{0}")]
    Rejected(String),
    /// A positional argument.
    #[error("the command does not take any arguments, got {0:?}")]
    Positional(String),
}

impl Flag {
    /// Creates a boolean flag.
    pub const fn switch(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Switch, help }
    }

    /// Creates a flag with a value of type `kind`.
    pub const fn value(name: &'static str, kind: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Value(kind), help }
    }
}

impl Flags {
    /// Parses `arguments`, the command line without the program name.
    pub fn parse(
        table: &[Flag],
        style: Style,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, Error> {
        let mut flags = Self::default();
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            let Some((mut name, mut value)) = split(style, &argument) else {
                return Err(Error::Positional(argument));
            };
            if style == Style::Kubernetes {
                name = name.replace('_', "-");
            }
            let kind = table.iter().find(|flag| flag.name == name).map(|flag| flag.kind);
            if value.is_none() {
                value = match kind {
                    Some(Kind::Switch) => Some("true".to_owned()),
                    Some(Kind::Value(_)) => match arguments.next() {
                        Some(value) => Some(value),
                        None => return Err(Error::MissingValue(name)),
                    },
                    // Neither executable takes positional arguments, so this is a value.
                    None => arguments.next_if(|next| split(style, next).is_none()),
                };
            }
            match kind {
                Some(_) => flags.given.push((name, value.unwrap_or_default())),
                None => flags.ignored.push(name),
            }
        }
        Ok(flags)
    }

    /// Returns the names of the unknown flags.
    pub fn ignored(&self) -> impl Iterator<Item = &str> {
        self.ignored.iter().map(String::as_str)
    }

    /// Returns all values of flag `name`, in order.
    pub fn all<'a>(&'a self, name: &str) -> impl DoubleEndedIterator<Item = &'a str> {
        self.given.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the last value of flag `name`, or `None` if it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next_back().filter(|value| !value.is_empty())
    }

    /// Returns the items of a repeatable, comma-separated list.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.all(name)
            .flat_map(|value| value.split(','))
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Returns the last value of flag `name`, parsed.
    pub fn value<T>(&self, name: &str) -> Result<Option<T>, Error>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        let parse =
            |value: &str| value.parse().map_err(|error: T::Err| invalid(name, value, error));
        self.text(name).map(parse).transpose()
    }

    /// Returns the value of a boolean flag.
    pub fn switch(&self, name: &str, default: bool) -> Result<bool, Error> {
        self.text(name).map_or(Ok(default), |value| boolean(name, value))
    }
}

/// Reads a boolean value of flag `name` as Go does.
pub(crate) fn boolean(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        value => Err(invalid(name, value, "not a boolean")),
    }
}

/// Formats the table for `--help`.
pub fn help(table: &[Flag]) -> String {
    let mut text = String::new();
    for flag in table.iter().filter(|flag| !flag.help.is_empty()) {
        let kind = match flag.kind {
            Kind::Switch => String::new(),
            Kind::Value(kind) => format!(" {kind}"),
        };
        let name = format!("{}{kind}", flag.name);
        writeln!(text, "      --{name:<44} {}", flag.help)
            .expect("writing to a String cannot fail");
    }
    text
}

fn invalid(flag: &str, value: &str, reason: impl std::fmt::Display) -> Error {
    Error::Invalid { flag: flag.to_owned(), value: value.to_owned(), reason: reason.to_string() }
}

/// Splits a flag into its name and the value after `=`; returns `None` if `argument` is not a flag.
fn split(style: Style, argument: &str) -> Option<(String, Option<String>)> {
    let (dashes, rest) = match (argument.strip_prefix("--"), argument.strip_prefix('-')) {
        (Some(rest), _) => (2, rest),
        (None, Some(rest)) => (1, rest),
        (None, None) => return None,
    };
    if rest.is_empty() {
        return None;
    }
    if dashes == 1 && style == Style::Kubernetes {
        let letter = rest.chars().next()?;
        let rest = &rest[letter.len_utf8()..];
        let value = rest.strip_prefix('=').unwrap_or(rest);
        let name = if letter == 'h' { "help".to_owned() } else { letter.to_string() };
        return Some((name, (!rest.is_empty()).then(|| value.to_owned())));
    }
    Some(match rest.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None if rest == "h" => ("help".to_owned(), None),
        None => (rest.to_owned(), None),
    })
}

#[cfg(test)]
mod tests;
