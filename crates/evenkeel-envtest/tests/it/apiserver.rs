//! The behaviour of kube-apiserver that envtest relies on.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};

use crate::executable::{Executable, TempDir, connect, get, output};

pub(crate) const KUBE_APISERVER: &str = env!("CARGO_BIN_EXE_kube-apiserver");
pub(crate) const READY: &str = "Serving securely on ";

/// Connects over TLS, trusting the certificates in the file `authority`.
pub(crate) fn connect_tls(
    address: SocketAddr,
    authority: &Path,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::from(address.ip());
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, connect(address))
}

/// Gets `/healthz` over TLS, trusting the certificates in the file `authority`.
fn healthz(address: SocketAddr, authority: &Path) -> (String, String) {
    get(connect_tls(address, authority), "/healthz")
}

#[test]
fn generates_its_certificate_serves_healthz_and_stops_on_sigterm() {
    let directory = TempDir::new();
    let cert_dir = directory.path().join("certs");
    let mut server = Executable::start(
        KUBE_APISERVER,
        &[
            "--etcd-servers=http://127.0.0.1:1",
            &format!("--cert-dir={}", cert_dir.display()),
            "--secure-port=0",
            "--bind-address=127.0.0.1",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            "--disable-admission-plugins=ServiceAccount",
            "--audit-log-path",
            "-",
        ],
    );
    let address = server.address_after(READY);
    let certificate = cert_dir.join("apiserver.crt");
    let (status, body) = healthz(address, &certificate);
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "ok"));
    assert_eq!(server.stop("TERM").code(), Some(0));

    // A second start reuses the existing certificate.
    let before = fs::read(&certificate).unwrap();
    let mut server = Executable::start(
        KUBE_APISERVER,
        &[
            "--cert-dir",
            cert_dir.to_str().unwrap(),
            "--secure-port",
            "0",
            "--authorization-mode",
            "RBAC",
        ],
    );
    let address = server.address_after(READY);
    assert_eq!(healthz(address, &certificate).1, "ok");
    assert_eq!(fs::read(&certificate).unwrap(), before);
    assert_eq!(server.stop("INT").code(), Some(0));
}

#[test]
fn unknown_flags_are_logged_not_rejected() {
    let mut server = Executable::start(
        KUBE_APISERVER,
        &["--secure-port=0", "--profiling=false", "--tracing-config-file", "x", "-v=4"],
    );
    server.address_after(READY);
    for flag in ["--profiling", "--tracing-config-file"] {
        assert!(server.log.iter().any(|line| line.contains(flag)), "{:?}", server.log);
    }
    assert_eq!(server.stop("TERM").code(), Some(0));
}

#[test]
fn help_and_version_match_a_current_server() {
    let help = output(KUBE_APISERVER, &["--help"]);
    assert!(help.status.success());
    let text = String::from_utf8([help.stdout, help.stderr].concat()).unwrap();
    assert!(text.contains("--client-ca-file"), "{text}");
    let old = |line: &str| line.trim_start().starts_with("--insecure-port");
    assert!(!text.lines().any(old), "{text}");
    let version = output(KUBE_APISERVER, &["--version"]);
    assert!(version.status.success());
    assert!(version.stdout.starts_with(b"Kubernetes v1.36."));
}

#[test]
fn invalid_arguments_exit_with_an_error() {
    for (arguments, explanation) in [
        (&["--secure-port=x"][..], "invalid argument \"x\" for \"--secure-port\" flag"),
        (&["--bind-address=0.0.0.0", "--secure-port=0"], "not a loopback address"),
        (&["--client-ca-file=does/not/exist"], "does/not/exist"),
        (&["--token-auth-file=does/not/exist", "--secure-port=0"], "does/not/exist"),
        (&["--evenkeel-faults=does/not/exist", "--secure-port=0"], "does/not/exist"),
        (&["--evenkeel-faults=Cargo.toml", "--secure-port=0"], "Cargo.toml: "),
        (
            &["--service-account-signing-key-file=does/not/exist", "--secure-port=0"],
            "does/not/exist",
        ),
        (
            &["--service-account-key-file=Cargo.toml", "--secure-port=0"],
            "does not contain any valid RSA or ECDSA public keys",
        ),
        (
            &["--service-account-max-token-expiration=30m", "--secure-port=0"],
            "must be between 1 hour and 2^32 seconds",
        ),
        (&["--authorization-mode=ABAC"], "--authorization-mode=ABAC is not supported by Evenkeel"),
        (&["--authorization-mode=rbac"], "authorization-mode \"rbac\" is not a valid mode"),
        (
            &["--enable-admission-plugins=EventRateLimit", "--secure-port=0"],
            "plugin \"EventRateLimit\" is not implemented by Evenkeel",
        ),
        (&["serve"], "does not take any arguments"),
    ] {
        let rejected = output(KUBE_APISERVER, arguments);
        assert_eq!(rejected.status.code(), Some(1), "{arguments:?}");
        let text = String::from_utf8(rejected.stderr).unwrap();
        assert!(text.contains("Error: ") && text.contains(explanation), "{text}");
    }
}
