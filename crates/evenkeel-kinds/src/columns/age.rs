//! Human-readable durations: `5m`, `3h12m`, `2d`.
//!
//! Prints two or three significant figures. Used for the ages of built-in kinds and for the `date`
//! columns of custom resources.

use evenkeel_types::time::{Precision, Timestamp};
use serde_json::Value;

use super::text::{UNKNOWN, str};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Go's `time.Duration` counts 64-bit nanoseconds, so no age exceeds 292 years.
const MAX_SECONDS: i64 = i64::MAX / 1_000_000_000;

/// Midnight of 1 January of year one: Go's zero time.
const ZERO_TIME: i64 = -62_135_596_800;

/// Formats a duration with about two significant figures, like upstream's `HumanDuration`.
///
/// Prints `<invalid>` below minus one second; small negative values are attributed to clock skew.
pub fn human_duration(seconds: i64) -> String {
    let seconds = seconds.clamp(-MAX_SECONDS, MAX_SECONDS);
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

/// Returns the cell of a custom resource's `date` column: the age of an RFC 3339 timestamp at
/// `now`.
///
/// Prints `<invalid>` if the text is not a timestamp, `<unknown>` if it is empty or `null`.
pub fn date(text: &str, now: i64) -> String {
    match text {
        "" | "null" => UNKNOWN.to_owned(),
        _ => match parse(text) {
            None => "<invalid>".to_owned(),
            then => since_seconds(then.filter(|&then| then != ZERO_TIME), now),
        },
    }
}

/// Returns the seconds since the epoch of a timestamp field; `None` if it is absent, null or zero.
pub(super) fn seconds(timestamp: &Value) -> Option<i64> {
    parse(str(timestamp)).filter(|&then| then != ZERO_TIME)
}

/// Returns the age of a timestamp field at `now`, or `<unknown>` if it is not set.
pub(super) fn since(timestamp: &Value, now: i64) -> String {
    since_seconds(seconds(timestamp), now)
}

/// Returns the age at `now` of a time in seconds since the epoch, or `<unknown>` for `None`.
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

/// Parses an RFC 3339 timestamp to seconds since the epoch. Fractions are truncated.
fn parse(text: &str) -> Option<i64> {
    Timestamp::parse(text, Precision::Seconds).ok().map(|timestamp| timestamp.seconds)
}
