//! Begins the audit record of a request: what is known when it is received.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::USER_AGENT;
use http::{HeaderMap, Uri};

use super::authorize::attributes;
use super::negotiate;
use super::route::Route;
use crate::audit::{Audit, AuditTrail, Completion, Event, ObjectReference, Stage, UserInfo};
use crate::identity::Identity;
use crate::listen::Peer;
use crate::status::Status;

/// User agents are cut after this many bytes.
const USER_AGENT_BYTES: usize = 1024;

/// A request that may have to be recorded.
pub(crate) struct Recorder {
    pub(crate) audit: Arc<Audit>,
    pub(crate) audit_id: String,
    /// In lower case.
    pub(crate) method: String,
    pub(crate) uri: Uri,
    pub(crate) route: Route,
    pub(crate) headers: HeaderMap,
    pub(crate) peer: Option<Peer>,
}

impl Recorder {
    /// Records that the request of `user` was received, if the policy records it.
    pub(crate) fn received(&self, user: &Identity) -> Completion {
        let trail = self.begin(Some(user));
        trail.send(Stage::RequestReceived);
        Completion::new(trail)
    }

    /// Records a request that was rejected before its user was known, if the policy records it.
    pub(crate) fn rejected(&self, status: &Status) {
        let trail = self.begin(None);
        failed(&trail, &self.headers, status);
        trail.responded(status.code());
        trail.send(Stage::ResponseStarted);
    }

    fn begin(&self, user: Option<&Identity>) -> AuditTrail {
        let unknown = Identity::default();
        let attributes =
            attributes(user.unwrap_or(&unknown), &self.route, &self.method, self.uri.path());
        let Some(decision) = self.audit.decide(&attributes, user.is_some()) else {
            return AuditTrail::default();
        };
        let now = self.audit.now();
        let mut event = Event::received(decision.level, self.audit_id.clone(), now);
        event.request_uri = self.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        attributes.verb.clone_into(&mut event.verb);
        event.user = user.map(UserInfo::from).unwrap_or_default();
        event.source_ips = source_ips(&self.headers, self.peer.as_ref());
        let agent = self.headers.get(USER_AGENT).map(|value| value.as_bytes());
        event.user_agent = user_agent(agent.unwrap_or_default());
        event.object_ref = attributes.resource.as_ref().map(|resource| ObjectReference {
            resource: resource.resource.to_owned(),
            namespace: resource.namespace.to_owned(),
            name: resource.name.to_owned(),
            api_group: resource.group.to_owned(),
            api_version: resource.version.to_owned(),
            subresource: resource.subresource.to_owned(),
            ..ObjectReference::default()
        });
        let is_long_running = user.is_some() && self.route.is_long_running();
        AuditTrail::new(&self.audit, decision, is_long_running, event)
    }
}

/// Returns the addresses of proxies, which the client may make up, and of the connection.
fn source_ips(headers: &HeaderMap, peer: Option<&Peer>) -> Vec<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let forwarded = text("x-forwarded-for").unwrap_or_default().split(',');
    let mut found: Vec<IpAddr> = forwarded.filter_map(|part| part.trim().parse().ok()).collect();
    let real = text("x-real-ip").and_then(|address| address.trim().parse().ok());
    found.extend(real.filter(|address| !found.contains(address)));
    let remote = peer.map(|peer| peer.address().ip());
    found.extend(remote.filter(|address| found.last() != Some(address)));
    found.iter().map(ToString::to_string).collect()
}

fn user_agent(agent: &[u8]) -> String {
    match agent.get(..USER_AGENT_BYTES) {
        Some(start) if agent.len() > USER_AGENT_BYTES => {
            format!("{}...TRUNCATED", String::from_utf8_lossy(start))
        }
        _ => String::from_utf8_lossy(agent).into_owned(),
    }
}

/// Records an error response to a request with `headers`. Upstream records only the code of a Status
/// whose format was not accepted.
pub(crate) fn failed(trail: &AuditTrail, headers: &HeaderMap, status: &Status) {
    if negotiate::error_format(headers, false).is_some() {
        trail.failed(status);
    }
}
