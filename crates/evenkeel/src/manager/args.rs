//! The command line of an operator: `--kubeconfig`, `--log-level`, `--help` and so on.
//!
//! One table defines the flags for the parser and `--help`. There is no parser crate because it
//! would add more to cold builds than these few flags justify.

mod flags;

mod leader_election;

mod servers;

mod webhooks;

use std::cell::Cell;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use self::flags::FLAGS;
use crate::logging::{self, ExtraLayer, LogFormat};
use crate::queue::TokenBucket;
use crate::{chain, manifest};
use leader_election::LeaderElectionArgs;
use servers::ServerArgs;
use webhooks::WebhookArgs;

/// The parsed flags.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Args {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) context: Option<String>,
    pub(super) namespaces: Option<Vec<String>>,
    pub(super) kube_api_qps: Option<f64>,
    pub(super) kube_api_burst: Option<u32>,
    pub(super) servers: Box<ServerArgs>,
    pub(super) log_level: Option<String>,
    pub(super) log_format: Option<LogFormat>,
    pub(super) leader_election: LeaderElectionArgs,
    pub(super) webhooks: Box<WebhookArgs>,
}

impl Args {
    /// Returns the limit of requests; none without `--kube-api-qps`.
    pub(super) fn client_limit(&self) -> Option<TokenBucket> {
        let qps = self.kube_api_qps?;
        // Rounded up, so that a small rate still allows a request.
        let burst = self.kube_api_burst.unwrap_or((2.0 * qps).ceil() as u32);
        Some(TokenBucket { every: Duration::try_from_secs_f64(1.0 / qps).ok()?, burst })
    }
}

/// The result of parsing.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one, at the start of the program")]
enum Parsed {
    /// Run the operator.
    Run(Args),
    /// Print this and exit.
    Print(Print),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Print {
    Help,
    Version,
    Crds,
}

/// Why a command line is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum UsageError {
    #[error("unknown flag {0}")]
    UnknownFlag(String),
    #[error("unexpected argument {0:?}")]
    UnexpectedArgument(String),
    #[error("{0} needs a value")]
    NoValue(&'static str),
    #[error("{0} takes no value")]
    UnexpectedValue(&'static str),
    #[error("{flag}: the value {value:?} is not UTF-8")]
    NotText { flag: &'static str, value: OsString },
    #[error("{flag}: invalid value {value:?}: {reason}")]
    InvalidValue { flag: &'static str, value: String, reason: String },
}

/// Why a value is invalid.
enum ValueError {
    NotText(OsString),
    Invalid { value: String, reason: String },
}

impl From<OsString> for ValueError {
    fn from(value: OsString) -> Self {
        Self::NotText(value)
    }
}

impl ValueError {
    fn of(self, flag: &'static str) -> UsageError {
        match self {
            Self::NotText(value) => UsageError::NotText { flag, value },
            Self::Invalid { value, reason } => UsageError::InvalidValue { flag, value, reason },
        }
    }
}

struct Flag {
    /// Including the dashes.
    name: &'static str,
    short: Option<&'static str>,
    action: Action,
    help: &'static str,
}

enum Action {
    /// Takes a value, shown as `name` in `--help`.
    Set {
        name: &'static str,
        set: fn(&mut Args, OsString) -> Result<(), ValueError>,
    },
    /// True without a value, as in Go's `flag`.
    Switch(fn(&mut Args, bool)),
    Print(Print),
}

fn text(value: OsString, slot: &mut Option<String>) -> Result<(), ValueError> {
    *slot = Some(value.into_string()?);
    Ok(())
}

/// Parses a value with the error of its type.
fn value<T: FromStr<Err: ToString>>(
    value: OsString,
    slot: &mut Option<T>,
) -> Result<(), ValueError> {
    let value = value.into_string()?;
    let parsed = value.parse().map_err(|error: T::Err| error.to_string());
    *slot = Some(parsed.map_err(|reason| ValueError::Invalid { value, reason })?);
    Ok(())
}

/// Parses a number above zero.
fn positive<T: FromStr + PartialOrd + Default>(
    value: OsString,
    slot: &mut Option<T>,
) -> Result<(), ValueError> {
    let value = value.into_string()?;
    let number = value.parse().ok().filter(|number| *number > T::default());
    let reason = || "not a positive number".to_owned();
    *slot = Some(number.ok_or_else(|| ValueError::Invalid { value, reason: reason() })?);
    Ok(())
}

/// Parses names separated by commas.
fn names(value: OsString, slot: &mut Option<Vec<String>>) -> Result<(), ValueError> {
    let value = value.into_string()?;
    let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.is_empty() {
        return Err(ValueError::Invalid { value, reason: "it has no name".to_owned() });
    }
    *slot = Some(names);
    Ok(())
}

/// Parses a duration as Go does: `15s`, `1m30s`.
fn duration(value: OsString, slot: &mut Option<Duration>) -> Result<(), ValueError> {
    let value = value.into_string()?;
    let parsed = evenkeel_types::duration::parse(&value).and_then(|nanos| {
        let nanos = u64::try_from(nanos);
        nanos.map(Duration::from_nanos).map_err(|_| "a duration must not be negative".to_owned())
    });
    match parsed {
        Ok(duration) => *slot = Some(duration),
        Err(reason) => return Err(ValueError::Invalid { value, reason }),
    }
    Ok(())
}

/// The program, for `--help`, `--version` and `--print-crds`.
pub(super) struct Program<'a> {
    /// Exports traces.
    pub(super) layer: Cell<Option<ExtraLayer>>,
    pub(super) name: &'a str,
    pub(super) version: Option<&'a str>,
    pub(super) crds: &'a [CustomResourceDefinition],
}

/// The exit of a process that does not run the operator.
struct Exit {
    code: i32,
    text: String,
}

impl Program<'_> {
    /// Parses the arguments after the program name and initializes logging. Exits the process if
    /// there is something to print, or if the arguments are invalid.
    pub(super) fn start(&self, arguments: impl IntoIterator<Item = OsString>) -> Args {
        match self.prepare(arguments) {
            Ok(args) => args,
            Err(Exit { code, text }) => {
                // A closed pipe is not an error.
                let _ = match code {
                    0 => std::io::stdout().write_all(text.as_bytes()),
                    _ => std::io::stderr().write_all(text.as_bytes()),
                };
                std::process::exit(code)
            }
        }
    }

    fn prepare(&self, arguments: impl IntoIterator<Item = OsString>) -> Result<Args, Exit> {
        let refused = |error: &(dyn std::error::Error + 'static)| {
            let text = format!("error: {}\nSee {} --help.\n", chain(error), self.name);
            Exit { code: 2, text }
        };
        match parse(arguments, !self.crds.is_empty()).map_err(|error| refused(&error))? {
            Parsed::Run(args) => {
                let format = args.log_format.unwrap_or_default();
                logging::init_with(args.log_level.as_deref(), format, self.layer.take())
                    .map_err(|error| refused(&error))?;
                Ok(args)
            }
            Parsed::Print(Print::Help) => {
                Err(Exit { code: 0, text: help(self.name, !self.crds.is_empty()) })
            }
            Parsed::Print(Print::Version) => Err(Exit { code: 0, text: self.version() }),
            Parsed::Print(Print::Crds) => Err(self.crds()),
        }
    }

    fn version(&self) -> String {
        let own = self.version.map(|version| format!(" {version}")).unwrap_or_default();
        format!("{}{own} (evenkeel {})\n", self.name, env!("CARGO_PKG_VERSION"))
    }

    fn crds(&self) -> Exit {
        let mut text = String::new();
        for crd in self.crds {
            match manifest::yaml(crd) {
                Ok(yaml) => text.extend(["---\n", &yaml]),
                Err(error) => return Exit { code: 1, text: format!("error: {}\n", chain(&error)) },
            }
        }
        Exit { code: 0, text }
    }
}

/// Returns the flags of a program; `--print-crds` only if there are CRDs.
fn flags(crds: bool) -> impl Iterator<Item = &'static Flag> {
    FLAGS.iter().filter(move |flag| crds || !matches!(flag.action, Action::Print(Print::Crds)))
}

/// Returns the names of the flags, with their dashes.
pub(super) fn flag_names() -> Vec<&'static str> {
    FLAGS.iter().map(|flag| flag.name).collect()
}

