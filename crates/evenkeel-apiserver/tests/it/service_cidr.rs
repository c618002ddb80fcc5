//! The default ServiceCIDR, and the IPAddresses of Services.

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::durability::Scratch;
use crate::harness::*;

const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"clusterIP": ip, "ports": [{"port": 80}]},
    })
}

#[tokio::test(start_paused = true)]
async fn the_service_range_is_a_ready_service_cidr() {
    let builder = ApiServer::builder().service_cluster_ip_range("10.9.0.0/24".to_owned());
    let cluster = Cluster::built(builder).await;
    let cidr = cluster.get(&format!("{CIDRS}/kubernetes")).await.expect(200);
    assert_eq!(cidr["spec"]["cidrs"], json!(["10.9.0.0/24"]));
    let ready = &cidr["status"]["conditions"][0];
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("True")));
    assert_eq!(ready["message"], "Kubernetes default Service CIDR is ready");
    // That of the Service of the API server itself.
    assert_eq!(cluster.names(ADDRESSES).await, ["10.9.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn an_address_lives_as_long_as_its_service_has_it() {
    let cluster = Cluster::new().await;
    let before = cluster.names(ADDRESSES).await;
    let created = cluster.post(SERVICES, service("a", "")).await.expect(201);
    let ip = text(&created["spec"]["clusterIP"]);
    let address = cluster.get(&format!("{ADDRESSES}/{ip}")).await.expect(200);
    assert_eq!(
        address["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "a"})
    );
    assert_eq!(
        address["metadata"]["labels"],
        json!({
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        })
    );
    let external = json!({"spec": {
        "type": "ExternalName", "externalName": "example.com", "clusterIP": null,
        "clusterIPs": null,
    }});
    cluster.merge(&format!("{SERVICES}/a"), external).await.expect(200);
    assert_eq!(cluster.names(ADDRESSES).await, before);
    cluster.post(SERVICES, service("headless", "None")).await.expect(201);
    assert_eq!(cluster.names(ADDRESSES).await, before);
    cluster.post(SERVICES, service("b", "")).await.expect(201);
    assert_eq!(cluster.names(ADDRESSES).await.len(), before.len() + 1);
    cluster.delete(&format!("{SERVICES}/b")).await.expect(200);
    assert_eq!(cluster.names(ADDRESSES).await, before);
}

#[tokio::test]
async fn addresses_follow_their_services_after_a_restart() {
    let scratch = Scratch::new();
    let cluster = Cluster::built(ApiServer::builder().data_dir(&scratch.0)).await;
    let created = cluster.post(SERVICES, service("a", "")).await.expect(201);
    let ip = text(&created["spec"]["clusterIP"]);
    // As in a data directory of a server that did not create them.
    cluster.delete(&format!("{ADDRESSES}/{ip}")).await.expect(200);
    drop(cluster);
    let cluster = Cluster::built(ApiServer::builder().data_dir(&scratch.0)).await;
    cluster.get(&format!("{ADDRESSES}/{ip}")).await.expect(200);
    cluster.delete(&format!("{SERVICES}/a")).await.expect(200);
    cluster.get(&format!("{ADDRESSES}/{ip}")).await.expect(404);
}
