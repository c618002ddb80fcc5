//! Keeps the certificate authority in its Secret, the `caBundle`s and the serving certificate up to
//! date.
//!
//! Every replica does this, at each interval. Races between replicas are resolved by
//! resourceVersions: the Secret is created once, and each step of a rotation is taken once. The
//! objects with a `caBundle` are read *before* the Secret and written with the resourceVersion that
//! was read, so a replica that was suspended cannot replace a newer bundle with an older one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_pki::certificates::Lifetime;
use evenkeel_pki::tls::ServingCertificate;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::authorities::Authorities;
use super::inject::Target;
use super::{Environment, SelfManaged, SharedAuthority, now_unix};
use crate::client;
use crate::error::{Result, chain};

/// How soon the next step follows, or a lost race is repeated.
const RETRY: Duration = Duration::from_millis(20);

/// The steps of one check; far more than a rotation has.
const MAX_STEPS: usize = 50;

/// One replica's view of the certificates.
pub(in crate::webhook) struct Keeper {
    options: SelfManaged,
    environment: Environment,
    /// The last known state, to restore a deleted Secret.
    known: Option<Authorities>,
    serving: Option<Serving>,
    /// The last error that was logged.
    logged: Option<String>,
}

/// The serving certificate in use.
struct Serving {
    issuer: SharedAuthority,
    renewal: u64,
}

impl Keeper {
    pub(in crate::webhook) fn new(options: SelfManaged, environment: Environment) -> Self {
        Self { options, environment, known: None, serving: None, logged: None }
    }

    /// Checks everything and takes the steps that are due; returns when to check again. Errors are
    /// logged.
    pub(in crate::webhook) async fn check(
        &mut self,
        targets: &[Target],
        serving: &ServingCertificate,
    ) -> Duration {
        for _ in 0..MAX_STEPS {
            match self.try_check(targets, serving).await {
                Ok(Progress::Complete) => {
                    self.logged = None;
                    break;
                }
                Ok(Progress::Again) => tokio::time::sleep(RETRY).await,
                Err(error) => {
                    let error = chain(&*error);
                    // The same error once, not at each interval.
                    if self.logged.as_ref() != Some(&error) {
                        tracing::error!(error, "failed to maintain the certificates of webhooks");
                    }
                    self.logged = Some(error);
                    break;
                }
            }
        }
        let interval = self.options.interval;
        let delay = self.environment.random.range(interval / 10 * 9, interval);
        let renewal = self.serving.as_ref().map_or(u64::MAX, |serving| serving.renewal);
        delay.min(Duration::from_secs(renewal.saturating_sub(self.now()).max(1)))
    }

    async fn try_check(
        &mut self,
        targets: &[Target],
        serving: &ServingCertificate,
    ) -> Result<Progress> {
        let client = self.environment.client.clone();
        // Before the authority is read: a certificate that a suspended replica issues late is not
        // valid for longer.
        let begin = self.now();
        let mut objects = Vec::with_capacity(targets.len());
        let mut unreadable = None;
        for target in targets {
            match target.read(&client).await {
                Ok(object) => objects.extend(object.map(|object| (target, object))),
                Err(error) => unreadable = Some(error),
            }
        }
        let Some(authorities) = self.authorities().await? else { return Ok(Progress::Again) };
        self.renew(&authorities, begin, serving)?;

        let mut published = unreadable.is_none();
        let bundle = authorities.bundle();
        for (target, object) in &mut objects {
            if !target.set(object, &bundle) {
                continue;
            }
            published = false;
            match target.write(&client, object).await {
                Ok(()) => {
                    let (kind, name) = (target.kind.kind(), &target.name);
                    tracing::info!(kind, name, "updated the caBundle of webhooks");
                }
                Err(error) if is_race(&error) => return Ok(Progress::Again),
                Err(error) => unreadable = Some(error),
            }
        }
        if let Some(error) = unreadable {
            return Err(error.into());
        }
        let (name, now) = (&self.environment.secret.name().to_owned(), self.now());
        let Some(next) = authorities.step(name, now, &self.options, published)? else {
            return Ok(Progress::Complete);
        };
        self.store(&next).await?;
        Ok(Progress::Again)
    }

    fn now(&self) -> u64 {
        now_unix(&self.environment.clock)
    }

