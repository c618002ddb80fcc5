//! Admission webhooks over TLS, friendly and hostile.

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Cluster, config_map, text};
use crate::webhook_service::{MUTATING, Raw, TlsServer, VALIDATING, allow, http, install, patched};

async fn cluster() -> Cluster {
    Cluster::built(ApiServer::builder()).await
}

fn ok(review: &Value) -> Raw {
    http("200 OK", &allow(&review["request"]).to_string())
}

async fn message(cluster: &Cluster, name: &str) -> String {
    let error = cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(500);
    text(&error["message"])
}

#[tokio::test]
async fn connection_is_reused() {
    let cluster = cluster().await;
    let server = TlsServer::start(ok).await;
    install(&cluster, VALIDATING, "w", &server.url(), |_| ()).await;
    for at in 0..20 {
        cluster.post(CONFIG_MAPS, config_map(&format!("c{at}"), json!({}))).await.expect(201);
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn parallel_calls_open_connections_of_their_own() {
    let cluster = cluster().await;
    let server = TlsServer::start(ok).await;
    for name in ["a", "b", "c"] {
        install(&cluster, VALIDATING, name, &server.url(), |_| ()).await;
    }
    cluster.post(CONFIG_MAPS, config_map("x", json!({}))).await.expect(201);
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn connection_closed_while_idle_is_replaced() {
    let cluster = cluster().await;
    let server = TlsServer::start(|review| {
        let body = allow(&review["request"]).to_string();
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n");
        Raw::Send(format!("{head}\r\n{body}").into_bytes())
    })
    .await;
    install(&cluster, VALIDATING, "w", &server.url(), |_| ()).await;
    for name in ["a", "b"] {
        cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(201);
    }
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn hostile_responses_fail_the_call() {
    let cluster = cluster().await;
    let server = TlsServer::start(|review| {
        let request = &review["request"];
        match request["name"].as_str().unwrap_or("") {
            "redirect" => http("302 Found\r\nlocation: https://127.0.0.1:1/other", ""),
            "close" => Raw::Close,
            "hang" => Raw::Hang,
            "half" => Raw::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()),
            "garbage" => Raw::Send(b"not http at all\r\n\r\n".to_vec()),
            "second" => {
                let review = allow(request).to_string();
                http("200 OK", &(review.clone() + &review))
            }
            "huge" => http("200 OK", &"x".repeat(20 << 20)),
            "endless" => {
                let chunk = "x".repeat(1 << 20);
                let chunks = format!("100000\r\n{chunk}\r\n").repeat(20);
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                Raw::Send(format!("{head}{chunks}").into_bytes())
            }
            _ => ok(review),
        }
    })
    .await;
    install(&cluster, MUTATING, "w", &server.url(), |hook| hook["timeoutSeconds"] = 1.into()).await;
    for name in ["hang", "half"] {
        let message = message(&cluster, name).await;
        assert!(message.contains("context deadline exceeded"), "{name}: {message}");
    }
    // The others do not wait, but the largest take a while on a busy machine.
    cluster.delete(&format!("{MUTATING}/w")).await.expect(200);
    install(&cluster, MUTATING, "w", &server.url(), |hook| hook["timeoutSeconds"] = 30.into())
        .await;
    for (name, part) in [
        ("redirect", "the server responded with the status code 302"),
        ("close", "EOF"),
        ("garbage", "Post \"https://127.0.0.1:"),
        ("second", "invalid character '{' after top-level value"),
        ("huge", "the response is larger than"),
        ("endless", "the response is larger than"),
    ] {
        let message = message(&cluster, name).await;
        assert!(message.contains("failed to call webhook: "), "{name}: {message}");
        assert!(message.contains(part), "{name}: {message}");
    }
    cluster.post(CONFIG_MAPS, config_map("fine", json!({}))).await.expect(201);
}

#[tokio::test]
async fn patch_of_ten_megabytes_is_refused_as_too_large() {
    let cluster = cluster().await;
    let server = TlsServer::start(|review| {
        let data = json!({"big": "x".repeat(10_000_000)});
        let patch = json!([{"op": "add", "path": "/data", "value": data}]);
        http("200 OK", &patched(&review["request"], patch).to_string())
    })
    .await;
    install(&cluster, MUTATING, "w", &server.url(), |hook| hook["timeoutSeconds"] = 30.into())
        .await;
    let response = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await;
    response.expect_error(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes",
    );
    assert!(cluster.names(CONFIG_MAPS).await.is_empty());
}

/// Returns the `message` of a create in a cluster with these EndpointSlices of the Service `hooks`,
/// whose webhook is called at `port`. Loopback addresses are not valid in new slices, only in those
/// that are loaded.
async fn message_with_slices(server: &TlsServer, port: u16, slices: Vec<Value>) -> String {
    let cluster = Cluster::built(ApiServer::builder().load(slices)).await;
    let service = json!({
        "metadata": {"name": "hooks"},
        "spec": {"ports": [
            {"name": "metrics", "port": 8080}, {"name": "https", "port": 443, "targetPort": 9443},
        ]},
    });
    cluster.post("/api/v1/namespaces/default/services", service).await.expect(201);
    let service = json!({"namespace": "default", "name": "hooks", "port": port});
    let client = json!({"service": service, "caBundle": server.ca_bundle()});
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    message(&cluster, "a").await
}

#[tokio::test]
async fn service_is_resolved_to_its_ready_endpoints() {
    let server = TlsServer::start(ok).await;
    let slice = |name: &str, of: &str, ready: Value, port: &str| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": name, "namespace": "default", "uid": name,
                "labels": {"kubernetes.io/service-name": of},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": ready}}],
            "ports": [{"name": port, "port": server.address.port(), "protocol": "TCP"}],
        })
    };
    let mut slices = vec![
        slice("a", "other", json!(true), "https"),
        slice("b", "hooks", json!(false), "https"),
        slice("c", "hooks", json!(true), "metrics"),
    ];
    for unusable in [Vec::new(), slices.clone()] {
        let refused = message_with_slices(&server, 443, unusable).await;
        let none = "no endpoints available for service \"hooks\"";
        assert!(refused.contains(none), "{refused}");
    }
    assert_eq!(server.accepted(), 0);
    // An endpoint of unknown readiness counts as ready.
    slices.push(slice("d", "hooks", json!(null), "https"));
    // The certificate has another name, so the connection reached the server.
    let refused = message_with_slices(&server, 443, slices.clone()).await;
    assert!(refused.contains("tls: failed to verify certificate"), "{refused}");
    assert_eq!(server.accepted(), 1);
    let refused = message_with_slices(&server, 444, slices).await;
    assert!(refused.contains("no service port 444 found for service \"hooks\""), "{refused}");
}

