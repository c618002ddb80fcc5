//! Tokens that are tampered with, or that another issuer has signed.

use serde_json::{Value, json};

use super::*;
use crate::digest::{base64_url, from_base64_url};

const RSA: &str = include_str!("fixtures/rsa.pem");
const RSA_PUBLIC: &str = include_str!("fixtures/rsa.pub.pem");
const EC: &str = include_str!("fixtures/p256.pem");

fn tokens(signing_key: &str, verification_keys: &[&str]) -> Tokens {
    let options = ServiceAccountOptions {
        issuers: vec!["https://issuer".to_owned(), "https://former".to_owned()],
        audiences: vec!["api".to_owned()],
        signing_key: Some(signing_key.to_owned()),
        verification_keys: verification_keys.iter().map(|key| (*key).to_owned()).collect(),
        ..ServiceAccountOptions::default()
    };
    Tokens::new(options, "10.0.0.1:443".to_owned(), || Err("no own key")).unwrap()
}

fn issue(tokens: &Tokens) -> String {
    let audiences = ["api".to_owned()];
    let token = NewToken {
        namespace: "default",
        account: ("bob", "u-1"),
        bound: Vec::new(),
        audiences: &audiences,
        lifetime: 3600,
        warn_after: None,
        id: "id".to_owned(),
    };
    tokens.issue(&token, Timestamp::from_second(1_800_000_000).unwrap()).unwrap()
}

/// Returns the reason that the signature or form of a token is refused for; empty if it is accepted.
fn refusal(tokens: &Tokens, token: &str) -> String {
    match tokens.verified_claims(token) {
        Ok(Some(_)) => String::new(),
        Ok(None) => "unknown".to_owned(),
        Err(why) => why,
    }
}

/// Replaces the header or payload of a token and keeps its signature.
fn edited(token: &str, part: usize, edit: impl FnOnce(&mut Value)) -> String {
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    let mut value = serde_json::from_slice(&from_base64_url(&parts[part]).unwrap()).unwrap();
    edit(&mut value);
    parts[part] = base64_url(value.to_string().as_bytes());
    parts.join(".")
}

const BAD_SIGNATURE: &str = "go-jose/go-jose: error in cryptographic primitive";

#[test]
fn only_tokens_with_a_signature_of_a_known_key_are_accepted() {
    for key in [RSA, EC] {
        let tokens = tokens(key, &[]);
        let token = issue(&tokens);
        assert_eq!(refusal(&tokens, &token), "");
        let payload = edited(&token, 1, |claims| claims["sub"] = json!("system:admin"));
        assert_eq!(refusal(&tokens, &payload), BAD_SIGNATURE);
        for algorithm in ["none", "None", "HS256", "PS256", ""] {
            let header = edited(&token, 0, |header| header["alg"] = json!(algorithm));
            assert_eq!(refusal(&tokens, &header), BAD_SIGNATURE, "{algorithm}");
        }
        let unsigned = edited(&token, 0, |header| header["alg"] = json!("none"));
        let unsigned = &unsigned[..=unsigned.rfind('.').unwrap()];
        assert_eq!(refusal(&tokens, unsigned), BAD_SIGNATURE);
        let kid = edited(&token, 0, |header| header["kid"] = json!("../../etc/passwd"));
        assert_eq!(refusal(&tokens, &kid), "invalid signature, no keys found");
        let critical = edited(&token, 0, |header| header["crit"] = json!(["exp"]));
        assert_eq!(refusal(&tokens, &critical), BAD_SIGNATURE);
        let own_key = edited(&token, 0, |header| {
            header["jwk"] = json!({"kty": "oct", "k": "AA"});
            header["alg"] = json!("HS256");
        });
        assert_eq!(refusal(&tokens, &own_key), BAD_SIGNATURE);
    }
}

#[test]
fn a_key_of_one_kind_does_not_verify_another_algorithm() {
    // The server trusts both keys; the header of each token names the other one.
    let (rsa, ec) = (tokens(RSA, &[RSA, EC]), tokens(EC, &[RSA, EC]));
    for (own, other) in [(&rsa, &ec), (&ec, &rsa)] {
        let token = issue(own);
        assert_eq!(refusal(other, &token), "", "both keys are trusted");
        let kid = edited(&token, 0, |header| header["kid"] = json!(other.signer.public.id));
        assert_eq!(refusal(own, &kid), BAD_SIGNATURE);
        let algorithm = other.signer.public.algorithm();
        let algorithm = edited(&token, 0, |header| header["alg"] = json!(algorithm));
        assert_eq!(refusal(own, &algorithm), BAD_SIGNATURE);
        let no_kid = edited(&token, 0, |header| header["kid"] = json!(""));
        assert_eq!(refusal(own, &no_kid), BAD_SIGNATURE, "the header is signed, too");
    }
    let only_rsa = tokens(RSA, &[RSA_PUBLIC]);
    assert_eq!(refusal(&only_rsa, &issue(&rsa)), "");
    assert_eq!(refusal(&only_rsa, &issue(&ec)), "invalid signature, no keys found");
}

#[test]
fn tokens_of_other_issuers_and_other_texts_are_unknown() {
    let tokens = tokens(EC, &[]);
    let token = issue(&tokens);
    let other = edited(&token, 1, |claims| claims["iss"] = json!("https://other"));
    assert_eq!(refusal(&tokens, &other), "unknown");
    let former = edited(&token, 1, |claims| claims["iss"] = json!("https://former"));
    assert_eq!(refusal(&tokens, &former), BAD_SIGNATURE, "known, and not signed");
    for text in ["", ".", "..", "a.b.c", "{}", &token[1..], &format!("{token}.x"), "e30.e30.e30"] {
        assert_eq!(refusal(&tokens, text), "unknown", "{text}");
    }
    let long = edited(&token, 1, |claims| claims["x"] = json!("x".repeat(64 * 1024)));
    assert_eq!(refusal(&tokens, &long), "unknown", "too long");
}

#[test]
fn verified_claims_are_bounded() {
    let tokens = tokens(EC, &[]);
    for _ in 0..MAX_VERIFIED + 10 {
        // ECDSA signatures are random, so each token is another one.
        assert_eq!(refusal(&tokens, &issue(&tokens)), "");
    }
    assert!(tokens.verified.lock().len() <= MAX_VERIFIED);
}

#[test]
fn discovery_documents_are_those_of_upstream() {
    let tokens = tokens(EC, &[EC, RSA_PUBLIC]);
    assert_eq!(
        tokens.openid_configuration().unwrap(),
        r#"{"issuer":"https://issuer","jwks_uri":"https://10.0.0.1:443/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256","RS256"]}"#
    );
    assert_eq!(tokens.jwks().unwrap(), include_str!("fixtures/jwks.json").trim());
}
