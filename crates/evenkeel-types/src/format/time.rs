//! Dates, times and durations.

use crate::duration;
use crate::time::{Precision, Timestamp};

/// Accepts `2006-01-02` if the day exists.
pub(super) fn is_date(text: &str) -> bool {
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z"), Precision::Seconds).is_ok()
}

fn two_digits(text: &str, min: i64, max: i64) -> Option<i64> {
    let digits = text.get(..2)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|n| (min..=max).contains(n))
}

/// Accepts RFC 3339 in any letter case. Only the first two parts around a `T` are checked because
/// upstream splits there.
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

/// Accepts Go's `time.ParseDuration`, or a number with a spelled-out unit anywhere in the text (`3
/// days`).
pub(super) fn is_duration(text: &str) -> bool {
    duration::parse(text).is_ok() || has_spelled_duration(text)
}

fn has_spelled_duration(text: &str) -> bool {
    // The exact spellings, and the prefix that all longer spellings start with.
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
