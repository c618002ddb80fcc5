//! The certificate authorities of the webhook server and the steps of their rotation.
//!
//! ```text
//! trusted        signer   next     step to the next line
//! [A]            A                 two thirds of the lifetime of A have passed
//! [A, B]         A        B        every `caBundle` is [A, B], which is recorded
//! [A, B]         A        B        the propagation time has passed since then
//! [A, B]         B                 all serving certificates of A have expired
//! [B]            B
//! ```
//!
//! Pure: the time and what is published are arguments. The state is stored in a Secret, so each
//! step is taken by one replica and seen by all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_pki::certificates::{self, Lifetime};
use evenkeel_pki::x509;

use super::{SelfManaged, SharedAuthority};

const TRUSTED: &str = "ca.crt";
const SIGNER: (&str, &str) = ("signer.crt", "signer.key");
const NEXT: (&str, &str) = ("next.crt", "next.key");
const CHANGED: &str = "changed";
const PUBLISHED: &str = "published";

/// An authority, whose key may issue certificates.
pub(in crate::webhook) struct Authority {
    pub(super) signer: certificates::Authority,
    /// When it begins and ends, in seconds since the Unix epoch.
    begin: u64,
    end: u64,
}

/// The state in the Secret.
#[derive(Clone)]
pub(super) struct Authorities {
    /// The certificates of the authorities to trust, oldest first, in PEM form.
    trusted: Vec<String>,
    /// Issues serving certificates.
    signer: SharedAuthority,
    /// Becomes the signer once it is trusted everywhere.
    next: Option<SharedAuthority>,
    /// When the last step was taken.
    changed: u64,
    /// Since when `next` is in every `caBundle`.
    published: Option<u64>,
}

/// Why a Secret has no usable authorities.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("{0} is not valid")]
    Malformed(&'static str),
}

impl Authority {
    fn generate(
        name: &str,
        now_unix: u64,
        lifetime: Duration,
    ) -> Result<Self, certificates::Error> {
        // Each has its own name, so that chains are unambiguous.
        let name = format!("{name}-ca@{now_unix}");
        let signer = certificates::Authority::generate_for(
            &name,
            Lifetime { now_unix, duration: lifetime },
        )?;
        Ok(Self { signer, begin: now_unix, end: now_unix.saturating_add(lifetime.as_secs()) })
    }

    fn load(certificate: &str, key: &str, lifetime: Duration) -> Option<Self> {
        let validity = x509::validity_of_pem(certificate.as_bytes())?;
        let end = *validity.end();
        let begin = end.saturating_sub(lifetime.as_secs());
        let signer = certificates::Authority::from_pem(certificate, key, begin).ok()?;
        Some(Self { signer, begin, end })
    }

    pub(super) fn certificate_pem(&self) -> String {
        self.signer.certificate_pem()
    }

    /// When it is to be replaced.
    fn renewal(&self) -> u64 {
        self.begin + self.end.saturating_sub(self.begin) / 3 * 2
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }
}

impl Authorities {
    /// Generates the first authority.
    pub(super) fn generate(
        name: &str,
        now_unix: u64,
        options: &SelfManaged,
    ) -> Result<Self, certificates::Error> {
        let signer = Authority::generate(name, now_unix, options.authority_lifetime)?;
        let trusted = vec![signer.certificate_pem()];
        let signer = Arc::new(signer);
        Ok(Self { trusted, signer, next: None, changed: now_unix, published: None })
    }

    /// Reads the data of the Secret.
    pub(super) fn decode(
        data: &BTreeMap<String, String>,
        options: &SelfManaged,
    ) -> Result<Self, Unusable> {
        let get = |name: &'static str| data.get(name).ok_or(Unusable::Missing(name));
        let load = |(certificate, key): (&'static str, &'static str)| {
            Authority::load(get(certificate)?, get(key)?, options.authority_lifetime)
                .map(Arc::new)
                .ok_or(Unusable::Malformed(certificate))
        };
        let trusted: Vec<String> =
            get(TRUSTED)?.split_inclusive(END).map(|pem| pem.trim().to_owned() + "\n").collect();
        let trusted: Vec<String> =
            trusted.into_iter().filter(|pem| pem.trim_end().ends_with(END)).collect();
        let signer = load(SIGNER)?;
        let next = if data.contains_key(NEXT.0) { Some(load(NEXT)?) } else { None };
        let is_trusted = |one: &SharedAuthority| {
            trusted.iter().any(|pem| pem.trim() == one.certificate_pem().trim())
        };
        if !is_trusted(&signer) || !next.as_ref().is_none_or(is_trusted) {
            return Err(Unusable::Malformed(TRUSTED));
        }
        let time = |name: &'static str| get(name)?.parse().map_err(|_| Unusable::Malformed(name));
        let changed = time(CHANGED)?;
        let published = if data.contains_key(PUBLISHED) { Some(time(PUBLISHED)?) } else { None };
        Ok(Self { trusted, signer, next, changed, published })
    }

