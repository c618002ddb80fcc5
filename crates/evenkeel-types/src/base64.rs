//! Standard base64 as in Go: newlines are skipped, padding is required, and unused bits before the
//! padding are ignored.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Position of the illegal byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
pub struct IllegalByte(usize);

/// Encodes `bytes`, with padding.
///
/// ```
/// assert_eq!(evenkeel_types::base64::encode(b"fo"), "Zm8=");
/// ```
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            if position <= chunk.len() {
                let index = bits >> (18 - 6 * position) & 63;
                text.push(char::from(ALPHABET[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// Decodes `text`.
///
/// # Errors
///
/// If it has a byte that is not base64, or no padding.
pub fn decode(text: &str) -> Result<Vec<u8>, IllegalByte> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    read(text.as_bytes(), |quantum, digits| {
        let bits = quantum.iter().fold(0, |bits, digit| bits << 6 | u32::from(*digit));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..digits]);
    })?;
    Ok(bytes)
}

/// Validates `text`. Returns whether it is the canonical encoding of its bytes.
pub(crate) fn is_canonical(text: &str) -> Result<bool, IllegalByte> {
    let (mut quanta, mut canonical) = (0, true);
    read(text.as_bytes(), |quantum, digits| {
        quanta += 1;
        canonical &= match digits {
            2 => quantum[1] & 15 == 0,
            3 => quantum[2] & 3 == 0,
            _ => true,
        };
    })?;
    Ok(canonical && quanta * 4 == text.len())
}

fn value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Calls `quantum` with four digits at a time and the number of digits that count.
fn read(text: &[u8], mut quantum: impl FnMut([u8; 4], usize)) -> Result<(), IllegalByte> {
    let mut digits = [0; 4];
    let mut filled = 0;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if let Some(digit) = value(byte) {
            digits[filled] = digit;
            filled += 1;
            if filled == 4 {
                quantum(digits, 4);
                filled = 0;
            }
            continue;
        }
        match byte {
            b'\n' | b'\r' => {}
            b'=' if filled >= 2 => {
                if filled == 2 {
                    at = skip_newlines(text, at);
                    match text.get(at) {
                        None => return Err(IllegalByte(text.len())),
                        Some(b'=') => at += 1,
                        Some(_) => return Err(IllegalByte(at - 1)),
                    }
                }
                at = skip_newlines(text, at);
                if at < text.len() {
                    return Err(IllegalByte(at));
                }
                digits[filled..].fill(0);
                quantum(digits, filled);
                return Ok(());
            }
            _ => return Err(IllegalByte(at - 1)),
        }
    }
    if filled == 0 { Ok(()) } else { Err(IllegalByte(text.len() - filled)) }
}

fn skip_newlines(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b'\n' | b'\r')) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{IllegalByte, decode, encode, is_canonical};

    #[test]
    fn bytes_round_trip() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"abcd", &[0, 255, 254], "\u{ff}?>".as_bytes()]
        {
            let text = encode(bytes);
            assert_eq!(decode(&text).unwrap(), bytes);
            assert_eq!(is_canonical(&text), Ok(true));
        }
        for (bytes, text) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("hello", "aGVsbG8="),
            ("\u{ff}?>", "w78/Pg=="),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn newlines_and_unused_bits_are_accepted_but_not_canonical() {
        assert_eq!(decode("aGVs\nbG8=\n").unwrap(), b"hello");
        assert_eq!(is_canonical("aGVs\nbG8="), Ok(false));
        assert_eq!(decode("aGVsbG9=").unwrap(), b"hello");
        assert_eq!(is_canonical("aGVsbG9="), Ok(false));
    }

    #[test]
    fn errors_report_the_same_byte_as_go() {
        for (text, at) in [
            ("a", 0),
            ("ab", 0),
            ("abc", 0),
            ("ab=", 3),
            ("ab=c", 2),
            ("abcd!", 4),
            ("ab==x", 4),
            ("=", 0),
        ] {
            assert_eq!(decode(text), Err(IllegalByte(at)), "{text}");
        }
    }
}
