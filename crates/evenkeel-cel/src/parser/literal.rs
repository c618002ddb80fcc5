//! The values of literals: numbers, and strings with their escapes.

use crate::Value;

/// The value of an integer literal with its sign.
pub(super) fn int(text: &str, negative: bool) -> Option<Value<'static>> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok().map(Value::Int)
}

/// The value of an unsigned literal, which ends with `u`.
pub(super) fn uint(text: &str) -> Option<Value<'static>> {
    let text = text.get(..text.len() - 1)?;
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    u64::from_str_radix(digits, radix).ok().map(Value::Uint)
}

/// The value of a floating point literal with its sign. Out of range is an error, as in Go.
pub(super) fn double(text: &str, negative: bool) -> Option<Value<'static>> {
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Value::Double(if negative { -value } else { value }))
}

/// The bytes that a quoted literal stands for.
pub(super) fn unescape(text: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, text) = match text.strip_prefix(['r', 'R']) {
        Some(text) => (true, text),
        None => (false, text.as_str()),
    };
    let quotes = if text.len() >= 6 && (text.starts_with("'''") || text.starts_with("\"\"\"")) {
        3
    } else {
        1
    };
    let inner = text.get(quotes..text.len() - quotes).ok_or(BAD)?;
    if raw || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut output = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        output.extend_from_slice(&rest.as_bytes()[..at]);
        rest = escape(&rest[at + 1..], bytes, &mut output)?;
    }
    output.extend_from_slice(rest.as_bytes());
    Ok(output)
}

const BAD: &str = "unable to unescape string";

fn escape<'t>(text: &'t str, bytes: bool, output: &mut Vec<u8>) -> Result<&'t str, &'static str> {
    let letter =
        text.chars().next().ok_or("unable to unescape string, found '\\' as last character")?;
    let rest = &text[letter.len_utf8()..];
    let simple = match letter {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => letter as u8,
        _ => 0,
    };
    if simple != 0 {
        output.push(simple);
        return Ok(rest);
    }
    let (digits, radix, skip) = match letter {
        'x' | 'X' => (2, 16, 0),
        'u' if !bytes => (4, 16, 0),
        'U' if !bytes => (8, 16, 0),
        // The letter is the first digit.
        '0'..='3' => (3, 8, 1),
        _ => return Err(BAD),
    };
    let number = if skip == 1 { text } else { rest };
    let code = number.get(..digits).and_then(|n| u32::from_str_radix(n, radix).ok()).ok_or(BAD)?;
    match u8::try_from(code) {
        Ok(byte) if bytes => output.push(byte),
        _ => {
            let character = char::from_u32(code).ok_or("invalid unicode code point")?;
            output.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(&number[digits..])
}