    /// Returns the data of the Secret.
    pub(super) fn encode(&self) -> BTreeMap<String, String> {
        let mut data = BTreeMap::from([
            (TRUSTED.to_owned(), self.bundle()),
            (CHANGED.to_owned(), self.changed.to_string()),
        ]);
        if let Some(published) = self.published {
            data.insert(PUBLISHED.to_owned(), published.to_string());
        }
        let next = self.next.as_ref().map(|next| (NEXT, next));
        for ((certificate, key), authority) in [(SIGNER, &self.signer)].into_iter().chain(next) {
            data.insert(certificate.to_owned(), authority.certificate_pem());
            data.insert(key.to_owned(), authority.signer.key_pem());
        }
        data
    }

    /// Returns the certificates to trust: the `caBundle`.
    pub(super) fn bundle(&self) -> String {
        self.trusted.concat()
    }

    /// Returns the issuer of serving certificates.
    pub(super) fn signer(&self) -> &SharedAuthority {
        &self.signer
    }

    /// Takes the step that is due, if there is one. `published` is whether every `caBundle` equals
    /// [`bundle`](Self::bundle).
    pub(super) fn step(
        &self,
        name: &str,
        now_unix: u64,
        options: &SelfManaged,
        published: bool,
    ) -> Result<Option<Self>, certificates::Error> {
        let passed = |since: u64, wait: Duration| {
            // Times are in whole seconds, so one more second makes sure that all of it has passed.
            Duration::from_secs(now_unix.saturating_sub(since)) > wait
        };
        let changed = now_unix;
        if self.signer.end <= now_unix {
            // No replica ran for a long time; there is no certificate left to keep valid.
            return Self::generate(name, now_unix, options).map(Some);
        }
        if let Some(next) = &self.next {
            return Ok(match (published, self.published) {
                (true, None) => Some(Self { published: Some(now_unix), ..self.clone() }),
                // The bundle was changed by another client.
                (false, Some(_)) => Some(Self { published: None, ..self.clone() }),
                (true, Some(since)) if passed(since, options.propagation) => Some(Self {
                    signer: next.clone(),
                    next: None,
                    changed,
                    published: None,
                    ..self.clone()
                }),
                _ => None,
            });
        }
        if self.trusted.len() > 1 {
            // The clocks of replicas may differ.
            let lifetime = options.leaf_lifetime();
            let trusted = vec![self.signer.certificate_pem()];
            return Ok(passed(self.changed, lifetime + lifetime / 10).then(|| Self {
                trusted,
                changed,
                ..self.clone()
            }));
        }
        if self.signer.renewal() <= now_unix {
            let next = Authority::generate(name, now_unix, options.authority_lifetime)?;
            let mut trusted = self.trusted.clone();
            trusted.push(next.certificate_pem());
            let next = Some(Arc::new(next));
            return Ok(Some(Self { trusted, next, changed, ..self.clone() }));
        }
        Ok(None)
    }
}