    /// Reads the authorities, and creates them if there are none. Returns `None` if another replica
    /// was faster.
    async fn authorities(&mut self) -> Result<Option<Authorities>> {
        let Environment { client, secret: key, .. } = &self.environment;
        let found = client.live().get::<Secret>(key).await?;
        let data = found.as_ref().and_then(|secret| secret.data.as_ref());
        let usable = data.filter(|data| !data.is_empty()).map(|data| {
            let text = |(name, value): (&String, &ByteString)| {
                (name.clone(), String::from_utf8_lossy(&value.0).into_owned())
            };
            Authorities::decode(&data.iter().map(text).collect(), &self.options)
        });
        match usable {
            Some(Ok(authorities)) => {
                self.known = Some(authorities.clone());
                return Ok(Some(authorities));
            }
            Some(Err(error)) => {
                let error = chain(&error);
                tracing::error!(secret = %key, error, "replacing an unusable certificate authority");
            }
            // A Secret may be created empty, so that the operator needs no permission to create.
            None => {}
        }
        let restored = match &self.known {
            Some(known) => known.clone(),
            None => Authorities::generate(key.name(), self.now(), &self.options)?,
        };
        let stored = match found {
            None => client.create(&self.secret(&restored)).await.map(drop),
            Some(mut found) => {
                found.data = self.secret(&restored).data;
                client.update(&found).await.map(drop)
            }
        };
        match stored {
            Ok(()) => {
                tracing::info!(secret = %key, "created the certificate authority of webhooks")
            }
            Err(error) if error.is_conflict() || error.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(None)
    }

    /// Stores a step of the rotation, unless another replica was faster.
    async fn store(&mut self, next: &Authorities) -> Result<()> {
        let Environment { client, secret: key, .. } = &self.environment;
        let Some(mut secret) = client.live().get::<Secret>(key).await? else { return Ok(()) };
        let data = secret.data.clone().unwrap_or_default();
        let known = self.known.as_ref().map(|known| self.secret(known).data.unwrap_or_default());
        if known.is_none_or(|known| known != data) {
            return Ok(());
        }
        secret.data = self.secret(next).data;
        match client.update(&secret).await {
            Ok(_) => {
                tracing::info!(secret = %key, "rotating the certificate authority of webhooks")
            }
            Err(error) if is_race(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn secret(&self, authorities: &Authorities) -> Secret {
        let key = &self.environment.secret;
        let mut secret = Secret::default();
        secret.metadata.name = Some(key.name().to_owned());
        secret.metadata.namespace = key.namespace().map(ToOwned::to_owned);
        let data = authorities.encode().into_iter();
        let data: BTreeMap<_, _> =
            data.map(|(name, value)| (name, ByteString(value.into_bytes()))).collect();
        secret.data = Some(data);
        secret
    }

    /// Issues a new serving certificate if the signer changed or two thirds of the lifetime passed.
    fn renew(
        &mut self,
        authorities: &Authorities,
        now: u64,
        serving: &ServingCertificate,
    ) -> Result<()> {
        let signer = authorities.signer();
        let current = self.serving.as_ref().is_some_and(|current| {
            current.issuer.certificate_pem() == signer.certificate_pem() && now < current.renewal
        });
        if current {
            return Ok(());
        }
        let left = Duration::from_secs(signer.end().saturating_sub(now));
        let duration = self.options.leaf_lifetime().min(left);
        let lifetime = Lifetime { now_unix: now, duration };
        let Environment { secret, names, random, .. } = &mut self.environment;
        let issued = signer.signer.issue_server(secret.name(), names, lifetime)?;
        serving.set(&issued)?;
        // Replicas that started together renew at different times.
        let renewal = random.range(duration / 2, duration / 3 * 2);
        self.serving =
            Some(Serving { issuer: Arc::clone(signer), renewal: now + renewal.as_secs() });
        tracing::debug!(?duration, "issued a serving certificate for webhooks");
        Ok(())
    }
}

enum Progress {
    Complete,
    /// Something changed: the next step follows at once.
    Again,
}

/// Whether the object was changed or deleted meanwhile.
fn is_race(error: &client::Error) -> bool {
    error.is_conflict() || error.is_not_found()
}
