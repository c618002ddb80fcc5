//! Quantities such as `500m` and `2Gi`: exact decimal numbers that remember their kind of unit.
//!
//! Parsing and printing agree with the API server to the letter, including the cases in which it
//! keeps a string as it was written ([`canonicalize`]). Amounts of up to 18 digits are an integer
//! and a power of ten; only what does not fit takes the slow way through `decimal`.

mod decimal;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use decimal::Decimal;
use serde_json::Value;

/// An exact amount and the kind of unit it prints with.
///
/// Equality and order are those of the amounts: `1Ki` equals `1024`.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
}

/// The kind of unit a quantity prints with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`: powers of 1024.
    BinarySi,
    /// `12M`: powers of 1000.
    DecimalSi,
}

/// Why a string is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It does not look like one.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// Its number makes no sense.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// Its unit does not exist.
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

/// What the API server prints for a quantity it has just read. Borrowed when nothing changes.
pub fn canonicalize(text: &str) -> Result<Cow<'_, str>, ParseError> {
    let (quantity, verbatim) = parse::parse(text)?;
    if verbatim || quantity.prints_as(text) {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(quantity.to_string()))
}

impl Quantity {
    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text).map(|(quantity, _)| quantity)
    }

    /// Nothing.
    pub const ZERO: Self = Self::new(0, Format::DecimalSi);
    /// One.
    pub const ONE: Self = Self::new(1, Format::DecimalSi);

    /// A quantity as it stands in an object; none if there is none.
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text).ok(),
            Value::Number(number) => Self::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

    /// A whole number.
    pub const fn new(value: i64, format: Format) -> Self {
        Self { amount: Amount::Small { value, scale: 0 }, format }
    }

    /// The unit it prints with.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Neither more nor less than nothing.
    pub fn is_zero(&self) -> bool {
        self.sign() == Ordering::Equal
    }

    /// Its order with respect to zero.
    pub fn sign(&self) -> Ordering {
        match &self.amount {
            Amount::Small { value, .. } => value.cmp(&0),
            Amount::Big(decimal) => decimal.sign(),
        }
    }

    /// Adds `other`. A zero takes over the unit of what is added to it.
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

    /// Takes `other` away. A zero takes over the unit of what is taken from it.
    pub fn sub(&mut self, other: &Self) {
        let amount = match &other.amount {
            Amount::Small { value, scale } if *value != i64::MIN => {
                Amount::Small { value: -value, scale: *scale }
            }
            _ => Amount::Big(other.decimal().negated()),
        };
        self.add(&Self { amount, format: other.format });
    }

    /// The amount in whole units, rounded away from zero.
    ///
    /// What does not fit is no error: the API server goes on with 0, or with the low bits of
    /// amounts that were too large to begin with, and so do the checks built on this.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths; like [`value`](Self::value) otherwise.
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

    /// The amount rounded away from zero to a multiple of `10^scale`.
    pub fn rounded_up(self, scale: i32) -> Self {
        match self.amount {
            Amount::Small { scale: own, .. } if own >= scale => self,
            _ => {
                let rounded = self.decimal().rounded_up(i64::from(scale));
                Self { amount: Amount::Big(rounded), format: self.format }
            }
        }
    }

    /// Whether it is whole; as resources are kept in thousandths, finer parts count as one.
    pub fn is_integer(&self) -> bool {
        self.milli_value() % 1000 == 0
    }

    fn decimal(&self) -> Decimal {
        match &self.amount {
            Amount::Small { value, scale } => Decimal::new(*value, i64::from(*scale)),
            Amount::Big(decimal) => decimal.clone(),
        }
    }

    /// Compares without building the string.
    fn prints_as(&self, text: &str) -> bool {
        let mut rest = Remaining(text);
        write!(rest, "{self}").is_ok() && rest.0.is_empty()
    }

    /// The whole amount, if it may be printed in powers of 1024.
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
            // Beyond exa there is no unit, and the API server prints none.
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

/// `value * 10^from` in units of `10^to`, when that is a whole number that fits.
fn at_scale(value: i64, from: i32, to: i32) -> Option<i64> {
    let steps = u32::try_from(from.checked_sub(to)?).ok()?;
    value.checked_mul(10_i64.checked_pow(steps)?)
}

/// Accepts exactly the text it holds.
struct Remaining<'a>(&'a str);

impl fmt::Write for Remaining<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(part).ok_or(fmt::Error)?;
        Ok(())
    }
}
