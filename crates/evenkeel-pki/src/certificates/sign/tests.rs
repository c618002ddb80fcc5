//! Certificates that are issued for requests of other implementations.

use rcgen::{CertificateParams, DnType, KeyPair};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

use super::*;
use crate::test_support::NOW;
use crate::x509::der::Reader;

/// openssl req -new -newkey rsa:2048 -nodes -subj /CN=alice/O=team-a/O=team-b -addext
/// "subjectAltName=DNS:a.example,IP:10.0.0.1,email:a@example.com,URI:https://a.example/"
const RSA: &str = include_str!("../../x509/fixtures/request-rsa.pem");

fn usages(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn policy(usages: &[String], lifetime: u64) -> SigningPolicy<'_> {
    let lifetime = Duration::from_secs(lifetime);
    SigningPolicy { now_unix: NOW, lifetime, usages, unique: "uid" }
}

fn decode(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[test]
fn a_request_is_read_with_all_its_names() {
    let request = CertificateRequest::from_pem(RSA.as_bytes()).unwrap();
    assert!(request.is_signed());
    assert_eq!(request.common_name(), "alice");
    assert_eq!(request.organizations(), ["team-a", "team-b"]);
    assert_eq!(request.names.dns, ["a.example"]);
    assert_eq!(request.names.ips, ["10.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(request.names.emails, ["a@example.com"]);
    assert_eq!(request.names.uris, ["https://a.example/"]);
}

#[test]
fn an_issued_certificate_has_the_subject_of_its_request_and_the_signature_of_its_authority() {
    let authority = Authority::generate("kubernetes", NOW).unwrap();
    let request = CertificateRequest::from_pem(RSA.as_bytes()).unwrap();
    let usages = usages(&["client auth", "digital signature", "key encipherment"]);
    let issued = authority.sign(&request, &policy(&usages, 3600)).unwrap();
    let certificate = decode(&issued);
    let user = x509::user(&certificate).unwrap().unwrap();
    assert_eq!((user.name.as_str(), user.groups.len()), ("alice", 2));
    assert_eq!(x509::validity(&certificate), Some(NOW - 300..=NOW + 3600));
    let key = x509::public_key(&authority.certificate).unwrap();
    let mut outer = Reader::new(&certificate);
    let mut parts = outer.enter(Tag::SEQUENCE, "").unwrap();
    let body = parts.raw(Tag::SEQUENCE, "").unwrap();
    parts.enter(Tag::SEQUENCE, "").unwrap();
    let signature = &parts.enter(Tag::BIT_STRING, "").unwrap().rest()[1..];
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key.bits).verify(body, signature).unwrap();
}

#[test]
fn a_long_certificate_ends_early_and_not_after_its_authority() {
    let authority = Authority::generate("kubernetes", NOW).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "bob");
    let request = params.serialize_request(&key).unwrap();
    let request = CertificateRequest::from_der(request.der()).unwrap();
    let usages = usages(&["client auth"]);
    let year = 365 * 24 * 3600;
    let issued = authority.sign(&request, &policy(&usages, year)).unwrap();
    assert_eq!(*x509::validity(&decode(&issued)).unwrap().end(), NOW + year - 300);
    let issued = authority.sign(&request, &policy(&usages, 100 * year)).unwrap();
    let end = *x509::validity(&authority.certificate).unwrap().end();
    assert_eq!(*x509::validity(&decode(&issued)).unwrap().end(), end);
    let late = SigningPolicy { now_unix: end, ..policy(&usages, 600) };
    assert!(matches!(authority.sign(&request, &late), Err(SignError::Expired)));
}

#[test]
fn a_request_with_another_signature_or_usage_is_not_signed() {
    let authority = Authority::generate("kubernetes", NOW).unwrap();
    let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(RSA.as_bytes());
    let mut der = der.unwrap().to_vec();
    let at = der.windows(5).position(|window| window == b"alice").unwrap();
    der[at..at + 5].copy_from_slice(b"admin");
    let forged = CertificateRequest::from_der(&der).unwrap();
    assert_eq!(forged.common_name(), "admin");
    let client = usages(&["client auth"]);
    let refused = authority.sign(&forged, &policy(&client, 600));
    assert!(matches!(refused, Err(SignError::Signature)));
    let request = CertificateRequest::from_pem(RSA.as_bytes()).unwrap();
    let unknown = usages(&["client auth", "mining"]);
    let refused = authority.sign(&request, &policy(&unknown, 600));
    assert!(matches!(refused, Err(SignError::Usage(usage)) if usage == "mining"));
}

#[test]
fn hostile_requests_are_errors() {
    let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(RSA.as_bytes());
    let der = der.unwrap();
    for length in 0..der.len() {
        assert!(CertificateRequest::from_der(&der[..length]).is_err(), "{length}");
    }
    for at in 0..der.len() {
        let mut changed = der.to_vec();
        changed[at] ^= 0x55;
        // Either it is malformed, or its signature does not match, unless a part is changed that
        // is not signed: the parameters of the signature algorithm.
        let parsed = CertificateRequest::from_der(&changed);
        let same = |request: &CertificateRequest| {
            request.common_name() == "alice" && request.organizations().len() == 2
        };
        assert!(!parsed.is_ok_and(|request| request.is_signed() && !same(&request)), "{at}");
    }
}
