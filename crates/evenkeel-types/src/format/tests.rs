//! String formats of OpenAPI schemas.

use super::*;

#[track_caller]
fn check(format: Format, good: &[&str], bad: &[&str]) {
    for text in good {
        assert!(format.accepts(text), "{format:?} should accept {text:?}");
    }
    for text in bad {
        assert!(!format.accepts(text), "{format:?} should reject {text:?}");
    }
}

#[test]
fn addresses() {
    check(Format::Ipv4, &["1.2.3.4", "010.0.0.1"], &["1.2.3", "1.2.3.256", "::1", "", "1.2.3.4.5"]);
    check(Format::Ipv6, &["::1", "fe80::1", "::ffff:1.2.3.4"], &["1.2.3.4", ":::", "::1%eth0", ""]);
    check(
        Format::Cidr,
        &["10.0.0.0/8", "10.0.0.1/08", "2001:db8::/32"],
        &["10.0.0.0", "10.0.0.0/33", "::/129", "x/8", "10.0.0.0/"],
    );
    check(
        Format::Mac,
        &["01:02:03:04:05:06", "01-02-03-04-05-06", "0102.0304.0506", "01:02:03:04:05:06:07:08"],
        &["01:02:03:04:05", "01:02-03:04:05:06", "0102.0304", ""],
    );
    check(
        Format::Hostname,
        &["a", "a.bc", "example.com", "x-y.london", "ñ.com"],
        &["", "-a", "a..b", "a_b", "a.b", "x.1"],
    );
}

#[test]
fn uris_are_request_uris() {
    check(
        Format::Uri,
        &["http://a/b?c", "/path", "https://u:p@h:1/x", "mailto:a", "*", "//a:b"],
        &["", "path", "http://[::1", "http://h:x", "http://a b/", ":x", "/%zz"],
    );
}

#[test]
fn mail_addresses() {
    check(
        Format::Email,
        &["a@b", "A B <a@b.c>", "<a@b>", "\"a b\"@c", "a@[127.0.0.1]", "a@b (c)"],
        &["", "a", "a@", "@b", "a b@c", "a@b c", "a..b@c", "A <a@b"],
    );
}

#[test]
fn dates_and_times() {
    check(
        Format::Date,
        &["2024-02-29", "0001-01-01"],
        &["2023-02-29", "2024-2-9", "2024-13-01", "24-01-01", "2024-01-01T"],
    );
    check(
        Format::DateTime,
        &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00", "2014-12-15T19:30:20x5z"],
        &[
            "2014-12-15",
            "2014-12-15T24:00:00Z",
            "2014-12-15 19:30:20Z",
            "2014-12-15T19:30:20",
            "2014-12-15T19:30:60Z",
        ],
    );
    check(
        Format::Duration,
        &["1h", "1.5h3m", "-2s", "0", "22 ns", "3 days", "2weeks", "1µs", "x 5 min y"],
        &["", "1", "h", "5 fortnights", "-"],
    );
}

#[test]
fn codes() {
    check(
        Format::Uuid,
        &["a8098c1a-f86e-11da-bd1a-00112444be1e", "A8098C1AF86E11DABD1A00112444BE1E"],
        &[
            "a8098c1a-f86e-11da-bd1a-00112444be1",
            "a8098c1a--f86e-11da-bd1a-00112444be1e",
            "a809-8c1af86e11dabd1a00112444be1e",
        ],
    );
    check(
        Format::Uuid4,
        &["025b0d74-00a2-4048-bf57-227c5111bb34"],
        &["a8098c1a-f86e-11da-bd1a-00112444be1e", "025b0d74-00a2-4048-7f57-227c5111bb34"],
    );
    check(
        Format::Isbn,
        &["0321751043", "978-0321751041"],
        &["0321751042", "9780321751042", "032175104"],
    );
    check(
        Format::CreditCard,
        &["4111-1111-1111-1111", "378282246310005"],
        &["4111-1111-1111-1112", "1234"],
    );
    check(Format::Ssn, &["111-11-1111", "111 11 1111"], &["111111111", "111-11-111"]);
    check(Format::HexColor, &["#fff", "FFFFFF"], &["#ffff", "ggg"]);
    check(Format::RgbColor, &["rgb(0, 10,255)"], &["rgb(0,10,256)", "rgb(00,1,1)", "rgb(1,1)"]);
    check(Format::Byte, &["YQ==", "YWI=", "YWJj"], &["", "YQ", "YQ=", "Y-_j", "===="]);
    check(
        Format::BsonObjectId,
        &["507f1f77bcf86cd799439011"],
        &["507f", "zz7f1f77bcf86cd799439011"],
    );
    check(Format::ShortName, &["a-b", "1"], &["A", "a.b", "", "-a"]);
    check(Format::LongName, &["a-b.c"], &["a..b", "A"]);
    check(Format::Password, &["", "x"], &[]);
}

#[test]
fn format_names_ignore_dashes_and_depend_on_the_type() {
    assert_eq!(Format::from_name("date-time"), Some(Format::DateTime));
    assert!(is_recognized("string", "uuid-4"));
    assert!(is_recognized("", "date"));
    assert!(is_recognized("integer", "int32"));
    assert!(!is_recognized("number", "int32"));
    assert!(!is_recognized("object", "date"));
    assert!(!is_recognized("string", "int32"));
}
