//! The operations of one resource and its subresources, by verb.

use evenkeel_types::Gvk;

use super::names::{Names, identifier};
use super::{BUILTIN, Model, OK, Route, has};
use crate::openapi::parameters::{self, NAME, NAMESPACE, PRETTY, Parameter, REST};
use crate::openapi::{Served, Source, Sub, custom};

const ANY: &[&str] = &["*/*"];
const CUSTOM: &[&str] = &["application/json", "application/yaml"];
const STREAM: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const LOG: &[&str] =
    &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const PATCH: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// Custom resources do not support strategic merge patches.
const CUSTOM_PATCH: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

const OK_CREATED: &[u16] = &[200, 201];
const OK_ACCEPTED: &[u16] = &[200, 202];
const OK_CREATED_ACCEPTED: &[u16] = &[200, 201, 202];

/// The resources whose delete returns the object instead of a `Status`.
const RETURNED_WHEN_DELETED: [(&str, &str); 16] = [
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

/// A resource, and what its operations share.
pub(super) struct Resource<'a> {
    served: &'a Served<'a>,
    pub(super) builtin: bool,
    names: Names,
    /// `/namespaces/{namespace}`, or empty.
    scope: &'static str,
    /// The name of the resource in operation ids: `NamespacedPod`.
    noun: String,
    model: Model,
    list: Model,
}