/// Parses the arguments after the program name.
///
/// A value follows its flag or an equals sign, and one dash is the same as two, as in Go's `flag`.
fn parse(arguments: impl IntoIterator<Item = OsString>, crds: bool) -> Result<Parsed, UsageError> {
    let mut args = Args::default();
    let mut print = None;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let shown = argument.to_string_lossy().into_owned();
        let (name, given) = match shown.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&*shown, None),
        };
        let found = flags(crds)
            .find(|flag| flag.short == Some(name) || flag.name == name || &flag.name[1..] == name);
        let Some(flag) = found else {
            return Err(match name.starts_with('-') {
                true => UsageError::UnknownFlag(name.to_owned()),
                false => UsageError::UnexpectedArgument(shown),
            });
        };
        match &flag.action {
            Action::Print(_) if given.is_some() => {
                return Err(UsageError::UnexpectedValue(flag.name));
            }
            Action::Switch(set) => {
                let value = match given {
                    None => true,
                    // What Go's `strconv.ParseBool` accepts.
                    Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
                    Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
                    Some(value) => {
                        let (value, reason) = (value.to_owned(), "not true or false".to_owned());
                        return Err(ValueError::Invalid { value, reason }.of(flag.name));
                    }
                };
                set(&mut args, value);
            }
            // The first one is printed; the rest is still validated.
            Action::Print(what) => print = print.or(Some(*what)),
            Action::Set { set, .. } => {
                let value = match given {
                    Some(_) if argument.to_str().is_none() => {
                        return Err(UsageError::NotText { flag: flag.name, value: argument });
                    }
                    Some(value) => Some(value.into()),
                    None => arguments.next(),
                };
                let value = value.filter(|value: &OsString| !value.is_empty());
                let value = value.ok_or(UsageError::NoValue(flag.name))?;
                set(&mut args, value).map_err(|error| error.of(flag.name))?;
            }
        }
    }
    Ok(print.map_or(Parsed::Run(args), Parsed::Print))
}

/// The width of `--help`.
const WIDTH: usize = 80;

/// Returns the text of `--help`.
fn help(name: &str, crds: bool) -> String {
    let left = |flag: &Flag| {
        let short = flag.short.map(|short| format!("{short}, ")).unwrap_or("    ".to_owned());
        let value = match flag.action {
            Action::Set { name, .. } => format!(" {name}"),
            Action::Print(_) | Action::Switch(_) => String::new(),
        };
        format!("  {short}{}{value}", flag.name)
    };
    let column = flags(crds).map(|flag| left(flag).len()).max().unwrap_or(0) + 2;
    let mut text =
        format!("{name}: a Kubernetes operator\n\nUsage: {name} [OPTIONS]\n\nOptions:\n");
    for flag in flags(crds) {
        let mut line = format!("{:column$}", left(flag));
        let mut width = column;
        for word in flag.help.split(' ') {
            if width + word.len() >= WIDTH {
                text.push_str(line.trim_end());
                text.push('\n');
                (line, width) = (" ".repeat(column), column);
            }
            // Writing to a String cannot fail.
            let _ = write!(line, "{word} ");
            width += word.len() + 1;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
