//! Validates `spec.conversion`: strategy, webhook and conversion review versions.

use std::collections::HashSet;

use evenkeel_types::base64;
use serde_json::Value;

use super::options::Options;
use super::spec::{Spec, present, text};
use crate::field::Error;
use crate::names;
use evenkeel_types::url::Url;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn check(spec: &Spec<'_>, options: &Options<'_>, errors: &mut Vec<Error>) {
    let Some(conversion) = spec.conversion else { return };
    let strategy = text(conversion, "strategy");
    if strategy != "None" && spec.preserve_unknown {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(Error::invalid("spec.conversion.strategy", strategy, detail));
    }
    match strategy {
        "" => errors.push(Error::required("spec.conversion.strategy", "")),
        "None" | "Webhook" => {}
        other => errors.push(Error::not_supported(
            "spec.conversion.strategy",
            other,
            ["None", "Webhook"],
        )),
    }
    let config = client_config(conversion);
    let reviews = review_versions(conversion);
    let config_path = "spec.conversion.webhookClientConfig";
    let reviews_path = "spec.conversion.conversionReviewVersions";
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(Error::forbidden(config_path, detail));
        }
        if !reviews.is_empty() {
            errors.push(Error::forbidden(reviews_path, detail));
        }
        return;
    }
    match config {
        None => {
            let detail = "required when strategy is set to Webhook";
            errors.push(Error::required(config_path, detail));
        }
        Some(config) => check_client(config, options, config_path, errors),
    }
    check_review_versions(
        &reviews,
        options.require_recognized_review_version,
        reviews_path,
        errors,
    );
}

fn client_config(conversion: &Value) -> Option<&Value> {
    present(present(conversion, "webhook")?, "clientConfig")
}

fn review_versions(conversion: &Value) -> Vec<&str> {
    let list = conversion.pointer("/webhook/conversionReviewVersions").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn check_client(config: &Value, options: &Options<'_>, path: &str, errors: &mut Vec<Error>) {
    let url = config.get("url").and_then(Value::as_str);
    match (url, present(config, "service")) {
        (Some(url), None) => check_url(url, &format!("{path}.url"), errors),
        (None, Some(service)) => check_service(service, &format!("{path}.service"), errors),
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
    let ca = text(config, "caBundle");
    if !ca.is_empty()
        && !options.allow_invalid_ca
        && let Some(reason) = ca_error(ca)
    {
        errors.push(Error::invalid(format!("{path}.caBundle"), ca, reason));
    }
}

fn check_url(text: &str, path: &str, errors: &mut Vec<Error>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(reason) => {
            let detail = format!("url must be a valid URL: {reason}{FORM}");
            errors.push(Error::required(path, detail));
            return;
        }
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(Error::invalid(path, &*url.scheme, detail));
    }
    if url.host.is_empty() {
        errors.push(Error::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = url.user {
        let detail = "user information is not permitted in the URL";
        errors.push(Error::invalid(path, user, detail));
    }
    for (part, what) in [(url.fragment, "fragments"), (url.query, "query parameters")] {
        if !part.is_empty() {
            let detail = format!("{what} are not permitted in the URL");
            errors.push(Error::invalid(path, part, detail));
        }
    }
}

fn check_service(service: &Value, path: &str, errors: &mut Vec<Error>) {
    // Upstream swaps the two fields, so each error is reported under the path of the other.
    for (key, reported) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, key).is_empty() {
            errors.push(Error::required(format!("{path}.{reported}"), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(format!("{path}.port"), port, detail));
    }
    let url_path = text(service, "path");
    if matches!(url_path, "" | "/") {
        return;
    }
    let at = format!("{path}.path");
    if url_path == "//" {
        errors.push(Error::invalid(at, url_path, "segment[0] may not be empty"));
        return;
    }
    if !url_path.starts_with('/') {
        errors.push(Error::invalid(&*at, url_path, "must start with a '/'"));
    }
    // Upstream removes the first byte without checking that it is a slash.
    let steps = url_path.char_indices().nth(1).map_or("", |(second, _)| &url_path[second..]);
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (i, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            let detail = format!("segment[{i}] may not be empty");
            errors.push(Error::invalid(&*at, url_path, detail));
            continue;
        }
        for wrong in names::dns1123_subdomain(step) {
            let detail = format!("segment[{i}]: {wrong}");
            errors.push(Error::invalid(&*at, url_path, detail));
        }
    }
}

fn check_review_versions(versions: &[&str], recognized: bool, path: &str, errors: &mut Vec<Error>) {
    if versions.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (i, version) in versions.iter().enumerate() {
        let at = format!("{path}[{i}]");
        if !seen.insert(version) {
            errors.push(Error::invalid(at, *version, "duplicate version"));
            continue;
        }
        for wrong in names::dns1035_label(version) {
            errors.push(Error::invalid(&*at, *version, wrong));
        }
    }
    if recognized && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(Error::invalid(path, versions.to_vec(), detail));
    }
}

pub(super) fn has_recognized_review_version(spec: &Spec<'_>) -> bool {
    let versions = spec.conversion.map(review_versions).unwrap_or_default();
    versions.is_empty() || versions.iter().any(|version| REVIEW_VERSIONS.contains(version))
}

pub(super) fn has_invalid_ca(spec: &Spec<'_>) -> bool {
    let config = spec.conversion.and_then(client_config);
    let ca = config.map_or("", |config| text(config, "caBundle"));
    !ca.is_empty() && ca_error(ca).is_some()
}

/// Returns why the CA bundle (base64 of PEM) is invalid. Certificates are not parsed.
fn ca_error(bundle: &str) -> Option<&'static str> {
    // The header may follow other lines, which shifts its base64 alignment, so the bundle is
    // decoded before searching for "-----BEGIN CERTIFICATE".
    let has_block = base64::decode(bundle).is_ok_and(|bytes| {
        bytes.windows(27).any(|window| window == b"-----BEGIN CERTIFICATE-----")
    });
    (!has_block).then_some("unable to load root certificates: unable to parse bytes as PEM block")
}