/// The last line of a certificate in PEM form.
const END: &str = "-----END CERTIFICATE-----";

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> SelfManaged {
        SelfManaged {
            authority_lifetime: Duration::from_secs(3000),
            certificate_lifetime: Duration::from_secs(400),
            propagation: Duration::from_secs(60),
            interval: Duration::from_secs(10),
        }
    }

    const NOW: u64 = 1_800_000_000;

    fn step(state: &Authorities, now: u64, published: bool) -> Option<Authorities> {
        let next = state.step("op", now, &options(), published).unwrap()?;
        // The Secret keeps everything.
        let read = Authorities::decode(&next.encode(), &options()).unwrap();
        assert_eq!(read.encode(), next.encode());
        Some(read)
    }

    #[test]
    fn rotation_publishes_both_before_the_new_one_signs() {
        let a = Authorities::generate("op", NOW, &options()).unwrap();
        assert!(step(&a, NOW + 1999, true).is_none());
        let both = step(&a, NOW + 2000, true).unwrap();
        assert_eq!(both.trusted.len(), 2);
        assert_eq!(both.signer.certificate_pem(), a.signer.certificate_pem());

        assert!(step(&both, NOW + 2900, false).is_none(), "it is not published");
        let published = step(&both, NOW + 2010, true).unwrap();
        assert!(step(&published, NOW + 2070, true).is_none(), "API servers may not know it yet");
        let withdrawn = step(&published, NOW + 2071, false).unwrap();
        assert!(step(&withdrawn, NOW + 2072, true).unwrap().next.is_some(), "the time starts anew");
        let signing = step(&published, NOW + 2071, true).unwrap();
        assert_eq!(signing.bundle(), both.bundle());
        assert_ne!(signing.signer.certificate_pem(), a.signer.certificate_pem());

        // Serving certificates of the old one last for 400 seconds, by clocks that may differ.
        assert!(step(&signing, NOW + 2511, true).is_none());
        let done = step(&signing, NOW + 2512, true).unwrap();
        assert_eq!(done.trusted, [signing.signer.certificate_pem()]);
        assert!(step(&done, NOW + 2513, true).is_none());
    }

    /// 1,000 rotations by three replicas. A replica may fail between the Secret and the `caBundle`,
    /// and an API server may use a `caBundle` that was replaced less than the propagation time ago.
    #[test]
    fn every_issuer_is_trusted_in_a_thousand_rotations() {
        let options = options();
        let mut random = crate::random::Random::new(1);
        let seconds = |random: &mut crate::random::Random, low: u64, high: u64| {
            random.range(Duration::from_secs(low), Duration::from_secs(high)).as_secs()
        };
        let mut state = Authorities::generate("op", NOW, &options).unwrap();
        let mut bundles = vec![(0, state.bundle())];
        // The next check, and issuer and end of the serving certificate.
        let mut replicas = vec![(NOW, String::new(), u64::MAX); 3];
        let mut signers = 0;
        while signers < 1_000 {
            let replica = replicas.iter_mut().min_by_key(|replica| replica.0).unwrap();
            let now = replica.0;
            replica.0 += seconds(&mut random, 1, 200);
            let lifetime = options.leaf_lifetime().as_secs().min(state.signer.end - now);
            (replica.1, replica.2) = (state.signer.certificate_pem(), now + lifetime);
            let fails = seconds(&mut random, 0, 4) == 0;
            let published = bundles.last().unwrap().1 == state.bundle();
            if !published && !fails {
                bundles.push((now, state.bundle()));
            }
            if let Some(next) = step(&state, now, published) {
                let (before, after) = (state.trusted.len(), next.trusted.len());
                assert!(before.abs_diff(after) <= 1, "old and new authority overlap");
                let rotated = next.signer.certificate_pem() != state.signer.certificate_pem();
                signers += usize::from(rotated);
                state = next;
            }
            let propagation = options.propagation.as_secs();
            while bundles.get(1).is_some_and(|(since, _)| now - since >= propagation) {
                bundles.remove(0);
            }
            for (_, issuer, end) in replicas.iter().filter(|(_, issuer, _)| !issuer.is_empty()) {
                assert!(now < *end, "a serving certificate expired");
                let trusted = bundles.iter().all(|(_, bundle)| bundle.contains(issuer.as_str()));
                assert!(trusted, "after {signers} rotations, at {now}");
            }
        }
    }

    #[test]
    fn an_expired_authority_is_replaced_at_once() {
        let a = Authorities::generate("op", NOW, &options()).unwrap();
        let b = step(&a, NOW + 3000, false).unwrap();
        assert_eq!(b.trusted.len(), 1);
        assert_ne!(b.bundle(), a.bundle());
    }

    #[test]
    fn an_incomplete_secret_is_unusable() {
        let a = Authorities::generate("op", NOW, &options()).unwrap();
        let complete = a.encode();
        for name in complete.keys() {
            let mut data = complete.clone();
            data.remove(name);
            assert!(Authorities::decode(&data, &options()).is_err(), "without {name}");
            data.insert(name.clone(), "other".to_owned());
            assert!(Authorities::decode(&data, &options()).is_err(), "with another {name}");
        }
        let other = Authorities::generate("op", NOW, &options()).unwrap();
        let mut data = complete;
        data.insert(TRUSTED.to_owned(), other.bundle());
        assert!(Authorities::decode(&data, &options()).is_err(), "the signer is not trusted");
    }
}
