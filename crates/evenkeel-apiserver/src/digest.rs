//! Digests and base64 variants that the API uses.

use std::fmt::Write as _;

use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{NO_PAD, STANDARD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose};
use base64::{DecodeError, Engine as _};
use ring::digest;

/// Computes the SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

/// Computes the SHA-512 of `bytes` in upper-case hexadecimal, the form of hashes in the API.
pub(crate) fn sha512_hex(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA512, bytes).as_ref()).to_ascii_uppercase()
}

/// Formats `bytes` in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Encodes `bytes` as standard base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Encodes `bytes` as URL-safe base64, the encoding of continue tokens.
pub(crate) fn base64_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes URL-safe base64 as leniently as Go. The error is the offset of the invalid byte.
pub(crate) fn from_base64_url(text: &str) -> Result<Vec<u8>, usize> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &URL_SAFE,
        NO_PAD
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::RequireNone),
    );
    LENIENT.decode(text).map_err(|error| match error {
        DecodeError::InvalidByte(at, _) => at,
        // Four characters encode three bytes; Go reports the first incomplete group.
        _ => text.len() - text.len() % 4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_sha_512_in_upper_case() {
        assert!(sha512_hex(b"abc").starts_with("DDAF35A193617ABACC417349AE204131"));
        assert_eq!(sha512_hex(b"abc").len(), 128);
    }
}
