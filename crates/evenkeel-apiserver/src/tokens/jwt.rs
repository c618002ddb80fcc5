//! JSON Web Tokens in compact form: `header.payload.signature`, each in URL-safe base64.

use serde::Deserialize;
use serde_json::{Value, json};

use super::keys::{PublicKey, SigningKey};
use crate::digest::{base64_url, from_base64_url};

/// The longest token that is parsed.
const MAX_LENGTH: usize = 64 * 1024;

/// A token whose signature has not been verified: nothing in it can be trusted.
pub(super) struct Unverified<'a> {
    header: Header,
    /// Header and payload, as they are signed.
    signed: &'a str,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    alg: String,
    kid: String,
    /// Extensions that must be understood; none is.
    crit: Option<Value>,
}

/// Signs `claims`.
pub(super) fn sign(key: &SigningKey, claims: &Value) -> Option<String> {
    let header = json!({"alg": key.public.algorithm(), "kid": key.public.id});
    let part = |value: &Value| base64_url(value.to_string().as_bytes());
    let mut token = format!("{}.{}", part(&header), part(claims));
    let signature = key.sign(token.as_bytes())?;
    token.push('.');
    token.push_str(&base64_url(&signature));
    Some(token)
}

impl<'a> Unverified<'a> {
    /// Parses a token; `None` if it is not a JSON Web Token.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MAX_LENGTH {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        if payload.contains('.') {
            return None;
        }
        let decode = |part: &str| from_base64_url(part).ok();
        let header = serde_json::from_slice(&decode(header)?).ok()?;
        let (payload, signature) = (decode(payload)?, decode(signature)?);
        Some(Self { header, signed, payload, signature })
    }

    /// Returns the claimed issuer.
    pub(super) fn issuer(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Issuer {
            iss: String,
        }
        serde_json::from_slice::<Issuer>(&self.payload).ok().map(|claims| claims.iss)
    }

    /// Returns the payload if one of `keys` has signed it.
    pub(super) fn verify(&self, keys: &[PublicKey]) -> Result<&[u8], &'static str> {
        let Header { alg, kid, crit } = &self.header;
        let mut keys = keys.iter().filter(|key| kid.is_empty() || key.id == *kid).peekable();
        if keys.peek().is_none() {
            return Err("invalid signature, no keys found");
        }
        let message = self.signed.as_bytes();
        if crit.is_none() && keys.any(|key| key.verify(alg, message, &self.signature)) {
            Ok(&self.payload)
        } else {
            Err("go-jose/go-jose: error in cryptographic primitive")
        }
    }
}
