//! cel-go's string extensions, version 2. Positions are in characters.

use super::format;
use crate::{Error, Function, Overload, Type, Value};

/// The functions of the library.
pub(super) fn functions() -> Vec<Function> {
    use Type::{Int, String};
    let strings = Type::list(String);
    vec![
        Function::new("charAt").overload(Overload::member(
            "string_char_at_int",
            [String, Int],
            String,
            char_at,
        )),
        Function::new("indexOf")
            .overload(Overload::member("string_index_of_string", [String, String], Int, index_of))
            .overload(Overload::member(
                "string_index_of_string_int",
                [String, String, Int],
                Int,
                index_of,
            )),
        Function::new("lastIndexOf")
            .overload(Overload::member(
                "string_last_index_of_string",
                [String, String],
                Int,
                last_index_of,
            ))
            .overload(Overload::member(
                "string_last_index_of_string_int",
                [String, String, Int],
                Int,
                last_index_of,
            )),
        Function::new("lowerAscii").overload(Overload::member(
            "string_lower_ascii",
            [String],
            String,
            |arguments| Ok(Value::from(text(arguments, 0)?.to_ascii_lowercase())),
        )),
        Function::new("upperAscii").overload(Overload::member(
            "string_upper_ascii",
            [String],
            String,
            |arguments| Ok(Value::from(text(arguments, 0)?.to_ascii_uppercase())),
        )),
        Function::new("replace")
            .overload(Overload::member(
                "string_replace_string_string",
                [String, String, String],
                String,
                replace,
            ))
            .overload(Overload::member(
                "string_replace_string_string_int",
                [String, String, String, Int],
                String,
                replace,
            )),
        Function::new("split")
            .overload(Overload::member(
                "string_split_string",
                [String, String],
                strings.clone(),
                split,
            ))
            .overload(Overload::member(
                "string_split_string_int",
                [String, String, Int],
                strings.clone(),
                split,
            )),
        Function::new("substring")
            .overload(Overload::member("string_substring_int", [String, Int], String, substring))
            .overload(Overload::member(
                "string_substring_int_int",
                [String, Int, Int],
                String,
                substring,
            )),
        Function::new("trim").overload(Overload::member(
            "string_trim",
            [String],
            String,
            |arguments| Ok(Value::from(text(arguments, 0)?.trim().to_owned())),
        )),
        Function::new("format").overload(Overload::member(
            "string_format",
            [String, Type::list(Type::Dyn)],
            String,
            format::format,
        )),
        Function::new("strings.quote").overload(Overload::global(
            "strings_quote",
            [String],
            String,
            |arguments| Ok(Value::from(quote(text(arguments, 0)?))),
        )),
        Function::new("join")
            .overload(Overload::member("list_join", [strings.clone()], String, join))
            .overload(Overload::member("list_join_string", [strings, String], String, join)),
    ]
}

fn text<'v>(arguments: &'v [Value<'_>], at: usize) -> Result<&'v str, Error> {
    arguments.get(at).and_then(Value::as_str).ok_or_else(Error::no_such_overload)
}

fn number(arguments: &[Value<'_>], at: usize) -> Result<Option<i64>, Error> {
    match arguments.get(at) {
        None => Ok(None),
        Some(Value::Int(number)) => Ok(Some(*number)),
        Some(_) => Err(Error::no_such_overload()),
    }
}

fn out_of_range(index: i64) -> Error {
    Error::new(format!("index out of range: {index}"))
}

/// The byte at which a character begins, or the end of the text; `None` if it is out of range.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    match text.char_indices().nth(index) {
        Some((at, _)) => Some(at),
        None => (text.chars().count() == index).then_some(text.len()),
    }
}

fn char_at<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let text = text(arguments, 0)?;
    let index = number(arguments, 1)?.unwrap_or_default();
    let at = byte_of(text, index).ok_or_else(|| out_of_range(index))?;
    Ok(Value::from(text[at..].chars().next().map(String::from).unwrap_or_default()))
}

fn index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, part) = (text(arguments, 0)?, text(arguments, 1)?);
    let offset = number(arguments, 2)?.unwrap_or_default();
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let found = byte_of(text, offset).and_then(|start| Some(start + text[start..].find(part)?));
    Ok(Value::Int(found.map_or(-1, |at| count(&text[..at]))))
}

fn last_index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, part) = (text(arguments, 0)?, text(arguments, 1)?);
    let offset = number(arguments, 2)?;
    let length = count(text);
    if part.is_empty() {
        return Ok(Value::Int(offset.unwrap_or(length)));
    }
    if offset.is_none() && text.len() < part.len() {
        return Ok(Value::Int(-1));
    }
    let offset = offset.unwrap_or(length - 1);
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    if offset >= length {
        return Ok(Value::Int(-1));
    }
    // The match begins at or before the offset.
    let start = byte_of(text, offset).unwrap_or(text.len());
    let mut end = (start + part.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let found = text[..end].rfind(part);
    Ok(Value::Int(found.map_or(-1, |at| count(&text[..at]))))
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn replace<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, old, new) = (text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?);
    let limit = number(arguments, 3)?.and_then(|limit| usize::try_from(limit).ok());
    Ok(Value::from(match limit {
        Some(limit) => text.replacen(old, new, limit),
        None => text.replace(old, new),
    }))
}

fn split<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, separator) = (text(arguments, 0)?, text(arguments, 1)?);
    let limit = number(arguments, 2)?.unwrap_or(-1);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let part = |part: &str| Value::from(part.to_owned());
    let parts: Vec<Value<'a>> = match (limit, separator.is_empty()) {
        (0, _) => Vec::new(),
        (_, false) => text.splitn(limit, separator).map(part).collect(),
        (_, true) => {
            // Each character is a part; the last has the rest.
            let mut parts = Vec::new();
            let mut rest = text;
            while let Some(character) = rest.chars().next() {
                if parts.len() + 1 == limit {
                    break;
                }
                let (first, after) = rest.split_at(character.len_utf8());
                parts.push(part(first));
                rest = after;
            }
            if !rest.is_empty() {
                parts.push(part(rest));
            }
            parts
        }
    };
    Ok(Value::list(parts))
}

fn substring<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let text = text(arguments, 0)?;
    let start = number(arguments, 1)?.unwrap_or_default();
    let end = number(arguments, 2)?;
    if let Some(end) = end
        && start > end
    {
        return Err(Error::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_of(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => byte_of(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Value::from(text[from..to].to_owned()))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn join<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let Some(Value::List(list)) = arguments.first() else { return Err(Error::no_such_overload()) };
    let separator = arguments.get(1).and_then(Value::as_str).unwrap_or_default();
    let mut joined = String::new();
    for (at, element) in list.iter().enumerate() {
        if at > 0 {
            joined.push_str(separator);
        }
        match &element {
            Value::String(part) => joined.push_str(part),
            other => {
                let text = crate::ops::text(other);
                return Err(Error::new(format!("join: invalid input: {text}")));
            }
        }
    }
    Ok(Value::from(joined))
}
