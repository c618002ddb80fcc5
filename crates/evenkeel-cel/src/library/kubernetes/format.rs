//! `format`: named formats of strings, and what is wrong with a string that does not have one.

use std::any::Any;

use evenkeel_types::format::Format as StringFormat;
use evenkeel_types::names::{self, Reasons};
use evenkeel_types::url::Url;

use super::{list_of_strings, receiver, text};
use crate::{Error, Function, Opaque, Overload, Type, Value};

/// A format as a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// The name in `format.named`.
    name: &'static str,
    /// The function that returns it.
    function: &'static str,
    printed: &'static str,
    check: fn(&str) -> Reasons,
    /// The size of a comparable regular expression, which determines the cost.
    pub(super) regex_size: u64,
}

pub(super) fn format_type() -> Type {
    Type::object("kubernetes.NamedFormat")
}

impl Opaque for Format {
    fn type_(&self) -> Type {
        format_type()
    }

    fn equals(&self, other: &Value<'_>) -> Option<bool> {
        other.downcast::<Self>().map(|other| self.printed == other.printed)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> String {
        self.printed.to_owned()
    }
}

const fn format(
    function: &'static str,
    printed: &'static str,
    regex_size: u64,
    check: fn(&str) -> Reasons,
) -> Format {
    // The functions are in the namespace `format`.
    let (_, name) = function.split_at("format.".len());
    Format { name, function, printed, check, regex_size }
}

/// The sizes are those of the expressions that upstream uses, or would.
const FORMATS: [Format; 13] = [
    format("format.dns1123Label", "DNS1123Label", 30, |s| names::label_name(s, false)),
    format("format.dns1123Subdomain", "DNS1123Subdomain", 60, |s| names::subdomain_name(s, false)),
    format("format.dns1035Label", "DNS1035Label", 30, names::dns1035_label),
    format("format.qualifiedName", "QualifiedName", 60, names::qualified_name),
    format("format.dns1123LabelPrefix", "DNS1123LabelPrefix", 30, |s| names::label_name(s, true)),
    format("format.dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60, |s| {
        names::subdomain_name(s, true)
    }),
    format("format.dns1035LabelPrefix", "DNS1035LabelPrefix", 30, |s| {
        names::dns1035_label_name(s, true)
    }),
    format("format.labelValue", "LabelValue", 40, names::label_value),
    format("format.uri", "URI", 1103, |s| match Url::parse_request_uri(s) {
        Ok(_) => Reasons::new(),
        Err(reason) => vec![reason.into()],
    }),
    format("format.uuid", "uuid", 70, |s| {
        unless(StringFormat::Uuid, s, "does not match the UUID format")
    }),
    format("format.byte", "byte", 84, |s| unless(StringFormat::Byte, s, "invalid base64")),
    format("format.date", "date", 71, |s| unless(StringFormat::Date, s, "invalid date")),
    format("format.datetime", "datetime", 71, |s| {
        unless(StringFormat::DateTime, s, "invalid datetime")
    }),
];

fn unless(format: StringFormat, text: &str, reason: &'static str) -> Reasons {
    if format.accepts(text) { Reasons::new() } else { vec![reason.into()] }
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = vec![
        Function::new("validate").overload(Overload::member(
            "format-validate",
            [format_type(), Type::String],
            Type::optional(list_of_strings()),
            validate,
        )),
        Function::new("format.named").overload(Overload::global(
            "format-named",
            [Type::String],
            Type::optional(format_type()),
            |values| {
                let name = text(values.first().ok_or_else(Error::no_such_overload)?)?;
                let found = FORMATS.iter().find(|format| format.name == name);
                Ok(Value::optional(found.map(|format| Value::opaque(*format))))
            },
        )),
    ];
    functions.extend(FORMATS.iter().map(|format| {
        Function::new(format.function).overload(Overload::global(
            format.function,
            [],
            format_type(),
            move |_| Ok(Value::opaque(*format)),
        ))
    }));
    functions
}

fn validate<'a>(values: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let format: &Format = receiver(values)?;
    let reasons = (format.check)(text(values.get(1).ok_or_else(Error::no_such_overload)?)?);
    let reasons: Vec<_> =
        reasons.into_iter().map(|reason| Value::from(reason.into_owned())).collect();
    Ok(Value::optional((!reasons.is_empty()).then(|| Value::list(reasons))))
}
