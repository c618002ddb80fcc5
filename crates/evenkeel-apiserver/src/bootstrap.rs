//! Creates the objects that every cluster has, through the same pipeline as any other write.

mod flow_control;

mod load;

mod policy;

mod service_cidr;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::context::Core;
use crate::context::RequestContext;
use crate::pipeline;
use crate::registry::resource::Part;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::{Key, WriteError};
use crate::token_tracking;

/// Awaits writes that create objects; those that exist are kept.
async fn create_all<T>(
    writes: Vec<impl Future<Output = Result<T, WriteError>>>,
) -> Result<(), Status> {
    // Together, so that a durable store commits them in few batches.
    for written in futures_util::future::join_all(writes).await {
        match written {
            Ok(_) | Err(WriteError::Exists(_)) => {}
            Err(error) => return Err(Status::internal(error)),
        }
    }
    Ok(())
}

/// What the objects that every cluster has depend on.
pub(crate) struct Defaults {
    pub(crate) apiserver_address: Ipv4Addr,
    pub(crate) service_cidr: String,
    /// Whether the roles of kube-apiserver are created.
    pub(crate) roles: bool,
}

/// Loads `objects`, rebuilds the server's state from its storage, then creates the missing objects,
/// unless there are no `defaults`.
pub(crate) async fn run(
    core: &Arc<Core>,
    defaults: Option<Defaults>,
    objects: Vec<Value>,
) -> Result<(), Status> {
    let custom = load::builtin(core, objects).await?;
    core.hooks.restore(core).await?;
    load::custom(core, custom).await?;
    match defaults {
        Some(defaults) => create(core, &defaults).await,
        None => Ok(()),
    }
}

async fn create(core: &Arc<Core>, defaults: &Defaults) -> Result<(), Status> {
    for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
        create_if_missing(core, ("", "namespaces"), "", json!({"metadata": {"name": name}}))
            .await?;
    }
    if defaults.roles {
        policy::run(core).await?;
    }
    token_tracking::begin(core).await?;
    flow_control::run(core).await?;
    for (name, value, description) in [
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ] {
        let class = json!({
            "metadata": {"name": name}, "value": value, "description": description,
        });
        create_if_missing(core, ("scheduling.k8s.io", "priorityclasses"), "", class).await?;
    }
    service_cidr::run(core, &defaults.service_cidr).await?;
    let service = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": defaults.apiserver_address.to_string(),
            "ports": [{"name": "https", "port": 443, "targetPort": 6443, "protocol": "TCP"}],
        },
    });
    create_if_missing(core, ("", "services"), "default", service).await
}

/// Points the Service `default/kubernetes` at the server at `address`.
pub(crate) async fn advertise(core: &Arc<Core>, address: SocketAddr) -> Result<(), Status> {
    let port = address.port();
    let target = |service: &mut Value| service["spec"]["ports"][0]["targetPort"] = port.into();
    create_or_update(core, ("", "services"), json!({"metadata": {"name": "kubernetes"}}), target)
        .await?;
    let Some(ip) = endpoint_address(address.ip()) else {
        tracing::debug!("no non-loopback address; service default/kubernetes has no endpoints");
        return Ok(());
    };
    let external = SocketAddr::new(ip, port).to_string();
    core.authenticator.service_accounts.set_external_address(external);
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let endpoints = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
    });
    let subsets = json!([{"addresses": [{"ip": ip}], "ports": ports}]);
    create_or_update(core, ("", "endpoints"), endpoints, |object| {
        object["subsets"] = subsets.clone()
    })
    .await?;
    let slice = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
    });
    let group = ("discovery.k8s.io", "endpointslices");
    create_or_update(core, group, slice, |object| {
        object["endpoints"] = json!([{"addresses": [ip], "conditions": {"ready": true}}]);
        object["ports"] = ports.clone();
    })
    .await
}

/// Returns the address to publish in endpoints. Endpoints cannot have loopback addresses; like
/// upstream, the address of the outgoing interface is used then. No packet is sent to find it.
fn endpoint_address(ip: IpAddr) -> Option<IpAddr> {
    if !ip.is_loopback() && !ip.is_unspecified() {
        return Some(ip);
    }
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // A documentation address (RFC 5737): any address of another machine works.
    socket.connect("192.0.2.1:9").ok()?;
    let found = socket.local_addr().ok()?.ip();
    Some(found).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// Creates the object in namespace `default`, or updates it; `edit` is applied in both cases.
async fn create_or_update(
    core: &Arc<Core>,
    (group, plural): (&str, &str),
    mut object: Value,
    edit: impl Fn(&mut Value) + Send + Sync,
) -> Result<(), Status> {
    let Some(resource) = core.builtin(group, plural) else { return Ok(()) };
    let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
    let key = Key::new("default", &name);
    if resource.table.get(&key).is_none() {
        edit(&mut object);
        return create_if_missing(core, (group, plural), "default", object).await;
    }
    let cx = RequestContext::internal(core, &resource, Verb::Update, &key, None);
    pipeline::update_internal(&cx, Part::Main, edit).await?;
    Ok(())
}

async fn create_if_missing(
    core: &Arc<Core>,
    (group, plural): (&str, &str),
    namespace: &str,
    object: Value,
) -> Result<(), Status> {
    let Some(resource) = core.builtin(group, plural) else { return Ok(()) };
    let name = object["metadata"]["name"].as_str().unwrap_or("");
    if resource.table.get(&Key::new(namespace, name)).is_some() {
        return Ok(());
    }
    let cx =
        RequestContext::internal(core, &resource, Verb::Create, &Key::new(namespace, ""), None);
    match pipeline::create_internal(&cx, &object).await {
        Ok(_) => Ok(()),
        Err(status) if status.reason() == "AlreadyExists" => Ok(()),
        Err(status) => Err(status),
    }
}
