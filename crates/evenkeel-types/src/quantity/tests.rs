//! Resource quantities: parsing, canonical form and comparison.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{Format, ParseError, Quantity, canonicalize};

fn canonical(text: &str) -> Cow<'_, str> {
    canonicalize(text).unwrap()
}

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

#[test]
fn canonical_form_is_that_of_the_api_server() {
    for (written, printed) in [
        ("2048Mi", "2Gi"),
        ("1.5Gi", "1536Mi"),
        ("1.5", "1500m"),
        ("0.5", "500m"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("0.1m", "100u"),
        ("0.1n", "1n"),
        ("1e-10", "1e-9"),
        ("1024", "1024"),
        ("512Ki", "512Ki"),
        ("1023.5Ki", "1048064"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1Pi", "1Pi"),
        ("9Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
        ("12345678901234567890", "12345678901234567890"),
        ("100000000000000000000", "100E"),
        ("00", "0"),
        ("-0", "0"),
        (".", "0"),
        ("0Gi", "0"),
        ("1000000e3", "1e9"),
    ] {
        assert_eq!(canonical(written), printed, "{written}");
    }
}

#[test]
fn canonical_looking_quantities_are_kept_as_written() {
    for text in ["100m", "1", "128Mi", "+1", "01", "1.500", "+1Gi", "1e3", "1E6", "1e99"] {
        assert!(matches!(canonical(text), Cow::Borrowed(kept) if kept == text), "{text}");
    }
}

#[test]
fn errors_are_those_of_the_api_server() {
    for (text, error) in [
        ("", ParseError::Format),
        ("true", ParseError::Format),
        ("1 Gi", ParseError::Format),
        ("1.2.3", ParseError::Format),
        ("ä", ParseError::Format),
        ("1mi", ParseError::Suffix),
        ("1K", ParseError::Suffix),
        ("1e", ParseError::Suffix),
        ("Pi", ParseError::Number),
        ("1e99999999999999999999", ParseError::Suffix),
    ] {
        assert_eq!(canonicalize(text), Err(error), "{text}");
    }
}

#[test]
fn extreme_exponents_are_cheap() {
    let digits = "9".repeat(100_000);
    assert_eq!(canonical(&digits), digits);
    assert_eq!(canonical(&format!("{digits}Ei")), i64::MAX.to_string());
    assert_eq!(canonical(&format!("0.{digits}")), "1");
    let huge = quantity("123456789012345678901e2000000000");
    assert_eq!(huge.cmp(&quantity("1")), Ordering::Greater);
    assert_eq!(huge.value(), 0);
    let mut sum = quantity("1");
    sum.add(&huge);
    assert_eq!(sum, huge);
}

#[test]
fn order_ignores_units() {
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert_eq!(quantity("1"), quantity("1000m"));
    assert!(quantity("999m") < quantity("1"));
    assert!(quantity("-1") < quantity("1n"));
    assert!(quantity("-2") < quantity("-1"));
    assert!(quantity("1Ei") > quantity("1E"));
}

#[test]
fn sums_keep_the_format_of_the_first() {
    let sum = |a: &str, b: &str| {
        let mut sum = quantity(a);
        sum.add(&quantity(b));
        sum.to_string()
    };
    assert_eq!(sum("1Gi", "1Mi"), "1025Mi");
    assert_eq!(sum("1", "500m"), "1500m");
    assert_eq!(sum("0", "1Gi"), "1Gi");
    assert_eq!(sum("9223372036854775807", "1"), "9223372036854775808");
    assert_eq!(sum("12345678901234567890", "-12345678901234567889"), "1");
    let mut difference = quantity("1Gi");
    difference.sub(&quantity("1Mi"));
    assert_eq!(difference.to_string(), "1023Mi");
    difference.sub(&quantity("2Gi"));
    assert_eq!(difference.to_string(), "-1025Mi");
}

#[test]
fn values_round_away_from_zero() {
    assert_eq!(quantity("1100m").value(), 2);
    assert_eq!(quantity("-1100m").value(), -2);
    assert_eq!(quantity("1.5Gi").value(), 1_610_612_736);
    assert_eq!(quantity("2").milli_value(), 2000);
    assert_eq!(Quantity::new(2048, Format::BinarySi).to_string(), "2Ki");
}

#[test]
fn rounded_up_rounds_away_from_zero() {
    for (text, rounded) in [("1n", "1m"), ("1001u", "2m"), ("-1u", "-1m"), ("3m", "3m")] {
        assert_eq!(quantity(text).rounded_up(-3).to_string(), rounded, "{text}");
    }
}

#[test]
fn is_integer_has_a_resolution_of_thousandths() {
    for text in ["2", "2000m", "8Ei", "1e40", "999999u", "-3k"] {
        assert!(quantity(text).is_integer(), "{text}");
    }
    for text in ["1500m", "-1m", "1u", "0.1Ki", "12345678901234567890", "99999999999999999999999"] {
        assert!(!quantity(text).is_integer(), "{text}");
    }
}

#[test]
fn overflow_has_the_result_of_upstream() {
    for (text, value, milli) in [
        ("1e999", 0, 0),
        ("1e18", 1_000_000_000_000_000_000, 0),
        ("10E", 0, 0),
        ("9223372036854775807", i64::MAX, -1000),
        ("8Ei", i64::MAX, -1000),
        ("12345678901234567890", -6_101_065_172_474_983_726, 4_807_115_922_877_858_896),
        ("99999999999999999999999", 200_376_420_520_689_663, -2_537_764_290_115_404_776),
    ] {
        let quantity = quantity(text);
        assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text}");
    }
}
