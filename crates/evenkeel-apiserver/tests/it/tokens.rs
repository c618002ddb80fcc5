//! Service account tokens: requested, used, reviewed, and invalid when what they name is gone.

use std::time::Duration;

use evenkeel_apiserver::{ApiServer, ApiServerBuilder, ServiceAccountOptions};
use http::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, TestResponse, pod, send};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

async fn cluster() -> Cluster {
    let cluster = Cluster::built(ApiServer::builder().seed(1).rbac()).await;
    cluster.post(ACCOUNTS, json!({"metadata": {"name": "bob"}})).await.expect(201);
    cluster
}

async fn request(cluster: &Cluster, spec: Value) -> TestResponse {
    cluster.post(&format!("{ACCOUNTS}/bob/token"), json!({"spec": spec})).await
}

async fn token(cluster: &Cluster, spec: Value) -> String {
    let issued = request(cluster, spec).await.expect(201);
    issued["status"]["token"].as_str().unwrap().to_owned()
}

fn bound_to(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}})
}

/// Sends a request with a bearer token, through authentication.
async fn get_with(cluster: &Cluster, token: &str, path: &str) -> TestResponse {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let service = cluster.server.authenticating_service();
    send(service, Method::GET, path, &headers, String::new()).await
}

async fn review(cluster: &Cluster, token: &str, audiences: &[&str]) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    cluster.post(REVIEWS, json!({"spec": spec})).await.expect(201)["status"].clone()
}

