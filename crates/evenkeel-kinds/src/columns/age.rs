//! Ages as people read them: `5m`, `3h12m`, `2d`.
//!
//! Two or three significant figures, coarser the older; the same helper serves the ages of
//! built-in kinds and the `date` columns of custom resources.

use super::text::{UNKNOWN, str};

use serde_json::Value;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Kubernetes counts in 64-bit nanoseconds, so no age exceeds 292 years.
const LONGEST: i64 = i64::MAX / 1_000_000_000;

/// Midnight of 1 January of year one, which stands for "no time" in Kubernetes.
const NO_TIME: i64 = -62_135_596_800;

/// A duration to about two significant figures.
///
/// More than a second below zero is `<invalid>`; up to then clocks are taken to disagree.
pub fn human_duration(seconds: i64) -> String {
    let seconds = seconds.clamp(-LONGEST, LONGEST);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two_units(seconds / MINUTE, 'm', seconds % MINUTE, 's'),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two_units(seconds / HOUR, 'h', seconds % HOUR / MINUTE, 'm'),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two_units(seconds / DAY, 'd', seconds % DAY / HOUR, 'h'),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two_units(seconds / YEAR, 'y', seconds % YEAR / DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// A cell of a custom resource's `date` column: the age of an RFC 3339 timestamp at `now`.
///
/// Text that is no timestamp is `<invalid>`, an empty one or `null` is `<unknown>`.
pub fn date(text: &str, now: i64) -> String {
    match text {
        "" | "null" => UNKNOWN.to_owned(),
        _ => match parse(text) {
            None => "<invalid>".to_owned(),
            then => since_seconds(then.filter(|&then| then != NO_TIME), now),
        },
    }
}

/// Seconds since the epoch of a timestamp field; none if it is absent, null or zero.
pub(super) fn seconds(timestamp: &Value) -> Option<i64> {
    parse(str(timestamp)).filter(|&then| then != NO_TIME)
}

/// The age of a timestamp field at `now`, `<unknown>` if it is not set.
pub(super) fn since(timestamp: &Value, now: i64) -> String {
    since_seconds(seconds(timestamp), now)
}

/// The age at `now` of a time in seconds since the epoch, `<unknown>` if there is none.
pub(super) fn since_seconds(then: Option<i64>, now: i64) -> String {
    match then {
        Some(then) => human_duration(now.saturating_sub(then)),
        None => UNKNOWN.to_owned(),
    }
}

fn two_units(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

/// Seconds since the epoch of an RFC 3339 timestamp; fractions of a second are cut off.
fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (clock, rest) = bytes.split_at_checked("2006-01-02T15:04:05".len())?;
    if clock[4] != b'-' || clock[7] != b'-' || clock[10] != b'T' {
        return None;
    }
    if clock[13] != b':' || clock[16] != b':' {
        return None;
    }
    let year = digits(&clock[..4])?;
    let month = digits(&clock[5..7]).filter(|month| (1..=12).contains(month))?;
    let day = digits(&clock[8..10]).filter(|day| (1..=days_in(year, month)).contains(day))?;
    let hour = digits(&clock[11..13]).filter(|&hour| hour < 24)?;
    let minute = digits(&clock[14..16]).filter(|&minute| minute < 60)?;
    let second = digits(&clock[17..19]).filter(|&second| second < 60)?;
    let offset = zone_offset(after_fraction(rest)?)?;
    Some(days_since_epoch(year, month, day) * DAY + hour * HOUR + minute * MINUTE + second - offset)
}

fn after_fraction(rest: &[u8]) -> Option<&[u8]> {
    let Some((b'.' | b',', fraction)) = rest.split_first() else { return Some(rest) };
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &fraction[digits..])
}

fn zone_offset(zone: &[u8]) -> Option<i64> {
    match *zone {
        [b'Z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            // Whole days and hours are written by some, and Go lets them pass.
            let hours = digits(&[h1, h2]).filter(|&hours| hours <= 24)?;
            let minutes = digits(&[m1, m2]).filter(|&minutes| minutes <= 60)?;
            let offset = hours * HOUR + minutes * MINUTE;
            Some(if sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days of the proleptic Gregorian calendar, counted in years that begin in March so that the
/// leap day comes last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}
