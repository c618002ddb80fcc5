//! Issued certificates as read by another implementation, and the files on disk.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::test_support::{Directory, NOW};
use crate::{MASTERS, x509};

#[test]
fn client_certificate_names_user_and_group() {
    let authority = Authority::generate("kubernetes", NOW).unwrap();
    let admin = authority.issue_client("admin", Some(MASTERS)).unwrap();
    let user = x509::user(&admin.chain[0]).unwrap().unwrap();
    assert_eq!(user.name, "admin");
    assert_eq!(user.groups, ["system:masters"]);

    let no_group = authority.issue_client("carol", None).unwrap();
    assert!(x509::user(&no_group.chain[0]).unwrap().unwrap().groups.is_empty());
}

#[test]
fn serving_file_holds_the_authority_too() {
    let authority = Authority::generate("kubernetes", NOW).unwrap();
    let serving = authority.issue_serving([]).unwrap();
    assert_eq!(serving.chain.len(), 1);
    assert!(serving.certificate_pem().ends_with(&authority.certificate_pem()));
}

#[test]
fn saved_pair_loads_again_and_its_key_is_private() {
    let directory = Directory::new();
    let authority = Authority::generate("kubernetes", NOW).unwrap();
    let serving = authority.issue_serving([]).unwrap();
    let nested = directory.path().join("pki/serving");
    assert!(KeyedCertificate::load_from_directory(&nested).unwrap().is_none());

    serving.save_to_directory(&nested).unwrap();
    let loaded = KeyedCertificate::load_from_directory(&nested).unwrap().unwrap();
    assert_eq!(loaded.chain, [serving.chain[0].clone(), authority.certificate()]);
    assert_eq!(loaded.key.secret_der(), serving.key.secret_der());
    let mode = |name| fs::metadata(nested.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("apiserver.key"), 0o600);
    assert_eq!(mode("apiserver.crt") & 0o600, 0o600);
}

#[test]
fn half_a_pair_is_an_error_that_names_the_missing_file() {
    let directory = Directory::new();
    fs::write(directory.path().join("apiserver.crt"), "anything").unwrap();
    let error = KeyedCertificate::load_from_directory(directory.path()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("apiserver.key, certificate and key must be supplied as a pair"),
        "{text}"
    );
}

#[test]
fn bundle_keeps_every_certificate_and_refuses_files_without_any() {
    let directory = Directory::new();
    let path = directory.path().join("ca.crt");
    let first = Authority::generate("first", NOW).unwrap();
    let second = Authority::generate("second", NOW).unwrap();
    let text =
        format!("# ours\n{}\n# theirs\n{}", first.certificate_pem(), second.certificate_pem());
    fs::write(&path, text).unwrap();
    assert_eq!(load_bundle(&path).unwrap(), [first.certificate(), second.certificate()]);

    fs::write(&path, "nothing here").unwrap();
    let error = load_bundle(&path).unwrap_err().to_string();
    assert!(error.ends_with("ca.crt: no certificate in PEM form"), "{error}");
}

#[test]
fn any_clock_reading_gives_a_certificate() {
    for now in [0, NOW, u64::MAX] {
        Authority::generate("kubernetes", now).unwrap().issue_serving([]).unwrap();
    }
}

#[test]
fn debug_output_holds_no_key() {
    let authority = Authority::generate("kubernetes", NOW).unwrap();
    let admin = authority.issue_client("admin", None).unwrap();
    assert_eq!(format!("{admin:?}"), "KeyedCertificate { .. }");
}
