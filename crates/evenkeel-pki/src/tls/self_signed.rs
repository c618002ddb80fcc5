//! A certificate that no client can verify, for servers that are reached with verification disabled.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{WallClock, certified_key};
use crate::certificates::{Authority, Lifetime};

const LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A serving certificate of an authority that is discarded. It is issued at the first handshake and
/// replaced after two thirds of its lifetime.
#[derive(Debug)]
pub struct SelfSigned {
    names: Vec<String>,
    clock: Arc<WallClock>,
    current: Mutex<Option<Current>>,
}

#[derive(Debug)]
struct Current {
    certified: Arc<CertifiedKey>,
    /// When it is replaced, in seconds since the Unix epoch.
    renewal: u64,
}

impl SelfSigned {
    /// Creates a source of certificates for the DNS names or addresses `names`.
    pub fn new(names: impl IntoIterator<Item = String>, clock: Arc<WallClock>) -> Arc<Self> {
        let names = names.into_iter().collect();
        Arc::new(Self { names, clock, current: Mutex::default() })
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        let now = self.clock.now().as_secs();
        let mut current = self.current.lock();
        if current.as_ref().is_none_or(|current| current.renewal <= now) {
            *current = self.issue(now);
        }
        current.as_ref().map(|current| current.certified.clone())
    }

    fn issue(&self, now_unix: u64) -> Option<Current> {
        let lifetime = Lifetime { now_unix, duration: LIFETIME };
        let issued = Authority::generate_for("self-signed", lifetime)
            .and_then(|authority| authority.issue_server("self-signed", &self.names, lifetime));
        let issued = issued.map_err(|error| {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "failed to issue a self-signed certificate");
        });
        let certified = certified_key(&issued.ok()?).ok()?;
        Some(Current { certified, renewal: now_unix + LIFETIME.as_secs() / 3 * 2 })
    }
}

impl ResolvesServerCert for SelfSigned {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn renewed_after_two_thirds_of_the_lifetime() {
        let now = Arc::new(AtomicU64::new(1_800_000_000));
        let read = now.clone();
        let clock = WallClock::new(move || read.load(Ordering::Relaxed));
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificates = SelfSigned::new(names, clock);
        let first = certificates.current().unwrap();
        now.fetch_add(LIFETIME.as_secs() / 3 * 2 - 1, Ordering::Relaxed);
        assert!(Arc::ptr_eq(&first, &certificates.current().unwrap()));
        now.fetch_add(1, Ordering::Relaxed);
        assert!(!Arc::ptr_eq(&first, &certificates.current().unwrap()));
    }
}
