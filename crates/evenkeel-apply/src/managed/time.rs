//! Timestamps of managedFields entries: RFC 3339, UTC, whole seconds.

use evenkeel_types::time::{Precision, Timestamp};

/// Returns the seconds since the epoch; `None` if the text is not an RFC 3339 time.
pub(super) fn parse(text: &str) -> Option<i64> {
    Timestamp::parse(text, Precision::Seconds).ok().map(|timestamp| timestamp.seconds)
}

/// Formats a timestamp.
pub(super) fn format(seconds: i64) -> String {
    Timestamp { seconds, nanos: 0 }.display(Precision::Seconds).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("0001-01-01T00:00:00Z", -62_135_596_800),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2024-03-01T00:00:00Z", 1_709_251_200),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
            assert_eq!(format(seconds), text);
        }
    }

    #[test]
    fn offsets_and_fractions_become_utc_seconds() {
        assert_eq!(parse("1970-01-01T02:00:00+02:00"), Some(0));
        assert_eq!(parse("1969-12-31T18:30:00.999-05:30"), Some(0));
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "1970-01-01",
            "1970-13-01T00:00:00Z",
            "1970-02-29T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00Zx",
            "1970-01-01T00:00:00+0100",
            "1970-01-01 00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
