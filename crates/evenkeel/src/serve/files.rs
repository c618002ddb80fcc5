//! A serving certificate in two files, which are read again when they change.
//!
//! They are compared by content every ten seconds, as in controller-runtime: file events are not
//! reliable for mounted Secrets, which are replaced by renaming symbolic links.

use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_pki::certificates::KeyedCertificate;
use evenkeel_pki::tls::ServingCertificate;

use crate::error::{Result, chain};
use crate::metrics::CertificateMetrics;

const INTERVAL: Duration = Duration::from_secs(10);

/// Keeps `serving` at the certificate in the files. Fails only if the first read does; `attempted` is
/// called after it.
pub(crate) async fn keep(
    certificate: &Path,
    key: &Path,
    serving: &ServingCertificate,
    metrics: &CertificateMetrics,
    attempted: impl Fn(),
) -> Result<()> {
    let mut loaded = load(certificate, key).await?;
    serving.set(&loaded)?;
    attempted();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let current = load(certificate, key).await;
        metrics.read(current.is_ok());
        let current = match current {
            Ok(current) => current,
            Err(error) => {
                tracing::error!(error = chain(&*error), "cannot read the serving certificate");
                continue;
            }
        };
        let unchanged = current.certificate_pem() == loaded.certificate_pem()
            && current.key_pem() == loaded.key_pem();
        if unchanged {
            continue;
        }
        // A pair that is being replaced may not match; the last good one stays in use.
        match serving.set(&current) {
            Ok(()) => {
                tracing::info!(path = %certificate.display(), "updated the serving certificate")
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "serving certificate and key do not match");
                continue;
            }
        }
        loaded = current;
    }
}

async fn load(certificate: &Path, key: &Path) -> Result<KeyedCertificate> {
    let (certificate, key): (PathBuf, PathBuf) = (certificate.to_owned(), key.to_owned());
    let loaded = tokio::task::spawn_blocking(move || KeyedCertificate::load(&certificate, &key));
    Ok(loaded.await??)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use evenkeel_pki::certificates::{Authority, Lifetime};

    use super::*;
    use crate::metrics::Metrics;

    fn issue(directory: &Path) -> KeyedCertificate {
        let lifetime = Lifetime { now_unix: 1_800_000_000, duration: Duration::from_secs(3600) };
        let authority = Authority::generate_for("test", lifetime).unwrap();
        let issued = authority.issue_server("test", &["a.b.svc".to_owned()], lifetime).unwrap();
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("tls.crt"), issued.certificate_pem()).unwrap();
        fs::write(directory.join("tls.key"), issued.key_pem()).unwrap();
        issued
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_used_within_ten_seconds_and_broken_ones_are_not() {
        let root = std::env::temp_dir().join(format!("evenkeel-webhook-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let (first, second) = (issue(&root.join("1")), issue(&root.join("2")));
        // As in a mounted Secret: the directory is a symbolic link that is replaced.
        let data = root.join("data");
        symlink(root.join("1"), &data).unwrap();
        let (certificate, key) = (data.join("tls.crt"), data.join("tls.key"));
        let serving = ServingCertificate::default();
        let current = || serving.current().unwrap();
        let metrics = &Metrics::new().certificates;
        let steps = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(current(), first.chain()[0]);
            symlink(root.join("2"), root.join("next")).unwrap();
            fs::rename(root.join("next"), &data).unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(current(), second.chain()[0]);
            // A certificate without its key, and no certificate at all.
            fs::write(&certificate, first.certificate_pem()).unwrap();
            tokio::time::sleep(Duration::from_secs(20)).await;
            fs::remove_file(&certificate).unwrap();
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(current(), second.chain()[0]);
            fs::write(&key, first.key_pem()).unwrap();
            fs::write(&certificate, first.certificate_pem()).unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(current(), first.chain()[0]);
        };
        tokio::select! {
            failed = keep(&certificate, &key, &serving, metrics, || {}) => panic!("{failed:?}"),
            () = steps => {}
        }
        fs::remove_dir_all(&root).unwrap();
        let missing = keep(&certificate, &key, &serving, metrics, || {}).await;
        assert!(missing.is_err(), "the first load must succeed");
    }
}
