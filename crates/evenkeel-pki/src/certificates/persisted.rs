//! Certificates persisted in a directory, so that kubeconfigs keep working after a restart.
//!
//! ```text
//! ca.pem       the authority
//! admin.pem    the administrator's client certificate
//! ```
//!
//! Each file contains a certificate and its key, has owner-only permissions, and is replaced
//! atomically. Certificates close to expiry are replaced. Serving certificates are issued at each
//! start: clients verify them by the authority, and the addresses may differ.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use rcgen::{Issuer, KeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use super::{
    Authority, DAY, Error, KeyedCertificate, authority_params, issue, parse_certificates, read,
};
use crate::kubeconfig::write_atomically;
use crate::{MASTERS, x509};

const AUTHORITY: &str = "ca.pem";
const ADMIN: &str = "admin.pem";
const KEY: &str = "-----BEGIN PRIVATE KEY-----";

/// Certificates with less than this left are replaced.
const RENEWAL: Duration = DAY.saturating_mul(90);

impl Authority {
    /// Loads the authority in `directory`, or generates one and saves it there.
    pub fn load_or_generate(directory: &Path, name: &str, now_unix: u64) -> Result<Self, Error> {
        let path = directory.join(AUTHORITY);
        if let Some(found) = load(&path)? {
            if is_fresh(&found, now_unix) {
                let key = KeyPair::from_pem(&found.key_pem).map_err(issue(name))?;
                return Ok(Self {
                    issuer: Issuer::new(authority_params(name, now_unix), key),
                    certificate: found.chain[0].clone(),
                    certificate_pem: found.certificate_pem,
                    now_unix,
                });
            }
            let path = path.display();
            tracing::warn!(
                %path,
                "certificate authority expires; replacing it invalidates existing kubeconfigs"
            );
        }
        // The certificate was issued by the replaced authority.
        let admin = directory.join(ADMIN);
        match fs::remove_file(&admin) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::File { path: admin, source });
            }
            _ => {}
        }
        let generated = Self::generate(name, now_unix)?;
        save(&path, &generated.certificate_pem, &generated.issuer.key().serialize_pem())?;
        Ok(generated)
    }

    /// Loads the administrator's certificate in `directory`, or issues one and saves it there.
    pub fn load_or_issue_admin(&self, directory: &Path) -> Result<KeyedCertificate, Error> {
        let path = directory.join(ADMIN);
        if let Some(found) = load(&path)?
            && is_fresh(&found, self.now_unix)
        {
            return Ok(found);
        }
        let generated = self.issue_client("admin", Some(MASTERS))?;
        save(&path, &generated.certificate_pem, &generated.key_pem)?;
        Ok(generated)
    }
}

/// Loads the certificate and key at `path`; returns `None` if the file does not exist.
fn load(path: &Path) -> Result<Option<KeyedCertificate>, Error> {
    if !path.exists() {
        return Ok(None);
    }
    let text = read(path)?;
    let (certificate_pem, key_pem) = text.split_at(text.find(KEY).unwrap_or(text.len()));
    let chain = parse_certificates(path, certificate_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(|source| Error::Pem {
        path: path.to_owned(),
        wanted: "private key",
        source,
    })?;
    let (certificate_pem, key_pem) = (certificate_pem.to_owned(), key_pem.to_owned());
    Ok(Some(KeyedCertificate { chain, key, certificate_pem, key_pem }))
}

/// Returns whether a certificate is valid and not close to expiry.
fn is_fresh(certificate: &KeyedCertificate, now_unix: u64) -> bool {
    let validity = certificate.chain.first().and_then(|der| x509::validity(der));
    let renewed_at = now_unix.saturating_add(RENEWAL.as_secs());
    validity.is_some_and(|validity| validity.contains(&now_unix) && renewed_at < *validity.end())
}

fn save(path: &Path, certificate_pem: &str, key_pem: &str) -> Result<(), Error> {
    let write = || {
        let directory = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        write_atomically(path, [certificate_pem, key_pem].concat().as_bytes(), 0o600)?;
        File::open(path)?.sync_all()
    };
    write().map_err(|source| Error::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::test_support::{Directory, NOW};

    fn load_or_generate(directory: &Directory, now: u64) -> (Authority, KeyedCertificate) {
        let directory = directory.path().join("pki");
        let authority = Authority::load_or_generate(&directory, "evenkeel", now).unwrap();
        let admin = authority.load_or_issue_admin(&directory).unwrap();
        (authority, admin)
    }

    #[test]
    fn authority_and_admin_certificate_survive_a_restart() {
        let directory = Directory::new();
        let (authority, admin) = load_or_generate(&directory, NOW);
        let (again, same) = load_or_generate(&directory, NOW + 200 * DAY.as_secs());
        assert_eq!(again.certificate(), authority.certificate());
        assert_eq!(again.certificate_pem(), authority.certificate_pem());
        assert_eq!(again.issuer.key().serialize_der(), authority.issuer.key().serialize_der());
        assert_eq!((same.chain, same.key_pem), (admin.chain, admin.key_pem));
        for file in [AUTHORITY, ADMIN] {
            let metadata = fs::metadata(directory.path().join("pki").join(file)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
        }
        let metadata = fs::metadata(directory.path().join("pki")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn certificates_close_to_expiry_are_replaced() {
        let directory = Directory::new();
        let (authority, admin) = load_or_generate(&directory, NOW);
        let (again, renewed) = load_or_generate(&directory, NOW + 300 * DAY.as_secs());
        assert_eq!(again.certificate(), authority.certificate());
        assert_ne!(renewed.chain, admin.chain);
        let (another, admin) = load_or_generate(&directory, NOW + 3600 * DAY.as_secs());
        assert_ne!(another.certificate(), authority.certificate());
        assert_ne!(admin.chain, renewed.chain);
        // The clock went back to before the certificates became valid.
        let (past, _) = load_or_generate(&directory, NOW);
        assert_ne!(past.certificate(), another.certificate());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_not_replaced() {
        let directory = Directory::new();
        load_or_generate(&directory, NOW);
        let path = directory.path().join("pki").join(AUTHORITY);
        fs::write(&path, "rubbish").unwrap();
        let pki = directory.path().join("pki");
        let error = Authority::load_or_generate(&pki, "evenkeel", NOW).unwrap_err().to_string();
        assert!(error.ends_with("ca.pem: no certificate in PEM form"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "rubbish");
    }
}
