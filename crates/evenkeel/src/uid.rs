//! Uids of objects.

use std::fmt;

/// The uid of an object. Names are reused, uids are not: owner references and delete preconditions
/// use them.
///
/// Stored as 16 bytes if it is a UUID in canonical form, as those of the API server are, so that
/// the cache needs no allocation for it.
///
/// ```
/// use evenkeel::Uid;
///
/// let uid = Uid::new("0d3b9e8f-8a54-4f1c-9d4e-ffee00112233");
/// assert_eq!(uid.to_string(), "0d3b9e8f-8a54-4f1c-9d4e-ffee00112233");
/// assert_eq!(uid, *"0d3b9e8f-8a54-4f1c-9d4e-ffee00112233");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    /// Parses a uid; any text is valid.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(uuid(text.as_bytes()).map_or_else(|| Form::Text(text.into()), Form::Uuid))
    }
}

/// Accepts only the form that [`fmt::Display`] writes, so that a round trip preserves the text.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut at = 0;
    for (index, &c) in text.iter().enumerate() {
        if matches!(index, 8 | 13 | 18 | 23) {
            if c != b'-' {
                return None;
            }
            continue;
        }
        let digit = match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            _ => return None,
        };
        bytes[at / 2] = bytes[at / 2] << 4 | digit;
        at += 1;
    }
    Some(bytes)
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, other: &str) -> bool {
        *self == Self::new(other)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text),
            Form::Uuid(bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Uid;

    #[test]
    fn every_spelling_round_trips() {
        for text in [
            "0d3b9e8f-8a54-4f1c-9d4e-ffee00112233",
            "0D3B9E8F-8a54-4f1c-9d4e-ffee00112233",
            "0d3b9e8f8a54-4f1c-9d4e-ffee001122334",
            "not-a-uuid",
            "",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
    }

    #[test]
    fn uids_that_differ_in_case_differ() {
        assert_ne!(
            Uid::new("0d3b9e8f-8a54-4f1c-9d4e-ffee00112233"),
            Uid::new("0D3B9E8F-8a54-4f1c-9d4e-ffee00112233")
        );
    }
}
