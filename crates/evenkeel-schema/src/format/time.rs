//! Dates, times and durations.

use std::fmt;

use crate::go;

/// A moment in UTC, to the second: what Kubernetes keeps of a `metav1.Time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp {
    seconds: i64,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.seconds.div_euclid(86_400));
        let of_day = self.seconds.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl Timestamp {
    /// Whether this is Go's zero time, which counts as unset.
    pub(crate) fn is_zero(self) -> bool {
        self.seconds == -62_135_596_800
    }
}

/// Parses RFC 3339 as Go's `time.Parse(time.RFC3339, …)` does; fractions are dropped.
pub(crate) fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once('T')?;
    let (year, month, day) = parse_date(date)?;
    let hour = two_digits(rest, 0, 23)?;
    let minute = two_digits(rest.get(2..)?.strip_prefix(':')?, 0, 59)?;
    let second = two_digits(rest.get(5..)?.strip_prefix(':')?, 0, 59)?;
    let mut zone = rest.get(8..)?;
    if let Some(fraction) = zone.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        zone = &fraction[digits..];
    }
    let offset = match zone {
        "Z" => 0,
        _ => {
            let sign = match zone.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let hours = two_digits(&zone[1..], 0, 24)?;
            let minutes = zone.get(3..)?.strip_prefix(':')?;
            if minutes.len() != 2 {
                return None;
            }
            sign * (hours * 3600 + two_digits(minutes, 0, 60)? * 60)
        }
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(Timestamp { seconds })
}

/// What Go says about a text that [`parse_rfc3339`] does not take.
pub(crate) fn explain_rfc3339(text: &str) -> String {
    // Each element of the layout, how long it is, and the range it must be in.
    const LAYOUT: [(&str, usize, &str, std::ops::RangeInclusive<u32>); 11] = [
        ("2006", 4, "", 0..=9999),
        ("-", 1, "", 0..=0),
        ("01", 2, "month", 1..=12),
        ("-", 1, "", 0..=0),
        ("02", 2, "", 0..=99),
        ("T", 1, "", 0..=0),
        ("15", 2, "hour", 0..=23),
        (":", 1, "", 0..=0),
        ("04", 2, "minute", 0..=59),
        (":", 1, "", 0..=0),
        ("05", 2, "second", 0..=59),
    ];
    let quoted = go::quote(text);
    let mut rest = text;
    let unlike = |rest: &str, element: &str| {
        let (rest, element) = (go::quote(rest), go::quote(element));
        format!(
            "parsing time {quoted} as \"2006-01-02T15:04:05Z07:00\": cannot parse {rest} as \
             {element}"
        )
    };
    for (element, length, name, range) in LAYOUT {
        let Some(part) = rest.get(..length) else { return unlike(rest, element) };
        let literal = !element.starts_with(|c: char| c.is_ascii_digit());
        if literal && part != element {
            return unlike(rest, element);
        }
        if !literal {
            match part.parse::<u32>() {
                Ok(n) if part.bytes().all(|b| b.is_ascii_digit()) => {
                    if !range.contains(&n) {
                        return format!("parsing time {quoted}: {name} out of range");
                    }
                }
                _ => return unlike(rest, element),
            }
        }
        rest = &rest[length..];
    }
    if let Some(fraction) = rest.strip_prefix(['.', ','])
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let zone = if rest.starts_with('Z') { 1 } else { 6 };
    let midnight = format!("1970-01-01T00:00:00{}", rest.get(..zone).unwrap_or(""));
    if parse_rfc3339(&midnight).is_none() {
        return unlike(rest, "Z07:00");
    }
    match &rest[zone..] {
        "" => format!("parsing time {quoted}: day out of range"),
        extra => format!("parsing time {quoted}: extra text: {}", go::quote(extra)),
    }
}

/// `2006-01-02`, a day that exists.
pub(super) fn is_date(text: &str) -> bool {
    parse_date(text).is_some()
}

