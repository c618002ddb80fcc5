//! The IPAddress objects of Services: one for each cluster IP, created and deleted with it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::context::{Core, RequestContext};
use crate::pipeline;
use crate::request::delete_options::DeleteOptions;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::{Key, Record};

/// The cluster IPs by Service, to find those that a write releases.
#[derive(Default)]
pub(super) struct Addresses(Mutex<HashMap<Key, Vec<IpAddr>>>);

impl Addresses {
    /// Creates and deletes objects after a Service was written.
    pub(super) async fn update(&self, core: &Arc<Core>, service: &Record) {
        let now = cluster_ips(service);
        let before = self.0.lock().insert(service.key.clone(), now.clone()).unwrap_or_default();
        for ip in now.iter().filter(|ip| !before.contains(ip)) {
            create(core, *ip, &service.key).await;
        }
        for ip in before.iter().filter(|ip| !now.contains(ip)) {
            delete(core, *ip).await;
        }
    }

    /// Deletes the objects of a deleted Service.
    pub(super) async fn remove(&self, core: &Arc<Core>, service: &Record) {
        let before = self.0.lock().remove(&service.key).unwrap_or_default();
        for ip in before {
            delete(core, ip).await;
        }
    }
}

fn cluster_ips(service: &Record) -> Vec<IpAddr> {
    let service: Value = serde_json::from_slice(&service.body).unwrap_or_default();
    let ips = service.pointer("/spec/clusterIPs").and_then(Value::as_array);
    // A headless Service has the address `None`.
    ips.into_iter().flatten().filter_map(|ip| ip.as_str()?.parse().ok()).collect()
}

async fn create(core: &Arc<Core>, ip: IpAddr, service: &Key) {
    let Some(resource) = core.builtin("networking.k8s.io", "ipaddresses") else { return };
    if resource.table.get(&Key::new("", &ip.to_string())).is_some() {
        return;
    }
    let object = json!({
        "metadata": {
            "name": ip.to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "resource": "services", "namespace": service.namespace(), "name": service.name(),
        }},
    });
    let cx = RequestContext::internal(core, &resource, Verb::Create, &Key::new("", ""), None);
    report(pipeline::create_internal(&cx, &object).await.map(drop), ip, "create");
}

async fn delete(core: &Arc<Core>, ip: IpAddr) {
    let Some(resource) = core.builtin("networking.k8s.io", "ipaddresses") else { return };
    let key = Key::new("", &ip.to_string());
    let cx = RequestContext::internal(core, &resource, Verb::Delete, &key, None);
    let deleted = pipeline::delete_internal(&cx, key.name(), &DeleteOptions::default()).await;
    report(deleted.map(drop), ip, "delete");
}

fn report(written: Result<(), Status>, ip: IpAddr, verb: &str) {
    match written {
        Err(status) if !matches!(status.code(), 404 | 409) => {
            tracing::warn!(%ip, verb, why = status.message(), "cannot write the IPAddress of a service");
        }
        _ => {}
    }
}
