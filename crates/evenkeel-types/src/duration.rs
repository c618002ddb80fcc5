//! Durations in Go's notation (`1h30m`, `-1.5s`), with the values and error texts of
//! `time.ParseDuration`.

/// The largest magnitude that Go's parser accepts; as a positive value it is out of range.
const LIMIT: u64 = 1 << 63;

/// Parses a duration and returns it in nanoseconds.
///
/// # Errors
///
/// Go's error message, which quotes the input.
///
/// ```
/// use evenkeel_types::duration::parse;
///
/// assert_eq!(parse("1.5h"), Ok(5_400_000_000_000));
/// assert_eq!(parse("5"), Err(r#"time: missing unit in duration "5""#.to_owned()));
/// ```
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = Number::take(rest).ok_or_else(invalid)?;
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, tail) = after.split_at(unit_end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let nanos = nanoseconds(unit).ok_or_else(|| {
            format!("time: unknown unit {} in duration {}", quote(unit), quote(text))
        })?;
        total = number
            .times(nanos)
            .and_then(|value| total.checked_add(value))
            .filter(|total| *total <= LIMIT)
            .ok_or_else(invalid)?;
        rest = tail;
    }
    if negative {
        return Ok(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| invalid())
}

fn nanoseconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A decimal number as Go parses it: the fraction is an integer with a scale.
struct Number {
    whole: u64,
    fraction: u64,
    scale: f64,
}

impl Number {
    /// Parses the number at the start of `text`; none if there is none or it overflows.
    fn take(text: &str) -> Option<(Self, &str)> {
        let (digits, mut rest) = split_digits(text);
        let mut whole: u64 = 0;
        for digit in digits.bytes() {
            whole = whole.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            if whole > LIMIT {
                return None;
            }
        }
        let mut number = Self { whole, fraction: 0, scale: 1.0 };
        let mut any = !digits.is_empty();
        if let Some(after) = rest.strip_prefix('.') {
            let (digits, tail) = split_digits(after);
            any |= !digits.is_empty();
            number.read_fraction(digits);
            rest = tail;
        }
        any.then_some((number, rest))
    }

    /// Digits beyond the precision of 63 bits are dropped, as in Go.
    fn read_fraction(&mut self, digits: &str) {
        for digit in digits.bytes() {
            if self.fraction > (LIMIT - 1) / 10 {
                return;
            }
            self.fraction = self.fraction * 10 + u64::from(digit - b'0');
            self.scale *= 10.0;
        }
    }

    fn times(&self, unit: u64) -> Option<u64> {
        if self.whole > LIMIT / unit {
            return None;
        }
        // In floating point, as Go rounds; the result is below `unit` either way.
        let fraction = (self.fraction as f64 * (unit as f64 / self.scale)) as u64;
        (self.whole * unit).checked_add(fraction)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Quotes as Go's package `time` does: bytes outside printable ASCII become `\xNN`.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=0x7f => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("-5s", -5_000_000_000),
            ("1h15m30.918273645s", 4_530_918_273_645),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("2µs", 2_000),
            ("3μs", 3_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.9223372036854775807h", 3_320_413_933_267),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("-9223372036854775.808us", i64::MIN),
        ] {
            assert_eq!(parse(text), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn errors_are_those_of_go() {
        for (text, error) in [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("garbage", r#"time: invalid duration "garbage""#),
            (".s", r#"time: invalid duration ".s""#),
            ("3", r#"time: missing unit in duration "3""#),
            ("1s2", r#"time: missing unit in duration "1s2""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            ("1ü\"", r#"time: unknown unit "\xc3\xbc\"" in duration "1\xc3\xbc\"""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("3000000h", r#"time: invalid duration "3000000h""#),
            ("9999999999999999999999h", r#"time: invalid duration "9999999999999999999999h""#),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
    }
}
