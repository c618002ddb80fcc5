//! Parses quantities: splits them, interprets the unit, then uses integers or exact decimals.

use super::decimal::Decimal;
use super::{Amount, Format, ParseError, Quantity};

/// Maximum number of decimal digits that always fit an `i64`.
const DIGITS_MAX: i64 = 18;
/// No quantity is more precise than this power of ten.
const NANO: i64 = -9;

/// The parts of a quantity.
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros, but never empty.
    whole: &'a str,
    fraction: &'a str,
    /// Whether there was a digit.
    numeric: bool,
    suffix: &'a str,
}

#[derive(Clone, Copy)]
enum Unit {
    /// A power of ten.
    Decimal(i64),
    /// A power of two.
    Binary(u32),
    /// A power of ten, written as an exponent.
    Exponent(i64),
}

/// Returns the quantity, and whether the API server prints it exactly as written.
pub(super) fn parse(text: &str) -> Result<(Quantity, bool), ParseError> {
    if text.is_empty() {
        return Err(ParseError::Format);
    }
    if text == "0" {
        return Ok((Quantity::new(0, Format::DecimalSi), true));
    }
    let parts = split(text)?;
    let unit = interpret(parts.suffix).ok_or(ParseError::Suffix)?;
    match small(&parts, unit) {
        Some(done) => Ok(done),
        None if parts.numeric => Ok((big(&parts, unit), false)),
        // The server reports a number without digits only if it uses exact decimals.
        None => Err(ParseError::Number),
    }
}

fn split(text: &str) -> Result<Parts<'_>, ParseError> {
    let (negative, unsigned) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let zeros = unsigned.starts_with('0');
    let unsigned = unsigned.trim_start_matches('0');
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = unsigned.split_at(digits(unsigned));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let tail = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
    if digits(tail) != tail.len() {
        return Err(ParseError::Format);
    }
    let numeric = zeros || !whole.is_empty() || !fraction.is_empty();
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(Parts { negative, whole, fraction, numeric, suffix })
}

fn interpret(suffix: &str) -> Option<Unit> {
    let unit = match suffix {
        "" => Unit::Decimal(0),
        "n" => Unit::Decimal(-9),
        "u" => Unit::Decimal(-6),
        "m" => Unit::Decimal(-3),
        "k" => Unit::Decimal(3),
        "M" => Unit::Decimal(6),
        "G" => Unit::Decimal(9),
        "T" => Unit::Decimal(12),
        "P" => Unit::Decimal(15),
        "E" => Unit::Decimal(18),
        "Ki" => Unit::Binary(10),
        "Mi" => Unit::Binary(20),
        "Gi" => Unit::Binary(30),
        "Ti" => Unit::Binary(40),
        "Pi" => Unit::Binary(50),
        "Ei" => Unit::Binary(60),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // The API server keeps the low 32 bits of any exponent.
            Unit::Exponent(i64::from(exponent as i32))
        }
    };
    Some(unit)
}

/// Returns the unit of a power of ten; the inverse of `interpret`.
pub(super) fn decimal_unit(exponent: i64) -> Option<&'static str> {
    let units = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let index = usize::try_from((exponent + 9) / 3).ok()?;
    units.get(index).copied()
}

impl Unit {
    fn format(self) -> Format {
        match self {
            Unit::Decimal(_) => Format::DecimalSi,
            Unit::Binary(_) => Format::BinarySi,
            Unit::Exponent(_) => Format::DecimalExponent,
        }
    }
}

/// Parses amounts that fit an integer and a power of ten.
fn small(parts: &Parts<'_>, unit: Unit) -> Option<(Quantity, bool)> {
    let (whole, fraction) = (parts.whole, parts.fraction);
    let (scale, power) = match unit {
        Unit::Decimal(scale) | Unit::Exponent(scale) => {
            (whole.len() + fraction.len() <= DIGITS_MAX as usize).then_some(())?;
            (scale, 0)
        }
        Unit::Binary(power) => {
            // Three decimal digits for ten bits, and one to spare.
            let spare = 14 - whole.len() as i64 - i64::from(power * 3 / 10);
            (fraction.is_empty() && spare >= 0).then_some((0, power))?
        }
    };
    let scale = scale - fraction.len() as i64;
    if scale < NANO {
        return None;
    }
    let digits = || whole.bytes().chain(fraction.bytes());
    let value = digits().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let magnitude = value.checked_mul(1 << power)?;
    let verbatim = match unit {
        Unit::Binary(_) => value % 8 != 0,
        _ => {
            let thousands = value % 1000 == 0 && digits().count() >= 3;
            scale % 3 == 0 && !thousands && digits().next() != Some(b'0')
        }
    };
    let value = if parts.negative { -magnitude } else { magnitude };
    let amount = Amount::Small { value, scale: i32::try_from(scale).ok()? };
    Some((Quantity { amount, format: unit.format() }, verbatim))
}

/// Parses all other amounts exactly, then limits them to the range of a quantity.
fn big(parts: &Parts<'_>, unit: Unit) -> Quantity {
    let digits = parts.whole.bytes().chain(parts.fraction.bytes());
    let places = -(parts.fraction.len() as i64);
    let (exponent, power) = match unit {
        Unit::Decimal(exponent) | Unit::Exponent(exponent) => (exponent + places, 0),
        Unit::Binary(power) => (places, power),
    };
    // Rounded away from zero, so that a small request does not become zero.
    let mut amount =
        Decimal::from_ascii(false, digits, exponent).times_power_of_two(power).rounded_up(NANO);
    let mut format = unit.format();
    if format == Format::BinarySi {
        let (max, one) = (Decimal::new(i64::MAX, 0), Decimal::new(1, 0));
        if amount.cmp(&max).is_gt() {
            amount = max;
        } else if amount.sign().is_gt() && amount.cmp(&one).is_lt() {
            format = Format::DecimalSi;
        }
    }
    let amount = if parts.negative { amount.negated() } else { amount };
    Quantity { amount: Amount::Big(amount), format }
}