#[tokio::test]
async fn certificate_is_verified() {
    let cluster = cluster().await;
    let server = TlsServer::start(ok).await;
    let other = TlsServer::start(ok).await;
    let mut client = server.url();
    client["caBundle"] = other.ca_bundle().into();
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    let message = message(&cluster, "a").await;
    assert!(message.contains("certificate"), "{message}");
}

#[tokio::test]
async fn serving_certificate_may_be_its_own_authority() {
    let cluster = cluster().await;
    let server = TlsServer::start(ok).await;
    let mut client = server.url();
    client["caBundle"] = server.own_bundle().into();
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    // Its name is still verified.
    let service = json!({"namespace": "default", "name": "other"});
    cluster.server.register_webhook_listener("default", "other", 443, server.address);
    let client = json!({"service": service, "caBundle": server.own_bundle()});
    cluster.delete(&format!("{VALIDATING}/w")).await.expect(200);
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    let message = message(&cluster, "b").await;
    assert!(message.contains("tls: failed to verify certificate"), "{message}");
}

#[tokio::test]
async fn registered_listener_stands_for_a_service() {
    let cluster = cluster().await;
    let server = TlsServer::start(ok).await;
    // One of the names in the certificates of the test authority.
    cluster.server.register_webhook_listener("default", "kubernetes", 8443, server.address);
    let service = json!({"namespace": "default", "name": "kubernetes", "port": 8443});
    let client = json!({"service": service, "caBundle": server.ca_bundle()});
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn service_is_resolved_to_its_external_name_on_loopback() {
    let cluster = cluster().await;
    let server = TlsServer::start(ok).await;
    let services = "/api/v1/namespaces/default/services";
    let external = json!({
        "metadata": {"name": "hooks"}, "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    cluster.post(services, external).await.expect(201);
    let port = server.address.port();
    let service = json!({"namespace": "default", "name": "hooks", "port": port});
    let client = json!({"service": service, "caBundle": server.ca_bundle()});
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    // The certificate has another name, so the connection reached the server.
    let refused = message(&cluster, "a").await;
    assert!(refused.contains("tls: failed to verify certificate"), "{refused}");
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn other_machines_are_not_called() {
    let cluster = cluster().await;
    let missing = json!({"service": {"namespace": "default", "name": "missing"}});
    for (name, client, why) in [
        ("ip", json!({"url": "https://192.0.2.1/"}), "192.0.2.1 is not a loopback address"),
        ("dns", json!({"url": "https://example.com/"}), "example.com is not a loopback address"),
        ("service", missing, "service \"missing\" not found"),
        ("closed", json!({"url": "https://127.0.0.1:1/"}), "connect: connection refused"),
    ] {
        install(&cluster, VALIDATING, name, &client, |_| ()).await;
        let message = message(&cluster, "a").await;
        assert!(message.contains(why), "{name}: {message}");
        cluster.delete(&format!("{VALIDATING}/{name}")).await.expect(200);
    }
}
