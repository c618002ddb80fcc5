//! Validates projected volumes.

use std::collections::HashSet;

use evenkeel_schema::metadata;
use serde_json::Value;

use super::super::printed::{self, Printed, Ty};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::{checks, env};
use super::key_path;
use super::sources::{file_mode, local_path};
use crate::names;

const CONFLICT: &str = "conflicting duplicate paths";

/// Paths in the volume that earlier sources use.
struct UsedPaths<'a>(HashSet<&'a str>);

impl<'a> UsedPaths<'a> {
    /// Adds a path. `reported` is what upstream prints if another source already uses it.
    fn add(&mut self, errs: &mut Errors, path: Path<'_>, target: &'a str, reported: &str) {
        if !self.0.insert(target) {
            errs.invalid(path, reported, CONFLICT);
        }
    }
}

pub(super) fn projected(errs: &mut Errors, path: Path<'_>, source: &Value) {
    file_mode(errs, path.child("defaultMode"), source.int("defaultMode"));
    let mut used_paths = UsedPaths(HashSet::new());
    for (i, source) in source.list("sources").iter().enumerate() {
        let sources = path.child("sources");
        let at = sources.index(i);
        let mut found = 0;
        for kind in ["secret", "configMap"] {
            let object = source.at(kind);
            if object.is_null() {
                continue;
            }
            found += 1;
            let at = at.child(kind);
            checks::required_text(errs, at, object, "name");
            for (j, item) in object.list("items").iter().enumerate() {
                key_path(errs, at.child("items").index(j), item);
                let target = item.text("path");
                if !target.is_empty() {
                    used_paths.add(errs, path, target, object.text("name"));
                }
            }
        }
        let downward = source.at("downwardAPI");
        if !downward.is_null() {
            found += 1;
            for file in downward.list("items") {
                downward_api_file(errs, at.child("downwardAPI"), file);
                let target = file.text("path");
                if !target.is_empty() {
                    used_paths.add(errs, path, target, target);
                }
            }
        }
        let token = source.at("serviceAccountToken");
        if !token.is_null() {
            found += 1;
            token_expiration(errs, at.child("serviceAccountToken"), token);
            let target = token.text("path");
            if target.is_empty() {
                errs.required(path.child("path"), "");
            } else {
                local_path(errs, path.child("path"), target);
            }
        }
        let bundle = source.at("clusterTrustBundle");
        if !bundle.is_null() {
            found += 1;
            trust_bundle(errs, at.child("clusterTrustBundle"), bundle);
            let target = bundle.text("path");
            used_paths.add(errs, path, target, target);
        }
        let certificate = source.at("podCertificate");
        if !certificate.is_null() {
            found += 1;
            pod_certificate(errs, path, at.child("podCertificate"), certificate, &mut used_paths);
        }
        if found > 1 {
            errs.forbidden(at, "may not specify more than 1 volume type per source");
        }
    }
}