impl<'a> Resource<'a> {
    pub(super) fn new(served: &'a Served<'a>) -> Resource<'a> {
        let Served { group, version, kind, list_kind, .. } = *served;
        let (builtin, model, list) = match served.schema {
            Source::Builtin(ty) => {
                (true, Model::Type(ty), Model::of(Gvk::new(group, version, list_kind)))
            }
            Source::Custom { .. } => (
                false,
                Model::Custom(custom::name(group, version, kind)),
                Model::Custom(custom::name(group, version, list_kind)),
            ),
        };
        let (scope, namespaced) = match served.namespaced {
            true => ("/namespaces/{namespace}", "Namespaced"),
            false => ("", ""),
        };
        Resource {
            served,
            builtin,
            names: Names::new(group, version),
            scope,
            noun: format!("{namespaced}{}", identifier(kind, true)),
            model,
            list,
        }
    }

    fn gvk(&self) -> [&'a str; 3] {
        [self.served.group, self.served.version, self.served.kind]
    }

    /// Returns the path of the collection; `watch` is `/watch` for the legacy watch path.
    fn path(&self, watch: &str, scope: &str, rest: &str) -> String {
        [&self.names.root, watch, scope, "/", self.served.plural, rest].concat()
    }

    /// Builds a route with the fields that all routes share.
    fn route(
        &self,
        method: &'static str,
        path: String,
        (verb, noun): (&str, &str),
        (action, gvk): (&'static str, [&'a str; 3]),
        options: &[Parameter],
    ) -> Route<'a> {
        let mut parameters = Vec::with_capacity(options.len() + 4);
        parameters.extend_from_slice(options);
        if path.contains("{name}") {
            parameters.push(NAME);
        }
        if path.contains("{namespace}") {
            parameters.push(NAMESPACE);
        }
        if action != "connect" {
            parameters.push(PRETTY);
        }
        Route {
            path,
            method,
            tag: self.names.tag.clone(),
            id: [verb, &self.names.prefix, noun].concat(),
            action: Some((action, gvk)),
            parameters,
            consumes: if self.builtin { ANY } else { CUSTOM },
            produces: if self.builtin { BUILTIN } else { CUSTOM },
            body: None,
            success_codes: OK,
            response: self.model.clone(),
        }
    }

    pub(super) fn collection(&self, routes: &mut Vec<Route<'a>>) {
        let verbs = self.served.verbs;
        let path = || self.path("", self.scope, "");
        let gvk = self.gvk();
        if has(verbs, "list") {
            let mut list = |path: String, noun: &str| {
                let route =
                    self.route("get", path, ("list", noun), ("list", gvk), parameters::LIST);
                routes.push(Route {
                    produces: if self.builtin { STREAM } else { CUSTOM },
                    response: self.list.clone(),
                    ..route
                });
            };
            list(path(), &self.noun);
            if self.served.namespaced {
                let kind = identifier(self.served.kind, true);
                list(self.path("", "", ""), &format!("{kind}ForAllNamespaces"));
            }
        }
        if has(verbs, "create") {
            let names = ("create", self.noun.as_str());
            let route = self.route("post", path(), names, ("post", gvk), parameters::WRITE);
            routes.push(Route {
                body: Some((self.model.clone(), true)),
                success_codes: OK_CREATED_ACCEPTED,
                ..route
            });
        }
        if has(verbs, "deletecollection") {
            let noun = format!("Collection{}", self.noun);
            // Custom resources publish the list options.
            let (options, body) = match self.builtin {
                true => {
                    (parameters::DELETE_COLLECTION, Some((Model::meta("DeleteOptions"), false)))
                }
                false => (parameters::LIST, None),
            };
            let names = ("delete", noun.as_str());
            let route = self.route("delete", path(), names, ("deletecollection", gvk), options);
            routes.push(Route { body, response: Model::meta("Status"), ..route });
        }
    }

    pub(super) fn item(&self, routes: &mut Vec<Route<'a>>) {
        let path = self.path("", self.scope, "/{name}");
        self.object(&path, &self.noun, self.gvk(), &self.model, self.served.verbs, routes);
        if has(self.served.verbs, "delete") {
            let names = ("delete", self.noun.as_str());
            let route =
                self.route("delete", path, names, ("delete", self.gvk()), parameters::DELETE);
            let returned = self.builtin
                && RETURNED_WHEN_DELETED.contains(&(self.served.group, self.served.plural));
            routes.push(Route {
                body: Some((Model::meta("DeleteOptions"), false)),
                success_codes: OK_ACCEPTED,
                response: if returned { self.model.clone() } else { Model::meta("Status") },
                ..route
            });
        }
    }

    /// Adds the operations get, replace and patch.
    fn object(
        &self,
        path: &str,
        noun: &str,
        gvk: [&'a str; 3],
        model: &Model,
        verbs: &[&str],
        routes: &mut Vec<Route<'a>>,
    ) {
        if has(verbs, "get") {
            let options = if self.builtin { &[] } else { parameters::GET };
            let route = self.route("get", path.to_owned(), ("read", noun), ("get", gvk), options);
            routes.push(Route { response: model.clone(), ..route });
        }
        if has(verbs, "update") {
            let names = ("replace", noun);
            let route = self.route("put", path.to_owned(), names, ("put", gvk), parameters::WRITE);
            routes.push(Route {
                body: Some((model.clone(), true)),
                success_codes: OK_CREATED,
                response: model.clone(),
                ..route
            });
        }
        if has(verbs, "patch") {
            let names = ("patch", noun);
            let route =
                self.route("patch", path.to_owned(), names, ("patch", gvk), parameters::PATCH);
            routes.push(Route {
                consumes: if self.builtin { PATCH } else { CUSTOM_PATCH },
                body: Some((Model::Patch, true)),
                success_codes: if self.builtin { OK_CREATED } else { OK },
                response: model.clone(),
                ..route
            });
        }
    }

    /// Adds the operations of a subresource that exchanges objects.
    pub(super) fn subresource(&self, sub: &Sub<'a>, routes: &mut Vec<Route<'a>>) {
        let path = self.path("", self.scope, &format!("/{{name}}/{}", sub.name));
        let noun = self.noun.clone() + &identifier(sub.name, true);
        let own = [sub.group, sub.version, sub.kind] == self.gvk();
        let model = match own {
            true => self.model.clone(),
            false => Model::of(Gvk::new(sub.group, sub.version, sub.kind)),
        };
        // The scale of a custom resource has the kind of the resource.
        let gvk = if self.builtin { [sub.group, sub.version, sub.kind] } else { self.gvk() };
        if sub.name == "log" {
            let route = self.route("get", path, ("read", &noun), ("get", gvk), parameters::LOG);
            routes.push(Route { produces: LOG, response: Model::Text, ..route });
            return;
        }
        if has(sub.verbs, "create") {
            let names = ("create", noun.as_str());
            let route = self.route("post", path.clone(), names, ("post", gvk), parameters::WRITE);
            routes.push(Route {
                body: Some((model.clone(), true)),
                success_codes: OK_CREATED_ACCEPTED,
                response: model.clone(),
                ..route
            });
        }
        self.object(&path, &noun, gvk, &model, sub.verbs, routes);
    }

    /// Adds the operations of a connect subresource.
    pub(super) fn connect(
        &self,
        sub: &Sub<'a>,
        options: &[Parameter],
        routes: &mut Vec<Route<'a>>,
    ) {
        let gvk = [sub.group, sub.version, sub.kind];
        let noun = self.noun.clone() + &identifier(sub.name, true);
        let path = self.path("", self.scope, &format!("/{{name}}/{}", sub.name));
        let methods: &[(&str, &str)] = match sub.name {
            "proxy" => &[
                ("get", "Get"),
                ("put", "Put"),
                ("post", "Post"),
                ("delete", "Delete"),
                ("options", "Options"),
                ("head", "Head"),
                ("patch", "Patch"),
            ],
            _ => &[("get", "Get"), ("post", "Post")],
        };
        for (method, name) in methods {
            let mut push = |path: String, noun: String, rest: Option<Parameter>| {
                let names = ("connect", noun.as_str());
                let mut route = self.route(method, path, names, ("connect", gvk), options);
                route.parameters.extend(rest);
                routes.push(Route { produces: ANY, response: Model::Text, ..route });
            };
            push(path.clone(), format!("{name}{noun}"), None);
            if sub.name == "proxy" {
                push(format!("{path}/{{path}}"), format!("{name}{noun}WithPath"), Some(REST));
            }
        }
    }

    /// Adds the legacy watch operations, by path instead of by parameter.
    pub(super) fn watch(&self, routes: &mut Vec<Route<'a>>) {
        let mut push = |path: String, noun: &str, action: &'static str| {
            let route =
                self.route("get", path, ("watch", noun), (action, self.gvk()), parameters::LIST);
            routes.push(Route { produces: STREAM, response: Model::meta("WatchEvent"), ..route });
        };
        let noun = &self.noun;
        push(self.path("/watch", self.scope, ""), &format!("{noun}List"), "watchlist");
        push(self.path("/watch", self.scope, "/{name}"), noun, "watch");
        if self.served.namespaced {
            let all = format!("{}ListForAllNamespaces", identifier(self.served.kind, true));
            push(self.path("/watch", "", ""), &all, "watchlist");
        }
    }
}
