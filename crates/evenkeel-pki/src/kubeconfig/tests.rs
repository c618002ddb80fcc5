//! Kubeconfigs as read by a YAML parser, and the file on disk.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::*;
use crate::certificates::Authority;
use crate::test_support::{Directory, NOW};

fn parse(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn certificate_credentials_parse_back() {
    let authority = Authority::generate("kubernetes", NOW).unwrap();
    let admin = authority.issue_client("admin", Some("system:masters")).unwrap();
    let config = Kubeconfig {
        context: "evenkeel",
        server: "https://127.0.0.1:6443",
        authority_pem: &authority.certificate_pem(),
        credential: Credential::Certificate(&admin),
    };
    let parsed = parse(&config.render());
    assert_eq!(parsed["apiVersion"], "v1");
    assert_eq!(parsed["kind"], "Config");
    assert_eq!(parsed["current-context"], "evenkeel");
    assert_eq!(
        parsed["contexts"],
        json!([{"name": "evenkeel", "context": {"cluster": "evenkeel", "user": "evenkeel"}}])
    );
    let decode = |value: &Value| {
        String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap()
    };
    let cluster = &parsed["clusters"][0]["cluster"];
    assert_eq!(cluster["server"], "https://127.0.0.1:6443");
    assert_eq!(decode(&cluster["certificate-authority-data"]), authority.certificate_pem());
    let user = &parsed["users"][0]["user"];
    assert_eq!(decode(&user["client-certificate-data"]), admin.certificate_pem());
    assert_eq!(decode(&user["client-key-data"]), admin.key_pem());
    assert_eq!(user.get("token"), None);
}

#[test]
fn hostile_names_and_tokens_are_quoted() {
    for text in ["a: b\n- c", "\"quoted\" \\n", "yes", "é\u{2028}🦀\t\0", "'", "{x: 1}", "#"] {
        let config = Kubeconfig {
            context: text,
            server: "https://[::1]:1",
            authority_pem: "pem",
            credential: Credential::Token(text),
        };
        let parsed = parse(&config.render());
        assert_eq!(parsed["users"], json!([{"name": text, "user": {"token": text}}]));
        assert_eq!(parsed["current-context"], text);
    }
}

#[test]
fn written_file_is_private_and_replaces_the_old_one_without_leftovers() {
    let directory = Directory::new();
    let path = directory.path().join("config");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let config = Kubeconfig {
        context: "evenkeel",
        server: "https://127.0.0.1:1",
        authority_pem: "pem",
        credential: Credential::Token("s3cr3t"),
    };
    config.write(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), config.render());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(!format!("{config:?}").contains("s3cr3t"));
}

#[test]
fn failed_write_reports_and_leaves_nothing_behind() {
    let directory = Directory::new();
    // A directory at the path makes the final rename fail.
    let path = directory.path().join("config");
    fs::create_dir(&path).unwrap();
    write_atomically(&path, b"new", 0o600).unwrap_err();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    write_atomically(&directory.path().join("absent/config"), b"new", 0o600).unwrap_err();
}
