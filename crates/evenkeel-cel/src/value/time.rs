//! Durations and timestamps with Go's ranges and texts.

use std::cmp::Ordering;
use std::fmt;

/// A signed number of nanoseconds, as Go's `time.Duration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(pub i64);

/// An instant: seconds since 1970-01-01T00:00:00Z and nanoseconds (below 10^9), between the years 1 and
/// 9999.
///
/// It is printed with the offset that it was parsed with; comparisons ignore the offset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
    offset_minutes: i16,
}

impl Duration {
    /// Parses Go's durations: `1h30m`, `-1.5s`, `10ms`.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (whole, after) = rest.split_at(digits);
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => {
                    after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len()))
                }
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return None;
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            let unit: u64 = match unit {
                "ns" => 1,
                "us" | "µs" | "μs" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return None,
            };
            let limit = 1_u64 << 63;
            let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
            let mut value = whole.checked_mul(unit).filter(|value| *value <= limit)?;
            if !fraction.is_empty() {
                value = value.checked_add(fraction_of(fraction, unit))?;
            }
            total = total.checked_add(value).filter(|total| *total <= limit)?;
            rest = after;
        }
        if negative {
            return Some(Self(0_i64.wrapping_sub_unsigned(total)));
        }
        i64::try_from(total).ok().map(Self)
    }
}

/// The digits after a decimal point times a unit, in doubles as Go computes it.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0);
    for digit in digits.bytes() {
        // More digits than fit are dropped.
        let Some(next) = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .filter(|next| *next <= 1 << 63)
        else {
            break;
        };
        value = next;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

impl Timestamp {
    /// Parses RFC 3339, with Go's leniency: a comma before the fraction is accepted.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, len: usize| -> Option<i64> {
            let digits = bytes.get(from..from + len)?;
            digits.iter().try_fold(0, |value, digit| {
                digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'))
            })
        };
        let is = |at: usize, expected: u8| bytes.get(at) == Some(&expected);
        if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
        let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let month_days = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        if !(1..=month_days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut at = 19;
        let mut nanos = 0_u32;
        if is(at, b'.') || is(at, b',') {
            at += 1;
            let start = at;
            let mut unit = 100_000_000;
            while let Some(digit) = bytes.get(at).filter(|digit| digit.is_ascii_digit()) {
                nanos += u32::from(digit - b'0') * unit;
                unit /= 10;
                at += 1;
            }
            if at == start {
                return None;
            }
        }
        let offset = match bytes.get(at)? {
            b'Z' if bytes.len() == at + 1 => 0,
            sign @ (b'+' | b'-') if bytes.len() == at + 6 && is(at + 3, b':') => {
                let (hours, minutes) = (number(at + 1, 2)?, number(at + 4, 2)?);
                if hours > 24 || minutes > 60 {
                    return None;
                }
                let offset = hours * 3_600 + minutes * 60;
                if *sign == b'-' { -offset } else { offset }
            }
            _ => return None,
        };
        let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
        let offset_minutes = i16::try_from(offset / 60).ok()?;
        Some(Self { offset_minutes, ..Self::new(seconds - offset, nanos)? })
    }

    /// The instant this much later; `None` if it is out of range.
    pub(crate) fn plus(self, duration: Duration) -> Option<Self> {
        let nanos = i64::from(self.nanos) + duration.0.rem_euclid(SECOND);
        let seconds = self.seconds + duration.0.div_euclid(SECOND) + nanos / SECOND;
        let instant = Self::new(seconds, u32::try_from(nanos % SECOND).ok()?)?;
        Some(Self { offset_minutes: self.offset_minutes, ..instant })
    }

    /// The time since another instant; `None` if it does not fit.
    pub(crate) fn since(self, other: Self) -> Option<Duration> {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanos = i128::from(self.nanos) - i128::from(other.nanos);
        i64::try_from(seconds * i128::from(SECOND) + nanos).ok().map(Duration)
    }

    /// The first second of year 1.
    pub const MIN_SECONDS: i64 = -62_135_596_800;
    /// The last second of year 9999.
    pub const MAX_SECONDS: i64 = 253_402_300_799;

    /// An instant; `None` if it is out of range.
    pub fn new(seconds: i64, nanos: u32) -> Option<Self> {
        let valid =
            (Self::MIN_SECONDS..=Self::MAX_SECONDS).contains(&seconds) && nanos < 1_000_000_000;
        valid.then_some(Self { seconds, nanos, offset_minutes: 0 })
    }

    /// Whole seconds since 1970, rounded down.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds of the second.
    pub fn nanos(self) -> u32 {
        self.nanos
    }
}

const SECOND: i64 = 1_000_000_000;

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

/// As `string(duration)` prints it: seconds as the shortest decimal, such as `1.5s`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Go adds two doubles, and so loses nanoseconds of long durations.
        let seconds = (self.0 / SECOND) as f64 + (self.0 % SECOND) as f64 / 1e9;
        write!(f, "{seconds}s")
    }
}

/// As `string(timestamp)` prints it: RFC 3339.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.seconds + i64::from(self.offset_minutes) * 60;
        let (year, month, day) = civil(local.div_euclid(86_400));
        let second = local.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos != 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        let offset = self.offset_minutes.unsigned_abs();
        match self.offset_minutes {
            0 => f.write_str("Z"),
            1.. => write!(f, "+{:02}:{:02}", offset / 60, offset % 60),
            _ => write!(f, "-{:02}:{:02}", offset / 60, offset % 60),
        }
    }
}

/// Year, month and day of a number of days since 1970-01-01.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    // Eras of 400 years that begin on the first of March, so that the leap day is the last of a year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a date.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}
