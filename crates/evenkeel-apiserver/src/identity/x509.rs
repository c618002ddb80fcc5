//! The identity in a client certificate: user from the common name, groups from the organizations.
//!
//! Runs after the listener has verified the chain; a subject alone proves nothing. The parser reads
//! only up to the subject, checks every length against the remaining input, and allocates only for
//! the values it returns, so a hostile certificate costs at most its own size.

mod der;

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;

use self::der::{Reader, Tag};
use super::{CREDENTIAL_ID, Identity};

/// Why a certificate has no valid identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not the DER of an X.509 certificate.
    #[error("malformed certificate: {0}")]
    Malformed(&'static str),
    /// An attribute of the subject is not valid in its declared character set.
    #[error("invalid RDNSequence: invalid attribute value: {0}")]
    InvalidText(&'static str),
    /// The subject contains more than one user id.
    #[error("expected 1 UID, but found multiple: {0:?}")]
    SeveralUids(Vec<String>),
    /// The subject contains an empty user id.
    #[error("UID cannot be an empty string")]
    EmptyUid,
}

/// The parts of a certificate's subject that form an identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The last common name; empty if there is none.
    pub(crate) common_name: String,
    /// Every organization, in order.
    pub(crate) organizations: Vec<String>,
    /// Every Kubernetes user id, in order.
    pub(crate) uids: Vec<String>,
}

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// 1.3.6.1.4.1.57683.2, the user id in the arc of Kubernetes.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

/// Returns the identity in the certificate `certificate` (DER).
///
/// Returns `None` if the subject has no common name: such a certificate does not authenticate, and
/// the request continues as if it had not been sent.
pub fn identity(certificate: &[u8]) -> Result<Option<Identity>, Error> {
    let subject = subject(certificate)?;
    if subject.common_name.is_empty() {
        return Ok(None);
    }
    let uid = match subject.uids.as_slice() {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err(Error::EmptyUid),
        [uid] => uid.clone(),
        _ => return Err(Error::SeveralUids(subject.uids)),
    };
    let mut identity = Identity::authenticated(subject.common_name, subject.organizations);
    identity.uid = uid;
    identity.extra.insert(CREDENTIAL_ID.to_owned(), vec![credential_id(certificate)]);
    Ok(Some(identity))
}

/// Returns whether `certificate` (DER) is an X.509 version 1 certificate, without extensions.
pub(crate) fn is_version_1(certificate: &[u8]) -> bool {
    body(certificate).is_ok_and(|tbs| !tbs.begins_with(Tag::VERSION))
}

/// Returns the validity of `certificate` (DER), in seconds since the epoch.
pub(crate) fn validity(certificate: &[u8]) -> Option<RangeInclusive<u64>> {
    let mut tbs = body(certificate).ok()?;
    skip_to_validity(&mut tbs).ok()?;
    let mut validity = tbs.enter(Tag::SEQUENCE, "no validity").ok()?;
    let mut time = || {
        let (tag, value) = validity.next("no time").ok()?;
        der::time(tag, value)
    };
    Some(time()?..=time()?)
}

/// A public key to verify signatures with.
pub(crate) struct PublicKey<'a> {
    /// Object identifier and parameters.
    pub(crate) algorithm: &'a [u8],
    pub(crate) bits: &'a [u8],
}

/// Parses the public key of `certificate` (DER).
pub(crate) fn public_key(certificate: &[u8]) -> Result<PublicKey<'_>, Error> {
    let mut tbs = body(certificate)?;
    skip_to_validity(&mut tbs)?;
    tbs.enter(Tag::SEQUENCE, "no validity")?;
    tbs.enter(Tag::SEQUENCE, "no subject")?;
    let mut key = tbs.enter(Tag::SEQUENCE, "no public key")?;
    let algorithm = key.enter(Tag::SEQUENCE, "no public key algorithm")?.rest();
    match key.enter(Tag::BIT_STRING, "no public key")?.rest() {
        [0, bits @ ..] => Ok(PublicKey { algorithm, bits }),
        _ => Err(Error::Malformed("no public key")),
    }
}

/// Returns the signed part of the certificate (`tbsCertificate`).
fn body(certificate: &[u8]) -> Result<Reader<'_>, Error> {
    let mut outer = Reader::new(certificate);
    let mut certificate = outer.enter(Tag::SEQUENCE, "no certificate")?;
    certificate.enter(Tag::SEQUENCE, "no certificate body")
}

fn skip_to_validity(tbs: &mut Reader<'_>) -> Result<(), Error> {
    tbs.skip_if(Tag::VERSION)?;
    tbs.enter(Tag::INTEGER, "no serial number")?;
    tbs.enter(Tag::SEQUENCE, "no signature algorithm")?;
    tbs.enter(Tag::SEQUENCE, "no issuer")?;
    Ok(())
}

/// Parses the subject of `certificate` (DER).
pub(crate) fn subject(certificate: &[u8]) -> Result<Subject, Error> {
    let mut tbs = body(certificate)?;
    skip_to_validity(&mut tbs)?;
    tbs.enter(Tag::SEQUENCE, "no validity")?;
    let mut names = tbs.enter(Tag::SEQUENCE, "no subject")?;

    let mut subject = Subject::default();
    while !names.is_empty() {
        let mut set = names.enter(Tag::SET, "invalid RDNSequence")?;
        while !set.is_empty() {
            let mut attribute =
                set.enter(Tag::SEQUENCE, "invalid RDNSequence: invalid attribute")?;
            let oid =
                attribute.enter(Tag::OID, "invalid RDNSequence: invalid attribute type")?.rest();
            let (tag, value) = attribute.next("invalid RDNSequence: invalid attribute value")?;
            // Unused attributes are decoded, too: a malformed certificate is always rejected.
            let text = der::text(tag, value).map_err(Error::InvalidText)?;
            match oid {
                COMMON_NAME => subject.common_name = text,
                ORGANIZATION => subject.organizations.push(text),
                UID => subject.uids.push(text),
                _ => {}
            }
        }
    }
    Ok(subject)
}

fn credential_id(certificate: &[u8]) -> String {
    // The hash of this cipher suite is SHA-256; rustls is a dependency anyway.
    let mut hash =
        TLS13_AES_128_GCM_SHA256.tls13().expect("a TLS 1.3 suite").common.hash_provider.start();
    hash.update(certificate);
    let mut id = String::from("X509SHA256=");
    for byte in hash.finish().as_ref() {
        write!(id, "{byte:02x}").expect("writing to a String cannot fail");
    }
    id
}

#[cfg(test)]
mod tests;
