//! The parameters of requests besides the body.

use serde_json::{Map, Value};

use super::Dialect;

/// The location of a parameter. Parameters of the same name are sorted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Location {
    Path,
    Query,
}

impl Location {
    pub(super) fn name(self) -> &'static str {
        match self {
            Location::Path => "path",
            Location::Query => "query",
        }
    }
}

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) location: Location,
    kind: &'static str,
}

impl Parameter {
    pub(super) fn render(self, dialect: Dialect) -> Value {
        let mut parameter = Map::new();
        parameter.insert("name".to_owned(), self.name.into());
        parameter.insert("in".to_owned(), self.location.name().into());
        if self.location == Location::Path {
            parameter.insert("required".to_owned(), true.into());
        }
        let mut value = Map::new();
        value.insert("type".to_owned(), self.kind.into());
        value.insert("uniqueItems".to_owned(), true.into());
        match dialect {
            Dialect::V2 => parameter.append(&mut value),
            Dialect::V3 => {
                parameter.insert("schema".to_owned(), Value::Object(value));
            }
        }
        Value::Object(parameter)
    }

    /// Returns whether v2 documents declare the parameter once and refer to it. Old versions of
    /// kubectl need a few of them inline.
    pub(super) fn shared(self) -> bool {
        !matches!(self.name, "name" | "dryRun" | "fieldValidation")
    }
}

const fn query(name: &'static str) -> Parameter {
    Parameter { name, location: Location::Query, kind: "string" }
}

const fn flag(name: &'static str) -> Parameter {
    Parameter { name, location: Location::Query, kind: "boolean" }
}

const fn number(name: &'static str) -> Parameter {
    Parameter { name, location: Location::Query, kind: "integer" }
}

const fn path(name: &'static str) -> Parameter {
    Parameter { name, location: Location::Path, kind: "string" }
}

pub(super) const NAME: Parameter = path("name");
pub(super) const NAMESPACE: Parameter = path("namespace");
/// The path after `…/proxy/`.
pub(super) const REST: Parameter = path("path");
pub(super) const PRETTY: Parameter = query("pretty");

pub(super) const GET: &[Parameter] = &[query("resourceVersion")];

pub(super) const LIST: &[Parameter] = &[
    flag("allowWatchBookmarks"),
    query("continue"),
    query("fieldSelector"),
    query("labelSelector"),
    number("limit"),
    query("resourceVersion"),
    query("resourceVersionMatch"),
    flag("sendInitialEvents"),
    query("shardSelector"),
    number("timeoutSeconds"),
    flag("watch"),
];

pub(super) const WRITE: &[Parameter] =
    &[query("dryRun"), query("fieldManager"), query("fieldValidation")];

pub(super) const PATCH: &[Parameter] =
    &[query("dryRun"), query("fieldManager"), query("fieldValidation"), flag("force")];

pub(super) const DELETE: &[Parameter] = &[
    query("dryRun"),
    number("gracePeriodSeconds"),
    flag("ignoreStoreReadErrorWithClusterBreakingPotential"),
    flag("orphanDependents"),
    query("propagationPolicy"),
];

pub(super) const DELETE_COLLECTION: &[Parameter] = &[
    query("continue"),
    query("dryRun"),
    query("fieldSelector"),
    number("gracePeriodSeconds"),
    flag("ignoreStoreReadErrorWithClusterBreakingPotential"),
    query("labelSelector"),
    number("limit"),
    flag("orphanDependents"),
    query("propagationPolicy"),
    query("resourceVersion"),
    query("resourceVersionMatch"),
    flag("sendInitialEvents"),
    query("shardSelector"),
    number("timeoutSeconds"),
];

pub(super) const LOG: &[Parameter] = &[
    query("container"),
    flag("follow"),
    flag("insecureSkipTLSVerifyBackend"),
    number("limitBytes"),
    flag("previous"),
    number("sinceSeconds"),
    query("stream"),
    number("tailLines"),
    flag("timestamps"),
];

const ATTACH: &[Parameter] =
    &[query("container"), flag("stderr"), flag("stdin"), flag("stdout"), flag("tty")];

const EXEC: &[Parameter] = &[
    query("command"),
    query("container"),
    flag("stderr"),
    flag("stdin"),
    flag("stdout"),
    flag("tty"),
];

/// Returns the parameters of a connect subresource, by the kind of its options; `None` for
/// subresources that exchange objects.
pub(super) fn connect(kind: &str) -> Option<&'static [Parameter]> {
    match kind {
        "PodAttachOptions" => Some(ATTACH),
        "PodExecOptions" => Some(EXEC),
        "PodPortForwardOptions" => Some(const { &[number("ports")] }),
        "PodProxyOptions" | "ServiceProxyOptions" | "NodeProxyOptions" => {
            Some(const { &[query("path")] })
        }
        _ => None,
    }
}
