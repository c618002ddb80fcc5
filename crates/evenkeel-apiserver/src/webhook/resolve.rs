//! Resolves the host of a webhook to an address.

use std::net::{IpAddr, SocketAddr};

use evenkeel_types::go::Quoted;
use serde_json::Value;

use super::client::Reach;
use crate::storage::{Key, Range, Store};

/// Resolves a host name or an address.
pub(super) async fn host(host: &str, port: u16, reach: Reach) -> Result<SocketAddr, String> {
    let failed = |why: &str| format!("dial tcp: lookup {host}: {why}");
    let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![(ip, port).into()],
        Err(_) if reach != Reach::Anywhere && !host.eq_ignore_ascii_case("localhost") => Vec::new(),
        Err(_) => {
            let found = tokio::net::lookup_host((host, port)).await;
            found.map_err(|error| failed(&error.to_string()))?.collect()
        }
    };
    let allowed = |address: &&SocketAddr| reach == Reach::Anywhere || address.ip().is_loopback();
    found.iter().find(allowed).copied().ok_or_else(|| {
        format!("{host} is not a loopback address, and this server calls no other webhooks")
    })
}

/// Resolves a Service to one of its endpoints.
pub(super) async fn service(
    store: &Store,
    namespace: &str,
    name: &str,
    port: u16,
    reach: Reach,
) -> Result<SocketAddr, String> {
    let missing = || format!("service {} not found", Quoted(name));
    let record = store.table("services").get(&Key::new(namespace, name)).ok_or_else(missing)?;
    let service: Value = serde_json::from_slice(&record.body).map_err(|error| error.to_string())?;
    if service["spec"]["type"] == "ExternalName" {
        let external = service["spec"]["externalName"].as_str().unwrap_or("");
        return host(external, port, reach).await;
    }
    let ports = service["spec"]["ports"].as_array();
    let port_name = ports
        .into_iter()
        .flatten()
        .find(|candidate| candidate["port"] == port)
        .map(|found| found["name"].as_str().unwrap_or(""))
        .ok_or_else(|| format!("no service port {port} found for service {}", Quoted(name)))?;
    let address = endpoint(store, namespace, name, port_name)
        .ok_or_else(|| format!("no endpoints available for service {}", Quoted(name)))?;
    host(&address.ip().to_string(), address.port(), reach).await
}

/// Returns the first ready endpoint of a service.
fn endpoint(store: &Store, namespace: &str, name: &str, port_name: &str) -> Option<SocketAddr> {
    let table = store.table("discovery.k8s.io/endpointslices");
    let range = Range { namespace: Some(namespace), after: None, limit: None };
    let slices = table
        .list_where(range, None, |slice| {
            slice.labels.get("kubernetes.io/service-name") == Some(name)
        })
        .ok()?;
    slices.items.iter().find_map(|slice| {
        let slice: Value = serde_json::from_slice(&slice.body).ok()?;
        let ports = slice["ports"].as_array();
        let port = ports
            .into_iter()
            .flatten()
            .find(|port| port["name"].as_str().unwrap_or("") == port_name)?;
        let port = u16::try_from(port["port"].as_u64()?).ok()?;
        let endpoints = slice["endpoints"].as_array();
        endpoints
            .into_iter()
            .flatten()
            .filter(|endpoint| endpoint["conditions"]["ready"] != false)
            .find_map(|endpoint| endpoint["addresses"][0].as_str()?.parse::<IpAddr>().ok())
            .map(|ip| (ip, port).into())
    })
}
