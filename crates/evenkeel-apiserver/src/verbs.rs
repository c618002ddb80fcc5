//! The verbs: which stages each of them runs.

mod delete_collection;

pub(crate) mod get;

mod heavy;

mod list;

mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};

use crate::audit::AuditTrail;
use crate::body::Body;
use crate::commits::Commits;
use crate::context::Core;
use crate::context::{Remote, RequestContext, Warnings, webhook_deadline};
use crate::pipeline::encode::{self, Reply};
use crate::pipeline::{self, delete, patch};
use crate::registry::resource::Resource;
use crate::request::authorize::Authorized;
use crate::request::negotiate::{self, View};
use crate::request::receive::{Received, Unread};
use crate::request::record;
use crate::request::route::{ResourceRoute, Route, Verb};
use crate::status::Status;
use crate::subresources;

/// Executes a request on a resource.
pub(crate) async fn dispatch<B>(
    core: &Arc<Core>,
    request: Authorized,
    body: Unread<B>,
    remote: Option<Arc<Remote>>,
    audit: AuditTrail,
) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut routed, identity) = request.into_parts();
    let Route::Resource(route) = routed.route else { return Err(Status::page_not_found()) };
    let resource = find(core, &route)?;
    let subpath = subpath(&route, routed.parts.uri.path());
    let cx = Arc::new(RequestContext {
        core: core.clone(),
        hooks: core.hooks.of(&resource),
        resource,
        verb: route.verb,
        namespace: route.namespace,
        name: route.name,
        subresource: route.subresource,
        subpath,
        query: routed.query,
        headers: routed.parts.headers,
        identity,
        warnings: Warnings::default(),
        audit,
        commits: Commits::default(),
        deadline: webhook_deadline(),
        shutdown_signal: routed.parts.extensions.remove(),
        remote,
    });
    if !cx.resource.is_custom() {
        check_verb(&cx)?;
        if routed.parts.method == Method::HEAD {
            return Err(Status::method_not_allowed());
        }
    }
    let mut response = respond(&cx, body).await.unwrap_or_else(|status| {
        record::failed(&cx.audit, &cx.headers, &status);
        let pretty = negotiate::pretty(&cx.headers, &cx.query);
        let mut response = encode::error_response(&cx.headers, pretty, &status);
        encode::add_warnings(&cx, response.headers_mut());
        response
    });
    if let Some(annotations) = cx.audit.annotations() {
        response.extensions_mut().insert(annotations);
    }
    Ok(response)
}

async fn respond<B>(cx: &Arc<RequestContext>, body: Unread<B>) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if !cx.resource.is_custom() {
        let watches = matches!(cx.verb, Verb::List | Verb::Watch);
        negotiate::check_accept(&cx.headers, watches)?;
        if cx.verb == Verb::Patch {
            patch::kind(cx)?;
        }
    }
    // Requests that the built-in resources' router rejects get no deprecation warning.
    if let Some(text) = cx.resource.deprecation() {
        cx.warnings.add(text);
        cx.audit.annotate("k8s.io/deprecated", "true");
    }
    if cx.resource.is_custom() {
        check_verb(cx)?;
    }
    let output = negotiate::output(&cx.headers, &cx.query, !cx.resource.is_custom())?;
    let printable = cx.resource.supports("list");
    if output.view != View::Object && !printable {
        return Err(Status::not_acceptable(&[
            negotiate::JSON,
            negotiate::YAML,
            negotiate::PROTOBUF,
        ]));
    }
    if cx.verb == Verb::Patch {
        patch::kind(cx)?;
    }
    let body = match cx.verb {
        Verb::Get | Verb::List | Verb::Watch => Received::default(),
        _ => body.read().await?,
    };
    if let Some(remote) = &cx.remote {
        remote.acquire_seats(&cx.core, list_bytes(cx)).await?;
    }
    if heavy::is_heavy(cx, &body.bytes) {
        let shared = cx.clone();
        return cx
            .offload(async move {
                let reply = execute(&shared, output, &body.bytes).await?;
                encode::audit(&shared, output, &reply).await;
                encode::respond(&shared, output, reply)
            })
            .await;
    }
    let reply = execute(cx, output, &body.bytes).await?;
    if let (Verb::Watch, Some(remote)) = (cx.verb, &cx.remote) {
        // It is initialized.
        remote.release_seats();
    }
    encode::audit(cx, output, &reply).await;
    heavy::encode(cx, output, reply).await
}

/// Returns the bytes of objects that a list processes, as upstream estimates them.
fn list_bytes(cx: &RequestContext) -> Option<usize> {
    let lists = match cx.verb {
        Verb::List => true,
        // A watch from a version on begins without a list.
        Verb::Watch => {
            cx.query.flag("sendInitialEvents")
                || matches!(cx.query.get("resourceVersion"), None | Some("" | "0"))
        }
        _ => false,
    };
    if !lists || !cx.resource.is_stored() {
        return None;
    }
    let (objects, bytes) = (cx.resource.table.len(), cx.resource.table.bytes());
    let limit = cx.query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(0_usize);
    Some(if limit > 0 && limit < objects { bytes / objects * limit } else { bytes })
}

