//! Where a fault may happen: a request with its sender, or an event of a watch.

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;

use super::plan::{At, Effect};
use crate::context::Core;
use crate::digest;
use crate::request::query::Query;
use crate::request::route::{self, Route, Verb};

/// A request for a resource, or an event of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) verb: &'static str,
    pub(super) resource: String,
    pub(super) object: String,
    pub(super) user: String,
    user_agent: String,
    /// Whether the request depends on a version that may have expired.
    versioned: bool,
    /// The continue token of a list.
    token: Option<String>,
}

impl Place {
    /// Returns the place of a request; `None` if faults never hit it: discovery, health checks, and
    /// requests without valid credentials.
    pub(crate) fn of(core: &Core, parts: &Parts) -> Option<Self> {
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        let Route::Resource(route) = route::route(&parts.method, parts.uri.path(), &query) else {
            return None;
        };
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let applies =
            header(CONTENT_TYPE).is_some_and(|it| it.starts_with("application/apply-patch"));
        let verb = match route.verb {
            Verb::Other => return None,
            Verb::Patch if applies => "apply",
            verb => verb.name(),
        };
        let user = match header(http::HeaderName::from_static("impersonate-user")) {
            Some(user) => user.to_owned(),
            None => core.authenticator.user(core.authentication_state(), parts)?,
        };
        let mut resource = route.plural;
        for (separator, part) in
            [(".", &route.group), ("/", &route.subresource.unwrap_or_default())]
        {
            if !part.is_empty() {
                resource = resource + separator + part;
            }
        }
        let object = match (&*route.namespace, route.name.unwrap_or_default()) {
            (_, name) if name.is_empty() => name,
            ("", name) => name,
            (namespace, name) => format!("{namespace}/{name}"),
        };
        let version = query.get("resourceVersion").unwrap_or_default();
        let versioned = route.verb == Verb::Watch && !matches!(version, "" | "0");
        let token = (route.verb == Verb::List).then(|| query.get("continue")).flatten();
        let token = token.and_then(inconsistent_token);
        let user_agent = header(USER_AGENT).unwrap_or_default().to_owned();
        Some(Self { verb, resource, object, user, user_agent, versioned, token })
    }

    /// Returns the place of an event of this watch.
    pub(crate) fn event(&self) -> Self {
        Self { verb: "event", object: String::new(), ..self.clone() }
    }

    /// Returns a token that continues the list of this one at the latest version.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Whether the effect is possible here.
    pub(super) fn allows(&self, effect: Effect) -> bool {
        let expires = match self.verb {
            "watch" => self.versioned,
            "list" => self.token.is_some(),
            _ => true,
        };
        effect.is_possible(self.verb) && (effect != Effect::Expire || expires)
    }

    /// Whether `at` names this place, whatever its occurrence.
    pub(super) fn is(&self, at: &At) -> bool {
        let equals = |given: &str, own: &str| given.is_empty() || given == own;
        let user = match at.user.is_empty() {
            true => !is_control_plane(&self.user),
            false => at.user == self.user,
        };
        user && equals(&at.verb, self.verb)
            && equals(&at.resource, &self.resource)
            && equals(&at.object, &self.object)
            && self.user_agent.starts_with(&at.user_agent)
    }

    /// Returns the place as a plan names it.
    pub(super) fn at(&self, nth: u32) -> At {
        let (resource, object, user) =
            (self.resource.clone(), self.object.clone(), self.user.clone());
        At { verb: self.verb.to_owned(), resource, object, nth, user, ..At::default() }
    }
}

/// Whether the user is a component of the cluster, not of the program under test.
fn is_control_plane(user: &str) -> bool {
    ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"].contains(&user)
        || user.starts_with("system:node:")
        || user.starts_with("system:serviceaccount:kube-system:")
}

/// Returns what the server responds with to an expired continue token.
fn inconsistent_token(token: &str) -> Option<String> {
    let bytes = digest::from_base64_url(token).ok()?;
    let mut token: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let revision = token.get_mut("rv")?;
    if revision.as_i64()? < 0 {
        // It does not depend on a version.
        return None;
    }
    *revision = (-1).into();
    Some(digest::base64_url(token.to_string().as_bytes()))
}
