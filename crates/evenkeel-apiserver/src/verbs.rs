//! What each verb does: which stages it uses, and with what in between.

mod component_status;

mod create;

mod delete;

mod delete_collection;

mod get;

mod heavy;

mod list;

mod patch;

pub(crate) mod review;

mod scale;

mod subresource;

mod update;

mod watch;

pub(crate) use component_status::Components;
pub(crate) use create::create_value;
pub(crate) use delete::{Deletion, delete_named};
pub(crate) use list::Filter;
pub(crate) use patch::is_apply;
pub(crate) use update::{release_finalizer, write_object, write_status};

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};

use crate::body::Body;
use crate::call::{Call, Remote, Warnings};
use crate::core::Core;
use crate::negotiate::{self, View};
use crate::pipeline::authorize::Authorized;
use crate::pipeline::encode::{self, Answer};
use crate::pipeline::receive::{Received, Unread};
use crate::registry::resource::Resource;
use crate::route::{ResourceRoute, Route, Verb};
use crate::status::Status;
use crate::throttle::Access;

/// Carries out a request on a resource.
pub(crate) async fn dispatch<B>(
    core: &Arc<Core>,
    request: Authorized,
    body: Unread<B>,
    remote: Option<Arc<Remote>>,
) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut routed, identity) = request.into_parts();
    let Route::Resource(route) = routed.route else { return Err(Status::page_not_found()) };
    let resource = find(core, &route)?;
    let call = Arc::new(Call {
        core: core.clone(),
        resource,
        verb: route.verb,
        namespace: route.namespace,
        name: route.name,
        subresource: route.subresource,
        query: routed.query,
        headers: routed.parts.headers,
        identity,
        warnings: Warnings::default(),
        ending: routed.parts.extensions.remove(),
        remote,
    });
    if !call.resource.is_custom() {
        check_verb(&call)?;
        if routed.parts.method == Method::HEAD {
            return Err(Status::method_not_allowed());
        }
    }
    let response = respond(&call, body).await.unwrap_or_else(|status| {
        let pretty = negotiate::pretty(&call.headers, &call.query);
        let mut response = encode::refusal(&call.headers, pretty, &status);
        encode::warn(&call, response.headers_mut());
        response
    });
    Ok(response)
}

async fn respond<B>(call: &Arc<Call>, body: Unread<B>) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if !call.resource.is_custom() {
        let watches = matches!(call.verb, Verb::List | Verb::Watch);
        negotiate::route(&call.headers, watches)?;
        if call.verb == Verb::Patch {
            patch::kind(call)?;
        }
    }
    // What the router of built-in resources turns away is not told of their future.
    if let Some(text) = call.resource.deprecation() {
        call.warnings.add(text);
    }
    if call.resource.is_custom() {
        check_verb(call)?;
    }
    let output = negotiate::output(&call.headers, &call.query, !call.resource.is_custom())?;
    let printable = call.resource.supports("list");
    if output.view != View::Whole && !printable {
        return Err(Status::not_acceptable(&[
            negotiate::JSON,
            negotiate::YAML,
            negotiate::PROTOBUF,
        ]));
    }
    if call.verb == Verb::Patch {
        patch::kind(call)?;
    }
    let body = match call.verb {
        Verb::Get | Verb::List | Verb::Watch => Received::default(),
        _ => body.read().await?,
    };
    if let (Some(remote), Some(access)) = (&call.remote, access(call.verb)) {
        remote.enter(&call.core, access).await?;
    }
    if heavy::is_heavy(call, &body.bytes) {
        let shared = call.clone();
        return call
            .offload(async move {
                let answer = carry_out(&shared, output, &body.bytes).await?;
                encode::respond(&shared, output, answer)
            })
            .await;
    }
    let answer = carry_out(call, output, &body.bytes).await?;
    heavy::encode(call, output, answer).await
}

/// What a request counts as while it is in flight; watches are not limited in number.
fn access(verb: Verb) -> Option<Access> {
    match verb {
        Verb::Watch => None,
        Verb::Get | Verb::List | Verb::Other => Some(Access::Read),
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
            Some(Access::Write)
        }
    }
}

async fn carry_out(call: &Call, output: negotiate::Output, body: &Bytes) -> Result<Answer, Status> {
    if call.resource.is("", "bindings") {
        return subresource::bind_by_body(call, body).await;
    }
    if call.resource.is("", "componentstatuses") {
        return component_status::answer(call, output);
    }
    if !call.resource.is_stored() && call.subresource.is_none() {
        return review::answer(call, body);
    }
    match call.subresource.as_deref() {
        None | Some("status") => {}
        Some("scale") => return scale::answer(call, output, body).await,
        Some(_) => return subresource::answer(call, body).await,
    }
    match call.verb {
        Verb::Create => create::answer(call, body).await,
        Verb::Get => get::answer(call),
        Verb::List => list::answer(call).await,
        Verb::Watch => watch::answer(call, output).await,
        Verb::Update => update::answer(call, body).await,
        Verb::Patch => patch::answer(call, body).await,
        Verb::Delete => delete::answer(call, body).await,
        Verb::DeleteCollection => delete_collection::answer(call, body).await,
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
    // A namespaced resource has no named objects outside of namespaces, and the other way round.
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

fn check_verb(call: &Call) -> Result<(), Status> {
    let resource = &call.resource;
    if let Some(name) = &call.subresource {
        let Some(sub) = resource.subresource(name) else {
            return Err(match &call.name {
                Some(object) if resource.is_custom() => Status::not_found(resource.named(), object),
                _ => Status::resource_not_found(),
            });
        };
        return if sub.verbs.contains(&call.verb.name()) {
            Ok(())
        } else if resource.is_custom() {
            Err(Status::verb_not_supported(resource.named(), call.verb.name()))
        } else {
            Err(Status::method_not_allowed())
        };
    }
    let collection_verb = matches!(call.verb, Verb::Create | Verb::List | Verb::DeleteCollection);
    let shape_fits = match call.verb {
        Verb::Watch => true,
        // The handler of custom resources asks for a name itself, and for none where it needs none.
        Verb::Create | Verb::Update | Verb::Patch if resource.is_custom() => true,
        _ => collection_verb == call.name.is_none(),
    };
    // Only reading goes across namespaces.
    let place_fits = !matches!(call.verb, Verb::Create | Verb::DeleteCollection)
        || !resource.namespaced
        || !call.namespace.is_empty();
    let named = ["get", "update", "patch", "delete"];
    if call.name.is_some() && !named.iter().any(|verb| resource.supports(verb)) {
        // What can only be created has no paths of single objects.
        Err(Status::resource_not_found())
    } else if shape_fits && place_fits && resource.supports(call.verb.name()) {
        Ok(())
    } else if call.verb == Verb::Other && resource.is_custom() {
        Err(Status::verb_not_supported(resource.named(), ""))
    } else {
        Err(Status::method_not_allowed())
    }
}
