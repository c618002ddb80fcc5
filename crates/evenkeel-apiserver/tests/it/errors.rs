//! Errors that belong to no other module: bodies, names, options, identities.

use evenkeel_apiserver::identity::Identity;
use http::Method;
use serde_json::json;

use crate::harness::{CONFIG_MAPS, Cluster, config_map, text};

const A: &str = "/api/v1/namespaces/default/configmaps/a";

#[tokio::test(start_paused = true)]
async fn error_is_a_status_with_details() {
    let cluster = Cluster::new().await;
    let response = cluster.get(A).await;
    assert_eq!(response.header("content-type"), "application/json");
    assert_eq!(response.header("cache-control"), "no-cache, private");
    assert_eq!(response.header("audit-id").len(), 36);
    assert!(response.text().ends_with("}\n"));
    assert_eq!(
        response.expect(404),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "configmaps \"a\" not found", "reason": "NotFound",
            "details": {"name": "a", "kind": "configmaps"}, "code": 404,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn malformed_bodies_are_rejected_with_the_reason() {
    let cluster = Cluster::new().await;
    let unrecognized = |why: &str| {
        format!("the object provided is unrecognized (must be of type ConfigMap): {why}")
    };
    let no_kind =
        |why: &str| unrecognized(&format!("couldn't get version/kind; json parse error: {why}"));
    let cannot = |kind: &str, version: &str, why: &str| {
        format!("{kind} in version {version:?} cannot be handled as a ConfigMap: {why}")
    };
    let cases = [
        ("{\"a\":", no_kind("unexpected end of JSON input ({\"a\":)")),
        ("hello", no_kind("invalid character 'h' looking for beginning of value (68656c6c6f)")),
        ("", no_kind("unexpected end of JSON input (<empty>)")),
        (
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#,
            cannot(
                "Secret",
                "v1",
                "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
            ),
        ),
        (
            r#"{"apiVersion":"v1","kind":"Nope"}"#,
            cannot(
                "Nope",
                "v1",
                "no kind \"Nope\" is registered for version \"v1\" in scheme \
                 \"pkg/runtime/scheme.go:111\"",
            ),
        ),
        (
            r#"{"apiVersion":"v1","kind":"ConfigMap","data":5}"#,
            cannot(
                "ConfigMap",
                "v1",
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type \
                 map[string]string",
            ),
        ),
        (
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":"x"}"#,
            cannot(
                "ConfigMap",
                "v1",
                "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type \
                 v1.ObjectMeta",
            ),
        ),
    ];
    for (body, message) in cases {
        let headers = [("content-type", "application/json")];
        let response = cluster.send(Method::POST, CONFIG_MAPS, &headers, body).await;
        response.expect_error(400, "BadRequest", &message);
    }
}

#[tokio::test(start_paused = true)]
async fn body_is_limited_to_three_mebibytes() {
    let cluster = Cluster::new().await;
    let body = vec![b' '; 3 * 1024 * 1024 + 1];
    let headers = [("content-type", "application/json")];
    cluster.send(Method::POST, CONFIG_MAPS, &headers, body).await.expect_error(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
    );
}

#[tokio::test(start_paused = true)]
async fn deeply_nested_body_is_rejected() {
    let cluster = Cluster::with_widgets().await;
    let body = "[".repeat(1_000_000);
    for path in [CONFIG_MAPS, crate::harness::WIDGETS] {
        for media_type in ["application/json", "application/yaml"] {
            let headers = [("content-type", media_type)];
            let response = cluster.send(Method::POST, path, &headers, body.clone()).await;
            assert_eq!(response.status, 400, "{path} {media_type}: {}", response.text());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn body_and_path_must_name_the_same_object() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    let mut elsewhere = config_map("a", json!({}));
    elsewhere["metadata"]["namespace"] = "other".into();
    let mismatch =
        "the namespace of the provided object does not match the namespace sent on the request";
    cluster.post(CONFIG_MAPS, elsewhere.clone()).await.expect_error(400, "BadRequest", mismatch);
    cluster.put(A, elsewhere).await.expect_error(400, "BadRequest", mismatch);
    cluster.put(A, config_map("b", json!({}))).await.expect_error(
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    cluster.put(A, nameless).await.expect_error(
        400,
        "BadRequest",
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    );
}

#[tokio::test(start_paused = true)]
async fn names_are_required_and_validated() {
    let cluster = Cluster::new().await;
    let status = cluster.post(CONFIG_MAPS, json!({})).await.expect_error(
        422,
        "Invalid",
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is \
         required",
    );
    assert_eq!(
        status["details"],
        json!({
            "kind": "ConfigMap",
            "causes": [{
                "reason": "FieldValueRequired",
                "message": "Required value: name or generateName is required",
                "field": "metadata.name",
            }],
        })
    );
    cluster.post(CONFIG_MAPS, config_map("Bad_Name", json!({}))).await.expect_error(
        422,
        "Invalid",
        "ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a \
         lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
         '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
         used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    );
}

#[tokio::test(start_paused = true)]
async fn create_requires_an_existing_namespace_an_unused_name_and_no_resource_version() {
    let cluster = Cluster::new().await;
    let nowhere = "/api/v1/namespaces/none/configmaps";
    cluster.post(nowhere, config_map("a", json!({}))).await.expect_error(
        404,
        "NotFound",
        "namespaces \"none\" not found",
    );
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect_error(
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    let mut versioned = config_map("b", json!({}));
    versioned["metadata"]["resourceVersion"] = "5".into();
    cluster.post(CONFIG_MAPS, versioned).await.expect_error(
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    );
}

#[tokio::test(start_paused = true)]
async fn update_with_another_uid_conflicts() {
    let cluster = Cluster::new().await;
    let created = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    let uid = text(&created["metadata"]["uid"]);
    let mut other = config_map("a", json!({}));
    other["metadata"]["uid"] = "x".into();
    let status = cluster.put(A, other).await.expect(409);
    let message = text(&status["message"]);
    assert!(message.starts_with("Operation cannot be fulfilled on configmaps \"a\": "));
    let end = format!("Precondition failed: UID in precondition: x, UID in object meta: {uid}");
    assert!(message.ends_with(&end), "{message}");
}

#[tokio::test(start_paused = true)]
async fn unsupported_methods_are_rejected() {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    let cases = [
        (Method::PUT, CONFIG_MAPS),
        (Method::PATCH, CONFIG_MAPS),
        (Method::POST, A),
        (Method::OPTIONS, A),
        (Method::TRACE, A),
        (Method::POST, "/api/v1/configmaps"),
    ];
    for (method, path) in cases {
        let headers = [("content-type", "application/merge-patch+json")];
        let status = cluster.send(method, path, &headers, "{}").await.expect_error(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        assert_eq!(status["details"], json!({}));
    }
}

#[tokio::test(start_paused = true)]
async fn request_options_are_validated() {
    let cluster = Cluster::new().await;
    let cases = [
        (
            "fieldValidation=Nope",
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \
             \"Nope\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ),
        (
            "dryRun=Nope",
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Nope\"]: \
             supported values: \"All\"",
        ),
    ];
    for (query, message) in cases {
        let path = format!("{CONFIG_MAPS}?{query}");
        cluster.post(&path, config_map("a", json!({}))).await.expect_error(422, "Invalid", message);
    }
    let cases = [
        ("limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
        (
            "resourceVersion=x",
            400,
            "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: \
             parsing \"x\": invalid syntax",
        ),
        (
            "continue=!!!",
            400,
            "invalid continue token: continue key is not valid: illegal base64 data at input \
             byte 0",
        ),
        (
            "resourceVersionMatch=Exact",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
             resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
             resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "sendInitialEvents=true",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: \
             sendInitialEvents is forbidden for list",
        ),
    ];
    for (query, code, message) in cases {
        let reason = if code == 400 { "BadRequest" } else { "Invalid" };
        cluster.get(&format!("{CONFIG_MAPS}?{query}")).await.expect_error(code, reason, message);
    }
}

#[tokio::test(start_paused = true)]
async fn field_validation_warns_rejects_or_ignores_unknown_and_duplicate_fields() {
    let cluster = Cluster::new().await;
    let body = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","zebra":{{"a":1,"a":2}},"metadata":{{"name":"{name}"}},"data":{{"a":"1","a":"2"}},"bogus":1}}"#
        )
    };
    let json = [("content-type", "application/json")];
    let warned = cluster.send(Method::POST, CONFIG_MAPS, &json, body("a")).await;
    assert_eq!(
        warned.warnings(),
        [
            "299 - \"unknown field \\\"zebra\\\"\"",
            "299 - \"duplicate field \\\"data.a\\\"\"",
            "299 - \"unknown field \\\"bogus\\\"\"",
        ],
        "as they are written"
    );
    assert_eq!(warned.expect(201)["data"], json!({"a": "2"}), "the last value wins");

    let path = format!("{CONFIG_MAPS}?fieldValidation=Ignore");
    let ignored = cluster.send(Method::POST, &path, &json, body("b")).await;
    assert_eq!(ignored.warnings(), [""; 0]);
    ignored.expect(201);

    let path = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    cluster.send(Method::POST, &path, &json, body("c")).await.expect_error(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         unknown field \"zebra\", duplicate field \"data.a\", unknown field \"bogus\"",
    );
}

#[tokio::test(start_paused = true)]
async fn anonymous_requests_may_only_read_health_endpoints() {
    let cluster = Cluster::new().await;
    let anonymous = Identity::anonymous;
    cluster.send_as(anonymous(), Method::GET, CONFIG_MAPS).await.expect_error(
        403,
        "Forbidden",
        "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" \
         in API group \"\" in the namespace \"default\"",
    );
    cluster.send_as(anonymous(), Method::GET, "/api/v1/nodes/a").await.expect_error(
        403,
        "Forbidden",
        "nodes \"a\" is forbidden: User \"system:anonymous\" cannot get resource \"nodes\" in API \
         group \"\" at the cluster scope",
    );
    let deployments = crate::harness::DEPLOYMENTS;
    let status = cluster.send_as(anonymous(), Method::POST, deployments).await.expect_error(
        403,
        "Forbidden",
        "deployments.apps is forbidden: User \"system:anonymous\" cannot create resource \
         \"deployments\" in API group \"apps\" in the namespace \"default\"",
    );
    assert_eq!(status["details"], json!({"group": "apps", "kind": "deployments"}));
    cluster.send_as(anonymous(), Method::GET, "/metrics").await.expect_error(
        403,
        "Forbidden",
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",
    );
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(cluster.send_as(anonymous(), Method::GET, path).await.status, 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_bearer_token_is_unauthorized_not_anonymous() {
    let cluster = Cluster::new().await;
    let service = cluster.server.authenticating_service();
    let headers = [("authorization", "Bearer nope")];
    crate::harness::send(service, Method::GET, "/healthz", &headers, "").await.expect_error(
        401,
        "Unauthorized",
        "Unauthorized",
    );
}
