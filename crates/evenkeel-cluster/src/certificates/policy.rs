//! What each signer requires of a request.

use std::collections::BTreeSet;

use evenkeel_pki::x509::CertificateRequest;
use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;

const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// Checks a request by the rules of its signer; `None` if another controller signs it.
pub(super) fn check(
    request: &CertificateRequest,
    spec: &CertificateSigningRequestSpec,
) -> Option<Result<(), String>> {
    Some(match spec.signer_name.as_str() {
        "kubernetes.io/kube-apiserver-client" => check_client_usages(spec),
        KUBELET_CLIENT => check_kubelet_client(request, spec),
        "kubernetes.io/kubelet-serving" => check_kubelet_serving(request, spec),
        "kubernetes.io/legacy-unknown" => Ok(()),
        _ => return None,
    })
}

fn usages(spec: &CertificateSigningRequestSpec) -> BTreeSet<&str> {
    spec.usages.iter().flatten().map(String::as_str).collect()
}

fn check_client_usages(spec: &CertificateSigningRequestSpec) -> Result<(), String> {
    let usages = spec.usages.as_deref().unwrap_or_default();
    let allowed = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.iter().any(|usage| usage == "client auth") {
        return Err("missing required usage for client certificate: client auth".to_owned());
    }
    Ok(())
}

/// Checks that the usages are the one of this certificate with a digital signature, and optionally
/// the encipherment of keys, which only RSA needs.
fn check_usages(spec: &CertificateSigningRequestSpec, of: &'static str) -> Result<(), String> {
    let all = BTreeSet::from(["digital signature", "key encipherment", of]);
    let without_rsa = BTreeSet::from(["digital signature", of]);
    let usages = usages(spec);
    if usages == all || usages == without_rsa {
        return Ok(());
    }
    let all: Vec<&str> = all.into_iter().collect();
    Err(format!("usages did not match [{}]", all.join(" ")))
}

fn check_organization(request: &CertificateRequest) -> Result<(), String> {
    match request.organizations() {
        [one] if one == "system:nodes" => Ok(()),
        _ => Err("subject organization is not system:nodes".to_owned()),
    }
}

fn check_common_name(request: &CertificateRequest) -> Result<(), String> {
    if request.common_name().starts_with("system:node:") {
        return Ok(());
    }
    Err("subject common name does not begin with system:node:".to_owned())
}

fn refuse(is_set: bool, what: &str) -> Result<(), String> {
    if is_set { Err(format!("{what} subjectAltNames are not allowed")) } else { Ok(()) }
}

pub(super) fn check_kubelet_client(
    request: &CertificateRequest,
    spec: &CertificateSigningRequestSpec,
) -> Result<(), String> {
    if spec.signer_name != KUBELET_CLIENT {
        return Err("another signer".to_owned());
    }
    let names = &request.names;
    check_organization(request)?;
    refuse(!names.dns.is_empty(), "DNS")?;
    refuse(!names.emails.is_empty(), "Email")?;
    refuse(!names.ips.is_empty(), "IP")?;
    refuse(!names.uris.is_empty(), "URI")?;
    check_common_name(request)?;
    check_usages(spec, "client auth")
}

fn check_kubelet_serving(
    request: &CertificateRequest,
    spec: &CertificateSigningRequestSpec,
) -> Result<(), String> {
    let names = &request.names;
    check_organization(request)?;
    if names.dns.is_empty() && names.ips.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    refuse(!names.emails.is_empty(), "Email")?;
    refuse(!names.uris.is_empty(), "URI")?;
    check_usages(spec, "server auth")?;
    check_common_name(request)
}
