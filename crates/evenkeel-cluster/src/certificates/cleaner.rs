//! Deletes old CertificateSigningRequests.

use std::time::Duration;

use evenkeel::{Action, BoxError, Context, Manager, Reconciler, Result};
use evenkeel_pki::x509;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

use super::{conditions, is_issued};
use crate::options::ClusterOptions;

/// The name in `kube-controller-manager`.
pub(crate) const CLEANER: &str = "certificatesigningrequest-cleaner-controller";

/// How long a request is kept after its certificate was issued, or it was denied or failed.
const DONE: Duration = Duration::from_secs(60 * 60);
/// How long a request is kept that waits for its approval or its certificate.
const PENDING: Duration = Duration::from_secs(24 * 60 * 60);

/// Registers the controller.
pub(crate) fn register_cleaner(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager.controller(Cleaner).named(CLEANER).register()?;
    Ok(())
}

struct Cleaner;

impl Reconciler for Cleaner {
    type Object = CertificateSigningRequest;

    async fn reconcile(&self, cx: &Context<CertificateSigningRequest>) -> Result<Action> {
        let Some(request) = cx.object() else { return Ok(Action::done()) };
        let Some(due) = deadline(&request) else { return Ok(Action::done()) };
        let left = due.duration_since(cx.clock().now());
        match Duration::try_from(left) {
            Ok(left) if !left.is_zero() => Ok(Action::requeue_after(left)),
            _ => match cx.client().delete(&*request).await {
                Err(error) if !error.is_not_found() => Err(error.into()),
                _ => Ok(Action::done()),
            },
        }
    }
}

/// Returns when a request is deleted: upstream looks every hour, so there it may take an hour more.
fn deadline(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let issued = is_issued(request);
    let after = |time: Timestamp, period: Duration| time.checked_add(period).ok();
    let done = conditions(request).filter_map(|condition| {
        let time = condition.last_update_time.as_ref()?.0;
        match condition.type_.as_str() {
            "Denied" | "Failed" => after(time, DONE),
            "Approved" => after(time, if issued { DONE } else { PENDING }),
            _ => None,
        }
    });
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    let expired = certificate.and_then(|certificate| {
        let end = *x509::validity_of_pem(&certificate.0)?.end();
        Timestamp::from_second(i64::try_from(end).ok()?).ok()
    });
    let pending = request.metadata.creation_timestamp.as_ref();
    let pending = pending.filter(|_| conditions(request).next().is_none());
    let pending = pending.and_then(|created| after(created.0, PENDING));
    done.chain(expired).chain(pending).min()
}
