//! Quantities such as `500m` and `2Gi`: exact decimal numbers with the format of their unit.
//!
//! Parsing and formatting are those of the API server, including the cases in which it keeps a
//! string as written ([`canonicalize`]). Amounts of up to 18 digits are an integer and a power of
//! ten; larger ones use the slower `decimal`.

mod decimal;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use decimal::Decimal;
use serde_json::Value;

/// An exact amount and the format of its unit.
///
/// Equality and order are those of the amounts: `1Ki` equals `1024`.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
}

/// The format of a quantity's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`: powers of 1024.
    BinarySi,
    /// `12M`: powers of 1000.
    DecimalSi,
}

/// Why a string is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It does not match the format.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// Its number is invalid.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// Its unit is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[derive(Clone, Debug)]
enum Amount {
    /// `value * 10^scale`
    Small {
        value: i64,
        scale: i32,
    },
    Big(Decimal),
}

/// Returns what the API server prints for a quantity it has just parsed. Borrowed if unchanged.
pub fn canonicalize(text: &str) -> Result<Cow<'_, str>, ParseError> {
    let (quantity, verbatim) = parse::parse(text)?;
    if verbatim || quantity.prints_as(text) {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(quantity.to_string()))
}

impl Quantity {
    /// Parses a quantity.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text).map(|(quantity, _)| quantity)
    }

    /// Zero.
    pub const ZERO: Self = Self::new(0, Format::DecimalSi);
    /// One.
    pub const ONE: Self = Self::new(1, Format::DecimalSi);

    /// Parses a quantity in an object; none if it is not valid.
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text).ok(),
            Value::Number(number) => Self::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

    /// Creates a whole quantity.
    pub const fn new(value: i64, format: Format) -> Self {
        Self { amount: Amount::Small { value, scale: 0 }, format }
    }

    /// Returns the format of its unit.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Returns whether the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.sign() == Ordering::Equal
    }

    /// Returns the order of the amount relative to zero.
    pub fn sign(&self) -> Ordering {
        match &self.amount {
            Amount::Small { value, .. } => value.cmp(&0),
            Amount::Big(decimal) => decimal.sign(),
        }
    }

    /// Adds `other`. Zero takes the format of what is added.
    pub fn add(&mut self, other: &Self) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.amount = match (&self.amount, &other.amount) {
            (_, Amount::Small { value: 0, .. }) => return,
            (Amount::Small { value: 0, .. }, amount) => amount.clone(),
            (
                Amount::Small { value: a, scale: a_scale },
                Amount::Small { value: b, scale: b_scale },
            ) => {
                let scale = *a_scale.min(b_scale);
                let sum = at_scale(*a, *a_scale, scale)
                    .zip(at_scale(*b, *b_scale, scale))
                    .and_then(|(a, b)| a.checked_add(b));
                match sum {
                    Some(value) => Amount::Small { value, scale },
                    None => Amount::Big(self.decimal().plus(&other.decimal())),
                }
            }
            _ => Amount::Big(self.decimal().plus(&other.decimal())),
        };
    }

    /// Subtracts `other`. Zero takes the format of what is subtracted.
    pub fn sub(&mut self, other: &Self) {
        let amount = match &other.amount {
            Amount::Small { value, scale } if *value != i64::MIN => {
                Amount::Small { value: -value, scale: *scale }
            }
            _ => Amount::Big(other.decimal().negated()),
        };
        self.add(&Self { amount, format: other.format });
    }

    /// Returns the amount in whole units, rounded away from zero.
    ///
    /// Overflow is not an error: as in the API server, the result is 0, or the low bits of amounts
    /// that were too large to begin with.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// Returns the amount if it is a whole number that is held without fractions (`AsInt64`).
    pub fn as_i64(&self) -> Option<i64> {
        match self.amount {
            Amount::Small { value, scale } => at_scale(value, scale, 0),
            Amount::Big(_) => None,
        }
    }

    /// Returns the nearest double, or infinity (`AsApproximateFloat64`).
    pub fn as_approximate_f64(&self) -> f64 {
        let (base, exponent) = match &self.amount {
            Amount::Small { value, scale } => (*value as f64, i64::from(*scale)),
            Amount::Big(decimal) => decimal.unscaled_f64(),
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }

    /// Returns the amount in thousandths, as [`value`](Self::value) does for whole units.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    fn scaled_value(&self, scale: i32) -> i64 {
        match self.amount {
            Amount::Small { value, scale: own } if own >= scale => {
                at_scale(value, own, scale).unwrap_or(0)
            }
            _ => self.decimal().rounded_up(i64::from(scale)).wrapped_at(i64::from(scale)),
        }
    }

    /// Rounds the amount away from zero to a multiple of `10^scale`.
    pub fn rounded_up(self, scale: i32) -> Self {
        match self.amount {
            Amount::Small { scale: own, .. } if own >= scale => self,
            _ => {
                let rounded = self.decimal().rounded_up(i64::from(scale));
                Self { amount: Amount::Big(rounded), format: self.format }
            }
        }
    }

    /// Returns whether the amount is whole. Resources have thousandths, so finer parts are rounded
    /// up.
    pub fn is_integer(&self) -> bool {
        self.milli_value() % 1000 == 0
    }

    fn decimal(&self) -> Decimal {
        match &self.amount {
            Amount::Small { value, scale } => Decimal::new(*value, i64::from(*scale)),
            Amount::Big(decimal) => decimal.clone(),
        }
    }

    /// Compares the formatted quantity with a text, without allocating.
    fn prints_as(&self, text: &str) -> bool {
        let mut rest = Remaining(text);
        write!(rest, "{self}").is_ok() && rest.0.is_empty()
    }

    /// Returns the whole amount, if it can be printed in powers of 1024.
    fn binary(&self) -> Option<u128> {
        if self.format != Format::BinarySi {
            return None;
        }
        let whole = match &self.amount {
            Amount::Small { value, scale: 0 } => Some(u128::from(value.unsigned_abs())),
            _ => self.decimal().whole(),
        }?;
        (whole >= 1024).then_some(whole)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.sign() == Ordering::Less {
            f.write_str("-")?;
        }
        if let Some(mut whole) = self.binary() {
            let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let mut unit = 0;
            while whole.is_multiple_of(1024) && unit + 1 < units.len() {
                whole /= 1024;
                unit += 1;
            }
            return write!(f, "{whole}{}", units[unit]);
        }
        let exponent = match &self.amount {
            Amount::Small { value, scale } => {
                let (mut digits, mut exponent) =
                    (u128::from(value.unsigned_abs()), i64::from(*scale));
                while digits.is_multiple_of(10) {
                    digits /= 10;
                    exponent += 1;
                }
                while exponent % 3 != 0 {
                    digits *= 10;
                    exponent -= 1;
                }
                write!(f, "{digits}")?;
                exponent
            }
            Amount::Big(decimal) => decimal.write_in_thousands(f)?,
        };
        match (self.format, exponent) {
            (_, 0) => Ok(()),
            (Format::DecimalExponent, _) => write!(f, "e{exponent}"),
            // There is no unit beyond exa, and the API server prints none.
            _ => f.write_str(parse::decimal_unit(exponent).unwrap_or_default()),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.amount, &other.amount) {
            (Amount::Small { value: a, scale: 0 }, Amount::Small { value: b, scale: 0 }) => {
                a.cmp(b)
            }
            _ => self.decimal().cmp(&other.decimal()),
        }
    }
}

/// Converts `value * 10^from` to units of `10^to`, if that is a whole number in range.
fn at_scale(value: i64, from: i32, to: i32) -> Option<i64> {
    let steps = u32::try_from(from.checked_sub(to)?).ok()?;
    value.checked_mul(10_i64.checked_pow(steps)?)
}

/// As `math.Pow10`.
fn power_of_ten(exponent: i64) -> f64 {
    match exponent {
        309.. => f64::INFINITY,
        ..-323 => 0.0,
        _ => format!("1e{exponent}").parse().unwrap_or_default(),
    }
}

/// A writer that accepts only the text it contains.
struct Remaining<'a>(&'a str);

impl fmt::Write for Remaining<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(part).ok_or(fmt::Error)?;
        Ok(())
    }
}
