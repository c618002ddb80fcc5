//! The user of a request: anonymous requests, impersonation, and the attributes for authorization.

use std::sync::Arc;

use evenkeel_apiserver::identity::Identity;
use evenkeel_apiserver::{ApiServer, Attributes, Authorizer, Decision};
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::harness::{Cluster, TestResponse, send};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Sends a SelfSubjectReview with these headers.
async fn whoami(cluster: &Cluster, headers: &[(&str, &str)]) -> TestResponse {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    cluster.send(Method::POST, REVIEWS, &all, review.to_string()).await
}

async fn user(cluster: &Cluster, headers: &[(&str, &str)]) -> Value {
    whoami(cluster, headers).await.expect(201)["status"]["userInfo"].clone()
}

#[tokio::test(start_paused = true)]
async fn impersonation_headers_replace_the_user() {
    let cluster = Cluster::new().await;
    assert_eq!(user(&cluster, &[]).await["username"], "admin");
    assert_eq!(
        user(&cluster, &[("Impersonate-User", "jane")]).await,
        json!({"username": "jane", "groups": ["system:authenticated"]})
    );
    let everything = [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "u-1"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.com%2fscopes", "view"),
        ("Impersonate-Extra-Example.com%2FScopes", "edit"),
    ];
    assert_eq!(
        user(&cluster, &everything).await,
        json!({
            "username": "jane", "uid": "u-1",
            "groups": ["dev", "ops", "system:authenticated"],
            "extra": {"example.com/scopes": ["view", "edit"]},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn impersonated_service_accounts_nodes_and_anonymous_get_their_groups() {
    let cluster = Cluster::new().await;
    let groups = async |headers: &[(&str, &str)]| user(&cluster, headers).await["groups"].clone();
    assert_eq!(
        groups(&[("Impersonate-User", "system:serviceaccount:default:robot")]).await,
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    assert_eq!(
        groups(&[
            ("Impersonate-User", "system:serviceaccount:default:robot"),
            ("Impersonate-Group", "dev"),
        ])
        .await,
        json!(["dev", "system:authenticated"])
    );
    assert_eq!(
        groups(&[("Impersonate-User", "system:node:n1")]).await,
        json!(["system:nodes", "system:authenticated"])
    );
    // Not allowed by constrained impersonation, so the legacy verb is checked.
    assert_eq!(
        groups(&[("Impersonate-User", "root"), ("Impersonate-Group", "system:masters")]).await,
        json!(["system:masters", "system:authenticated"])
    );
    // The group system:unauthenticated is denied by the authorizer.
    let headers = [("Impersonate-User", "x"), ("Impersonate-Group", "system:unauthenticated")];
    assert_eq!(whoami(&cluster, &headers).await.status, 403);
}

#[tokio::test(start_paused = true)]
async fn impersonating_groups_uid_or_extra_requires_a_user() {
    let cluster = Cluster::new().await;
    let refused = async |headers: &[(&str, &str)], shown: &str| {
        let message =
            format!("requested &user.DefaultInfo{{{shown}}} without impersonating a user name");
        whoami(&cluster, headers).await.expect_error(400, "BadRequest", &message);
    };
    refused(
        &[("Impersonate-Group", "dev"), ("Impersonate-Group", "ops")],
        r#"Name:"", UID:"", Groups:[]string{"dev", "ops"}, Extra:map[string][]string(nil)"#,
    )
    .await;
    refused(
        &[("Impersonate-Uid", "1")],
        r#"Name:"", UID:"1", Groups:[]string(nil), Extra:map[string][]string(nil)"#,
    )
    .await;
    refused(
        &[("Impersonate-Extra-A", "b")],
        r#"Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"b"}}"#,
    )
    .await;
}

/// Allows requests by `allows`, and records their attributes.
#[derive(Clone)]
struct RecordingAuthorizer {
    allows: fn(&Attributes<'_>) -> bool,
    log: Arc<Mutex<Vec<String>>>,
}

impl Authorizer for RecordingAuthorizer {
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let line = match &attributes.resource {
            Some(at) => format!(
                "{} {} {}/{}/{} {}/{}",
                attributes.user.user,
                attributes.verb,
                at.group,
                at.resource,
                at.subresource,
                at.namespace,
                at.name
            ),
            None => format!("{} {} {}", attributes.user.user, attributes.verb, attributes.path),
        };
        self.log.lock().push(line);
        if (self.allows)(attributes) { Decision::Allow } else { Decision::Deny(String::new()) }
    }
}

async fn recording_cluster(allows: fn(&Attributes<'_>) -> bool) -> (Cluster, RecordingAuthorizer) {
    let authorizer = RecordingAuthorizer { allows, log: Arc::default() };
    let cluster = Cluster::built(ApiServer::builder().seed(1).authorizer(authorizer.clone())).await;
    authorizer.log.lock().clear();
    (cluster, authorizer)
}

#[tokio::test(start_paused = true)]
async fn every_part_of_an_impersonated_user_is_authorized() {
    let (cluster, authorizer) = recording_cluster(|attributes| {
        attributes.user.user != "admin" || attributes.verb == "impersonate"
    })
    .await;
    let headers = [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Extra-Scopes", "view"),
    ];
    cluster.send(Method::GET, "/api/v1/namespaces/default", &headers, "").await.expect(200);
    assert_eq!(
        *authorizer.log.lock(),
        [
            "admin impersonate-on:user-info:get /namespaces/ default/default",
            "admin impersonate /users/ /jane",
            "admin impersonate authentication.k8s.io/uids/ /1",
            "admin impersonate /groups/ /dev",
            "admin impersonate authentication.k8s.io/userextras/scopes /view",
            "jane get /namespaces/ default/default",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn forbidden_impersonation_names_the_user() {
    let (cluster, _) =
        recording_cluster(|attributes| !attributes.verb.starts_with("impersonate")).await;
    let headers = [("Impersonate-User", "jane")];
    cluster.send(Method::GET, "/api/v1/nodes", &headers, "").await.expect_error(
        403,
        "Forbidden",
        "nodes is forbidden: User \"admin\" cannot impersonate-on:user-info:list resource \"nodes\" \
         in API group \"\" at the cluster scope",
    );
    let (cluster, _) = recording_cluster(|attributes| {
        attributes.verb.starts_with("impersonate-on:") || !attributes.verb.starts_with("imp")
    })
    .await;
    cluster.send(Method::GET, "/api/v1/nodes", &headers, "").await.expect_error(
        403,
        "Forbidden",
        "users.authentication.k8s.io \"jane\" is forbidden: User \"admin\" cannot \
         impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the \
         cluster scope",
    );
}

#[tokio::test(start_paused = true)]
async fn namespace_requests_are_authorized_with_the_namespace() {
    let cluster = Cluster::new().await;
    let refused = async |path: &str, message: &str| {
        let response = cluster.send_as(Identity::anonymous(), Method::GET, path).await;
        response.expect_error(403, "Forbidden", message);
    };
    refused(
        "/api/v1/namespaces/default",
        "namespaces \"default\" is forbidden: User \"system:anonymous\" cannot get resource \
         \"namespaces\" in API group \"\" in the namespace \"default\"",
    )
    .await;
    refused(
        "/api/v1/namespaces",
        "namespaces is forbidden: User \"system:anonymous\" cannot list resource \"namespaces\" in \
         API group \"\" at the cluster scope",
    )
    .await;
    refused("/a&b", "forbidden: User \"system:anonymous\" cannot get path \"/a&amp;b\"").await;
}

#[tokio::test(start_paused = true)]
async fn requests_without_credentials_are_unauthorized_if_anonymous_auth_is_disabled() {
    let cluster = Cluster::built(ApiServer::builder().seed(1).anonymous_auth(false)).await;
    for path in ["/api/v1/pods", "/healthz"] {
        let service = cluster.server.authenticating_service();
        let response = send(service, Method::GET, path, &[], "").await;
        response.expect_error(401, "Unauthorized", "Unauthorized");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_timeout_is_rejected_first() {
    let cluster = Cluster::new().await;
    let message =
        "invalid timeout specified in the request URL - time: invalid duration \"garbage\"";
    for path in ["/api/v1/pods", "/healthz", "/api/v1/namespaces/none/pods/none"] {
        let path = format!("{path}?timeout=garbage");
        let response = cluster.send_as(Identity::anonymous(), Method::GET, &path).await;
        response.expect_error(400, "BadRequest", message);
    }
    cluster.get("/api/v1/pods?timeout=5").await.expect_error(
        400,
        "BadRequest",
        "invalid timeout specified in the request URL - time: missing unit in duration \"5\"",
    );
    for timeout in ["", "10s", "-1s", "0", "1.5h"] {
        cluster.get(&format!("/api/v1/pods?timeout={timeout}")).await.expect(200);
    }
    // The request timeout does not apply to watches.
    cluster.watch("/api/v1/pods?timeout=garbage").await;
}
