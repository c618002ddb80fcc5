//! Sends the requests of area files to both servers and compares their audit logs.
//!
//! Skipped, with a message, if kube-apiserver is not installed.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::audit::{self, Policy};
use evenkeel_differ::generate::shared;
use evenkeel_differ::{
    KnownDifferences, RunOptions, Sequence, Server, StepResponse, canonical, compare, run,
};
use evenkeel_upstream::{Cluster, UpstreamOptions, locate, report_skipped};
use regex::Regex;
use serde_json::Value;

/// Area files that cover what is recorded of a request; none has requests that race.
const AREAS: [&str; 11] = [
    "admission",
    "crud",
    "delete",
    "errors",
    "forms",
    "lists",
    "patch",
    "pod-security",
    "rbac",
    "reviews",
    "status-scale",
];

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
# The server's own requests, and those of the client that prepares the test.
- {level: None, users: ['system:apiserver']}
- {level: None, resources: [{group: apiextensions.k8s.io}]}
- {level: Metadata, resources: [{group: rbac.authorization.k8s.io}]}
- {level: Request, resources: [{group: '', resources: [services]}]}
- {level: RequestResponse}
";

/// Parts of a URI that differ between the servers.
static VALUES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(continue|resourceVersion)=[A-Za-z0-9_-]+").unwrap());

/// Ends the events of a sequence.
const MARK: &str = "/apis/end.example";

#[tokio::test(flavor = "multi_thread")]
async fn audit_events_are_those_of_kube_apiserver() {
    let binaries = match locate() {
        Ok(binaries) => binaries,
        Err(missing) => {
            return report_skipped(1, "comparison of audit events with kube-apiserver", missing);
        }
    };
    let folder = Folder::new();
    let (policy, log) = (folder.0.join("policy.yaml"), folder.0.join("audit.log"));
    std::fs::write(&policy, POLICY).unwrap();
    let mut options = UpstreamOptions::default();
    options.apiserver_flags = vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ];
    let upstream = Cluster::start(&binaries, &options).await.unwrap();
    let upstream = Server::real(upstream).await.unwrap();
    shared::create(&upstream).await.unwrap();
    let (sink, mut events) = audit::channel(1_000_000);
    let builder = ApiServer::builder().rbac().audit(Policy::from_yaml(POLICY).unwrap(), sink);
    let ours = Server::ours(builder.build().await.unwrap());
    shared::create(&ours).await.unwrap();

    let sequences = Sequence::load_folder(&manifest().join("sequences")).unwrap();
    let known = KnownDifferences::built_in().unwrap();
    let mut compared = 0;
    let mut differences = Vec::new();
    for sequence in sequences.iter().filter(|sequence| AREAS.contains(&&*sequence.name)) {
        let mark = format!("{MARK}/{}", sequence.name);
        let mut sequence = sequence.clone();
        sequence.steps.push(evenkeel_differ::Step::call("GET", &mark));
        let namespace = format!("audit-{}", sequence.name);
        let options = RunOptions { namespace: namespace.clone(), ..RunOptions::default() };
        let responses = run(&upstream, &sequence, options).await.unwrap();
        let expected = Some(responses);
        let options =
            RunOptions { namespace: namespace.clone(), expected, ..RunOptions::default() };
        run(&ours, &sequence, options).await.unwrap();

        let theirs = recorded(&log, &mark).await;
        let mut own = Vec::new();
        while let Some(event) = events.try_next() {
            own.push(serde_json::to_value(event).unwrap());
        }
        let [theirs, own] = [theirs, own].map(|events| comparable(events, &namespace));
        let lines = |events: &[StepResponse]| -> Vec<String> {
            events.iter().map(|event| summary(&event.body)).collect()
        };
        let (ours, upstream) = (lines(&own), lines(&theirs));
        if ours != upstream {
            let at = ours.iter().zip(&upstream).position(|(ours, upstream)| ours != upstream);
            let at = at.unwrap_or(ours.len().min(upstream.len()));
            let (ours, upstream) = (ours.get(at), upstream.get(at));
            differences.push(format!("{}: {ours:?}, upstream {upstream:?}", sequence.name));
            continue;
        }
        compared += own.len();
        for (at, (theirs, own)) in theirs.iter().zip(&own).enumerate() {
            let uri = own.body["requestURI"].as_str().unwrap_or_default();
            let request = format!("{} {uri}", method(&own.body["verb"]));
            for difference in compare(at, theirs, own) {
                // What the bodies of responses differ in is compared elsewhere.
                let mut body = difference.clone();
                for part in ["body/responseObject/", "body/responseStatus/"] {
                    body.at = body.at.replace(part, "body/");
                }
                if !known.explains(&request, &body) {
                    differences.push(format!("{}: {request}: {difference:?}", sequence.name));
                }
            }
        }
    }
    assert!(compared > 150, "only {compared} events");
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

