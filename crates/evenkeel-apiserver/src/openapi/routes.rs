//! The operations of the server, independent of the OpenAPI version.

mod names;
mod resource;

use evenkeel_types::{Gvk, Type, by_name, lookup};

use self::names::Names;
use self::resource::Resource;
use super::Served;
use super::parameters::{self, Parameter};

const NOTHING: &[&str] = &[];
const KEYS: &[&str] = &["application/jwk-set+json"];
const JSON: &[&str] = &["application/json"];
const BUILTIN: &[&str] =
    &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The schema of a body.
#[derive(Clone, Debug)]
pub(super) enum Model {
    Type(&'static Type),
    /// The schema of a custom resource, by name.
    Custom(String),
    Patch,
    Text,
}

impl Model {
    fn of(gvk: Gvk<'_>) -> Model {
        lookup(gvk).map_or(Model::Text, Model::Type)
    }

    fn named(name: &str) -> Model {
        by_name(name).map_or(Model::Text, Model::Type)
    }

    fn meta(kind: &str) -> Model {
        Model::of(Gvk::new("", "v1", kind))
    }
}

/// One operation.
pub(super) struct Route<'a> {
    pub(super) path: String,
    /// In lower case: `get`.
    pub(super) method: &'static str,
    pub(super) tag: String,
    pub(super) id: String,
    /// `x-kubernetes-action`, and the group, version and kind of the operation.
    pub(super) action: Option<(&'static str, [&'a str; 3])>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) consumes: &'static [&'static str],
    pub(super) produces: &'static [&'static str],
    /// The schema of the request body, and whether it is required.
    pub(super) body: Option<(Model, bool)>,
    /// The success status codes, and the schema of the response.
    pub(super) success_codes: &'static [u16],
    pub(super) response: Model,
}

const OK: &[u16] = &[200];

/// Returns the operations outside of groups, with the v3 document of each.
pub(super) fn fixed<'a>() -> impl Iterator<Item = (&'static str, Route<'a>)> {
    [
        ("api", "core", "getCoreAPIVersions", BUILTIN, BUILTIN, Model::meta("APIVersions")),
        ("apis", "apis", "getAPIVersions", BUILTIN, BUILTIN, Model::meta("APIGroupList")),
        (
            "version",
            "version",
            "getCodeVersion",
            JSON,
            JSON,
            Model::named("io.k8s.apimachinery.pkg.version.Info"),
        ),
        (
            ".well-known/openid-configuration",
            "WellKnown",
            "getServiceAccountIssuerOpenIDConfiguration",
            NOTHING,
            JSON,
            Model::Text,
        ),
        (
            "openid/v1/jwks",
            "openid",
            "getServiceAccountIssuerOpenIDKeyset",
            NOTHING,
            KEYS,
            Model::Text,
        ),
    ]
    .into_iter()
    .map(|(document, tag, id, consumes, produces, response)| {
        let root = root_route(format!("/{document}/"), tag.to_owned(), id.to_owned(), response);
        (document, Route { consumes, produces, ..root })
    })
}

/// Returns the operation `GET /apis/<group>/`.
pub(super) fn group<'a>(group: &str) -> Route<'a> {
    let names = Names::of_group(group);
    let id = format!("get{}APIGroup", names.prefix);
    root_route(format!("/apis/{group}/"), names.tag, id, Model::meta("APIGroup"))
}

/// Returns the operation `GET /apis/<group>/<version>/`.
pub(super) fn group_version<'a>(group: &str, version: &str) -> Route<'a> {
    let names = Names::new(group, version);
    let id = format!("get{}APIResources", names.prefix);
    root_route(format!("{}/", names.root), names.tag, id, Model::meta("APIResourceList"))
}

fn root_route<'a>(path: String, tag: String, id: String, response: Model) -> Route<'a> {
    Route {
        path,
        method: "get",
        tag,
        id,
        action: None,
        parameters: Vec::new(),
        consumes: BUILTIN,
        produces: BUILTIN,
        body: None,
        success_codes: OK,
        response,
    }
}

/// Returns the operations of a resource and its subresources.
pub(super) fn of<'a>(served: &'a Served<'a>) -> Vec<Route<'a>> {
    let resource = Resource::new(served);
    let mut routes = Vec::new();
    resource.collection(&mut routes);
    resource.item(&mut routes);
    for sub in &served.subresources {
        match parameters::connect(sub.kind) {
            Some(options) => resource.connect(sub, options, &mut routes),
            None => resource.subresource(sub, &mut routes),
        }
    }
    if resource.builtin && has(served.verbs, "watch") {
        resource.watch(&mut routes);
    }
    routes
}

fn has(verbs: &[&str], verb: &str) -> bool {
    verbs.contains(&verb)
}
