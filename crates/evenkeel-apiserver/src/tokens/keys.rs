//! The keys that sign and verify service account tokens: RSA, and ECDSA on P-256 and P-384.

use std::fmt;
use std::sync::Arc;

use evenkeel_pki::x509;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use rustls::pki_types::{PrivateKeyDer, alg_id};
use serde_json::{Value, json};

use crate::digest::{base64_url, sha256};

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("no private key in PEM form")]
    NoPrivateKey,
    #[error("data does not contain any valid RSA or ECDSA public keys")]
    NoPublicKey,
    #[error("neither an RSA key of at least 2048 bits nor an ECDSA key on P-256 or P-384")]
    Unsupported,
}

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
}

/// A public key that verifies tokens.
#[derive(Clone)]
pub(crate) struct PublicKey {
    kind: Kind,
    /// The key itself, without its algorithm.
    bits: Vec<u8>,
    /// Names the key in the headers of tokens, and does not reveal it.
    pub(crate) id: String,
}

/// A private key that signs tokens.
pub(crate) struct SigningKey {
    key: Arc<dyn rustls::sign::SigningKey>,
    pub(crate) public: PublicKey,
}

impl PublicKey {
    /// Parses a `SubjectPublicKeyInfo` (DER).
    fn from_spki(spki: &[u8]) -> Option<Self> {
        let key = x509::subject_public_key(spki).ok()?;
        let kind = match key.algorithm {
            algorithm if algorithm == &*alg_id::RSA_ENCRYPTION => Kind::Rsa,
            algorithm if algorithm == &*alg_id::ECDSA_P256 => Kind::P256,
            algorithm if algorithm == &*alg_id::ECDSA_P384 => Kind::P384,
            _ => return None,
        };
        Some(Self { kind, bits: key.bits.to_vec(), id: base64_url(&sha256(spki)) })
    }

    /// Parses all keys of a PEM file, which may also contain certificates and private keys.
    pub(crate) fn all_from_pem(pem: &str) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem.as_bytes());
        for (section, der) in sections.filter_map(Result::ok) {
            let private = match section {
                SectionKind::PublicKey => {
                    keys.extend(Self::from_spki(&der));
                    continue;
                }
                SectionKind::Certificate => {
                    let spki = x509::public_key_info(&der).ok();
                    keys.extend(spki.and_then(Self::from_spki));
                    continue;
                }
                SectionKind::RsaPrivateKey => PrivateKeyDer::Pkcs1(der.into()),
                SectionKind::EcPrivateKey => PrivateKeyDer::Sec1(der.into()),
                SectionKind::PrivateKey => PrivateKeyDer::Pkcs8(der.into()),
                _ => continue,
            };
            keys.push(SigningKey::new(&private)?.public);
        }
        if keys.is_empty() { Err(KeyError::NoPublicKey) } else { Ok(keys) }
    }

    /// Returns the algorithm of tokens that the key signs.
    pub(crate) fn algorithm(&self) -> &'static str {
        match self.kind {
            Kind::Rsa => "RS256",
            Kind::P256 => "ES256",
            Kind::P384 => "ES384",
        }
    }

    /// Returns whether `signature` of `message` is valid, by an algorithm of the key's own kind.
    pub(crate) fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn VerificationAlgorithm = match (self.kind, algorithm) {
            (Kind::Rsa, "RS256") => &signature::RSA_PKCS1_2048_8192_SHA256,
            (Kind::Rsa, "RS384") => &signature::RSA_PKCS1_2048_8192_SHA384,
            (Kind::Rsa, "RS512") => &signature::RSA_PKCS1_2048_8192_SHA512,
            (Kind::P256, "ES256") => &signature::ECDSA_P256_SHA256_FIXED,
            (Kind::P384, "ES384") => &signature::ECDSA_P384_SHA384_FIXED,
            _ => return false,
        };
        UnparsedPublicKey::new(algorithm, &self.bits).verify(message, signature).is_ok()
    }

    /// Returns the key as a JSON Web Key, in the order of Go's fields.
    pub(crate) fn jwk(&self) -> Vec<(&'static str, Value)> {
        let kty = if self.kind == Kind::Rsa { "RSA" } else { "EC" };
        let mut jwk = vec![("use", json!("sig")), ("kty", json!(kty)), ("kid", json!(self.id))];
        let number = |bytes: &[u8]| json!(base64_url(bytes));
        match self.kind {
            Kind::Rsa => {
                jwk.push(("alg", json!(self.algorithm())));
                if let Ok((modulus, exponent)) = x509::two_integers(&self.bits) {
                    jwk.extend([("n", number(modulus)), ("e", number(exponent))]);
                }
            }
            Kind::P256 | Kind::P384 => {
                jwk.push(("crv", json!(if self.kind == Kind::P256 { "P-256" } else { "P-384" })));
                jwk.push(("alg", json!(self.algorithm())));
                // An uncompressed point: 4, x, y.
                if let [4, point @ ..] = self.bits.as_slice() {
                    let (x, y) = point.split_at(point.len() / 2);
                    jwk.extend([("x", number(x)), ("y", number(y))]);
                }
            }
        }
        jwk
    }
}

