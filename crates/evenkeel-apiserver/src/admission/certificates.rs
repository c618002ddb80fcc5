//! `CertificateApproval`, `CertificateSigning` and `CertificateSubjectRestriction`: which
//! CertificateSigningRequests a user may approve, sign and create.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_pki::x509::CertificateRequest;
use evenkeel_types::go::Quoted;
use serde_json::Value;

use crate::authz::{self, ResourceAttributes};
use crate::context::{Attributes, Operation, Plugin};
use crate::identity::MASTERS;
use crate::status::Status;

pub(super) struct CertificateApproval;

pub(super) struct CertificateSigning;

pub(super) struct CertificateSubjectRestriction;

const GROUP: &str = "certificates.k8s.io";

/// The signer whose certificates authenticate clients with any name.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

impl Plugin for CertificateApproval {
    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let Some(old) = updated_request(attributes, "approval") else { return Ok(()) };
        let signer = signer(old);
        if is_authorized(attributes, "approve", signer) {
            return Ok(());
        }
        let signer = Quoted(signer);
        let why = format!("user not permitted to approve requests with signerName {signer}");
        Err(attributes.forbidden(&why))
    }
}

impl Plugin for CertificateSigning {
    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let Some(old) = updated_request(attributes, "status") else { return Ok(()) };
        let new = attributes.object.as_deref().unwrap_or(&Value::Null);
        let changes = ["/status/certificate", "/status/conditions"]
            .iter()
            .any(|pointer| old.pointer(pointer) != new.pointer(pointer));
        let signer = signer(old);
        if !changes || is_authorized(attributes, "sign", signer) {
            return Ok(());
        }
        let signer = Quoted(signer);
        let why = format!("user not permitted to sign requests with signerName {signer}");
        Err(attributes.forbidden(&why))
    }
}

impl Plugin for CertificateSubjectRestriction {
    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let applies = attributes.operation == Operation::Create && is_request(attributes, None);
        let request = attributes.object.as_deref().filter(|_| applies);
        let Some(request) = request.filter(|request| signer(request) == CLIENT_SIGNER) else {
            return Ok(());
        };
        let encoded = request.pointer("/spec/request").and_then(Value::as_str).unwrap_or_default();
        let pem = STANDARD.decode(encoded).unwrap_or_default();
        let parsed = CertificateRequest::from_pem(&pem)
            .map_err(|error| attributes.forbidden(&format!("failed to parse CSR: {error}")))?;
        if parsed.organizations().iter().any(|organization| organization == MASTERS) {
            let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
            return Err(attributes.forbidden(&why));
        }
        Ok(())
    }
}

fn is_request(attributes: &Attributes<'_>, subresource: Option<&str>) -> bool {
    let cx = attributes.cx;
    cx.resource.is(GROUP, "certificatesigningrequests") && cx.subresource.as_deref() == subresource
}

/// Returns the stored request of an update of a subresource.
fn updated_request<'a>(attributes: &Attributes<'a>, subresource: &str) -> Option<&'a Value> {
    let applies = attributes.operation == Operation::Update;
    attributes.old.filter(|_| applies && is_request(attributes, Some(subresource)))
}

fn signer(request: &Value) -> &str {
    request.pointer("/spec/signerName").and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether the user has a permission for a signer, by its name or for its whole domain.
fn is_authorized(attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let core = &attributes.cx.core;
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    let [own, all] = [signer, &domain].map(|name| authz::Attributes {
        user: &attributes.cx.identity,
        verb,
        path: "",
        resource: Some(ResourceAttributes {
            group: GROUP,
            version: "*",
            resource: "signers",
            name,
            ..ResourceAttributes::default()
        }),
    });
    let allowed = core.decide_optional(&own) || core.decide_optional(&all);
    if !allowed {
        core.record_access(&own, false);
    }
    allowed
}
