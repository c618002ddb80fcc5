//! Service account tokens: signed by this server, verified by its keys, and valid while the objects
//! exist that they name.

mod claims;

mod discovery;

mod jwt;

mod keys;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_types::go::quote_list;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

use self::claims::{Claims, LegacySecret};
use self::jwt::Unverified;
use self::keys::{KeyError, PublicKey, SigningKey};
use crate::digest::sha256;
use crate::identity::{Identity, service_account_name};
use crate::storage::Store;

/// The issuer of a server without another one, that of kubeadm.
const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The issuer of tokens in Secrets.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// The label of a Secret with the day when its token was last used.
pub(crate) const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The warning about a token in a Secret that its service account names.
const GENERATED: &str = "Use tokens from the TokenRequest API or manually created secret-based \
                         tokens instead of auto-generated secret-based tokens.";
/// The number of verified tokens whose claims are kept.
const MAX_VERIFIED: usize = 1024;

/// How service account tokens are signed and verified.
///
/// By default a key is generated, and kept in the data directory, if there is one.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServiceAccountOptions {
    /// The accepted issuers; the first one is that of new tokens.
    pub issuers: Vec<String>,
    /// The audiences of the API server; the issuers if empty.
    pub audiences: Vec<String>,
    /// The private key that signs tokens, in PEM form.
    pub signing_key: Option<String>,
    /// The keys that verify tokens, in PEM form; that of the signing key if empty.
    pub verification_keys: Vec<String>,
    /// The longest lifetime of a token.
    pub max_token_expiration: Option<Duration>,
    /// Whether tokens that pods request by default are valid for a year, as upstream's are.
    pub extend_token_expiration: bool,
    /// The URL of the key set in the discovery document, if not that of the server.
    pub jwks_uri: Option<String>,
}

impl Default for ServiceAccountOptions {
    fn default() -> Self {
        Self {
            issuers: Vec::new(),
            audiences: Vec::new(),
            signing_key: None,
            verification_keys: Vec::new(),
            max_token_expiration: None,
            extend_token_expiration: true,
            jwks_uri: None,
        }
    }
}

/// Keeps the key out of logs.
impl fmt::Debug for ServiceAccountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountOptions")
            .field("issuers", &self.issuers)
            .field("audiences", &self.audiences)
            .finish_non_exhaustive()
    }
}

/// The issuer and verifier of tokens.
pub(crate) struct Tokens {
    issuers: Vec<String>,
    pub(crate) audiences: Vec<String>,
    signer: SigningKey,
    keys: Vec<PublicKey>,
    /// In seconds.
    pub(crate) max_expiration: Option<i64>,
    pub(crate) extend_expiration: bool,
    jwks_uri: Option<String>,
    /// Where other machines reach the server.
    external_address: RwLock<String>,
    /// The claims of verified tokens, by digest: verifying a signature costs more than the rest of
    /// a small request.
    verified: Mutex<HashMap<Vec<u8>, Arc<Claims>>>,
    /// The Secrets whose use is to be recorded.
    used: Mutex<BTreeSet<UsedSecret>>,
    /// Whether there are any: most requests have none.
    has_used: AtomicBool,
}

/// A Secret whose token was used, and is not labelled with this day yet.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UsedSecret {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) today: String,
}

/// The identity of a token, and the requested audiences that it is for.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) identity: Identity,
    pub(crate) audiences: Vec<String>,
    /// A warning for the sender.
    pub(crate) warning: Option<&'static str>,
}

/// The claims of a new token.
pub(crate) struct NewToken<'a> {
    pub(crate) namespace: &'a str,
    /// Name and uid.
    pub(crate) account: (&'a str, &'a str),
    /// Kind in lower case, name and uid; the uid may be empty.
    pub(crate) bound: Vec<(&'static str, String, String)>,
    pub(crate) audiences: &'a [String],
    /// In seconds.
    pub(crate) lifetime: i64,
    /// After how many seconds the use of the token is reported, if before its end.
    pub(crate) warn_after: Option<i64>,
    pub(crate) id: String,
}

impl Tokens {
    /// Creates the issuer; `own_key` returns the key of a server without another one.
    pub(crate) fn new<E: fmt::Display>(
        options: ServiceAccountOptions,
        external_address: String,
        own_key: impl FnOnce() -> Result<String, E>,
    ) -> Result<Self, String> {
        let signing_key = match options.signing_key {
            Some(key) => key,
            None => own_key().map_err(|error| error.to_string())?,
        };
        let invalid = |flag: &str, error: KeyError| format!("{flag}: {error}");
        let signer = SigningKey::from_pem(&signing_key)
            .map_err(|error| invalid("service account signing key", error))?;
        let mut keys: Vec<PublicKey> = Vec::new();
        for pem in &options.verification_keys {
            let parsed = PublicKey::all_from_pem(pem)
                .map_err(|error| invalid("service account key", error))?;
            keys.extend(parsed);
        }
        if keys.is_empty() {
            keys.push(signer.public.clone());
        }
        let issuers = match options.issuers {
            issuers if issuers.is_empty() => vec![DEFAULT_ISSUER.to_owned()],
            issuers => issuers,
        };
        let audiences = match options.audiences {
            audiences if audiences.is_empty() => issuers.clone(),
            audiences => audiences,
        };
        let max_expiration = options.max_token_expiration.map(|max| max.as_secs());
        if max_expiration.is_some_and(|max| !(3600..=1 << 32).contains(&max)) {
            return Err(
                "the service-account-max-token-expiration must be between 1 hour and 2^32 \
                        seconds"
                    .to_owned(),
            );
        }
        Ok(Self {
            issuers,
            audiences,
            signer,
            keys,
            max_expiration: max_expiration.and_then(|max| i64::try_from(max).ok()),
            extend_expiration: options.extend_token_expiration,
            jwks_uri: options.jwks_uri,
            external_address: RwLock::new(external_address),
            verified: Mutex::default(),
            used: Mutex::default(),
            has_used: AtomicBool::default(),
        })
    }

