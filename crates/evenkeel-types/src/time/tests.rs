//! Timestamps as Go parses and prints them.

use super::{Precision, Timestamp, ZERO_SECONDS, is_canonical};

fn seconds(text: &str) -> Result<String, String> {
    canonical(text, Precision::Seconds)
}

fn micros(text: &str) -> Result<String, String> {
    canonical(text, Precision::Micros)
}

fn canonical(text: &str, precision: Precision) -> Result<String, String> {
    let timestamp = Timestamp::parse(text, precision).map_err(|error| error.to_string())?;
    Ok(timestamp.display(precision).to_string())
}

#[test]
fn timestamps_are_formatted_in_utc_with_their_precision() {
    for (written, printed) in [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.999Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("2024-02-29T23:30:00-01:00", "2024-03-01T00:30:00Z"),
        ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-01:00", "10000-01-01T00:59:59Z"),
        ("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z"),
    ] {
        assert_eq!(seconds(written).unwrap(), printed);
    }
    assert_eq!(micros("2026-01-02T03:04:05.123456+01:00").unwrap(), "2026-01-02T02:04:05.123456Z");
}

#[test]
fn errors_are_those_of_go() {
    let as_layout = r#"as "2006-01-02T15:04:05Z07:00": cannot parse"#;
    for (text, error) in [
        ("x", format!(r#"parsing time "x" {as_layout} "x" as "2006""#)),
        ("", format!(r#"parsing time "" {as_layout} "" as "2006""#)),
        ("2026-1-2", format!(r#"parsing time "2026-1-2" {as_layout} "1-2" as "01""#)),
        ("2026-01-02", format!(r#"parsing time "2026-01-02" {as_layout} "" as "T""#)),
        (
            "2026-01-02T03:04:05",
            format!(r#"parsing time "2026-01-02T03:04:05" {as_layout} "" as "Z07:00""#),
        ),
        (
            "2026-13-02T03:04:05Z",
            r#"parsing time "2026-13-02T03:04:05Z": month out of range"#.to_owned(),
        ),
        (
            "2026-02-30T03:04:05Z",
            r#"parsing time "2026-02-30T03:04:05Z": day out of range"#.to_owned(),
        ),
        (
            "2026-02-03T03:04:05Zx",
            r#"parsing time "2026-02-03T03:04:05Zx": extra text: "x""#.to_owned(),
        ),
    ] {
        assert_eq!(seconds(text).unwrap_err(), error);
    }
    assert_eq!(
        micros("2026-01-02T03:04:05Z").unwrap_err(),
        r#"parsing time "2026-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
    );
}

#[test]
fn zero_time_is_the_year_one() {
    let zero = Timestamp::parse("0001-01-01T00:00:00Z", Precision::Seconds).unwrap();
    assert_eq!(zero.seconds, ZERO_SECONDS);
    assert!(zero.is_zero());
}

#[test]
fn canonical_timestamps_are_unchanged() {
    for text in ["2026-01-02T03:04:05Z", "2026-12-28T23:59:59Z"] {
        assert!(is_canonical(text));
        assert_eq!(seconds(text).unwrap(), text);
    }
    for text in ["0001-01-01T00:00:00Z", "2026-01-32T00:00:00Z", "2026-01-02T24:00:00Z", "2026"] {
        assert!(!is_canonical(text));
    }
}
