//! Decimal numbers of any size, for quantities that do not fit an `i64`.
//!
//! Digits are stored one per byte, so that operations with powers of ten, which are nearly all,
//! only shift positions. Exponents are not expanded to zeros beyond [`SPREAD_MAX`]: an input of
//! `1e999999999` is cheap.

use std::cmp::Ordering;
use std::fmt;

/// Operands that are further apart are added as if the smaller were zero.
const SPREAD_MAX: i64 = 4096;

/// `±digits * 10^exponent`; zero has no digits.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    /// Most significant first, without leading and trailing zeros.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    pub(super) fn new(value: i64, exponent: i64) -> Self {
        let digits = value.unsigned_abs().to_string().into_bytes();
        Self::from_ascii(value < 0, digits.iter().copied(), exponent)
    }

    pub(super) fn from_ascii(
        negative: bool,
        digits: impl Iterator<Item = u8>,
        exponent: i64,
    ) -> Self {
        let digits = digits.map(|digit| digit - b'0').skip_while(|digit| *digit == 0).collect();
        Self { negative, digits, exponent }.trimmed()
    }

    fn trimmed(mut self) -> Self {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
        if self.digits.is_empty() {
            (self.negative, self.exponent) = (false, 0);
        }
        self
    }

    pub(super) fn sign(&self) -> Ordering {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => Ordering::Equal,
            (false, true) => Ordering::Less,
            (false, false) => Ordering::Greater,
        }
    }

    /// The digits as a double, and the exponent.
    pub(super) fn unscaled_f64(&self) -> (f64, i64) {
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let value: f64 = digits.parse().unwrap_or_default();
        (if self.negative { -value } else { value }, self.exponent)
    }

    pub(super) fn negated(mut self) -> Self {
        self.negative = !self.negative && !self.digits.is_empty();
        self
    }

    pub(super) fn times_power_of_two(mut self, power: u32) -> Self {
        let mut left = power;
        while left > 0 {
            let step = left.min(32);
            let mut carry: u64 = 0;
            for digit in self.digits.iter_mut().rev() {
                carry += u64::from(*digit) << step;
                *digit = (carry % 10) as u8;
                carry /= 10;
            }
            let mut front = Vec::new();
            while carry > 0 {
                front.push((carry % 10) as u8);
                carry /= 10;
            }
            self.digits.splice(0..0, front.into_iter().rev());
            left -= step;
        }
        self.trimmed()
    }

    /// Rounds away from zero to a multiple of `10^exponent`.
    pub(super) fn rounded_up(mut self, exponent: i64) -> Self {
        let excess = exponent.saturating_sub(self.exponent);
        if excess <= 0 || self.digits.is_empty() {
            return self;
        }
        // The last digit is never zero, so removing digits always requires rounding.
        let keep = (self.digits.len() as i64).saturating_sub(excess).max(0) as usize;
        self.digits.truncate(keep);
        self.exponent = exponent;
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return self.trimmed();
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
        self.trimmed()
    }

    /// Returns the magnitude, if it is a whole number below `10^38`.
    pub(super) fn whole(&self) -> Option<u128> {
        if self.exponent < 0 || self.exponent + self.digits.len() as i64 > 38 {
            return None;
        }
        let digits = self.digits.iter().fold(0, |sum, digit| sum * 10 + u128::from(*digit));
        Some(digits * 10_u128.pow(self.exponent as u32))
    }

    /// Returns the number in units of `10^exponent`, of which it must be a multiple. Overflow
    /// wraps.
    pub(super) fn wrapped_at(&self, exponent: i64) -> i64 {
        let digits = self.digits.iter();
        let value =
            digits.fold(0_i64, |sum, digit| sum.wrapping_mul(10).wrapping_add(i64::from(*digit)));
        // Beyond the 64th power of ten, every number wraps to zero.
        let zeros = self.exponent.saturating_sub(exponent).clamp(0, 64);
        let value = (0..zeros).fold(value, |value, _| value.wrapping_mul(10));
        if self.negative { value.wrapping_neg() } else { value }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        if self.digits.is_empty() || other.digits.is_empty() {
            return if self.digits.is_empty() { other.clone() } else { self.clone() };
        }
        let exponent = self.exponent.min(other.exponent);
        if self.top().max(other.top()) - exponent > SPREAD_MAX {
            return if self.cmp_magnitude(other).is_lt() { other.clone() } else { self.clone() };
        }
        let width = (self.top().max(other.top()) - exponent) as usize + 1;
        let (large, small) =
            if self.cmp_magnitude(other).is_lt() { (other, self) } else { (self, other) };
        let (large_digits, small_digits) =
            (large.spread(exponent, width), small.spread(exponent, width));
        let mut digits = vec![0; width];
        let mut carry = 0_i8;
        for index in (0..width).rev() {
            let (a, b) = (large_digits[index] as i8, small_digits[index] as i8);
            let sum = if large.negative == small.negative { a + b + carry } else { a - b + carry };
            carry = sum.div_euclid(10);
            digits[index] = sum.rem_euclid(10) as u8;
        }
        let ascii = digits.into_iter().map(|digit| digit + b'0');
        Self::from_ascii(large.negative, ascii, exponent)
    }

    /// Returns the position above the first digit.
    fn top(&self) -> i64 {
        self.exponent.saturating_add(self.digits.len() as i64)
    }

    fn spread(&self, exponent: i64, width: usize) -> Vec<u8> {
        let mut digits = vec![0; width];
        let end = width - (self.exponent - exponent) as usize;
        digits[end - self.digits.len()..end].copy_from_slice(&self.digits);
        digits
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        self.top().cmp(&other.top()).then_with(|| self.digits.cmp(&other.digits))
    }

    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| {
            let magnitude = self.cmp_magnitude(other);
            if self.negative { magnitude.reverse() } else { magnitude }
        })
    }

    /// Writes the digits with an exponent that is a multiple of three, and returns the exponent.
    pub(super) fn write_in_thousands(&self, f: &mut fmt::Formatter<'_>) -> Result<i64, fmt::Error> {
        for digit in &self.digits {
            write!(f, "{digit}")?;
        }
        let zeros = self.exponent.rem_euclid(3);
        for _ in 0..zeros {
            f.write_str("0")?;
        }
        Ok(self.exponent - zeros)
    }
}
