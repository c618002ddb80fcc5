//! Responses end cleanly when a server stops.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use evenkeel_apiserver::ApiServer;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()).unwrap()
}

async fn watch(client: &Client) -> kube::client::Body {
    let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0";
    let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
    client.send(request).await.unwrap().into_body()
}

#[tokio::test]
async fn closing_a_listener_ends_only_its_own_watches() {
    let server = ApiServer::builder().build().await.unwrap();
    let serving = server.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let outside = client(serving.kubeconfig()).await;
    let inside = Client::new(server.service(), "default");
    let over_tls = watch(&outside).await;
    let mut in_process = watch(&inside).await;

    serving.stop().await;
    // An aborted connection would be an error, even between two events.
    assert_eq!(over_tls.collect().await.unwrap().to_bytes(), "");

    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"late"}}"#;
    let path = "/api/v1/namespaces/default/configmaps";
    let request = http::Request::post(path).body(map.as_bytes().to_vec()).unwrap();
    inside.request_text(request).await.unwrap();
    let event = in_process.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(event.starts_with(br#"{"type":"ADDED","#), "{event:?}");
}
