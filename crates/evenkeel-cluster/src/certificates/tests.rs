//! Requests are approved, signed, failed and deleted as in kube-controller-manager.

use std::time::Duration;

use evenkeel::Key;
use evenkeel_pki::x509;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::{APPROVER, CLEANER, SIGNER};
use crate::Cluster;
use crate::testing::{cluster, object, until, until_deleted};

/// openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=bob/O=dev/O=ops
const OF_BOB: &str = include_str!("bob.pem");
/// The same with -subj /CN=system:node:n/O=system:nodes
const OF_NODE: &str = include_str!("node.pem");

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

async fn request(cluster: &Cluster, pem: &str, signer: &str, usages: Value) -> Key {
    let encoded = k8s_openapi::ByteString(pem.as_bytes().to_vec());
    let api: Api<CertificateSigningRequest> = Api::all(cluster.client());
    let request = object(json!({
        "metadata": {"name": "r"},
        "spec": {
            "request": encoded, "signerName": signer, "usages": usages, "expirationSeconds": 3600,
        },
    }));
    api.create(&PostParams::default(), &request).await.unwrap();
    Key::cluster("r")
}

async fn decide(cluster: &Cluster, condition: &str) {
    let api: Api<CertificateSigningRequest> = Api::all(cluster.client());
    let patch = Patch::Merge(json!({"status": {"conditions": [
        {"type": condition, "status": "True", "reason": "Test", "lastUpdateTime": "2026-01-01T00:00:00Z"},
    ]}}));
    api.patch_subresource("approval", "r", &PatchParams::default(), &patch).await.unwrap();
}

fn certificate(request: &CertificateSigningRequest) -> Option<CertificateDer<'static>> {
    let certificate = request.status.as_ref()?.certificate.as_ref()?;
    CertificateDer::from_pem_slice(&certificate.0).ok()
}

#[tokio::test(start_paused = true)]
async fn an_approved_request_is_signed_for_its_subject() {
    let cluster = cluster(&[SIGNER]).await;
    let key = request(&cluster, OF_BOB, CLIENT, json!(["client auth"])).await;
    decide(&cluster, "Approved").await;
    let signed =
        until::<CertificateSigningRequest>(&cluster, &key, |r| certificate(r).is_some()).await;
    let certificate = certificate(&signed).unwrap();
    let user = x509::user(&certificate).unwrap().unwrap();
    assert_eq!((user.name.as_str(), &user.groups[..]), ("bob", &["dev".into(), "ops".into()][..]));
    let validity = x509::validity(&certificate).unwrap();
    // An hour, backdated by five minutes.
    assert_eq!(validity.end() - validity.start(), 3900);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_its_signer_does_not_sign_fails() {
    let cluster = cluster(&[SIGNER]).await;
    let key = request(&cluster, OF_BOB, CLIENT, json!(["server auth"])).await;
    decide(&cluster, "Approved").await;
    let failed = |request: &CertificateSigningRequest| {
        let failed = super::conditions(request).find(|condition| condition.type_ == "Failed");
        failed.and_then(|failed| failed.message.clone())
    };
    let request =
        until::<CertificateSigningRequest>(&cluster, &key, |request| failed(request).is_some())
            .await;
    assert_eq!(failed(&request).unwrap(), "invalid usage for client certificate: server auth");
}

#[tokio::test(start_paused = true)]
async fn client_certificates_of_kubelets_are_approved() {
    let cluster = cluster(&[APPROVER, SIGNER]).await;
    let usages = json!(["digital signature", "client auth"]);
    let key = request(&cluster, OF_NODE, KUBELET_CLIENT, usages).await;
    let signed =
        until::<CertificateSigningRequest>(&cluster, &key, |r| certificate(r).is_some()).await;
    let approved = super::conditions(&signed).next().unwrap();
    assert_eq!(approved.reason.as_deref(), Some("AutoApproved"));
    assert_eq!(
        approved.message.as_deref(),
        Some("Auto approving kubelet client certificate after SubjectAccessReview.")
    );
}

#[tokio::test(start_paused = true)]
async fn old_requests_are_deleted() {
    let cluster = cluster(&[CLEANER]).await;
    let key = request(&cluster, OF_BOB, CLIENT, json!(["client auth"])).await;
    tokio::time::sleep(Duration::from_secs(23 * 3600)).await;
    let old = until::<CertificateSigningRequest>(&cluster, &key, |_| true).await;
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    until_deleted(&cluster, &old).await;
}
