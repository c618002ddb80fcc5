//! Amounts of resources: `100m`, `1.5Gi`, `1e3`.
//!
//! Kept as a whole number of nanos, the finest unit Kubernetes knows; finer fractions round up.

use std::fmt;

use serde_json::Value;

const NANOS: i128 = 1_000_000_000;
/// Larger amounts count as this one.
const MAX_NANOS: i128 = i64::MAX as i128 * NANOS;

/// A parsed quantity. Ordered by amount: `1` equals `1000m`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    BinarySi,
    DecimalSi,
    DecimalExponent,
}

impl Quantity {
    pub(crate) const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };
    pub(crate) const ONE: Self = Self { nanos: NANOS, format: Format::DecimalSi };

    /// A quantity as it stands in an object: a string or a number.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned
            .bytes()
            .position(|b| !b.is_ascii_digit() && b != b'.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let (format, scale) = scale(suffix)?;
        let nanos = scaled(whole, fraction, scale)?.min(MAX_NANOS);
        let nanos = if text.starts_with('-') { -nanos } else { nanos };
        Some(Self { nanos, format })
    }

    pub(crate) fn signum(self) -> i128 {
        self.nanos.signum()
    }

    /// The amount rounded up to a whole number.
    pub(crate) fn value(self) -> i64 {
        let whole = self.nanos.div_euclid(NANOS) + i128::from(self.nanos.rem_euclid(NANOS) != 0);
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// The amount in thousandths, rounded up.
    pub(crate) fn milli_value(self) -> i128 {
        const MICROS: i128 = NANOS / 1000;
        self.nanos.div_euclid(MICROS) + i128::from(self.nanos.rem_euclid(MICROS) != 0)
    }

    /// Whether nothing is left over below one.
    pub(crate) fn is_integer(self) -> bool {
        self.milli_value() % 1000 == 0
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The canonical form: the largest suffix that needs no fraction.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let binary = self.format == Format::BinarySi && self.nanos.abs() >= 1024 * NANOS;
        if binary {
            let mut number = i128::from(self.value());
            let mut suffixes = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
            let mut suffix = "";
            while number % 1024 == 0 {
                let Some(next) = suffixes.next() else { break };
                number /= 1024;
                suffix = next;
            }
            return write!(f, "{number}{suffix}");
        }
        let mut number = self.nanos;
        let mut exponent = -9;
        while number % 1000 == 0 && exponent < 18 {
            number /= 1000;
            exponent += 3;
        }
        if self.format == Format::DecimalExponent {
            return if exponent == 0 {
                write!(f, "{number}")
            } else {
                write!(f, "{number}e{exponent}")
            };
        }
        let suffix = match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        };
        write!(f, "{number}{suffix}")
    }
}

/// What a suffix multiplies by: powers of ten and of two.
fn scale(suffix: &str) -> Option<(Format, (i32, u32))> {
    let decimal = |exponent| Some((Format::DecimalSi, (exponent, 0)));
    let binary = |power| Some((Format::BinarySi, (0, power)));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Format::DecimalExponent, (exponent, 0)))
        }
    }
}

/// `whole.fraction` times its scale in nanos, rounded up; too large a number saturates.
fn scaled(whole: &str, fraction: &str, (ten, two): (i32, u32)) -> Option<i128> {
    let mut digits: i128 = 0;
    let mut dropped = 0_i32;
    let mut lost = false;
    for b in whole.bytes().chain(fraction.bytes()) {
        match digits.checked_mul(10).and_then(|d| d.checked_add(i128::from(b - b'0'))) {
            // Leaves room for the largest binary suffix.
            Some(next) if next < 1 << 60 => digits = next,
            _ => {
                dropped += 1;
                lost |= b != b'0';
            }
        }
    }
    let fraction_digits = i32::try_from(fraction.len()).ok()?;
    let shift = ten.checked_add(9)?.checked_sub(fraction_digits)?.checked_add(dropped)?;
    let mut nanos = digits.checked_shl(two).filter(|n| n >> two == digits)?;
    if shift >= 0 {
        for _ in 0..shift.min(40) {
            nanos = nanos.saturating_mul(10);
        }
    } else {
        for _ in 0..shift.unsigned_abs().min(60) {
            lost |= nanos % 10 != 0;
            nanos /= 10;
        }
        nanos += i128::from(lost);
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn canonical_form_is_the_one_the_server_prints() {
        for (text, canonical) in [
            ("0", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12e1", "120"),
            ("2000k", "2M"),
            ("-5", "-5"),
            ("1.23456789012", "1234567891n"),
            ("100", "100"),
            ("5Gi", "5Gi"),
        ] {
            let quantity = Quantity::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(quantity.to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn malformed_quantities_do_not_parse() {
        for text in ["", "m", "1.2.3", "1kk", "1 Gi", "abc", "1e", "--1", "."] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn amounts_compare_across_formats() {
        let of = |text| Quantity::parse(text).expect("parses");
        assert_eq!(of("1"), of("1000m"));
        assert!(of("1Gi") > of("1G"));
        assert!(of("-1") < of("0"));
        assert!(!of("1500m").is_integer());
        assert!(of("2").is_integer());
        assert_eq!(of("1500m").value(), 2);
        assert_eq!(of("8Ei").to_string(), "9223372036854775807");
        assert_eq!(of("7Ei").to_string(), "7Ei");
    }
}
