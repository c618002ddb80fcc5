//! The CertificateSigningRequest controllers: approve the certificates of kubelets, sign what is
//! approved, and delete old requests.
//!
//! The signers are those of `kube-controller-manager`, all with the certificate authority of the API
//! server: its clients authenticate with what they sign. Other signers are left to other
//! controllers.

mod cleaner;
mod policy;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::{Action, BoxError, Context, Manager, Reconciler, Result};
use evenkeel_pki::certificates::{Authority, SigningPolicy};
use evenkeel_pki::x509::CertificateRequest;
use k8s_openapi::ByteString;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;

use crate::options::ClusterOptions;
use crate::pods;

pub(crate) use self::cleaner::{CLEANER, register_cleaner};

/// The name of the approver in `kube-controller-manager`.
pub(crate) const APPROVER: &str = "certificatesigningrequest-approving-controller";
/// The name of the signer in `kube-controller-manager`.
pub(crate) const SIGNER: &str = "certificatesigningrequest-signing-controller";

/// How long certificates are valid at most: `--cluster-signing-duration`.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long certificates are valid at least.
const MIN_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Registers the approver.
pub(crate) fn register_approver(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager.controller(Approver).named(APPROVER).workers(5).register()?;
    Ok(())
}

/// Registers the signer, if there is a certificate authority.
pub(crate) fn register_signer(manager: &Manager, options: &ClusterOptions) -> Result<(), BoxError> {
    if let Some(authority) = options.certificate_authority.clone() {
        manager.controller(Signer { authority }).named(SIGNER).workers(5).register()?;
    }
    Ok(())
}

struct Approver;

impl Reconciler for Approver {
    type Object = CertificateSigningRequest;

    async fn reconcile(&self, cx: &Context<CertificateSigningRequest>) -> Result<Action> {
        let Some(request) = cx.object().filter(|request| !is_issued(request)) else {
            return Ok(Action::done());
        };
        if has(&request, "Approved") || has(&request, "Denied") {
            return Ok(Action::done());
        }
        let parsed = CertificateRequest::from_pem(&request.spec.request.0)?;
        let spec = &request.spec;
        if policy::check_kubelet_client(&parsed, spec).is_err() {
            return Ok(Action::done());
        }
        let own = spec.username.as_deref() == Some(parsed.common_name());
        let permissions = [
            (
                own,
                "selfnodeclient",
                "Auto approving self kubelet client certificate after SubjectAccessReview.",
            ),
            (
                true,
                "nodeclient",
                "Auto approving kubelet client certificate after SubjectAccessReview.",
            ),
        ];
        for (_, subresource, message) in permissions.into_iter().filter(|(applies, ..)| *applies) {
            if is_authorized(cx, spec, subresource).await? {
                let mut next = (*request).clone();
                add_condition(cx, &mut next, "Approved", "AutoApproved", message);
                cx.client()
                    .subresource::<CertificateSigningRequest>(cx.key(), "approval")
                    .update(&next)
                    .await?;
                return Ok(Action::done());
            }
        }
        Ok(Action::done())
    }
}

/// Returns whether the requestor may create requests of this kind for nodes.
async fn is_authorized(
    cx: &Context<CertificateSigningRequest>,
    spec: &CertificateSigningRequestSpec,
    subresource: &str,
) -> Result<bool> {
    let review = SubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SubjectAccessReviewSpec {
            user: spec.username.clone(),
            uid: spec.uid.clone(),
            groups: spec.groups.clone(),
            extra: spec.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                group: Some("certificates.k8s.io".to_owned()),
                resource: Some("certificatesigningrequests".to_owned()),
                subresource: Some(subresource.to_owned()),
                verb: Some("create".to_owned()),
                version: Some("*".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        status: None,
    };
    let reviews: Api<SubjectAccessReview> = Api::all(cx.client().kube().clone());
    let review = reviews.create(&PostParams::default(), &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

struct Signer {
    authority: Arc<Authority>,
}

impl Reconciler for Signer {
    type Object = CertificateSigningRequest;

    async fn reconcile(&self, cx: &Context<CertificateSigningRequest>) -> Result<Action> {
        let Some(request) = cx.object().filter(|request| !is_issued(request)) else {
            return Ok(Action::done());
        };
        if !has(&request, "Approved") || has(&request, "Denied") || has(&request, "Failed") {
            return Ok(Action::done());
        }
        let spec = &request.spec;
        let parsed = CertificateRequest::from_pem(&spec.request.0)?;
        let mut next = (*request).clone();
        match policy::check(&parsed, spec) {
            None => return Ok(Action::done()),
            Some(Err(why)) => {
                add_condition(cx, &mut next, "Failed", "SignerValidationFailure", &why);
            }
            Some(Ok(())) => {
                let certificate = self.authority.sign(
                    &parsed,
                    &SigningPolicy {
                        now_unix: cx.clock().now().as_second().unsigned_abs(),
                        lifetime: lifetime(spec.expiration_seconds),
                        usages: spec.usages.as_deref().unwrap_or_default(),
                        unique: request.metadata.uid.as_deref().unwrap_or_default(),
                    },
                )?;
                let certificate = ByteString(certificate.into_bytes());
                next.status.get_or_insert_default().certificate = Some(certificate);
            }
        }
        cx.client()
            .subresource::<CertificateSigningRequest>(cx.key(), "status")
            .update(&next)
            .await?;
        Ok(Action::done())
    }
}

fn lifetime(seconds: Option<i32>) -> Duration {
    let requested = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    requested.map_or(LIFETIME, |seconds| Duration::from_secs(seconds).clamp(MIN_LIFETIME, LIFETIME))
}

fn is_issued(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    certificate.is_some_and(|certificate| !certificate.0.is_empty())
}

fn conditions(
    request: &CertificateSigningRequest,
) -> impl Iterator<Item = &CertificateSigningRequestCondition> {
    request.status.iter().flat_map(|status| status.conditions.iter().flatten())
}

fn has(request: &CertificateSigningRequest, type_: &str) -> bool {
    conditions(request).any(|condition| condition.type_ == type_ && condition.status == "True")
}

fn add_condition(
    cx: &Context<CertificateSigningRequest>,
    request: &mut CertificateSigningRequest,
    type_: &str,
    reason: &str,
    message: &str,
) {
    let conditions = request.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.push(CertificateSigningRequestCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(pods::timestamp(cx.clock())),
        last_transition_time: None,
    });
}
