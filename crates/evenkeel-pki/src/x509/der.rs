//! The subset of DER that certificates and requests need: definite lengths, low tags, text.
//!
//! Every read checks its length against the remaining input first, and nothing recurses.

use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::Error;

/// An identifier octet. High tag numbers (31 and up) do not occur before the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u8);

impl Tag {
    pub(crate) const BOOLEAN: Self = Self(0x01);
    pub(crate) const INTEGER: Self = Self(0x02);
    pub(crate) const BIT_STRING: Self = Self(0x03);
    pub(crate) const OCTET_STRING: Self = Self(0x04);
    pub(crate) const OID: Self = Self(0x06);
    pub(crate) const UTF8_STRING: Self = Self(0x0c);
    pub(crate) const NUMERIC_STRING: Self = Self(0x12);
    pub(crate) const PRINTABLE_STRING: Self = Self(0x13);
    pub(crate) const T61_STRING: Self = Self(0x14);
    pub(crate) const IA5_STRING: Self = Self(0x16);
    pub(crate) const UTC_TIME: Self = Self(0x17);
    pub(crate) const GENERALIZED_TIME: Self = Self(0x18);
    pub(crate) const BMP_STRING: Self = Self(0x1e);
    pub(crate) const SEQUENCE: Self = Self(0x30);
    pub(crate) const SET: Self = Self(0x31);
    /// `[0]`, explicit: the version of a v2 or v3 certificate.
    pub(crate) const VERSION: Self = Self(0xa0);
    /// `[0]`: the attributes of a certificate request.
    pub(crate) const ATTRIBUTES: Self = Self(0xa0);
    /// `[3]`, explicit: the extensions of a certificate.
    pub(crate) const EXTENSIONS: Self = Self(0xa3);
    /// `[0]`: the identifier of an authority's key.
    pub(crate) const KEY_ID: Self = Self(0x80);
    /// `[1]`, `[2]`, `[6]`, `[7]`: subject alternative names.
    pub(crate) const EMAIL: Self = Self(0x81);
    pub(crate) const DNS_NAME: Self = Self(0x82);
    pub(crate) const URI: Self = Self(0x86);
    pub(crate) const IP_ADDRESS: Self = Self(0x87);
}

/// The remaining input of one DER value.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the next value has the tag `tag`.
    pub(crate) fn begins_with(&self, tag: Tag) -> bool {
        self.0.first() == Some(&tag.0)
    }

    /// Returns the next value with its tag and length.
    pub(crate) fn raw(&mut self, tag: Tag, missing: &'static str) -> Result<&'a [u8], Error> {
        let before = self.0;
        self.enter(tag, missing)?;
        Ok(&before[..before.len() - self.0.len()])
    }

    /// Returns the remaining input.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Returns the next value with its tag; `missing` is the error if there is none.
    pub(crate) fn next(&mut self, missing: &'static str) -> Result<(Tag, &'a [u8]), Error> {
        let malformed = Error::Malformed(missing);
        let &[tag, first, ref rest @ ..] = self.0 else { return Err(malformed) };
        if tag & 0x1f == 0x1f {
            return Err(malformed);
        }
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Four octets hold 4 GiB, far beyond any handshake message.
            0x81..=0x84 => {
                let (octets, rest) =
                    rest.split_at_checked(usize::from(first & 0x7f)).ok_or(malformed.clone())?;
                let length = octets.iter().fold(0_u64, |sum, &octet| sum << 8 | u64::from(octet));
                // DER requires the shortest encoding of a length.
                if octets[0] == 0 || length < 0x80 {
                    return Err(malformed);
                }
                (usize::try_from(length).map_err(|_| malformed.clone())?, rest)
            }
            _ => return Err(malformed),
        };
        let (value, rest) = rest.split_at_checked(length).ok_or(malformed)?;
        self.0 = rest;
        Ok((Tag(tag), value))
    }

    /// Returns a reader of the next value, which must have the tag `tag`.
    pub(crate) fn enter(&mut self, tag: Tag, missing: &'static str) -> Result<Self, Error> {
        match self.next(missing)? {
            (found, value) if found == tag => Ok(Reader(value)),
            _ => Err(Error::Malformed(missing)),
        }
    }

    /// Skips the next value if it has the tag `tag`.
    pub(crate) fn skip_if(&mut self, tag: Tag) -> Result<(), Error> {
        if self.begins_with(tag) {
            self.next("truncated value")?;
        }
        Ok(())
    }
}

/// Encodes a value.
pub(crate) fn value(tag: Tag, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut encoded = vec![tag.0];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => encoded.push(short),
        _ => {
            let octets = length.to_be_bytes();
            let first = octets.iter().position(|octet| *octet != 0).unwrap_or(0);
            let octets = &octets[first..];
            // At most eight.
            encoded.push(0x80 | u8::try_from(octets.len()).unwrap_or(8));
            encoded.extend_from_slice(octets);
        }
    }
    encoded.extend_from_slice(content);
    encoded
}

/// Decodes a string in the character set of its tag.
pub(crate) fn text(tag: Tag, value: &[u8]) -> Result<String, &'static str> {
    let ascii = |allowed: fn(&u8) -> bool, refusal: &'static str| {
        if value.iter().all(allowed) {
            Ok(value.iter().copied().map(char::from).collect())
        } else {
            Err(refusal)
        }
    };
    match tag {
        Tag::UTF8_STRING => {
            str::from_utf8(value).map(str::to_owned).map_err(|_| "invalid UTF-8 string")
        }
        Tag::PRINTABLE_STRING => ascii(is_printable, "invalid PrintableString"),
        Tag::IA5_STRING => ascii(u8::is_ascii, "invalid IA5String"),
        Tag::NUMERIC_STRING => {
            ascii(|byte| byte.is_ascii_digit() || *byte == b' ', "invalid NumericString")
        }
        // T.61 is read as Latin-1, like other implementations do.
        Tag::T61_STRING => Ok(value.iter().copied().map(char::from).collect()),
        Tag::BMP_STRING => bmp(value).ok_or("invalid BMPString"),
        _ => Err("unsupported string type"),
    }
}

/// Decodes a time to seconds since the epoch; earlier times become 0.
pub(crate) fn time(tag: Tag, value: &[u8]) -> Option<u64> {
    let text = str::from_utf8(value).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        Tag::UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year = number(year)?;
            // RFC 5280: two-digit years range from 1950 to 2049.
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        Tag::GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 {
        return None;
    }
    let part = |at: usize| i8::try_from(number(rest.get(at..at + 2)?)?).ok();
    let date = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    let seconds = Offset::UTC.to_timestamp(date).ok()?.as_second();
    Some(u64::try_from(seconds).unwrap_or(0))
}

fn number(digits: &str) -> Option<i16> {
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Returns whether a byte is allowed in a PrintableString of RFC 5280, or is one of two more that
/// occur in real certificates.
fn is_printable(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte)
}

/// Decodes big-endian UCS-2 with an optional terminator.
fn bmp(value: &[u8]) -> Option<String> {
    let value = match value {
        [text @ .., 0, 0] if value.len().is_multiple_of(2) => text,
        _ => value,
    };
    let (units, odd) = value.as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    units
        .iter()
        .map(|&unit| match u16::from_be_bytes(unit) {
            0xfdd0..=0xfdef | 0xfffe | 0xffff => None,
            // `from_u32` rejects surrogates.
            unit => char::from_u32(u32::from(unit)),
        })
        .collect()
}
