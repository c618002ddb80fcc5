//! Amounts of resources: `500m`, `1Gi`, `3e6`.
//!
//! Amounts are kept as a number of nanos, the finest grain Kubernetes knows, together with the
//! family of suffixes they were written in; `Display` gives the one canonical spelling.

use std::fmt;

/// The largest amount; greater ones are cut to it.
const MAX: i128 = (i64::MAX as i128) * NANOS;
const NANOS: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;

/// The family of suffixes an amount is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `k`, `M`, `G`; also no suffix at all.
    Decimal,
    /// `Ki`, `Mi`, `Gi`.
    Binary,
    /// `e3`, `e6`, `e9`.
    Exponent,
}

/// An amount of a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Reads an amount; `None` if the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (digits, suffix) = unsigned.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (unit, format) = unit(suffix)?;
        let nanos = unit.scale(whole, fraction);
        // A fraction of a byte cannot be shown in binary units.
        let format = match format {
            Format::Binary if nanos > 0 && nanos < NANOS => Format::Decimal,
            format => format,
        };
        Some(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// Whether this is nothing.
    pub(crate) fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether this is more than nothing.
    pub(crate) fn is_positive(&self) -> bool {
        self.nanos > 0
    }

    /// Whether this is a number of whole units: bytes, not parts of a byte.
    pub(crate) fn is_whole(&self) -> bool {
        self.nanos % NANOS == 0
    }

    /// The sum, printed like the first amount unless that is nothing.
    pub(crate) fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: (self.nanos + other.nanos).clamp(-MAX, MAX), format }
    }

    /// Rounds away from zero to thousandths, the grain in which the API keeps resources.
    pub(crate) fn rounded_to_milli(self) -> Self {
        let rest = self.nanos % MILLI;
        let nanos = if rest == 0 { self.nanos } else { self.nanos - rest + MILLI * rest.signum() };
        Self { nanos, ..self }
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

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos / NANOS;
        if self.format == Format::Binary && self.nanos % NANOS == 0 && whole.abs() >= 1024 {
            let (mut mantissa, mut power) = (whole, 0);
            while mantissa % 1024 == 0 {
                mantissa /= 1024;
                power += 1;
            }
            return write!(f, "{mantissa}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        let (mut mantissa, mut power) = (self.nanos, 0);
        while mantissa % 1000 == 0 {
            mantissa /= 1000;
            power += 1;
        }
        match (self.format, power) {
            (_, 3) => write!(f, "{mantissa}"),
            (Format::Exponent, _) => write!(f, "{mantissa}e{}", power as i32 * 3 - 9),
            // The largest amount has 28 digits of nanos, so there are at most nine thousands.
            _ => {
                write!(f, "{mantissa}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][power])
            }
        }
    }
}

/// What one of the written units is worth.
enum Unit {
    /// This many nanos.
    Nanos(i128),
    /// So much that any amount of it is the largest.
    Huge,
    /// One nano is worth this many of them.
    Fraction(i128),
}

impl Unit {
    fn scale(&self, whole: &str, fraction: &str) -> i128 {
        let whole = whole
            .bytes()
            .try_fold(0_i128, |sum, digit| {
                sum.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
            })
            .unwrap_or(MAX);
        // Nine digits are kept exactly; whatever follows them counts as a little more.
        let kept = fraction.len().min(9);
        let mut billionths =
            fraction[..kept].bytes().fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        billionths *= 10_i128.pow(9 - kept as u32);
        let rest = fraction[kept..].bytes().any(|digit| digit != b'0');
        match *self {
            Self::Nanos(nanos) => {
                let part = billionths * nanos;
                let up = i128::from(part % NANOS != 0 || rest);
                whole
                    .checked_mul(nanos)
                    .and_then(|sum| sum.checked_add(part / NANOS + up))
                    .map_or(MAX, |sum| sum.min(MAX))
            }
            Self::Huge if whole == 0 && billionths == 0 && !rest => 0,
            Self::Huge => MAX,
            Self::Fraction(parts) => {
                let up = whole % parts != 0 || billionths != 0 || rest;
                (whole / parts + i128::from(up)).min(MAX)
            }
        }
    }
}

fn unit(suffix: &str) -> Option<(Unit, Format)> {
    let (nanos, format) = match suffix {
        "" => (NANOS, Format::Decimal),
        "n" => (1, Format::Decimal),
        "u" => (1_000, Format::Decimal),
        "m" => (MILLI, Format::Decimal),
        "k" => (NANOS * 1_000, Format::Decimal),
        "M" => (NANOS * 1_000_000, Format::Decimal),
        "G" => (NANOS * 1_000_000_000, Format::Decimal),
        "T" => (NANOS * 1_000_000_000_000, Format::Decimal),
        "P" => (NANOS * 1_000_000_000_000_000, Format::Decimal),
        "E" => (NANOS * 1_000_000_000_000_000_000, Format::Decimal),
        "Ki" => (NANOS << 10, Format::Binary),
        "Mi" => (NANOS << 20, Format::Binary),
        "Gi" => (NANOS << 30, Format::Binary),
        "Ti" => (NANOS << 40, Format::Binary),
        "Pi" => (NANOS << 50, Format::Binary),
        "Ei" => (NANOS << 60, Format::Binary),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let unit = match power {
                -9..=18 => Unit::Nanos(10_i128.pow((power + 9).unsigned_abs())),
                19.. => Unit::Huge,
                _ => Unit::Fraction(10_i128.pow(power.unsigned_abs().saturating_sub(9).min(38))),
            };
            return Some((unit, Format::Exponent));
        }
    };
    Some((Unit::Nanos(nanos), format))
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn quantities_print_canonically() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("1000Ki", "1000Ki"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("100000", "100k"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("0.1n", "1n"),
            ("-1500m", "-1500m"),
            ("99999999999999999999999", "9223372036854775807"),
            ("1e40", "9223372036854775807"),
            ("1e-12", "1e-9"),
        ] {
            let printed = Quantity::parse(text).map(|quantity| quantity.to_string());
            assert_eq!(printed.as_deref(), Some(canonical), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_quantities() {
        for text in ["", "-", "Gi", "1.2.3", "1ki", "e3", "1e", "five"] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn rounding_to_milli_goes_away_from_zero() {
        for (text, rounded) in [("1n", "1m"), ("1001u", "2m"), ("-1u", "-1m"), ("3m", "3m")] {
            let quantity = Quantity::parse(text).expect("a quantity");
            assert_eq!(quantity.rounded_to_milli().to_string(), rounded, "{text}");
        }
    }
}
