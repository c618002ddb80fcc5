//! The claims of service account tokens, and which of them are valid now.
//!
//! A token is valid only while the objects exist that it names, with their uids.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::LAST_USED;
use crate::digest::base64;
use crate::identity::{CREDENTIAL_ID, Identity, service_account, service_account_identity};
use crate::storage::{Key, Store};

/// The tolerance of clock differences.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// The label of Secrets whose tokens are no longer accepted.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The claims of tokens of both kinds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claims {
    pub(super) iss: String,
    sub: String,
    pub(super) aud: Audiences,
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
    #[serde(flatten)]
    legacy: Legacy,
}

/// One or several audiences.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Audiences {
    One(String),
    Many(Vec<String>),
}

impl Default for Audiences {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Audiences {
    pub(super) fn as_slice(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kubernetes {
    namespace: String,
    serviceaccount: Reference,
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    name: String,
    uid: String,
}

/// The claims of tokens in Secrets.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Legacy {
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    name: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: String,
}

/// An object that a token names.
struct Found {
    uid: String,
    deleted: Option<Timestamp>,
    body: bytes::Bytes,
}

/// The part of an object that shows whether it is being deleted.
#[derive(Deserialize)]
struct Deleted {
    metadata: DeletedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeletedMetadata {
    #[serde(default)]
    deletion_timestamp: Option<Timestamp>,
}

fn find(store: &Store, table: &str, namespace: &str, name: &str) -> Option<Found> {
    let record = store.table(table).get(&Key::new(namespace, name))?;
    let deleted = serde_json::from_slice::<Deleted>(&record.body).ok()?;
    Some(Found {
        uid: record.uid.to_string(),
        deleted: deleted.metadata.deletion_timestamp,
        body: record.body.clone(),
    })
}

impl Found {
    fn is_deleted_before(&self, time: Timestamp) -> bool {
        self.deleted.is_some_and(|deleted| deleted < time)
    }
}

impl Claims {
    /// Returns the identity of a token of a TokenRequest, or why it is not valid.
    pub(super) fn identity(&self, store: &Store, now: Timestamp) -> Result<Identity, String> {
        self.check_time(now)?;
        let Kubernetes { namespace, serviceaccount, pod, secret, node } = &self.kubernetes;
        let past = now.checked_sub(LEEWAY).unwrap_or(Timestamp::MIN);
        let account = find_account(store, namespace, &serviceaccount.name)?;
        if account.uid != serviceaccount.uid {
            let (own, claimed) = (&account.uid, &serviceaccount.uid);
            return Err(format!("service account UID ({own}) does not match claim ({claimed})"));
        }
        if account.is_deleted_before(past) {
            let name = &serviceaccount.name;
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        // A node is bound itself only if no pod on it is.
        let bound_node = node.as_ref().filter(|_| pod.is_none());
        for (kind, namespace, bound) in [
            ("secret", namespace.as_str(), secret.as_ref()),
            ("pod", namespace.as_str(), pod.as_ref()),
            ("node", "", bound_node),
        ] {
            let Some(bound) = bound else { continue };
            let invalidated = || "service account token has been invalidated".to_owned();
            let table = format!("{kind}s");
            let found = find(store, &table, namespace, &bound.name).ok_or_else(invalidated)?;
            if found.uid != bound.uid {
                let (own, claimed) = (&found.uid, &bound.uid);
                return Err(format!(
                    "{kind} UID ({own}) does not match service account {kind} ref claim ({claimed})"
                ));
            }
            if found.is_deleted_before(past) {
                return Err(invalidated());
            }
        }
        let mut identity =
            service_account_identity(namespace, &serviceaccount.name, &serviceaccount.uid);
        let mut extra = |key: &str, value: &str| {
            if !value.is_empty() {
                let key = format!("authentication.kubernetes.io/{key}");
                identity.extra.insert(key, vec![value.to_owned()]);
            }
        };
        for (kind, bound) in [("pod", pod), ("node", node)] {
            if let Some(bound) = bound {
                extra(&format!("{kind}-name"), &bound.name);
                extra(&format!("{kind}-uid"), &bound.uid);
            }
        }
        if !self.jti.is_empty() {
            let id = format!("JTI={}", self.jti);
            identity.extra.insert(CREDENTIAL_ID.to_owned(), vec![id]);
        }
        Ok(identity)
    }

    fn check_time(&self, now: Timestamp) -> Result<(), String> {
        let (now, leeway) = (now.as_second() as f64, LEEWAY.as_secs() as f64);
        // In upstream's order.
        let problem = if self.nbf.is_some_and(|from| now + leeway < from) {
            "is not valid yet"
        } else if self.exp.is_some_and(|end| now - leeway > end) {
            "has expired"
        } else if self.iat.is_some_and(|issued| now + leeway < issued) {
            "is issued in the future"
        } else {
            return Ok(());
        };
        Err(format!("service account token {problem}"))
    }

    /// Returns the Secret of a token and the identity that it authenticates, or why it is not valid.
    pub(super) fn legacy_secret(&self, store: &Store, token: &str) -> Result<LegacySecret, String> {
        let Legacy { namespace, secret, name, uid } = &self.legacy;
        for (claim, value) in [
            ("sub", &self.sub),
            ("namespace", namespace),
            ("secretName", secret),
            ("serviceAccountName", name),
            ("serviceAccountUID", uid),
        ] {
            if value.is_empty() {
                return Err(format!("{claim} claim is missing"));
            }
        }
        if service_account(&self.sub) != Some((namespace, name)) {
            return Err("sub claim is invalid".to_owned());
        }
        let invalidated = || "Token has been invalidated".to_owned();
        let found = find(store, "secrets", namespace, secret).ok_or_else(invalidated)?;
        if found.deleted.is_some() {
            return Err(invalidated());
        }
        let stored: Value = serde_json::from_slice(&found.body).map_err(|_| invalidated())?;
        let own = stored.pointer("/data/token").and_then(Value::as_str).unwrap_or("");
        // Both are secrets of the same user, so the time of the comparison reveals nothing that its
        // signature does not.
        if own != base64(token.as_bytes()) {
            return Err("Token does not match server's copy".to_owned());
        }
        let account = find_account(store, namespace, name)?;
        if account.deleted.is_some() {
            return Err(format!("ServiceAccount {namespace}/{name} has been deleted"));
        }
        if account.uid != *uid {
            let own = &account.uid;
            return Err(format!("ServiceAccount UID ({own}) does not match claim ({uid})"));
        }
        let label = |name: &str| stored["metadata"]["labels"][name].as_str().unwrap_or("");
        let identity = if label(INVALID_SINCE).is_empty() {
            Ok(service_account_identity(namespace, name, uid))
        } else {
            Err(format!(
                "the token in secret {namespace}/{secret} for service account {namespace}/{name} \
                 has been marked invalid. Use tokens from the TokenRequest API or manually created \
                 secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to \
                 temporarily allow use of this token"
            ))
        };
        let account: Value = serde_json::from_slice(&account.body).unwrap_or_default();
        let mut named = account["secrets"].as_array().into_iter().flatten();
        Ok(LegacySecret {
            namespace: namespace.clone(),
            name: secret.clone(),
            uid: found.uid,
            last_used: label(LAST_USED).to_owned(),
            is_generated: named.any(|named| named["name"] == **secret),
            identity,
        })
    }
}

/// The Secret of a token.
pub(super) struct LegacySecret {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The day when the token was last used, by the label of the Secret.
    pub(super) last_used: String,
    /// Whether the service account names the Secret, as those that were generated for it.
    pub(super) is_generated: bool,
    /// The identity of the token, or why it is no longer valid.
    pub(super) identity: Result<Identity, String>,
}

fn find_account(store: &Store, namespace: &str, name: &str) -> Result<Found, String> {
    find(store, "serviceaccounts", namespace, name)
        .ok_or_else(|| format!("serviceaccounts {name:?} not found"))
}
