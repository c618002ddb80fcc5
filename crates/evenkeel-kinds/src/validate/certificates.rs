//! Validates CertificateSigningRequests and ClusterTrustBundles.
//!
//! Signatures and the contents of certificates are not verified.

use std::collections::HashSet;

use serde_json::Value;

use super::checks;
use super::printed::{self, Printed, Ty, diff};
use super::read::Read;
use super::report::{Errors, Path};
use super::volume::trust_bundle_name;
use super::{builtin_create, builtin_update, config};
use crate::names::NameRule;

pub(super) fn create(errs: &mut Errors, kind: &str, object: &Value) {
    match kind {
        "CertificateSigningRequest" => request(errs, object, &Value::Null),
        "ClusterTrustBundle" => trust_bundle(errs, object, None),
        "PodCertificateRequest" => builtin_create(errs, object, true, NameRule::Subdomain),
        _ => {}
    }
}

pub(super) fn update(errs: &mut Errors, kind: &str, new: &Value, old: &Value) {
    match kind {
        "CertificateSigningRequest" => request_update(errs, new, old, Endpoint::Main),
        "ClusterTrustBundle" => trust_bundle(errs, new, Some(old)),
        _ => builtin_update(errs, new, old),
    }
}

pub(super) fn status_update(errs: &mut Errors, kind: &str, new: &Value, old: &Value) {
    if kind == "CertificateSigningRequest" {
        request_update(errs, new, old, Endpoint::Status);
    } else {
        builtin_update(errs, new, old);
    }
}

pub(super) fn request_approval_update(errs: &mut Errors, new: &Value, old: &Value) {
    request_update(errs, new, old, Endpoint::Approval);
}

/// Sorted, in the order of error messages.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

fn request(errs: &mut Errors, request: &Value, old: &Value) {
    let meta = request.at("metadata");
    crate::meta::check_create(errs, meta, false, |_, _| Vec::new());
    crate::meta::check_builtin_finalizers(errs, meta);
    let path = Path::root("spec");
    let (spec, old_spec) = (request.at("spec"), old.at("spec"));
    if !is_pem(&config::decoded(spec.text("request")), "CERTIFICATE REQUEST") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errs.invalid(path.child("request"), spec.at("request").clone(), detail);
    }
    usages(errs, path.child("usages"), spec, old_spec);
    let signer = spec.text("signerName");
    if signer == LEGACY_SIGNER && old_spec.text("signerName") != LEGACY_SIGNER {
        let detail = "the legacy signerName is not allowed via this API version";
        errs.invalid(path.child("signerName"), signer, detail);
    } else {
        checks::signer_name(errs, path.child("signerName"), signer);
    }
    if let Some(seconds) = spec.int("expirationSeconds").filter(|s| *s < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errs.invalid(path.child("expirationSeconds"), seconds, detail);
    }
    conditions(errs, request.at("status"), old.at("status"));
    let certificate = request.at("status").text("certificate");
    let bytes = config::decoded(certificate);
    let unchanged = !old.is_null() && certificate == old.at("status").text("certificate");
    if !unchanged && !bytes.is_empty() && !is_pem(&bytes, "CERTIFICATE") {
        let path = Path::root("status");
        let detail = "must contain at least one CERTIFICATE PEM block";
        errs.invalid(path.child("certificate"), "<certificate data>", detail);
    }
}

fn is_pem(bytes: &[u8], kind: &str) -> bool {
    let begin = format!("-----BEGIN {kind}-----");
    let end = format!("-----END {kind}-----");
    let find = |needle: &str| bytes.windows(needle.len()).position(|w| w == needle.as_bytes());
    matches!((find(&begin), find(&end)), (Some(begin), Some(end)) if begin < end)
}

fn usages(errs: &mut Errors, path: Path<'_>, spec: &Value, old: &Value) {
    let usages: Vec<&str> = spec.texts("usages").collect();
    let before: Vec<&str> = old.texts("usages").collect();
    if usages.is_empty() {
        errs.required(path, "");
    }
    if before.iter().all(|usage| USAGES.contains(usage)) {
        for (i, usage) in usages.iter().enumerate() {
            if !USAGES.contains(usage) {
                errs.not_supported(path.index(i), *usage, USAGES);
            }
        }
    }
    if before.iter().collect::<HashSet<_>>().len() == before.len() {
        let mut seen = HashSet::new();
        for (i, usage) in usages.iter().enumerate() {
            if !seen.insert(usage) {
                errs.duplicate(path.index(i), *usage);
            }
        }
    }
}

