//! The serving certificate of the webhook server: where it comes from, and how it is renewed.
//!
//! By default the operator has its own certificate authority. Its key is in a Secret that all
//! replicas share; each replica issues its own serving certificate in memory. The certificates of
//! the authorities are written into the `caBundle` of the webhook configurations and of the
//! conversion webhooks of CRDs. The steps of a rotation are in [`authorities`], the requests in
//! [`keeper`].

mod authorities;

mod inject;

mod keeper;

mod secret;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_pki::tls::ServingCertificate;

use crate::client::Client;
use crate::clock::Clock;
use crate::error::Result;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::random::Random;
use crate::serve::keep_certificate;

pub(super) use inject::Target;
pub(super) use keeper::Keeper;

/// Where the serving certificate of the webhook server comes from.
///
/// ```no_run
/// use evenkeel::prelude::*;
/// use evenkeel::webhook::{Certificates, WebhookOptions};
///
/// # async fn example() -> Result<()> {
/// let certificates = Certificates::directory("/etc/webhook-certificates"); // a mounted Secret
/// let options = WebhookOptions::new().certificates(certificates);
/// let manager = Manager::builder("shop").webhooks(options).connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Certificates {
    /// The operator's own authority, in a Secret that the operator creates and rotates.
    SelfManaged(SelfManaged),
    /// PEM files, such as those of a mounted Secret. They are read again when they change.
    Files {
        /// The certificate and its issuers.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
    /// A Secret of type `kubernetes.io/tls` in the namespace of the operator, such as one of
    /// cert-manager. It is read again when it changes. The `caBundle` is set by cert-manager's CA
    /// injector, or by hand.
    Secret(String),
}

impl Default for Certificates {
    fn default() -> Self {
        Self::SelfManaged(SelfManaged::default())
    }
}

impl Certificates {
    /// Returns `tls.crt` and `tls.key` in `directory`.
    pub fn directory(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self::Files { certificate: directory.join("tls.crt"), key: directory.join("tls.key") }
    }
}

/// The operator's own certificate authority.
///
/// An authority is replaced after two thirds of its lifetime, in three steps: the certificates of
/// the old and the new one are published, then serving certificates are issued by the new one, and
/// once all certificates of the old one have expired it is no longer trusted. At every moment the
/// published authorities contain the issuer of every serving certificate in use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelfManaged {
    /// The lifetime of an authority; one year unless set.
    pub authority_lifetime: Duration,
    /// The lifetime of a serving certificate, at most a sixth of that of the authority; 30 days
    /// unless set.
    pub certificate_lifetime: Duration,
    /// How long API servers may take to use a changed `caBundle`; five minutes unless set.
    pub propagation: Duration,
    /// The interval of checking the Secret and each `caBundle`; 30 seconds unless set.
    pub interval: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for SelfManaged {
    fn default() -> Self {
        Self {
            authority_lifetime: 365 * DAY,
            certificate_lifetime: 30 * DAY,
            propagation: Duration::from_secs(300),
            interval: Duration::from_secs(30),
        }
    }
}

impl SelfManaged {
    /// Returns the lifetime of serving certificates: short enough that those of an authority which
    /// is replaced expire before it.
    fn leaf_lifetime(&self) -> Duration {
        self.certificate_lifetime.min(self.authority_lifetime / 6)
    }
}

/// What all sources of certificates need.
pub(super) struct Environment {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) metrics: Arc<Metrics>,
    /// The Secret of the certificate authority, or of the certificate.
    pub(super) secret: Key,
    /// The names in the serving certificate.
    pub(super) names: Vec<String>,
}

/// Keeps `serving` up to date. Calls `attempted` after the first attempt, and never returns unless
/// the files of a certificate cannot be read at the start.
pub(super) async fn keep(
    source: Certificates,
    environment: Environment,
    serving: &ServingCertificate,
    targets: impl Fn() -> Vec<Target> + Send,
    attempted: impl Fn() + Send,
) -> Result<()> {
    match source {
        Certificates::SelfManaged(options) => {
            let mut keeper = Keeper::new(options, environment);
            loop {
                let delay = keeper.check(&targets(), serving).await;
                attempted();
                tokio::time::sleep(delay).await;
            }
        }
        Certificates::Files { certificate, key } => {
            let metrics = &environment.metrics.certificates;
            keep_certificate(&certificate, &key, serving, metrics, attempted).await
        }
        Certificates::Secret(_) => secret::keep(&environment, serving, attempted).await,
    }
}

fn now_unix(clock: &Clock) -> u64 {
    u64::try_from(clock.now().as_second()).unwrap_or_default()
}

/// An authority and its validity.
pub(super) type SharedAuthority = Arc<authorities::Authority>;

#[cfg(test)]
mod tests;
