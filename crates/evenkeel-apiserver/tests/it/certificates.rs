//! Admission of CertificateSigningRequests: who may approve, sign and request what.

use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::identity::Identity;
use http::Method;
use serde_json::{Value, json};

use crate::harness::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN=bob/O=dev
pub(crate) const OF_DEV: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWE1INENBUUF3SERFTU1Bb0dBMVVF\
    QXd3RFltOWlNUXd3Q2dZRFZRUUtEQU5rWlhZd1dUQVRCZ2NxaGtqTwpQUUlCQmdncWhrak9QUU1CQndO\
    Q0FBUlBKd0g1VlRheTdEZ3dPQWFueExlNnh4UWh4ZDRVOHQ2L25sL0ZiV1B4Cm9MWitITTUwalRUNE8w\
    KzlYY0NxZTlpclAwRDJHVnVoN1MyNjg2a1lvT0Zrb0FBd0NnWUlLb1pJemowRUF3SUQKU1FBd1JnSWhB\
    T0ZRZ2U1QkJmVnF6SWFuNlJpcDNLZVpsRXh4Mm1OMzFhMldtQlk4TGJJbkFpRUF0RDBwR1FhNApnU1Uw\
    MHNPclhJMHlxbE52bGZXUFNRYTdiL0pzdzdMQUV4Yz0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVT\
    VC0tLS0tCg==";

/// The same with /CN=bob/O=system:masters.
const OF_MASTERS: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIaE1JR0pBZ0VBTUNjeEREQUtCZ05W\
    QkFNTUEySnZZakVYTUJVR0ExVUVDZ3dPYzNsemRHVnRPbTFoYzNSbApjbk13V1RBVEJnY3Foa2pPUFFJ\
    QkJnZ3Foa2pPUFFNQkJ3TkNBQVFISUdFdmtTYzNDb3ArMlVtaDFrb2dwazAwCmlYNWxXTW1EeWVieEtR\
    L1MrdlhpVEk5a2tLekFkYU1pbWsvS2NaRjk3QWRqUnMxY0dCR2ZoNWFIY1R5UG9BQXcKQ2dZSUtvWkl6\
    ajBFQXdJRFJ3QXdSQUlnUXZFUmhFVWZSb1RmSENUb21mOUVqOFJZTzMwUkZFNnB2V2FGTjhpRApseWND\
    SUc5d3RJc3JtdVZNVjl4S0JDdllzMTEyb1pnS0ZZT2RlaGZkMG1SUHJkai8KLS0tLS1FTkQgQ0VSVElG\
    SUNBVEUgUkVRVUVTVC0tLS0tCg==";

fn request(pem: &str, signer: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "r"},
        "spec": {"request": pem, "signerName": signer, "usages": ["client auth"]},
    })
}

/// Starts a server on which bob may update requests, but has no permission for signers.
async fn cluster() -> Cluster {
    let cluster = Cluster::built(ApiServer::builder().seed(1).rbac()).await;
    let rules = json!([{
        "verbs": ["get", "update"], "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests", "certificatesigningrequests/approval",
            "certificatesigningrequests/status"],
    }]);
    grant(&cluster, "updater", rules).await;
    cluster
        .post(REQUESTS, request(OF_DEV, "kubernetes.io/kube-apiserver-client"))
        .await
        .expect(201);
    cluster
}

async fn grant(cluster: &Cluster, name: &str, rules: Value) {
    let role = json!({"metadata": {"name": name}, "rules": rules});
    cluster.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
    });
    cluster.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

async fn update_as_bob(cluster: &Cluster, subresource: &str, status: Value) -> TestResponse {
    let mut request = cluster.get(&format!("{REQUESTS}/r")).await.expect(200);
    request["status"] = status;
    let bob = cluster.server.service_as(Identity::authenticated("bob", ["dev"]));
    let path = format!("{REQUESTS}/r/{subresource}");
    let headers = [("content-type", "application/json")];
    send(bob, Method::PUT, &path, &headers, request.to_string()).await
}

fn approved() -> Value {
    json!({"conditions": [{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]})
}

#[tokio::test(start_paused = true)]
async fn approval_needs_the_approve_verb_for_the_signer() {
    let cluster = cluster().await;
    update_as_bob(&cluster, "approval", approved()).await.expect_error(
        403,
        "Forbidden",
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to \
         approve requests with signerName \"kubernetes.io/kube-apiserver-client\"",
    );
    let rules = json!([{
        "verbs": ["approve"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": ["kubernetes.io/*"],
    }]);
    grant(&cluster, "approver", rules).await;
    update_as_bob(&cluster, "approval", approved()).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn signing_needs_the_sign_verb_for_the_signer() {
    let cluster = cluster().await;
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "R"}]});
    update_as_bob(&cluster, "status", failed.clone()).await.expect_error(
        403,
        "Forbidden",
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to \
         sign requests with signerName \"kubernetes.io/kube-apiserver-client\"",
    );
    // An update that changes neither the certificate nor the conditions is not a signature.
    update_as_bob(&cluster, "status", json!({})).await.expect(200);
    let rules = json!([{
        "verbs": ["sign"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": ["kubernetes.io/kube-apiserver-client"],
    }]);
    grant(&cluster, "signer", rules).await;
    update_as_bob(&cluster, "status", failed).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn membership_of_system_masters_cannot_be_requested() {
    let cluster = Cluster::new().await;
    let signer = "kubernetes.io/kube-apiserver-client";
    cluster.post(REQUESTS, request(OF_MASTERS, signer)).await.expect_error(
        403,
        "Forbidden",
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of \
         kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
    );
    // Other signers decide by themselves.
    cluster.post(REQUESTS, request(OF_MASTERS, "example.com/any")).await.expect(201);
}
