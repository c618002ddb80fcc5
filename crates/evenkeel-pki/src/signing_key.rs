//! The private key that signs service account tokens.
//!
//! ECDSA P-256 like every key here: generating an RSA key would take longer than the start of the
//! server.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rcgen::KeyPair;

use crate::certificates::{Error, issue, read};
use crate::kubeconfig::write_atomically;

const FILE: &str = "sa.key";

/// Generates a key, in PEM form.
///
/// # Errors
///
/// If the system has no randomness.
pub fn generate() -> Result<String, Error> {
    Ok(KeyPair::generate().map_err(issue("service accounts"))?.serialize_pem())
}

/// Loads the key in `directory`, or generates one and saves it there with owner-only permissions, so
/// that tokens stay valid after a restart. In PEM form.
///
/// # Errors
///
/// If the file cannot be read or written.
pub fn load_or_generate(directory: &Path) -> Result<String, Error> {
    let path = directory.join(FILE);
    if path.exists() {
        return read(&path);
    }
    let pem = generate()?;
    let write = || {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        write_atomically(&path, pem.as_bytes(), 0o600)?;
        File::open(&path)?.sync_all()
    };
    write().map_err(|source| Error::File { path: path.clone(), source })?;
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_is_kept_for_its_owner_only() {
        let directory =
            std::env::temp_dir().join(format!("evenkeel-signing-key-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let first = load_or_generate(&directory).unwrap();
        assert_eq!(load_or_generate(&directory).unwrap(), first);
        assert_ne!(generate().unwrap(), first);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory.join(FILE)), 0o600);
        assert_eq!(mode(&directory), 0o700);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