async fn refusal(cluster: &Cluster, token: &str) -> String {
    let status = review(cluster, token, &[]).await;
    assert_eq!(get_with(cluster, token, "/api").await.status, 401, "{status}");
    assert_eq!(status["user"], json!({}));
    status["error"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_token_authenticates_as_its_service_account() {
    let cluster = cluster().await;
    let issued = request(&cluster, json!({})).await.expect(201);
    assert_eq!(issued["kind"], "TokenRequest");
    assert_eq!(issued["metadata"]["name"], "bob");
    assert_eq!(issued["metadata"]["managedFields"][0]["subresource"], "token");
    assert_eq!(
        issued["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {"f:expirationSeconds": {}}})
    );
    assert_eq!(
        issued["spec"],
        json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null})
    );
    let token = issued["status"]["token"].as_str().unwrap();
    assert_eq!(issued["status"]["expirationTimestamp"], "2026-01-01T01:00:00Z");

    let status = review(&cluster, token, &[]).await;
    let uid = cluster.get(&format!("{ACCOUNTS}/bob")).await.expect(200)["metadata"]["uid"].clone();
    let id = status["user"]["extra"]["authentication.kubernetes.io/credential-id"][0].clone();
    assert!(id.as_str().unwrap().starts_with("JTI="), "{id}");
    assert_eq!(
        status,
        json!({
            "authenticated": true,
            "user": {
                "username": "system:serviceaccount:default:bob",
                "uid": uid,
                "groups": [
                    "system:serviceaccounts", "system:serviceaccounts:default",
                    "system:authenticated",
                ],
                "extra": {"authentication.kubernetes.io/credential-id": [id]},
            },
            "audiences": [ISSUER],
        })
    );
    get_with(&cluster, token, "/api").await.expect(200);
    let denied = get_with(&cluster, token, "/api/v1/nodes").await.expect(403);
    assert_eq!(
        denied["message"],
        "nodes is forbidden: User \"system:serviceaccount:default:bob\" cannot list resource \
         \"nodes\" in API group \"\" at the cluster scope"
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_are_for_their_audiences() {
    let cluster = cluster().await;
    let vault = token(&cluster, json!({"audiences": ["vault", "x"]})).await;
    assert_eq!(
        refusal(&cluster, &vault).await,
        format!(
            "[invalid bearer token, token audiences [\"vault\" \"x\"] is invalid for the target \
             audiences [\"{ISSUER}\"]]"
        )
    );
    let status = review(&cluster, &vault, &["other", "vault"]).await;
    assert_eq!(status["audiences"], json!(["vault"]));
    let own = token(&cluster, json!({})).await;
    assert_eq!(review(&cluster, &own, &["vault"]).await.get("authenticated"), None);
}

#[tokio::test(start_paused = true)]
async fn tokens_expire() {
    let cluster = cluster().await;
    let token = token(&cluster, json!({"expirationSeconds": 600})).await;
    tokio::time::advance(Duration::from_secs(659)).await;
    get_with(&cluster, &token, "/api").await.expect(200);
    tokio::time::advance(Duration::from_secs(2)).await;
    let expected = "[invalid bearer token, service account token has expired]";
    assert_eq!(refusal(&cluster, &token).await, expected);
}

#[tokio::test(start_paused = true)]
async fn tokens_of_a_server_whose_clock_is_ahead_are_not_valid_yet() {
    let key = include_str!("../../src/tokens/fixtures/p256.pem");
    let mut options = ServiceAccountOptions::default();
    options.signing_key = Some(key.to_owned());
    let build = |options: &ServiceAccountOptions| -> ApiServerBuilder {
        ApiServer::builder().seed(1).rbac().service_accounts(options.clone())
    };
    let first = Cluster::built(build(&options)).await;
    first.post(ACCOUNTS, json!({"metadata": {"name": "bob"}})).await.expect(201);
    tokio::time::advance(Duration::from_secs(100)).await;
    let ahead = token(&first, json!({})).await;
    // Its virtual clock starts at the same date now.
    let second = Cluster::built(build(&options)).await;
    second.post(ACCOUNTS, json!({"metadata": {"name": "bob"}})).await.expect(201);
    let expected = "[invalid bearer token, service account token is not valid yet]";
    assert_eq!(refusal(&second, &ahead).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_token_dies_with_its_service_account() {
    let cluster = cluster().await;
    let token = token(&cluster, json!({})).await;
    get_with(&cluster, &token, "/api").await.expect(200);
    cluster.delete(&format!("{ACCOUNTS}/bob")).await.expect(200);
    let expected = "[invalid bearer token, serviceaccounts \"bob\" not found]";
    assert_eq!(refusal(&cluster, &token).await, expected);
    cluster.post(ACCOUNTS, json!({"metadata": {"name": "bob"}})).await.expect(201);
    let why = refusal(&cluster, &token).await;
    assert!(why.contains("service account UID ("), "{why}");
    assert!(why.contains(") does not match claim ("), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_token_dies_with_its_bound_object() {
    let cluster = cluster().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let pods = "/api/v1/namespaces/default/pods";
    let mut web = pod("web");
    web["spec"]["serviceAccountName"] = "bob".into();
    web["spec"]["nodeName"] = "n1".into();
    for (path, kind, name, object) in [
        (secrets, "Secret", "s", json!({"metadata": {"name": "s"}})),
        (pods, "Pod", "web", web),
        ("/api/v1/nodes", "Node", "n1", json!({"metadata": {"name": "n1"}})),
    ] {
        cluster.post(path, object.clone()).await.expect(201);
        let bound = token(&cluster, bound_to(kind, name)).await;
        let status = review(&cluster, &bound, &[]).await;
        let extra = |key: &str| status["user"]["extra"][key][0].as_str();
        match kind {
            "Pod" => {
                assert_eq!(extra("authentication.kubernetes.io/pod-name"), Some("web"));
                assert!(extra("authentication.kubernetes.io/pod-uid").is_some());
                // The node does not exist yet, so it has no uid.
                assert_eq!(extra("authentication.kubernetes.io/node-name"), Some("n1"));
                assert_eq!(extra("authentication.kubernetes.io/node-uid"), None);
            }
            "Node" => assert!(extra("authentication.kubernetes.io/node-uid").is_some()),
            _ => assert_eq!(status["user"]["extra"].as_object().unwrap().len(), 1),
        }
        let options = json!({"gracePeriodSeconds": 0});
        cluster.delete_with(&format!("{path}/{name}"), options).await.expect(200);
        let expected = "[invalid bearer token, service account token has been invalidated]";
        assert_eq!(refusal(&cluster, &bound).await, expected, "{kind}");
        cluster.post(path, object).await.expect(201);
        let kind = kind.to_lowercase();
        let why = refusal(&cluster, &bound).await;
        assert!(why.contains(&format!("{kind} UID (")), "{why}");
        assert!(why.contains(&format!("does not match service account {kind} ref claim (")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_pod_that_terminates_is_valid_for_another_minute() {
    let cluster = cluster().await;
    let pods = "/api/v1/namespaces/default/pods";
    let mut web = pod("web");
    web["spec"]["serviceAccountName"] = "bob".into();
    web["spec"]["nodeName"] = "n1".into();
    cluster.post(pods, web).await.expect(201);
    let bound = token(&cluster, bound_to("Pod", "web")).await;
    cluster.delete(&format!("{pods}/web")).await.expect(200);
    tokio::time::advance(Duration::from_secs(89)).await;
    get_with(&cluster, &bound, "/api").await.expect(200);
    tokio::time::advance(Duration::from_secs(2)).await;
    let expected = "[invalid bearer token, service account token has been invalidated]";
    assert_eq!(refusal(&cluster, &bound).await, expected);
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_rejected_as_upstream_does() {
    let cluster = cluster().await;
    cluster.post("/api/v1/namespaces/default/pods", pod("web")).await.expect(201);
    let path = format!("{ACCOUNTS}/bob/token");
    let uid = cluster.get(&format!("{ACCOUNTS}/bob")).await.expect(200)["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    for (body, code, message) in [
        (
            json!({"metadata": {"name": "x"}}),
            422,
            "TokenRequest.authentication.k8s.io \"bob\" is invalid: metadata.name: Invalid value: \
             \"x\": must match the service account name if specified"
                .to_owned(),
        ),
        (
            json!({"metadata": {"namespace": "other"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request"
                .to_owned(),
        ),
        (
            json!({"metadata": {"uid": "17"}}),
            409,
            format!(
                "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"bob\": the \
                 UID in the token request (17) does not match the UID of the service account ({uid})"
            ),
        ),
        (
            json!({"spec": {"expirationSeconds": 10}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid \
             value: 10: may not specify a duration less than 10 minutes"
                .to_owned(),
        ),
        (json!({"spec": bound_to("Secret", "x")}), 404, "secrets \"x\" not found".to_owned()),
        (
            json!({"spec": bound_to("ConfigMap", "x")}),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap".to_owned(),
        ),
        (
            json!({"spec": bound_to("Pod", "web")}),
            400,
            "cannot bind token for serviceaccount \"bob\" to pod running with different \
             serviceaccount name."
                .to_owned(),
        ),
    ] {
        assert_eq!(cluster.post(&path, body).await.expect(code)["message"], message);
    }
    let missing = cluster.post(&format!("{ACCOUNTS}/none/token"), json!({})).await.expect(404);
    assert_eq!(missing["message"], "serviceaccounts \"none\" not found");
}

#[tokio::test(start_paused = true)]
async fn the_lifetime_is_limited_and_that_of_pods_extended() {
    let mut options = ServiceAccountOptions::default();
    options.max_token_expiration = Some(Duration::from_secs(7200));
    let builder = ApiServer::builder().seed(1).rbac().service_accounts(options);
    let cluster = Cluster::built(builder).await;
    cluster.post(ACCOUNTS, json!({"metadata": {"name": "bob"}})).await.expect(201);
    let limited = request(&cluster, json!({"expirationSeconds": 10_000})).await;
    assert_eq!(
        limited.warnings(),
        ["299 - \"requested expiration of 10000 seconds shortened to 7200 seconds\""]
    );
    let limited = limited.expect(201);
    assert_eq!(limited["spec"]["expirationSeconds"], 7200);
    assert_eq!(limited["status"]["expirationTimestamp"], "2026-01-01T02:00:00Z");

    let mut web = pod("web");
    web["spec"]["serviceAccountName"] = "bob".into();
    cluster.post("/api/v1/namespaces/default/pods", web).await.expect(201);
    let mut spec = bound_to("Pod", "web");
    spec["expirationSeconds"] = 3607.into();
    let issued = request(&cluster, spec).await.expect(201);
    assert_eq!(issued["status"]["expirationTimestamp"], "2026-01-01T01:00:07Z");
    let token = issued["status"]["token"].as_str().unwrap();
    tokio::time::advance(Duration::from_secs(364 * 24 * 3600)).await;
    get_with(&cluster, token, "/api").await.expect(200);
    tokio::time::advance(Duration::from_secs(2 * 24 * 3600)).await;
    refusal(&cluster, token).await;
}

#[tokio::test(start_paused = true)]
async fn tokens_in_secrets_die_with_the_secret_or_the_account() {
    let cluster = cluster().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let uid = cluster.get(&format!("{ACCOUNTS}/bob")).await.expect(200)["metadata"]["uid"].clone();
    let signer = cluster.server.legacy_token_signer();
    let legacy = signer.sign("default", "bob", uid.as_str().unwrap(), "bob-token").unwrap();
    let invalidated = "[invalid bearer token, Token has been invalidated]";
    assert_eq!(refusal(&cluster, &legacy).await, invalidated, "no Secret yet");
    let secret = |token: &str| {
        json!({
            "metadata": {
                "name": "bob-token",
                "annotations": {"kubernetes.io/service-account.name": "bob"},
            },
            "type": "kubernetes.io/service-account-token",
            "stringData": {"token": token},
        })
    };
    let path = format!("{secrets}/bob-token");
    cluster.post(secrets, secret("other")).await.expect(201);
    let copy = "[invalid bearer token, Token does not match server's copy]";
    assert_eq!(refusal(&cluster, &legacy).await, copy);
    cluster.delete(&path).await.expect(200);
    cluster.post(secrets, secret(&legacy)).await.expect(201);
    let status = review(&cluster, &legacy, &[]).await;
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:bob");
    assert_eq!(status["user"].get("extra"), None);
    let since = json!({"metadata": {"labels": {
        "kubernetes.io/legacy-token-invalid-since": "2025-12-31",
    }}});
    cluster.merge(&path, since).await.expect(200);
    assert!(refusal(&cluster, &legacy).await.contains("has been marked invalid"));
    cluster.merge(&path, json!({"metadata": {"labels": null}})).await.expect(200);
    get_with(&cluster, &legacy, "/api").await.expect(200);
    cluster.delete(&format!("{ACCOUNTS}/bob")).await.expect(200);
    assert!(refusal(&cluster, &legacy).await.contains("not found"));
}

#[tokio::test(start_paused = true)]
async fn the_last_use_of_a_token_in_a_secret_is_recorded_by_day() {
    let cluster = cluster().await;
    let account = format!("{ACCOUNTS}/bob");
    let uid = cluster.get(&account).await.expect(200)["metadata"]["uid"].clone();
    let signer = cluster.server.legacy_token_signer();
    let token = signer.sign("default", "bob", uid.as_str().unwrap(), "bob-token").unwrap();
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({
        "metadata": {
            "name": "bob-token", "annotations": {"kubernetes.io/service-account.name": "bob"},
        },
        "type": "kubernetes.io/service-account-token",
        "stringData": {"token": token},
    });
    cluster.post(secrets, secret).await.expect(201);
    let path = format!("{secrets}/bob-token");
    let state = async || {
        let secret = cluster.get(&path).await.expect(200);
        let label = &secret["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"];
        (label.clone(), secret["metadata"]["resourceVersion"].clone())
    };
    assert_eq!(state().await.0, Value::Null);

    let first = get_with(&cluster, &token, "/api").await;
    assert!(first.warnings().is_empty(), "{first:?}");
    let (day, version) = state().await;
    assert_eq!(day, "2026-01-01");
    get_with(&cluster, &token, "/api").await.expect(200);
    assert_eq!(state().await.1, version, "one write per day");

    tokio::time::advance(Duration::from_secs(24 * 3600)).await;
    review(&cluster, &token, &[]).await;
    assert_eq!(state().await.0, "2026-01-02");
    // A token that the account names was generated for it.
    cluster.merge(&account, json!({"secrets": [{"name": "bob-token"}]})).await.expect(200);
    let warned = get_with(&cluster, &token, "/api").await;
    assert!(warned.warnings()[0].contains("auto-generated secret-based tokens"), "{warned:?}");
    let since = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-\
                 token-tracking";
    assert_eq!(cluster.get(since).await.expect(200)["data"]["since"], "2026-01-01");
}

#[tokio::test(start_paused = true)]
async fn the_issuer_is_discovered_by_service_accounts_only() {
    let cluster = cluster().await;
    let token = token(&cluster, json!({})).await;
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        let service = cluster.server.authenticating_service();
        let anonymous = send(service, Method::GET, path, &[], String::new()).await.expect(403);
        assert_eq!(
            anonymous["message"],
            format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"")
        );
        let found = get_with(&cluster, &token, path).await;
        assert_eq!(found.header("cache-control"), "public, max-age=3600");
        found.expect(200);
    }
    let keys = get_with(&cluster, &token, "/openid/v1/jwks").await;
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    assert_eq!(keys.expect(200)["keys"][0]["alg"], "ES256");
}

#[tokio::test(start_paused = true)]
async fn tokens_stay_valid_after_a_restart() {
    let dir = std::env::temp_dir().join(format!("evenkeel-tokens-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let builder = || ApiServer::builder().seed(1).rbac().data_dir(&dir);
    let first = Cluster::built(builder()).await;
    first.post(ACCOUNTS, json!({"metadata": {"name": "bob"}})).await.expect(201);
    let token = token(&first, json!({})).await;
    drop(first);
    let second = Cluster::built(builder()).await;
    get_with(&second, &token, "/api").await.expect(200);
    drop(second);
    let _ = std::fs::remove_dir_all(&dir);
}
