//! Reads certificates: the user and groups of the subject, validity and public key.
//!
//! The chain has to be verified first: a subject alone proves nothing. The parser reads
//! only up to the subject, checks every length against the remaining input, and allocates only for
//! the values it returns, so a hostile certificate costs at most its own size.
//!
//! Written here because Go's rules decide which certificates kube-apiserver accepts (character sets,
//! version 1, several user ids), and the crates that parse X.509 have other ones. It is fuzzed
//! (`tests/fuzz.rs`).

pub(crate) mod der;

pub(crate) mod request;

use std::ops::RangeInclusive;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use self::der::{Reader, Tag};
pub use self::request::{AlternativeNames, CertificateRequest};

/// Why a certificate cannot be read or has no valid user.
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

/// The user in a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// The user name.
    pub name: String,
    /// The user id; often empty.
    pub uid: String,
    /// The groups, in order.
    pub groups: Vec<String>,
}

/// The parts of a certificate's subject that form a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Subject {
    /// The last common name; empty if there is none.
    common_name: String,
    /// Every organization, in order.
    organizations: Vec<String>,
    /// Every Kubernetes user id, in order.
    uids: Vec<String>,
}

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// 1.3.6.1.4.1.57683.2, the user id in the arc of Kubernetes.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

/// Returns the user in the certificate `certificate` (DER): the name from the common name, groups
/// from the organizations.
///
/// Returns `None` if the subject has no common name: such a certificate does not authenticate.
///
/// # Errors
///
/// If the certificate is malformed, or its user ids are invalid.
pub fn user(certificate: &[u8]) -> Result<Option<User>, Error> {
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
    Ok(Some(User { name: subject.common_name, uid, groups: subject.organizations }))
}

/// Returns whether `certificate` (DER) is an X.509 version 1 certificate, without extensions.
pub fn is_version_1(certificate: &[u8]) -> bool {
    body(certificate).is_ok_and(|tbs| !tbs.begins_with(Tag::VERSION))
}

/// Returns the validity of `certificate` (DER), in seconds since the epoch.
pub fn validity(certificate: &[u8]) -> Option<RangeInclusive<u64>> {
    let mut tbs = body(certificate).ok()?;
    skip_to_validity(&mut tbs).ok()?;
    let mut validity = tbs.enter(Tag::SEQUENCE, "no validity").ok()?;
    let mut time = || {
        let (tag, value) = validity.next("no time").ok()?;
        der::time(tag, value)
    };
    Some(time()?..=time()?)
}

/// Returns the validity of the first certificate in PEM form.
pub fn validity_of_pem(pem: &[u8]) -> Option<RangeInclusive<u64>> {
    validity(&CertificateDer::from_pem_slice(pem).ok()?)
}

/// A public key to verify signatures with.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PublicKey<'a> {
    /// Object identifier and parameters.
    pub algorithm: &'a [u8],
    /// The key itself.
    pub bits: &'a [u8],
}

/// Parses the public key of `certificate` (DER).
///
/// # Errors
///
/// If the certificate is malformed.
pub fn public_key(certificate: &[u8]) -> Result<PublicKey<'_>, Error> {
    subject_public_key(public_key_info(certificate)?)
}

/// Returns the `SubjectPublicKeyInfo` of `certificate` (DER): the key with its algorithm.
///
/// # Errors
///
/// If the certificate is malformed.
pub fn public_key_info(certificate: &[u8]) -> Result<&[u8], Error> {
    let mut tbs = body(certificate)?;
    skip_to_validity(&mut tbs)?;
    tbs.enter(Tag::SEQUENCE, "no validity")?;
    tbs.enter(Tag::SEQUENCE, "no subject")?;
    tbs.raw(Tag::SEQUENCE, "no public key")
}

/// Parses a `SubjectPublicKeyInfo` (DER).
///
/// # Errors
///
/// If it is malformed.
pub fn subject_public_key(info: &[u8]) -> Result<PublicKey<'_>, Error> {
    let mut key = Reader::new(info).enter(Tag::SEQUENCE, "no public key")?;
    let algorithm = key.enter(Tag::SEQUENCE, "no public key algorithm")?.rest();
    match key.enter(Tag::BIT_STRING, "no public key")?.rest() {
        [0, bits @ ..] => Ok(PublicKey { algorithm, bits }),
        _ => Err(Error::Malformed("no public key")),
    }
}

/// Parses a sequence of two positive integers (DER), which RSA public keys and ECDSA signatures are,
/// without leading zeros.
///
/// # Errors
///
/// If it is malformed.
pub fn two_integers(sequence: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let mut sequence = Reader::new(sequence).enter(Tag::SEQUENCE, "no sequence")?;
    let mut integer = || match sequence.enter(Tag::INTEGER, "no integer")?.rest() {
        [0, rest @ ..] => Ok(rest),
        [first, ..] if first & 0x80 != 0 => Err(Error::Malformed("a negative integer")),
        integer => Ok(integer),
    };
    Ok((integer()?, integer()?))
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
fn subject(certificate: &[u8]) -> Result<Subject, Error> {
    let mut tbs = body(certificate)?;
    skip_to_validity(&mut tbs)?;
    tbs.enter(Tag::SEQUENCE, "no validity")?;
    read_subject(tbs.enter(Tag::SEQUENCE, "no subject")?)
}

/// Returns the subject of `certificate` (DER) as it is encoded.
pub(crate) fn subject_der(certificate: &[u8]) -> Result<&[u8], Error> {
    let mut tbs = body(certificate)?;
    skip_to_validity(&mut tbs)?;
    tbs.enter(Tag::SEQUENCE, "no validity")?;
    tbs.raw(Tag::SEQUENCE, "no subject")
}

/// Returns the subject key identifier of `certificate` (DER), if it has one.
pub(crate) fn subject_key_id(certificate: &[u8]) -> Option<&[u8]> {
    const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
    let mut tbs = body(certificate).ok()?;
    skip_to_validity(&mut tbs).ok()?;
    for part in ["no validity", "no subject", "no public key"] {
        tbs.enter(Tag::SEQUENCE, part).ok()?;
    }
    let mut extensions = tbs.enter(Tag::EXTENSIONS, "no extensions").ok()?;
    let mut extensions = extensions.enter(Tag::SEQUENCE, "no extensions").ok()?;
    while !extensions.is_empty() {
        let mut extension = extensions.enter(Tag::SEQUENCE, "invalid extension").ok()?;
        let id = extension.enter(Tag::OID, "invalid extension").ok()?.rest();
        extension.skip_if(Tag::BOOLEAN).ok()?;
        let mut value = extension.enter(Tag::OCTET_STRING, "invalid extension").ok()?;
        if id == SUBJECT_KEY_ID {
            return Some(value.enter(Tag::OCTET_STRING, "invalid identifier").ok()?.rest());
        }
    }
    None
}

/// Reads the attributes of a subject.
fn read_subject(mut names: Reader<'_>) -> Result<Subject, Error> {
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

#[cfg(test)]
mod tests;