fn conditions(errs: &mut Errors, status: &Value, old: &Value) {
    let path = Path::root("status");
    let path = path.child("conditions");
    let conditions = status.list("conditions");
    let before = old.list("conditions");
    let old_types: HashSet<&str> = before.iter().map(|c| c.text("type")).collect();
    let allow_both = old_types.contains("Approved") && old_types.contains("Denied");
    let allow_repeated = old_types.len() < before.len();
    let mut earlier = HashSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let kind = condition.text("type");
        if kind.is_empty() && !old_types.contains("") {
            errs.required(path.index(i).child("type"), "");
        }
        let known = matches!(kind, "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if known { &["True"] } else { &["False", "True", "Unknown"] };
        checks::one_of(errs, path.index(i).child("status"), condition.text("status"), allowed);
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !allow_both && !other.is_empty() && earlier.contains(other) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errs.invalid(path, kind, detail);
        }
        if !earlier.insert(kind) && !allow_repeated {
            errs.duplicate(path.index(i).child("type"), kind);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Main,
    Status,
    Approval,
}

fn request_update(errs: &mut Errors, new: &Value, old: &Value, endpoint: Endpoint) {
    request(errs, new, old);
    let path = Path::root("status");
    let (status, before) = (new.at("status"), old.at("status"));
    let of = |status: &'_ Value, kind: &str| -> Vec<Value> {
        let all = status.list("conditions").iter();
        all.filter(|c| c.text("type") == kind).cloned().collect()
    };
    let at = path.child("conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        if of(status, kind).len() < of(before, kind).len() {
            errs.forbidden(at, format!("updates may not remove a condition of type \"{kind}\""));
        }
    }
    if endpoint != Endpoint::Approval {
        for kind in ["Approved", "Denied"] {
            let (now, was) = (of(status, kind), of(before, kind));
            if now.len() > was.len() {
                errs.forbidden(at, format!("updates may not add a condition of type \"{kind}\""));
            } else if now.len() == was.len() && now != was {
                let ty = Ty::List(&Ty::Struct(printed::CERTIFICATE_SIGNING_REQUEST_CONDITION));
                let (now, was) = (Value::from(now), Value::from(was));
                let difference =
                    diff::unified(&printed::pretty(ty, &was), &printed::pretty(ty, &now));
                let detail =
                    format!("updates may not modify a condition of type \"{kind}\"\n{difference}");
                errs.forbidden(at, detail);
            }
        }
    }
    let (certificate, was) = (status.text("certificate"), before.text("certificate"));
    if certificate != was {
        if endpoint != Endpoint::Status {
            let detail = "updates may not set certificate content";
            errs.forbidden(path.child("certificate"), detail);
        } else if !was.is_empty() {
            let detail = "updates may not modify existing certificate content";
            errs.forbidden(path.child("certificate"), detail);
        }
    }
    builtin_update(errs, new, old);
}

fn trust_bundle(errs: &mut Errors, bundle: &Value, old: Option<&Value>) {
    let spec = bundle.at("spec");
    let signer = spec.text("signerName");
    let meta = bundle.at("metadata");
    let name_reasons = |name: &str, prefix: bool| trust_bundle_name(signer, name, prefix);
    crate::meta::check_create(errs, meta, false, name_reasons);
    crate::meta::check_builtin_finalizers(errs, meta);
    let path = Path::root("spec");
    if !signer.is_empty() {
        checks::signer_name(errs, path.child("signerName"), signer);
    }
    let anchors = spec.text("trustBundle");
    let changed = old.is_none_or(|old| old.at("spec").text("trustBundle") != anchors);
    if changed {
        const MAX_BYTES: usize = 1024 * 1024;
        let path = path.child("trustBundle");
        if anchors.len() > MAX_BYTES {
            errs.too_long(path, MAX_BYTES);
        } else if !is_pem(anchors.as_bytes(), "CERTIFICATE") {
            let detail = "at least one trust anchor must be provided";
            errs.invalid_printed(path, "\"<value omitted>\"", detail);
        }
    }
    if let Some(old) = old {
        builtin_update(errs, bundle, old);
        let (now, was) = (spec.at("signerName"), old.at("spec").at("signerName"));
        if !printed::same(Ty::Str, now, was) {
            let shown = Printed(Ty::Str, now);
            errs.invalid_printed(path.child("signerName"), shown, checks::IMMUTABLE);
        }
    }
}
