//! Formats for identifiers with a fixed alphabet, some with a check digit.

pub(super) fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let bytes = text.as_bytes();
    let mut digits = Vec::with_capacity(32);
    for b in bytes {
        match b {
            // Dashes are optional, but allowed only at these positions.
            b'-' => match digits.len() {
                8 | 12 | 16 | 20 if digits.last() != Some(&b'-') => {}
                _ => return false,
            },
            b if b.is_ascii_hexdigit() => digits.push(b.to_ascii_lowercase()),
            _ => return false,
        }
    }
    // The position check above does not reject two consecutive dashes.
    if digits.len() != 32 || text.contains("--") {
        return false;
    }
    match version {
        None => true,
        Some(b'3') => digits[12] == b'3',
        Some(v) => digits[12] == v && matches!(digits[16], b'8' | b'9' | b'a' | b'b'),
    }
}

fn without_space_and_dash(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| !matches!(b, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' | b'-')).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let code = without_space_and_dash(text);
    let [digits @ .., check] = &code[..] else { return false };
    if digits.len() != 9 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let check = match check {
        b'X' => 10,
        b if b.is_ascii_digit() => u32::from(b - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(digits).map(|(i, d)| i * u32::from(d - b'0')).sum();
    (sum + 10 * check).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let code = without_space_and_dash(text);
    if code.len() != 13 || !code.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = code[..12]
        .iter()
        .zip([1, 3].into_iter().cycle())
        .map(|(d, f)| f * u32::from(d - b'0'))
        .sum();
    u32::from(code[12] - b'0') == (10 - sum % 10) % 10
}

pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect();
    let number =
        |length: usize| digits.iter().take(length).fold(0u32, |n, d| n * 10 + u32::from(*d));
    let issuer = match digits.len() {
        13 => digits[0] == 4,
        14 => matches!(number(3), 300..=305) || matches!(number(2), 36 | 38),
        15 => matches!(number(2), 34 | 37) || matches!(number(4), 2131 | 1800),
        16 => digits[0] == 4 || matches!(number(2), 51..=55 | 35 | 65) || number(4) == 6011,
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, d)| match u32::from(*d) * if i % 2 == 1 { 2 } else { 1 } {
            doubled @ 10.. => doubled - 9,
            plain => plain,
        })
        .sum();
    issuer && sum.is_multiple_of(10)
}

pub(super) fn is_ssn(text: &str) -> bool {
    // Upstream requires the length of the form with separators.
    let b = text.as_bytes();
    b.len() == 11
        && matches!(b[3], b'-' | b' ')
        && matches!(b[6], b'-' | b' ')
        && [&b[..3], &b[4..6], &b[7..]].iter().all(|part| part.iter().all(u8::is_ascii_digit))
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(body) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else {
        return false;
    };
    let parts: Vec<&str> =
        body.split(',').map(|part| part.trim_matches(['\t', '\n', '\x0c', '\r', ' '])).collect();
    parts.len() == 3
        && parts.iter().all(|part| {
            let canonical = *part == "0" || !part.starts_with('0');
            canonical && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u8>().is_ok()
        })
}

/// Returns whether the text is non-empty, padded base64 in the standard alphabet.
pub(super) fn is_base64(text: &str) -> bool {
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return false;
    }
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}