/// Executes a verb. A write that is being committed completes although the request is dropped.
async fn execute(
    cx: &Arc<RequestContext>,
    output: negotiate::Output,
    body: &Bytes,
) -> Result<Reply, Status> {
    if matches!(cx.verb, Verb::Get | Verb::List | Verb::Watch) {
        return execute_attached(cx, output, body).await;
    }
    let (shared, body) = (cx.clone(), body.clone());
    cx.commits.complete(async move { execute_attached(&shared, output, &body).await }).await
}

async fn execute_attached(
    cx: &RequestContext,
    output: negotiate::Output,
    body: &Bytes,
) -> Result<Reply, Status> {
    if subresources::handles(cx) {
        return subresources::handle(cx, output, body).await;
    }
    match cx.verb {
        Verb::Create => pipeline::create(cx, body).await,
        Verb::Get => get::handle(cx).await,
        Verb::List => list::handle(cx).await,
        Verb::Watch => watch::handle(cx, output).await,
        Verb::Update => pipeline::update(cx, body).await,
        Verb::Patch => pipeline::patch(cx, body).await,
        Verb::Delete => {
            let options = delete::parse_options(cx, body)?;
            let outcome = pipeline::delete(cx, cx.name(), &options).await?;
            Ok(outcome.into_reply(cx, &options))
        }
        Verb::DeleteCollection => delete_collection::handle(cx, body).await,
        Verb::Other => Err(Status::method_not_allowed()),
    }
}

fn find(core: &Core, route: &ResourceRoute) -> Result<Arc<Resource>, Status> {
    let snapshot = core.registry.snapshot();
    let Some(version) = snapshot.group_version(&route.group, &route.version) else {
        let builtin = snapshot.is_builtin(&route.group);
        return Err(if builtin { Status::resource_not_found() } else { Status::page_not_found() });
    };
    let custom_group = version.resources.iter().all(|resource| resource.is_custom());
    let missing =
        || if custom_group { Status::page_not_found() } else { Status::resource_not_found() };
    let resource = version.resource(&route.plural).ok_or_else(missing)?;
    // Named objects of namespaced resources are in namespaces only, and vice versa.
    let in_namespace = !route.namespace.is_empty();
    let scope_fits = if in_namespace {
        resource.namespaced
    } else {
        let reads = matches!(route.verb, Verb::List | Verb::Watch);
        !resource.namespaced || (route.name.is_none() && (reads || !resource.is_custom()))
    };
    let ends = route.rest.is_none()
        || resource.is_custom()
        || route.subresource.as_deref() == Some("proxy");
    if scope_fits && ends { Ok(resource.clone()) } else { Err(missing()) }
}

/// Returns the path after the subresource, as a proxied server gets it.
fn subpath(route: &ResourceRoute, path: &str) -> String {
    let Some(_) = &route.subresource else { return String::new() };
    let rest = route.rest.as_deref().unwrap_or_default();
    let start = if rest.is_empty() { "" } else { "/" };
    let end = if path.ends_with('/') && !rest.ends_with('/') { "/" } else { "" };
    format!("{start}{rest}{end}")
}

fn check_verb(cx: &RequestContext) -> Result<(), Status> {
    let resource = &cx.resource;
    if let Some(name) = &cx.subresource {
        let Some(sub) = resource.subresource(name) else {
            return Err(match &cx.name {
                Some(object) if resource.is_custom() => {
                    Status::not_found(resource.group_resource(), object)
                }
                _ => Status::resource_not_found(),
            });
        };
        return if sub.verbs.contains(&cx.verb.name()) {
            Ok(())
        } else if resource.is_custom() {
            Err(Status::verb_not_supported(resource.group_resource(), cx.verb.name()))
        } else {
            Err(Status::method_not_allowed())
        };
    }
    let collection_verb = matches!(cx.verb, Verb::Create | Verb::List | Verb::DeleteCollection);
    let shape_fits = match cx.verb {
        Verb::Watch => true,
        // The custom resource handler checks for a name itself.
        Verb::Create | Verb::Update | Verb::Patch if resource.is_custom() => true,
        _ => collection_verb == cx.name.is_none(),
    };
    // Only reads can span namespaces.
    let place_fits = !matches!(cx.verb, Verb::Create | Verb::DeleteCollection)
        || !resource.namespaced
        || !cx.namespace.is_empty();
    let named = ["get", "update", "patch", "delete"];
    if cx.name.is_some() && !named.iter().any(|verb| resource.supports(verb)) {
        // Resources that can only be created have no paths of single objects.
        Err(Status::resource_not_found())
    } else if shape_fits && place_fits && resource.supports(cx.verb.name()) {
        Ok(())
    } else if cx.verb == Verb::Other && resource.is_custom() {
        Err(Status::verb_not_supported(resource.group_resource(), ""))
    } else {
        Err(Status::method_not_allowed())
    }
}