    /// Sets the address in the discovery document.
    pub(crate) fn set_external_address(&self, address: String) {
        *self.external_address.write() = address;
    }

    /// Signs a token.
    pub(crate) fn issue(&self, token: &NewToken<'_>, now: Timestamp) -> Option<String> {
        let now = now.as_second();
        let (name, uid) = token.account;
        let mut kubernetes = json!({
            "namespace": token.namespace, "serviceaccount": {"name": name, "uid": uid},
        });
        for (kind, name, uid) in &token.bound {
            kubernetes[*kind] = json!({"name": name});
            if !uid.is_empty() {
                kubernetes[*kind]["uid"] = json!(uid);
            }
        }
        if let Some(seconds) = token.warn_after {
            kubernetes["warnafter"] = json!(now.saturating_add(seconds));
        }
        let claims = json!({
            "aud": token.audiences,
            "exp": now.saturating_add(token.lifetime),
            "iat": now,
            "iss": self.issuers.first(),
            "jti": token.id,
            "kubernetes.io": kubernetes,
            "nbf": now,
            "sub": service_account_name(token.namespace, name),
        });
        jwt::sign(&self.signer, &claims)
    }

    /// Signs a token for a Secret, which does not expire.
    pub(crate) fn issue_legacy(
        &self,
        namespace: &str,
        (name, uid): (&str, &str),
        secret: &str,
    ) -> Option<String> {
        let claims: Value = json!({
            "iss": LEGACY_ISSUER,
            "kubernetes.io/serviceaccount/namespace": namespace,
            "kubernetes.io/serviceaccount/secret.name": secret,
            "kubernetes.io/serviceaccount/service-account.name": name,
            "kubernetes.io/serviceaccount/service-account.uid": uid,
            "sub": service_account_name(namespace, name),
        });
        jwt::sign(&self.signer, &claims)
    }

    /// Authenticates a token for `audiences`. Returns `Ok(None)` if it is not one of these issuers,
    /// and the reason if it is and is not valid.
    pub(crate) fn authenticate(
        &self,
        store: &Store,
        now: Timestamp,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<Accepted>, String> {
        let Some(claims) = self.verified_claims(token)? else { return Ok(None) };
        let own = match claims.aud.as_slice() {
            // Tokens in Secrets are for the API server.
            [] => &self.audiences,
            own => own,
        };
        let common = intersection(own, audiences);
        if common.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(own),
                quoted(audiences)
            ));
        }
        if claims.iss != LEGACY_ISSUER {
            let identity = claims.identity(store, now)?;
            return Ok(Some(Accepted { identity, audiences: common, warning: None }));
        }
        let legacy = claims.legacy_secret(store, token)?;
        self.note_use(&legacy, now);
        let warning = legacy.is_generated.then_some(GENERATED);
        Ok(Some(Accepted { identity: legacy.identity?, audiences: common, warning }))
    }

    /// Notes that a token in a Secret is used, unless its label shows it already.
    fn note_use(&self, legacy: &LegacySecret, now: Timestamp) {
        let day = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
        let tomorrow = now.checked_add(Duration::from_secs(24 * 60 * 60)).unwrap_or(now);
        let today = day(now);
        if legacy.last_used == today || legacy.last_used == day(tomorrow) {
            return;
        }
        let LegacySecret { namespace, name, uid, .. } = legacy;
        let used = UsedSecret {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
            today,
        };
        self.used.lock().insert(used);
        self.has_used.store(true, Ordering::Release);
    }

    /// Returns the Secrets whose use is to be recorded.
    pub(crate) fn take_used(&self) -> BTreeSet<UsedSecret> {
        if !self.has_used.load(Ordering::Acquire) {
            return BTreeSet::new();
        }
        let mut used = self.used.lock();
        self.has_used.store(false, Ordering::Release);
        std::mem::take(&mut *used)
    }

    fn verified_claims(&self, token: &str) -> Result<Option<Arc<Claims>>, String> {
        let digest = sha256(token.as_bytes());
        if let Some(claims) = self.verified.lock().get(&digest) {
            return Ok(Some(claims.clone()));
        }
        let Some(unverified) = Unverified::parse(token) else { return Ok(None) };
        let Some(issuer) = unverified.issuer() else { return Ok(None) };
        if issuer != LEGACY_ISSUER && !self.issuers.contains(&issuer) {
            return Ok(None);
        }
        let payload = unverified.verify(&self.keys)?;
        let claims: Claims = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        let claims = Arc::new(claims);
        let mut verified = self.verified.lock();
        if verified.len() >= MAX_VERIFIED {
            verified.clear();
        }
        verified.insert(digest, claims.clone());
        Ok(Some(claims))
    }
}

/// Returns the elements of `own` that are also in `wanted`.
pub(crate) fn intersection(own: &[String], wanted: &[String]) -> Vec<String> {
    own.iter().filter(|own| wanted.contains(own)).cloned().collect()
}

fn quoted(values: &[String]) -> String {
    quote_list(values.iter().map(String::as_str))
}
