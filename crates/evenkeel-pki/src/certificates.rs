//! The server's own certificate authority, the certificates it issues, and PEM files.
//!
//! Every key is ECDSA P-256, because generating RSA keys would take longer than the whole start of
//! the server. The wall clock is injected, like all time in the server.

mod persisted;

mod sign;

pub use self::sign::{SignError, SigningPolicy};

use std::{
    fmt, fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _};

use crate::kubeconfig::write_atomically;
use crate::x509;

/// The names of a Kubernetes API server inside its cluster.
const SERVICE_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Certificates are backdated by this, to tolerate clock skew.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const LIFETIME: Duration = DAY.saturating_mul(365);
/// A persisted authority must outlive the certificates it issues, or existing kubeconfigs would
/// stop working.
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3650);

/// 9980-01-01; X.509 times end with the year 9999.
const LAST_START: u64 = 252_771_235_200;

/// Why a certificate could not be issued or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Generating a key or certificate failed.
    #[error("unable to issue a certificate for {name:?}")]
    Issue {
        /// The subject's common name.
        name: String,
        /// The cause.
        source: rcgen::Error,
    },
    /// A file could not be read or written.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not PEM, or lacks the expected section.
    #[error("{path}: no {wanted} in PEM form")]
    Pem {
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        wanted: &'static str,
        /// The cause.
        source: pem::Error,
    },
    /// Only one file of a pair exists.
    #[error("error reading {path}, certificate and key must be supplied as a pair")]
    HalfPair {
        /// The missing file.
        path: PathBuf,
    },
}

/// A certificate authority. Its key is in memory or in the server's data directory.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    now_unix: u64,
}

/// When a certificate is valid: from an hour before `now_unix`, to tolerate clock skew, until
/// `duration` after it; at most ten years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The time of issue, in seconds since the Unix epoch.
    pub now_unix: u64,
    /// The time until the certificate expires.
    pub duration: Duration,
}

/// A certificate, the issuers to send with it, and its private key.
pub struct KeyedCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    certificate_pem: String,
    key_pem: String,
}

// === impl Authority ===

impl Authority {
    /// Generates an authority that is valid for ten years, from an hour before `now_unix`
    /// (seconds).
    pub fn generate(name: &str, now_unix: u64) -> Result<Self, Error> {
        Self::generate_with(name, now_unix, authority_params(name, now_unix))
    }

    /// Generates an authority with another lifetime than [`generate`](Self::generate).
    pub fn generate_for(name: &str, lifetime: Lifetime) -> Result<Self, Error> {
        let mut params = authority_params(name, lifetime.now_unix);
        params.not_after = params.not_before + lifetime.validity();
        Self::generate_with(name, lifetime.now_unix, params)
    }

    /// Loads an authority from its certificate and key in PEM form, to issue certificates.
    pub fn from_pem(certificate_pem: &str, key_pem: &str, now_unix: u64) -> Result<Self, Error> {
        let source = Path::new("certificate authority");
        let certificate = parse_certificates(source, certificate_pem)?.swap_remove(0);
        let subject = x509::user(&certificate).ok().flatten();
        let name = subject.map(|subject| subject.name).unwrap_or_default();
        let key = KeyPair::from_pem(key_pem).map_err(issue(&name))?;
        Ok(Self {
            issuer: Issuer::new(authority_params(&name, now_unix), key),
            certificate,
            certificate_pem: certificate_pem.to_owned(),
            now_unix,
        })
    }