/// Validates the expiration of a token: at least ten minutes.
pub(in crate::validate) fn token_expiration(errs: &mut Errors, path: Path<'_>, token: &Value) {
    let seconds = token.num("expirationSeconds");
    let path = path.child("expirationSeconds");
    if seconds < 10 * 60 {
        errs.invalid(path, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > 1 << 32 {
        errs.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds");
    }
}

pub(super) fn downward_api_file(errs: &mut Errors, path: Path<'_>, file: &Value) {
    checks::required_text(errs, path, file, "path");
    local_path(errs, path.child("path"), file.text("path"));
    let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
    if !field.is_null() {
        env::field_selector(errs, path.child("fieldRef"), field, env::VOLUME_FIELDS);
        if !resource.is_null() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errs.invalid(path, "resource", detail);
        }
    } else if !resource.is_null() {
        env::resource_selector(errs, path.child("resourceFieldRef"), resource, true);
    } else {
        errs.required(path, "one of fieldRef and resourceFieldRef is required");
    }
    file_mode(errs, path.child("mode"), file.int("mode"));
}

fn trust_bundle(errs: &mut Errors, path: Path<'_>, bundle: &Value) {
    match (bundle.text_opt("name"), bundle.text_opt("signerName")) {
        (Some(_), Some(_)) => {
            let shown = Printed(Ty::Struct(printed::CLUSTER_TRUST_BUNDLE_PROJECTION), bundle);
            errs.invalid_printed(path, shown, "only one of name and signerName may be used");
        }
        (Some(name), None) => {
            if name.is_empty() {
                errs.required(path.child("name"), "must be a valid object name");
            }
            let signer = name.rsplit_once(':').map(|(signer, _)| signer.replace(':', "/"));
            for reason in trust_bundle_name(signer.as_deref().unwrap_or_default(), name, false) {
                let detail = format!("not a valid clustertrustbundlename: {reason}");
                errs.invalid(path.child("name"), name, detail);
            }
            let selector = bundle.at("labelSelector");
            if !selector.is_null() {
                let detail = "labelSelector must be unset if name is specified";
                let shown = printed::label_selector(selector);
                errs.invalid_printed(path.child("labelSelector"), shown, detail);
            }
        }
        (None, Some(signer)) => {
            let path = path.child("signerName");
            if signer.is_empty() {
                errs.required(path, "must be a valid signer name");
            }
            checks::signer_name(errs, path, signer);
        }
        (None, None) => errs.required(path, "either name or signerName must be specified"),
    }
    if !bundle.has("name") && bundle.has("signerName") {
        let selector = bundle.at("labelSelector");
        let values = checks::SelectorValues::Validated;
        checks::label_selector(errs, path.child("labelSelector"), selector, values);
    }
    checks::required_text(errs, path, bundle, "path");
    local_path(errs, path.child("path"), bundle.text("path"));
}

/// Validates the name of a trust bundle, which starts with the name of its signer.
pub(in crate::validate) fn trust_bundle_name(
    signer: &str,
    name: &str,
    prefix: bool,
) -> names::Reasons {
    let rule = names::NameRule::Subdomain;
    if signer.is_empty() {
        if name.contains(':') {
            let reason = "ClusterTrustBundle without signer name must not have \":\" in its name";
            return vec![reason.into()];
        }
        return rule.check(name, prefix);
    }
    let required = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(required.as_str()) {
        Some(rest) => rule.check(rest, prefix),
        None => vec![
            format!(
                "ClusterTrustBundle for signerName {signer} must be named with prefix {required}"
            )
            .into(),
        ],
    }
}

fn pod_certificate<'a>(
    errs: &mut Errors,
    volume: Path<'_>,
    path: Path<'_>,
    certificate: &'a Value,
    used_paths: &mut UsedPaths<'a>,
) {
    let signer = certificate.text("signerName");
    checks::signer_name(errs, path.child("signerName"), signer);
    user_annotations(errs, path.child("userAnnotations"), certificate.at("userAnnotations"));
    const KEY_TYPES: &[&str] =
        &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    let key_type = certificate.text("keyType");
    if !KEY_TYPES.contains(&key_type) {
        errs.not_supported(path.child("keyType"), key_type, KEY_TYPES);
    }
    if let Some(seconds) = certificate.int("maxExpirationSeconds") {
        let path = path.child("maxExpirationSeconds");
        if seconds < 3600 {
            errs.invalid(path, seconds, "if provided, maxExpirationSeconds must be >= 3600");
        }
        let domain = signer.split('/').next().unwrap_or_default();
        let kubernetes = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
        let max = if kubernetes { 86_400 } else { 91 * 86_400 };
        if seconds > max {
            let detail = format!("if provided, maxExpirationSeconds must be <= {max}");
            errs.invalid(path, seconds, detail);
        }
    }
    let mut found = false;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let target = certificate.text(field);
        if !target.is_empty() {
            found = true;
            local_path(errs, path.child(field), target);
            used_paths.add(errs, volume, target, target);
        }
    }
    if !found {
        let detail =
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errs.required(path, detail);
    }
}

fn user_annotations(errs: &mut Errors, path: Path<'_>, annotations: &Value) {
    for (key, _) in annotations.as_object().into_iter().flatten() {
        let key = key.to_lowercase();
        let reasons = names::qualified_name(&key);
        if key.is_empty() {
            errs.required(path, "");
        } else if !reasons.is_empty() {
            errs.reasons(path, &key, reasons);
        } else if !key.contains('/') {
            let detail = "must be a domain-prefixed key (such as \"acme.io/foo\")";
            errs.invalid(path, key, detail);
        }
    }
    metadata::check_annotations_size(annotations, path, errs.list());
}
