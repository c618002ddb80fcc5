//! Maps method and path to a verb on a resource.
//!
//! Follows upstream's `RequestInfo`, whose terms authorization, admission and errors use.

use evenkeel_schema::names;
use http::Method;

use crate::request::query::{Query, decode_path};
use crate::selector::field::exact_matches;

/// The verb of a request, in the terms of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A method without a meaning for resources, such as OPTIONS.
    Other,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "",
        }
    }
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// An object or collection of a resource.
    Resource(ResourceRoute),
    /// Everything else: discovery, health, OpenAPI, metrics.
    Path,
}

/// The parts of a resource's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceRoute {
    pub(crate) verb: Verb,
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for cluster-scoped resources and for collections across namespaces.
    pub(crate) namespace: String,
    pub(crate) plural: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The fields whose values the field selector of a collection requires.
    pub(crate) selected_fields: Vec<(String, String)>,
    /// The path after the subresource, as in `…/proxy/a/b`.
    pub(crate) rest: Option<String>,
}

impl ResourceRoute {
    /// Returns the name that the field selector of a list or watch requires: authorization treats it
    /// as the name of the object.
    pub(crate) fn selected_name(&self) -> Option<&str> {
        let mut fields = self.selected_fields.iter();
        let (_, name) = fields
            .find(|(field, _)| field == "metadata.name")
            .filter(|_| matches!(self.verb, Verb::List | Verb::Watch))?;
        names::path_segment(name, false).is_empty().then_some(name)
    }
}

impl Route {
    /// Returns whether the request is open-ended, so that no timeout applies.
    pub(crate) fn is_long_running(&self) -> bool {
        let Self::Resource(route) = self else { return false };
        let streams = ["attach", "exec", "proxy", "log", "portforward"];
        route.verb == Verb::Watch
            || route.subresource.as_deref().is_some_and(|name| streams.contains(&name))
    }
}

/// Routes a request by method, path and query, like upstream's `RequestInfoFactory`.
pub(crate) fn route(method: &Method, path: &str, query: &Query) -> Route {
    // Decoded before it is split: `%2F` is equivalent to a slash.
    let path = decode_path(path);
    let mut segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, skip) = match segments.as_slice() {
        ["api", version, _, ..] => ("", *version, 2),
        ["apis", group, version, _, ..] => (*group, *version, 3),
        _ => return Route::Path,
    };
    let (group, version) = (group.to_owned(), version.to_owned());
    segments.drain(..skip);

    let legacy_watch = segments.first() == Some(&"watch") && segments.len() > 1;
    if legacy_watch {
        segments.remove(0);
    }
    let mut namespace = "";
    if let ["namespaces", ns, third, ..] = segments.as_slice()
        && !(group.is_empty() && matches!(*third, "status" | "finalize"))
        && !ns.is_empty()
    {
        namespace = ns;
        segments.drain(..2);
    }
    let mut parts = segments.iter().map(|part| (*part).to_owned());
    let plural = parts.next().unwrap_or_default();
    let name = parts.next();
    let subresource = parts.next();
    let rest: Vec<String> = parts.collect();

    let mut verb = match *method {
        Method::GET | Method::HEAD => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Other,
    };
    if name.is_none() {
        verb = match verb {
            Verb::Get if query.flag("watch") || legacy_watch => Verb::Watch,
            Verb::Get => Verb::List,
            Verb::Delete => Verb::DeleteCollection,
            other => other,
        };
    } else if legacy_watch && verb == Verb::Get {
        verb = Verb::Watch;
    }
    let selector = query.get("fieldSelector").filter(|_| {
        name.is_none() && matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
    });
    Route::Resource(ResourceRoute {
        selected_fields: selector.map(exact_matches).unwrap_or_default(),
        verb,
        group,
        version,
        namespace: namespace.to_owned(),
        plural,
        name,
        subresource,
        rest: (!rest.is_empty()).then(|| rest.join("/")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, uri: &str, expected: &str) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let shown = match route(method, path, &Query::parse(query)) {
            Route::Path => "path".to_owned(),
            Route::Resource(r) => format!(
                "{} {}/{} ns={} {} name={} sub={}",
                r.verb.name(),
                r.group,
                r.version,
                r.namespace,
                r.plural,
                r.name.unwrap_or_default(),
                r.subresource.unwrap_or_default()
            ),
        };
        assert_eq!(shown, expected, "{method} {uri}");
    }

    #[test]
    fn paths_are_decoded_before_they_are_split() {
        check(&Method::GET, "/api/v1/pods/a%2Flog", "get /v1 ns= pods name=a sub=log");
        check(&Method::GET, "/api/v1/pods//a", "get /v1 ns= pods name= sub=a");
        check(&Method::GET, "/api/v1/pods/", "list /v1 ns= pods name= sub=");
        check(&Method::GET, "/api/v1/namespaces//pods", "get /v1 ns= namespaces name= sub=pods");
    }

    #[test]
    fn paths_become_verbs_on_resources() {
        check(&Method::GET, "/api/v1/pods", "list /v1 ns= pods name= sub=");
        check(&Method::GET, "/api/v1/pods?watch=1", "watch /v1 ns= pods name= sub=");
        check(&Method::GET, "/api/v1/watch/pods", "watch /v1 ns= pods name= sub=");
        check(&Method::GET, "/api/v1/namespaces", "list /v1 ns= namespaces name= sub=");
        check(&Method::GET, "/api/v1/namespaces/a", "get /v1 ns= namespaces name=a sub=");
        check(
            &Method::PUT,
            "/api/v1/namespaces/a/finalize",
            "update /v1 ns= namespaces name=a sub=finalize",
        );
        check(&Method::GET, "/api/v1/namespaces/a/pods/b/log", "get /v1 ns=a pods name=b sub=log");
        check(
            &Method::DELETE,
            "/apis/apps/v1/namespaces/a/deployments",
            "deletecollection apps/v1 ns=a deployments name= sub=",
        );
        check(
            &Method::PATCH,
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            "patch apps/v1 ns=a deployments name=b sub=scale",
        );
        check(
            &Method::GET,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aadmin",
            "get rbac.authorization.k8s.io/v1 ns= clusterroles name=system:admin sub=",
        );
        check(&Method::GET, "/apis/apps/v1", "path");
        check(&Method::GET, "/healthz", "path");
        check(&Method::OPTIONS, "/api/v1/pods", " /v1 ns= pods name= sub=");
        check(&Method::HEAD, "/api/v1/pods/a", "get /v1 ns= pods name=a sub=");
    }
}
