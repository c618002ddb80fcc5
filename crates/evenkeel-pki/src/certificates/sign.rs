//! Signs the certificate requests of clients.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::Offset;
use rcgen::SigningKey as _;
use ring::digest;

use super::Authority;
use crate::x509::der::{self, Tag};
use crate::x509::request::CertificateRequest;
use crate::x509::{self, subject_der, subject_key_id};

/// How long and for what a certificate is valid.
#[derive(Clone, Debug)]
pub struct SigningPolicy<'a> {
    /// The current time, in seconds since the epoch.
    pub now_unix: u64,
    /// The lifetime; the certificate does not outlive the authority.
    pub lifetime: Duration,
    /// The usages, by the names of a CertificateSigningRequest: `client auth`.
    pub usages: &'a [String],
    /// What makes the serial number unique: the uid of the request's object.
    pub unique: &'a str,
}

/// Why a request is not signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The request is not signed by the key it contains.
    #[error("unable to verify certificate request signature")]
    Signature,
    /// A usage is not known.
    #[error("unrecognized usage values: [{0:?}]")]
    Usage(String),
    /// The authority has expired.
    #[error("the signer has expired")]
    Expired,
    /// The authority's certificate cannot be read.
    #[error(transparent)]
    Authority(#[from] x509::Error),
    /// Signing failed.
    #[error("failed to sign certificate")]
    Sign(#[source] rcgen::Error),
}

/// Certificates are backdated by this.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// Certificates below this lifetime are not shortened by the backdate.
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);

/// The bits of the key usage extension, by name; `u16` with the first bit as the highest.
const KEY_USAGES: &[(&str, u16)] = &[
    ("signing", 0x8000),
    ("digital signature", 0x8000),
    ("content commitment", 0x4000),
    ("key encipherment", 0x2000),
    ("data encipherment", 0x1000),
    ("key agreement", 0x0800),
    ("cert sign", 0x0400),
    ("crl sign", 0x0200),
    ("encipher only", 0x0100),
    ("decipher only", 0x0080),
];

/// The object identifiers of extended key usages, by name.
const EXTENDED_USAGES: &[(&str, &[u8])] = &[
    ("any", &[0x55, 0x1d, 0x25, 0x00]),
    ("server auth", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01]),
    ("client auth", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02]),
    ("code signing", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x03]),
    ("email protection", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04]),
    ("s/mime", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04]),
    ("ipsec end system", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x05]),
    ("ipsec tunnel", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x06]),
    ("ipsec user", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x07]),
    ("timestamping", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x08]),
    ("ocsp signing", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09]),
    ("microsoft sgc", &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x0a, 0x03, 0x03]),
    ("netscape sgc", &[0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x42, 0x04, 0x01]),
];

const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