fn parse_date(text: &str) -> Option<(i64, i64, i64)> {
    let b = text.as_bytes();
    if b.len() != 10 || b[4] != b'-' || b[7] != b'-' || !text.is_ascii() {
        return None;
    }
    if !b[..4].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let year: i64 = text[..4].parse().ok()?;
    let month = two_digits(&text[5..], 1, 12)?;
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    Some((year, month, two_digits(&text[8..], 1, last)?))
}

fn two_digits(text: &str, min: i64, max: i64) -> Option<i64> {
    let digits = text.get(..2)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|n| (min..=max).contains(n))
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years are counted from March, so that the leap day comes last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// RFC 3339 in any case; only the first two parts around a `T` count, as upstream splits there.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_partial_time(time)
}

fn is_partial_time(time: &str) -> bool {
    let b = time.as_bytes();
    if b.len() < 9 || b[2] != b':' || b[5] != b':' || !time.is_ascii() {
        return false;
    }
    let in_range = two_digits(time, 0, 23).is_some()
        && two_digits(&time[3..], 0, 59).is_some()
        && two_digits(&time[6..], 0, 59).is_some();
    // Any character may introduce the fraction, which needs at least one digit.
    let zone_at = |rest: &str| {
        rest == "z" || {
            let z = rest.as_bytes();
            z.len() == 6
                && matches!(z[0], b'+' | b'-')
                && z[3] == b':'
                && [z[1], z[2], z[4], z[5]].iter().all(u8::is_ascii_digit)
        }
    };
    let rest = &time[8..];
    let fraction = rest.get(1..).unwrap_or("").bytes().take_while(u8::is_ascii_digit).count();
    in_range && (zone_at(rest) || (1..=fraction).any(|digits| zone_at(&rest[1 + digits..])))
}

/// Go's `time.ParseDuration`, or a number with a spelled-out unit anywhere in the text (`3 days`).
pub(super) fn is_duration(text: &str) -> bool {
    is_go_duration(text) || has_spelled_duration(text)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut total: f64 = 0.0;
    while !rest.is_empty() {
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mut end = whole;
        let mut digits = whole;
        if rest.as_bytes().get(whole) == Some(&b'.') {
            let fraction = rest[whole + 1..].bytes().take_while(u8::is_ascii_digit).count();
            end += 1 + fraction;
            digits += fraction;
        }
        if digits == 0 {
            return false;
        }
        let number = &rest[..end];
        rest = &rest[end..];
        let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let nanos = match &rest[..unit_end] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return false,
        };
        total += number.parse::<f64>().unwrap_or(f64::INFINITY) * nanos;
        rest = &rest[unit_end..];
        if total > i64::MAX as f64 {
            return false;
        }
    }
    !text.is_empty() && !matches!(text, "+" | "-")
}

fn has_spelled_duration(text: &str) -> bool {
    // Exact spellings, then the prefix every longer spelling starts with.
    const UNITS: &[(&[&str], &str)] = &[
        (&["ns"], "nano"),
        (&["us", "µs"], "micro"),
        (&["ms"], "milli"),
        (&["s"], "sec"),
        (&["m"], "min"),
        (&["h", "hr"], "hour"),
        (&["d"], "day"),
        (&["w", "wk"], "week"),
    ];
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    let mut found = false;
    while at < chars.len() {
        let digits = chars[at..].iter().take_while(|c| c.is_ascii_digit()).count();
        if digits == 0 {
            at += 1;
            continue;
        }
        let number: String = chars[at..at + digits].iter().collect();
        at += digits;
        let space =
            chars[at..].iter().take_while(|c| matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' '));
        let unit_at = at + space.count();
        let unit: String = chars[unit_at..]
            .iter()
            .take_while(|c| c.is_ascii_alphabetic() || **c == 'µ')
            .collect::<String>()
            .to_lowercase();
        if unit.is_empty() {
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        at = unit_at + unit.chars().count();
        found |= UNITS
            .iter()
            .any(|(exact, prefix)| exact.contains(&unit.as_str()) || unit.starts_with(prefix));
    }
    found
}
