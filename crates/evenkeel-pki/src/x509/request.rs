//! Certificate requests (PKCS #10): the subject and names that a client requests.

use std::net::IpAddr;

use ring::signature;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject as _;

use super::der::{self, Reader, Tag};
use super::{Error, Subject};

/// A parsed certificate request.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    /// The signed part, in DER form.
    info: Vec<u8>,
    algorithm: Vec<u8>,
    signature: Vec<u8>,
    pub(crate) subject_der: Vec<u8>,
    pub(crate) public_key_der: Vec<u8>,
    subject: Subject,
    /// The requested subject alternative names.
    pub names: AlternativeNames,
}

/// Subject alternative names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlternativeNames {
    /// DNS names.
    pub dns: Vec<String>,
    /// IP addresses.
    pub ips: Vec<IpAddr>,
    /// Email addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
}

impl CertificateRequest {
    /// Parses a request in PEM form.
    ///
    /// # Errors
    ///
    /// If it is not the PEM of a valid request. Its signature is not verified.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let request = CertificateSigningRequestDer::from_pem_slice(pem)
            .map_err(|_| Error::Malformed("no certificate request in PEM form"))?;
        Self::from_der(&request)
    }

    /// Parses a request in DER form.
    ///
    /// # Errors
    ///
    /// If it is not a valid request. Its signature is not verified.
    pub fn from_der(request: &[u8]) -> Result<Self, Error> {
        let mut outer = Reader::new(request);
        let mut request = outer.enter(Tag::SEQUENCE, "no certificate request")?;
        if !outer.is_empty() {
            return Err(Error::Malformed("trailing data"));
        }
        let info = request.raw(Tag::SEQUENCE, "no certificate request info")?;
        let mut algorithm = request.enter(Tag::SEQUENCE, "no signature algorithm")?;
        let algorithm = algorithm.enter(Tag::OID, "no signature algorithm")?.rest();
        let signature = match request.enter(Tag::BIT_STRING, "no signature")?.rest() {
            [0, signature @ ..] => signature,
            _ => return Err(Error::Malformed("no signature")),
        };
        let mut body = Reader::new(info).enter(Tag::SEQUENCE, "no certificate request info")?;
        body.enter(Tag::INTEGER, "no version")?;
        let subject_der = body.raw(Tag::SEQUENCE, "no subject")?;
        let public_key_der = body.raw(Tag::SEQUENCE, "no public key")?;
        let mut names = AlternativeNames::default();
        if body.begins_with(Tag::ATTRIBUTES) {
            let mut attributes = body.enter(Tag::ATTRIBUTES, "no attributes")?;
            while !attributes.is_empty() {
                let attribute = attributes.enter(Tag::SEQUENCE, "invalid attribute")?;
                read_extensions(attribute, &mut names)?;
            }
        }
        let subject =
            super::read_subject(Reader::new(subject_der).enter(Tag::SEQUENCE, "no subject")?)?;
        Ok(Self {
            info: info.to_owned(),
            algorithm: algorithm.to_owned(),
            signature: signature.to_owned(),
            subject_der: subject_der.to_owned(),
            public_key_der: public_key_der.to_owned(),
            subject,
            names,
        })
    }

    /// Returns the common name of the subject; empty if there is none.
    pub fn common_name(&self) -> &str {
        &self.subject.common_name
    }

    /// Returns the organizations of the subject.
    pub fn organizations(&self) -> &[String] {
        &self.subject.organizations
    }

    /// Returns whether the request is signed with the key it contains.
    pub fn is_signed(&self) -> bool {
        let Some(key) = self.public_key() else { return false };
        let Some(algorithm) = verification(&self.algorithm, &key) else { return false };
        signature::UnparsedPublicKey::new(algorithm, key.bits)
            .verify(&self.info, &self.signature)
            .is_ok()
    }

    fn public_key(&self) -> Option<Key<'_>> {
        let mut key = Reader::new(&self.public_key_der).enter(Tag::SEQUENCE, "").ok()?;
        let mut algorithm = key.enter(Tag::SEQUENCE, "").ok()?;
        let kind = algorithm.enter(Tag::OID, "").ok()?.rest();
        let curve = algorithm.enter(Tag::OID, "").map_or(&[][..], Reader::rest);
        match key.enter(Tag::BIT_STRING, "").ok()?.rest() {
            [0, bits @ ..] => Some(Key { kind, curve, bits }),
            _ => None,
        }
    }
}

