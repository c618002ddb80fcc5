//! Subjects issued by Go, openssl and rcgen, and invalid input.

use rustls_pki_types::{CertificateDer, pem::PemObject as _};

use super::*;

fn fixture(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn names(pem: &str) -> (String, Vec<String>) {
    let subject = subject(&fixture(pem)).unwrap();
    (subject.common_name, subject.organizations)
}

#[test]
fn go_certificate_gives_user_and_every_group() {
    let (user, mut groups) = names(include_str!("fixtures/go.pem"));
    assert_eq!(user, "default");
    // Go encodes them in one SET, which DER sorts by encoding.
    groups.sort();
    assert_eq!(groups, ["beta", "ops", "system:masters"]);
}

#[test]
fn openssl_rsa_certificate_keeps_every_organization_and_unicode() {
    let (user, groups) = names(include_str!("fixtures/rsa.pem"));
    assert_eq!(user, "rené");
    assert_eq!(groups, ["system:masters", "développeurs"]);
}

#[test]
fn attributes_sharing_one_set_are_all_read() {
    let (user, groups) = names(include_str!("fixtures/multi.pem"));
    assert_eq!((user.as_str(), groups), ("bob", vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn old_string_types_are_decoded() {
    let (user, groups) = names(include_str!("fixtures/bmp.pem"));
    assert_eq!((user.as_str(), groups), ("Ωmega", vec!["système".to_owned()]));
    let (user, groups) = names(include_str!("fixtures/t61.pem"));
    assert_eq!((user.as_str(), groups), ("zoé", vec!["système".to_owned()]));
}

#[test]
fn certificate_without_a_common_name_has_no_identity() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    let certificate = params.self_signed(&key).unwrap();
    assert_eq!(user(certificate.der()), Ok(None));
}

#[test]
fn validity_is_read_in_both_time_formats() {
    // openssl x509 -noout -startdate -enddate: 2026-11-16 to 2126-10-23 for the first.
    let validity = super::validity(&fixture(include_str!("fixtures/v1.pem"))).unwrap();
    assert!(validity.contains(&4_900_000_000) && !validity.contains(&5_000_000_000));
    for (tag, text, expected) in [
        (Tag::UTC_TIME, "700101000000Z", Some(0)),
        (Tag::UTC_TIME, "491231235959Z", Some(2_524_607_999)),
        (Tag::UTC_TIME, "500101000000Z", Some(0)),
        (Tag::GENERALIZED_TIME, "20270115080000Z", Some(1_800_000_000)),
        (Tag::GENERALIZED_TIME, "20270115080000", None),
        (Tag::GENERALIZED_TIME, "20271315080000Z", None),
        (Tag::GENERALIZED_TIME, "2027011508000+Z", None),
        (Tag::UTC_TIME, "20270115080000Z", None),
        (Tag::INTEGER, "700101000000Z", None),
    ] {
        assert_eq!(der::time(tag, text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn version_1_is_detected() {
    assert!(is_version_1(&fixture(include_str!("fixtures/v1.pem"))));
    assert!(!is_version_1(&fixture(include_str!("fixtures/go.pem"))));
    assert!(!is_version_1(b""));
}

#[test]
fn several_or_empty_uids_are_refused() {
    let with_uids = |uids: &[&str]| {
        let mut names = Vec::new();
        names.extend(attribute(COMMON_NAME, 0x0c, b"carol"));
        for uid in uids {
            names.extend(attribute(UID, 0x0c, uid.as_bytes()));
        }
        certificate(&names)
    };
    assert_eq!(user(&with_uids(&["1"])).unwrap().unwrap().uid, "1");
    assert_eq!(user(&with_uids(&[""])), Err(Error::EmptyUid));
    let several = Error::SeveralUids(vec!["1".into(), "2".into()]);
    assert_eq!(several.to_string(), r#"expected 1 UID, but found multiple: ["1", "2"]"#);
    assert_eq!(user(&with_uids(&["1", "2"])), Err(several));
}

#[test]
fn text_outside_its_character_set_is_refused() {
    for (tag, value, refusal) in [
        (0x0c, &b"\xff"[..], "invalid UTF-8 string"),
        (0x13, b"a@b", "invalid PrintableString"),
        (0x16, b"\xe9", "invalid IA5String"),
        (0x12, b"12a", "invalid NumericString"),
        (0x1e, b"\0a\0", "invalid BMPString"),
        (0x1e, b"\xd8\x00", "invalid BMPString"),
        (0x1e, b"\xff\xfe", "invalid BMPString"),
        (0x02, b"\x01", "unsupported string type"),
    ] {
        let bytes = certificate(&attribute(COMMON_NAME, tag, value));
        assert_eq!(subject(&bytes), Err(Error::InvalidText(refusal)), "{tag:#x} {value:?}");
    }
}

#[test]
fn the_last_common_name_wins() {
    let mut names = attribute(COMMON_NAME, 0x13, b"first");
    names.extend(attribute(COMMON_NAME, 0x13, b"second"));
    assert_eq!(subject(&certificate(&names)).unwrap().common_name, "second");
}

#[test]
fn every_prefix_of_a_subject_is_an_error_and_no_byte_can_panic() {
    let bytes = certificate(&attribute(COMMON_NAME, 0x0c, b"bob"));
    for end in 0..bytes.len() {
        assert!(subject(&bytes[..end]).is_err(), "{end} of {} bytes accepted", bytes.len());
    }
    let real = fixture(include_str!("fixtures/go.pem"));
    let mut mutated = real.to_vec();
    for at in 0..mutated.len() {
        for value in [0x00, 0x1f, 0x7f, 0x80, 0x81, 0x84, 0x85, 0xff] {
            mutated[at] = value;
            let _ = (subject(&mutated), validity(&mutated), public_key(&mutated));
        }
        mutated[at] = real[at];
    }
}

#[test]
fn lengths_longer_than_needed_are_refused() {
    // 0x81 0x03 is the long form of the length three.
    assert_eq!(subject(&[0x30, 0x81, 0x03, 1, 2, 3]), Err(Error::Malformed("no certificate")));
    assert_eq!(subject(&[0x30, 0x82, 0x00, 0x80]), Err(Error::Malformed("no certificate")));
    assert_eq!(subject(&[0x30, 0x80, 0x00, 0x00]), Err(Error::Malformed("no certificate")));
}

/// Encodes a relative distinguished name with one attribute.
fn attribute(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
    let inside = [der(0x06, oid), der(tag, value)].concat();
    der(0x31, &der(0x30, &inside))
}

/// Encodes a minimal certificate with these names as its subject.
fn certificate(names: &[u8]) -> Vec<u8> {
    let version = der(0xa0, &der(0x02, &[2]));
    let empty = der(0x30, &[]);
    let body = [version, der(0x02, &[1]), empty.clone(), empty.clone(), empty, der(0x30, names)];
    der(0x30, &der(0x30, &body.concat()))
}

fn der(tag: u8, value: &[u8]) -> Vec<u8> {
    assert!(value.len() < 0x80, "short form only");
    [&[tag, u8::try_from(value.len()).unwrap()], value].concat()
}
