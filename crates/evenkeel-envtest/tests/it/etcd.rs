//! The behaviour of etcd that envtest relies on.

use crate::executable::{Executable, TempDir, connect, get, output};

const ETCD: &str = env!("CARGO_BIN_EXE_etcd");
const READY: &str = "etcd: serving client traffic on ";

#[test]
fn every_client_url_serves_health_checks_until_sigterm() {
    let directory = TempDir::new();
    let data_dir = format!("--data-dir={}", directory.path().display());
    let mut etcd = Executable::start(
        ETCD,
        &[
            "--listen-peer-urls=http://localhost:0",
            "--advertise-client-urls=http://127.0.0.1:0",
            "--listen-client-urls=http://127.0.0.1:0,http://localhost:0",
            "--unsafe-no-fsync=true",
            &data_dir,
        ],
    );
    for _ in 0..2 {
        let address = etcd.address_after(READY);
        let (status, body) = get(connect(address), "/health");
        assert_eq!(status, "HTTP/1.1 200 OK");
        assert_eq!(body, r#"{"health":"true","reason":""}"#);
        assert!(get(connect(address), "/version").1.contains(r#""etcdserver":"3."#));
        assert_eq!(get(connect(address), "/v3/kv/range").0, "HTTP/1.1 404 Not Found");
    }
    assert!(etcd.log.iter().all(|line| line.starts_with(READY)), "{:?}", etcd.log);
    assert_eq!(etcd.stop("TERM").code(), Some(0));
}

#[test]
fn unknown_flags_are_logged_and_single_dashes_accepted() {
    let mut etcd = Executable::start(
        ETCD,
        &["-listen-client-urls", "http://127.0.0.1:0", "--auto-tls", "-snapshot-count=5"],
    );
    etcd.address_after(READY);
    for flag in ["--auto-tls", "--snapshot-count"] {
        assert!(etcd.log.iter().any(|line| line.contains(flag)), "{:?}", etcd.log);
    }
    assert_eq!(etcd.stop("INT").code(), Some(0));
}

#[test]
fn help_lists_unsafe_no_fsync_for_envtest() {
    let help = output(ETCD, &["--help"]);
    assert!(help.status.success());
    let text = String::from_utf8(help.stdout).unwrap();
    let offered = |line: &str| line.trim_start().starts_with("--unsafe-no-fsync");
    assert!(text.lines().any(offered), "{text}");
    let version = output(ETCD, &["--version"]);
    assert!(version.status.success());
    assert!(version.stdout.starts_with(b"etcd Version: 3."));
}

#[test]
fn invalid_urls_and_non_loopback_addresses_exit_with_an_error() {
    for (url, explanation) in [
        ("http://127.0.0.1", "host:port"),
        ("http://0.0.0.0:0", "not a loopback address"),
        ("https://127.0.0.1:0", "--cert-file"),
    ] {
        let rejected = output(ETCD, &["--listen-client-urls", url]);
        assert_eq!(rejected.status.code(), Some(1), "{url}");
        let text = String::from_utf8(rejected.stderr).unwrap();
        assert!(text.starts_with("Error: ") && text.contains(explanation), "{text}");
    }
}