/// Waits until the log has the request to `mark`, and returns the events since the one before.
async fn recorded(log: &Path, mark: &str) -> Vec<Value> {
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let all: Vec<Value> =
            complete.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_end = |event: &Value, uri: &str| {
            event["stage"] == "ResponseComplete"
                && event["requestURI"].as_str().is_some_and(|it| it.starts_with(uri))
        };
        if all.iter().any(|event| is_end(event, mark)) {
            let rest = &all[..all.len() - 1];
            let begin = rest.iter().rposition(|event| is_end(event, MARK)).map_or(0, |at| at + 1);
            return all[begin..].to_vec();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the events of a sequence in comparable form: without watches, which end at any time.
fn comparable(events: Vec<Value>, namespace: &str) -> Vec<StepResponse> {
    let mut ids = BTreeSet::new();
    let events = events.into_iter().filter_map(|mut event| {
        let in_sequence = event["user"]["username"] == "admin"
            && event["verb"] != "watch"
            && !event["requestURI"].as_str().unwrap_or_default().contains("watch=");
        // Upstream's log cannot encode a patch that is not JSON, and loses the event.
        let is_lost = event["stage"] == "ResponseComplete"
            && event["verb"] == "patch"
            && event["level"] != "Metadata"
            && event["requestObject"].is_null();
        // Both stages of one request have its id.
        let id = event["auditID"].as_str().unwrap().to_owned();
        let is_second = !ids.insert(id);
        let fields = event.as_object_mut().unwrap();
        for field in ["auditID", "sourceIPs", "userAgent"] {
            fields.remove(field);
        }
        // Requests that take longer than half a second have their latencies.
        if let Some(annotations) = fields.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !name.starts_with("apiserver.latency.k8s.io/"));
        }
        // The client certificate has an id.
        fields["user"].as_object_mut().unwrap().remove("extra");
        fields.insert("second".to_owned(), is_second.into());
        let uri = event["requestURI"].as_str().unwrap();
        let uri = VALUES.replace_all(uri, "$1=<value>").into_owned();
        event["requestURI"] = uri.into();
        let text = event.to_string();
        let in_sequence = in_sequence && !is_lost && text.contains(namespace);
        (in_sequence || text.contains(MARK)).then_some(event)
    });
    let responses: Vec<StepResponse> =
        events.map(|body| StepResponse { body, ..StepResponse::default() }).collect();
    canonical(&responses)
}

/// Returns the method of requests with this verb.
fn method(verb: &Value) -> &'static str {
    match verb.as_str().unwrap_or_default() {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" | "deletecollection" => "DELETE",
        _ => "GET",
    }
}

/// Returns what identifies an event.
fn summary(event: &Value) -> String {
    let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let status = &event["responseStatus"]["code"];
    format!("{} {} {} {status}", text("stage"), text("verb"), text("requestURI"))
}

fn manifest() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// A directory that is deleted with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("differ-audit-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