    fn generate_with(name: &str, now_unix: u64, params: CertificateParams) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(issue(name))?;
        let certificate = params.self_signed(&key).map_err(issue(name))?;
        Ok(Self {
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            issuer: Issuer::new(params, key),
            now_unix,
        })
    }

    /// Returns the authority's certificate in PEM form, for clients to trust.
    pub fn certificate_pem(&self) -> String {
        self.certificate_pem.clone()
    }

    /// Returns the authority's private key, which is a secret.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Returns the authority's certificate, for the listener to verify clients with.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// Issues a serving certificate for the usual names of an API server and for `addresses`.
    ///
    /// `addresses` are those that clients connect to besides loopback: the bind address and the
    /// first address of the service range. Unspecified addresses (`0.0.0.0`) are skipped.
    pub fn issue_serving(
        &self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<KeyedCertificate, Error> {
        const NAME: &str = "kube-apiserver";
        let mut params = params(NAME, self.now_unix);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in SERVICE_NAMES {
            let name = name.try_into().map_err(issue(NAME))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        for address in loopback.into_iter().chain(addresses) {
            let name = SanType::IpAddress(address);
            if !address.is_unspecified() && !params.subject_alt_names.contains(&name) {
                params.subject_alt_names.push(name);
            }
        }
        let mut issued = self.issue(NAME, params)?;
        // Users pass the serving file to `--certificate-authority`, so it contains the authority.
        issued.certificate_pem += &self.certificate_pem();
        Ok(issued)
    }

    /// Issues a serving certificate for `names`: DNS names or addresses.
    pub fn issue_server(
        &self,
        name: &str,
        names: &[String],
        lifetime: Lifetime,
    ) -> Result<KeyedCertificate, Error> {
        let mut params = params(name, lifetime.now_unix);
        params.not_after = params.not_before + lifetime.validity();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in names {
            params.subject_alt_names.push(match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into().map_err(issue(name))?),
            });
        }
        self.issue(name, params)
    }

    /// Issues a client certificate for `user` in `group`.
    pub fn issue_client(&self, user: &str, group: Option<&str>) -> Result<KeyedCertificate, Error> {
        self.issue_client_at(user, group, self.now_unix)
    }

    /// Like [`issue_client`](Self::issue_client), for a certificate issued at another time.
    pub fn issue_client_at(
        &self,
        user: &str,
        group: Option<&str>,
        now_unix: u64,
    ) -> Result<KeyedCertificate, Error> {
        let mut params = params(user, now_unix);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.issue(user, params)
    }

    fn issue(&self, name: &str, mut params: CertificateParams) -> Result<KeyedCertificate, Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Required by Python's strict verification.
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(issue(name))?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(issue(name))?;
        Ok(KeyedCertificate {
            chain: vec![certificate.der().clone()],
            key: PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}

// === impl Lifetime ===

impl Lifetime {
    /// Returns the time from the start of the validity, which is backdated, to its end.
    fn validity(&self) -> Duration {
        CLOCK_SKEW + self.duration.min(AUTHORITY_LIFETIME)
    }
}

// === impl KeyedCertificate ===

impl KeyedCertificate {
    /// Loads a certificate chain and its key from two PEM files.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        Self::parse(certificate, read(certificate)?, key, read(key)?)
    }

    /// Reads a certificate chain and its key in PEM form, such as the data of a `kubernetes.io/tls`
    /// Secret.
    pub fn from_pem(certificate_pem: String, key_pem: String) -> Result<Self, Error> {
        Self::parse(Path::new("tls.crt"), certificate_pem, Path::new("tls.key"), key_pem)
    }

    fn parse(
        certificate: &Path,
        certificate_pem: String,
        key: &Path,
        key_pem: String,
    ) -> Result<Self, Error> {
        let chain = parse_certificates(certificate, &certificate_pem)?;
        let der = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())
            .map_err(|source| Error::Pem { path: key.to_owned(), wanted: "private key", source })?;
        Ok(Self { chain, key: der, certificate_pem, key_pem })
    }

    /// Loads `apiserver.crt` and `apiserver.key` from `directory`; returns `None` if both are
    /// missing.
    pub fn load_from_directory(directory: &Path) -> Result<Option<Self>, Error> {
        let (certificate, key) = pair(directory);
        match (certificate.exists(), key.exists()) {
            (true, true) => Self::load(&certificate, &key).map(Some),
            (false, false) => Ok(None),
            (true, false) => Err(Error::HalfPair { path: key }),
            (false, true) => Err(Error::HalfPair { path: certificate }),
        }
    }

    /// Writes `apiserver.crt` and, with owner-only permissions, `apiserver.key` into `directory`.
    pub fn save_to_directory(&self, directory: &Path) -> Result<(), Error> {
        let file = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        fs::create_dir_all(directory).map_err(file(directory))?;
        let (certificate, key) = pair(directory);
        write_atomically(&certificate, self.certificate_pem.as_bytes(), 0o644)
            .map_err(file(&certificate))?;
        write_atomically(&key, self.key_pem.as_bytes(), 0o600).map_err(file(&key))
    }

    /// Returns the certificate followed by the issuers to send with it, in DER form.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Returns the private key in DER form, which is a secret.
    pub fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// Returns the certificate followed by its known issuers.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Returns the private key, which is a secret.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }
}

/// Keeps the key out of logs.
impl fmt::Debug for KeyedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedCertificate").finish_non_exhaustive()
    }
}

/// Loads every certificate of a PEM bundle, such as `--client-ca-file`.
pub fn load_bundle(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    parse_certificates(path, &read(path)?)
}

fn parse_certificates(path: &Path, text: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed = |source| Error::Pem { path: path.to_owned(), wanted: "certificate", source };
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if certificates.is_empty() {
        return Err(failed(pem::Error::NoItemsFound));
    }
    Ok(certificates)
}

fn authority_params(name: &str, now_unix: u64) -> CertificateParams {
    let mut params = params(name, now_unix);
    params.not_after = params.not_before + AUTHORITY_LIFETIME;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    params
}

fn params(name: &str, now_unix: u64) -> CertificateParams {
    let start = Duration::from_secs(now_unix.min(LAST_START)).saturating_sub(CLOCK_SKEW);
    let mut params = CertificateParams::default();
    params.not_before = rcgen::date_time_ymd(1970, 1, 1) + start;
    params.not_after = params.not_before + LIFETIME;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

pub(crate) fn issue(name: &str) -> impl FnOnce(rcgen::Error) -> Error {
    let name = name.to_owned();
    move |source| Error::Issue { name, source }
}

fn pair(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("apiserver.crt"), directory.join("apiserver.key"))
}

pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