impl SigningKey {
    fn new(key: &PrivateKeyDer<'_>) -> Result<Self, KeyError> {
        let key = any_supported_type(key).map_err(|_| KeyError::Unsupported)?;
        let public = key.public_key().and_then(|spki| PublicKey::from_spki(&spki));
        let public = public.ok_or(KeyError::Unsupported)?;
        Ok(Self { key, public })
    }

    /// Parses the first private key of a PEM file.
    pub(crate) fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes());
        Self::new(&key.map_err(|_| KeyError::NoPrivateKey)?)
    }

    /// Signs `message` by [`PublicKey::algorithm`].
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let (scheme, size) = match self.public.kind {
            Kind::Rsa => (SignatureScheme::RSA_PKCS1_SHA256, 0),
            Kind::P256 => (SignatureScheme::ECDSA_NISTP256_SHA256, 32),
            Kind::P384 => (SignatureScheme::ECDSA_NISTP384_SHA384, 48),
        };
        let signature = self.key.choose_scheme(&[scheme])?.sign(message).ok()?;
        if self.public.kind == Kind::Rsa {
            return Some(signature);
        }
        // TLS has a sequence of two integers, tokens have both at a fixed size.
        let (r, s) = x509::two_integers(&signature).ok()?;
        let mut fixed = vec![0; 2 * size];
        for (number, end) in [(r, size), (s, 2 * size)] {
            fixed.get_mut(end.checked_sub(number.len())?..end)?.copy_from_slice(number);
        }
        Some(fixed)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.public.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [(&str, &str, &str); 5] = [
        ("RS256", include_str!("fixtures/rsa.pem"), include_str!("fixtures/rsa.pub.pem")),
        ("RS256", include_str!("fixtures/rsa-pkcs8.pem"), include_str!("fixtures/rsa.pub.pem")),
        ("ES256", include_str!("fixtures/p256-sec1.pem"), include_str!("fixtures/p256.pub.pem")),
        ("ES256", include_str!("fixtures/p256.pem"), include_str!("fixtures/p256.pub.pem")),
        ("ES384", include_str!("fixtures/p384.pem"), include_str!("fixtures/p384.pub.pem")),
    ];

    #[test]
    fn signatures_are_verified_by_the_public_key_only() {
        for (algorithm, private, public) in KEYS {
            let key = SigningKey::from_pem(private).unwrap();
            assert_eq!(key.public.algorithm(), algorithm);
            let [verifier] = PublicKey::all_from_pem(public).unwrap().try_into().ok().unwrap();
            assert_eq!(verifier.id, key.public.id);
            assert_eq!(PublicKey::all_from_pem(private).unwrap()[0].id, key.public.id);
            // Integers with leading zeros are rare: many signatures find them.
            for count in 0..300_u32 {
                let message = count.to_be_bytes();
                let signature = key.sign(&message).unwrap();
                assert!(verifier.verify(algorithm, &message, &signature), "{algorithm} {count}");
                assert!(!verifier.verify(algorithm, b"other", &signature));
                if algorithm == "RS256" && count > 3 {
                    break;
                }
            }
            let signature = key.sign(b"x").unwrap();
            for other in ["none", "HS256", "RS384", "ES512", ""] {
                assert!(!verifier.verify(other, b"x", &signature), "{other}");
            }
            for (other, _, public) in KEYS {
                let verifier = &PublicKey::all_from_pem(public).unwrap()[0];
                let same = verifier.id == key.public.id;
                assert_eq!(verifier.verify(algorithm, b"x", &signature), same);
                assert_eq!(verifier.verify(other, b"x", &signature), same);
            }
        }
    }

    #[test]
    fn key_ids_and_web_keys_are_those_of_go() {
        let key = &PublicKey::all_from_pem(include_str!("fixtures/p256.pub.pem")).unwrap()[0];
        let expected: Value = serde_json::from_str(include_str!("fixtures/jwks.json")).unwrap();
        let jwk = |key: &PublicKey| -> Value {
            key.jwk().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        assert_eq!(jwk(key), expected["keys"][0]);
        let key = &PublicKey::all_from_pem(include_str!("fixtures/rsa.pub.pem")).unwrap()[0];
        assert_eq!(jwk(key), expected["keys"][1]);
    }

    #[test]
    fn files_without_a_key_are_errors() {
        assert!(matches!(PublicKey::all_from_pem("x"), Err(KeyError::NoPublicKey)));
        assert!(matches!(SigningKey::from_pem(""), Err(KeyError::NoPrivateKey)));
        let public = include_str!("fixtures/p256.pub.pem");
        assert!(matches!(SigningKey::from_pem(public), Err(KeyError::NoPrivateKey)));
    }
}
