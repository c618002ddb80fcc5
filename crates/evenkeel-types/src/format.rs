//! The string formats that kube-apiserver 1.36 enforces, and the schema types they apply to.
//!
//! A format that is unknown here, or that does not apply to the schema's type, is ignored and never
//! reaches a compiled schema ([`is_recognized`]).

mod codes;
mod mail;
mod net;
mod time;

use std::sync::LazyLock;

use regex::Regex;

use crate::names;
use crate::url::Url;

/// A string format that is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are named like the formats")]
pub enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

impl Format {
    /// Returns the format with this name. Dashes are ignored (`date-time` is `datetime`).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "creditcard" => Self::CreditCard,
            "ssn" => Self::Ssn,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "datetime" => Self::DateTime,
            "k8sshortname" => Self::ShortName,
            "k8slongname" => Self::LongName,
            _ => return None,
        })
    }

    /// Returns whether `text` has this format.
    pub fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Uri => Url::parse_request_uri(text).is_ok(),
            Self::Email => mail::is_address(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => net::parse_ip_sloppy(text) && text.contains('.'),
            Self::Ipv6 => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
            Self::Cidr => net::parse_cidr_sloppy(text),
            Self::Mac => net::is_mac(text),
            Self::Uuid => codes::is_uuid(text, None),
            Self::Uuid3 => codes::is_uuid(text, Some(b'3')),
            Self::Uuid4 => codes::is_uuid(text, Some(b'4')),
            Self::Uuid5 => codes::is_uuid(text, Some(b'5')),
            Self::Isbn => codes::is_isbn10(text) || codes::is_isbn13(text),
            Self::Isbn10 => codes::is_isbn10(text),
            Self::Isbn13 => codes::is_isbn13(text),
            Self::CreditCard => codes::is_credit_card(text),
            Self::Ssn => codes::is_ssn(text),
            Self::HexColor => codes::is_hex_color(text),
            Self::RgbColor => codes::is_rgb_color(text),
            Self::Byte => codes::is_base64(text),
            Self::Password => true,
            Self::Date => time::is_date(text),
            Self::Duration => time::is_duration(text),
            Self::DateTime => time::is_date_time(text),
            Self::ShortName => text.len() <= 63 && names::is_dns1123_label(text),
            Self::LongName => text.len() <= 253 && names::is_dns1123_subdomain(text),
        }
    }
}

/// Returns whether a schema of this type (empty if it has none or several) may use the format.
pub fn is_recognized(schema_type: &str, format: &str) -> bool {
    match schema_type {
        "" | "string" => Format::from_name(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

fn is_hostname(text: &str) -> bool {
    // A label may contain letters and symbols of any script, so this is a regular expression and
    // not a lookup table.
    static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|",
            r"([a-zA-Z0-9\p{S}\p{L}]",
            r"(([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
            r"([a-zA-Z\p{L}]){2,63})$"
        ))
        .expect("hostname expression compiles")
    });
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

#[cfg(test)]
mod tests;
