//! The OIDC discovery documents of the issuer, for others that verify its tokens.

use serde::Serialize;
use serde::ser::SerializeMap as _;
use serde_json::Value;

use super::Tokens;
use super::keys::PublicKey;

/// Prints its entries in order.
struct Ordered<'a>(&'a [(&'static str, Value)]);

impl Serialize for Ordered<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Tokens {
    /// Returns the provider configuration; `None` if the issuer is not a URL that OIDC allows.
    pub(crate) fn openid_configuration(&self) -> Option<String> {
        let issuer = self.issuers.first()?;
        if !issuer.starts_with("https://") || issuer.contains(['?', '#']) {
            return None;
        }
        let jwks_uri = match &self.jwks_uri {
            Some(uri) => uri.clone(),
            None => format!("https://{}/openid/v1/jwks", self.external_address.read()),
        };
        let mut algorithms: Vec<&str> = self.keys.iter().map(PublicKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let document = [
            ("issuer", issuer.clone().into()),
            ("jwks_uri", jwks_uri.into()),
            ("response_types_supported", vec!["id_token"].into()),
            ("subject_types_supported", vec!["public"].into()),
            ("id_token_signing_alg_values_supported", algorithms.into()),
        ];
        serde_json::to_string(&Ordered(&document)).ok()
    }

    /// Returns the JSON Web Key Set.
    pub(crate) fn jwks(&self) -> Option<String> {
        let keys: Vec<_> = self.keys.iter().map(PublicKey::jwk).collect();
        let keys: Vec<Ordered<'_>> = keys.iter().map(|jwk| Ordered(jwk)).collect();
        let keys = serde_json::to_string(&keys).ok()?;
        Some(format!("{{\"keys\":{keys}}}"))
    }
}