/// A public key.
struct Key<'a> {
    /// The object identifier of its algorithm.
    kind: &'a [u8],
    /// The object identifier of its curve; empty if it has none.
    curve: &'a [u8],
    bits: &'a [u8],
}

const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// Reads the names of an attribute that requests extensions; others are ignored.
fn read_extensions(mut attribute: Reader<'_>, names: &mut AlternativeNames) -> Result<(), Error> {
    if attribute.enter(Tag::OID, "invalid attribute")?.rest() != EXTENSION_REQUEST {
        return Ok(());
    }
    let mut values = attribute.enter(Tag::SET, "invalid attribute")?;
    let mut extensions = values.enter(Tag::SEQUENCE, "invalid extensions")?;
    while !extensions.is_empty() {
        let mut extension = extensions.enter(Tag::SEQUENCE, "invalid extension")?;
        let id = extension.enter(Tag::OID, "invalid extension")?.rest();
        extension.skip_if(Tag::BOOLEAN)?;
        let value = extension.enter(Tag::OCTET_STRING, "invalid extension")?.rest();
        if id == SUBJECT_ALT_NAME {
            read_names(value, names)?;
        }
    }
    Ok(())
}

fn read_names(value: &[u8], names: &mut AlternativeNames) -> Result<(), Error> {
    let mut all = Reader::new(value).enter(Tag::SEQUENCE, "invalid subject alternative names")?;
    while !all.is_empty() {
        let (tag, value) = all.next("invalid subject alternative name")?;
        let text = || der::text(Tag::IA5_STRING, value).map_err(Error::InvalidText);
        match tag {
            Tag::EMAIL => names.emails.push(text()?),
            Tag::DNS_NAME => names.dns.push(text()?),
            Tag::URI => names.uris.push(text()?),
            Tag::IP_ADDRESS => {
                let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
                let ip = v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from));
                names.ips.push(ip.map_err(|_| Error::Malformed("invalid IP address"))?);
            }
            _ => {}
        }
    }
    Ok(())
}

impl AlternativeNames {
    /// Returns the value of the extension, if there are names.
    pub(crate) fn to_der(&self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for name in &self.dns {
            all.extend(der::value(Tag::DNS_NAME, name.as_bytes()));
        }
        for email in &self.emails {
            all.extend(der::value(Tag::EMAIL, email.as_bytes()));
        }
        for ip in &self.ips {
            all.extend(match ip {
                IpAddr::V4(ip) => der::value(Tag::IP_ADDRESS, &ip.octets()),
                IpAddr::V6(ip) => der::value(Tag::IP_ADDRESS, &ip.octets()),
            });
        }
        for uri in &self.uris {
            all.extend(der::value(Tag::URI, uri.as_bytes()));
        }
        (!all.is_empty()).then(|| der::value(Tag::SEQUENCE, &all))
    }
}

const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const ECDSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
const RSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c];
const RSA_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d];

/// Returns how to verify a signature of the algorithm with a key of this kind.
fn verification(
    signature: &[u8],
    key: &Key<'_>,
) -> Option<&'static dyn signature::VerificationAlgorithm> {
    Some(match (key.kind, key.curve, signature) {
        (EC, P256, ECDSA_SHA256) => &signature::ECDSA_P256_SHA256_ASN1,
        (EC, P256, ECDSA_SHA384) => &signature::ECDSA_P256_SHA384_ASN1,
        (EC, P384, ECDSA_SHA256) => &signature::ECDSA_P384_SHA256_ASN1,
        (EC, P384, ECDSA_SHA384) => &signature::ECDSA_P384_SHA384_ASN1,
        (RSA, _, RSA_SHA256) => &signature::RSA_PKCS1_2048_8192_SHA256,
        (RSA, _, RSA_SHA384) => &signature::RSA_PKCS1_2048_8192_SHA384,
        (RSA, _, RSA_SHA512) => &signature::RSA_PKCS1_2048_8192_SHA512,
        (ED25519, _, ED25519) => &signature::ED25519,
        _ => return None,
    })
}