impl Authority {
    /// Issues a certificate for a request, with its subject, key and names, in PEM form.
    ///
    /// # Errors
    ///
    /// If the request is not signed by its key, or a usage is not known.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        policy: &SigningPolicy<'_>,
    ) -> Result<String, SignError> {
        if !request.is_signed() {
            return Err(SignError::Signature);
        }
        let body = self.body(request, policy)?;
        let signature = self.issuer.key().sign(&body).map_err(SignError::Sign)?;
        let certificate = der::value(
            Tag::SEQUENCE,
            &[body, signature_algorithm(), bit_string(&signature, 0)].concat(),
        );
        Ok(pem(&certificate))
    }

    fn body(
        &self,
        request: &CertificateRequest,
        policy: &SigningPolicy<'_>,
    ) -> Result<Vec<u8>, SignError> {
        let last = x509::validity(&self.certificate).map_or(0, |validity| *validity.end());
        let now = policy.now_unix;
        if now >= last {
            return Err(SignError::Expired);
        }
        let lifetime = match policy.lifetime {
            lifetime if lifetime < SHORT => lifetime,
            lifetime => lifetime.saturating_sub(BACKDATE),
        };
        let end = now.saturating_add(lifetime.as_secs()).min(last);
        let validity = [time(now.saturating_sub(BACKDATE.as_secs())), time(end)].concat();
        let parts = [
            der::value(Tag::VERSION, &der::value(Tag::INTEGER, &[2])),
            der::value(Tag::INTEGER, &serial(request, policy)),
            signature_algorithm(),
            subject_der(&self.certificate)?.to_owned(),
            der::value(Tag::SEQUENCE, &validity),
            request.subject_der.clone(),
            request.public_key_der.clone(),
            der::value(
                Tag::EXTENSIONS,
                &der::value(Tag::SEQUENCE, &self.extensions(request, policy)?),
            ),
        ];
        Ok(der::value(Tag::SEQUENCE, &parts.concat()))
    }

    fn extensions(
        &self,
        request: &CertificateRequest,
        policy: &SigningPolicy<'_>,
    ) -> Result<Vec<u8>, SignError> {
        let mut bits = 0;
        let mut extended: Vec<&[u8]> = Vec::new();
        for usage in policy.usages {
            if let Some((_, bit)) = KEY_USAGES.iter().find(|(name, _)| name == usage) {
                bits |= bit;
            } else if let Some((_, id)) = EXTENDED_USAGES.iter().find(|(name, _)| name == usage) {
                if !extended.contains(id) {
                    extended.push(id);
                }
            } else {
                return Err(SignError::Usage(usage.clone()));
            }
        }
        let mut all = Vec::new();
        if bits != 0 {
            all.extend(extension(KEY_USAGE, true, &key_usage(bits)));
        }
        if !extended.is_empty() {
            let ids: Vec<u8> =
                extended.into_iter().flat_map(|id| der::value(Tag::OID, id)).collect();
            all.extend(extension(EXTENDED_KEY_USAGE, false, &der::value(Tag::SEQUENCE, &ids)));
        }
        all.extend(extension(BASIC_CONSTRAINTS, true, &der::value(Tag::SEQUENCE, &[])));
        if let Some(id) = subject_key_id(&self.certificate) {
            let id = der::value(Tag::SEQUENCE, &der::value(Tag::KEY_ID, id));
            all.extend(extension(AUTHORITY_KEY_ID, false, &id));
        }
        if let Some(names) = request.names.to_der() {
            all.extend(extension(SUBJECT_ALT_NAME, false, &names));
        }
        Ok(all)
    }
}

fn signature_algorithm() -> Vec<u8> {
    der::value(Tag::SEQUENCE, &der::value(Tag::OID, ECDSA_SHA256))
}

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let mut parts = der::value(Tag::OID, id);
    if critical {
        parts.extend(der::value(Tag::BOOLEAN, &[0xff]));
    }
    parts.extend(der::value(Tag::OCTET_STRING, value));
    der::value(Tag::SEQUENCE, &parts)
}

/// Encodes the bits without trailing zeros.
fn key_usage(bits: u16) -> Vec<u8> {
    let unused = bits.trailing_zeros();
    let octets = bits.to_be_bytes();
    if unused >= 8 { bit_string(&octets[..1], unused - 8) } else { bit_string(&octets, unused) }
}

fn bit_string(octets: &[u8], unused: u32) -> Vec<u8> {
    let unused = u8::try_from(unused).unwrap_or(0);
    der::value(Tag::BIT_STRING, &[&[unused], octets].concat())
}

/// Returns a positive number of 126 bits.
fn serial(request: &CertificateRequest, policy: &SigningPolicy<'_>) -> Vec<u8> {
    let mut hashed = digest::Context::new(&digest::SHA256);
    hashed.update(policy.unique.as_bytes());
    hashed.update(&policy.now_unix.to_be_bytes());
    hashed.update(&request.public_key_der);
    let mut serial = hashed.finish().as_ref()[..16].to_owned();
    serial[0] = serial[0] & 0x7f | 0x40;
    serial
}

/// Encodes a time: until 2049 with a year of two digits.
fn time(seconds: u64) -> Vec<u8> {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let date = Offset::UTC.to_datetime(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX));
    if date.year() < 2050 {
        der::value(Tag::UTC_TIME, date.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        der::value(Tag::GENERALIZED_TIME, date.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
    }
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests;
