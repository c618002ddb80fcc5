//! Two servers, and the comparison of a sequence on both.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use crate::canon::canonical;
use crate::compare::{Difference, compare};
use crate::known::KnownDifferences;
use crate::run::{RunError, RunOptions, Session, StepResponse, compact_and_wait, run};
use crate::sequence::{Sequence, Step};
use crate::server::Server;
use crate::webhooks::{WebhookAddress, WebhookServer};

/// Two servers to compare: kube-apiserver as the reference, and the one under test.
#[derive(Debug)]
pub struct Pair {
    upstream: Server,
    ours: Server,
    prefix: String,
    /// Number of runs; each has a new namespace.
    runs: AtomicUsize,
    webhooks: Option<WebhookServer>,
}

/// The result of one sequence.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Finding {
    /// The canonical responses of the reference server.
    pub upstream: Vec<StepResponse>,
    /// The canonical responses of the server under test.
    pub ours: Vec<StepResponse>,
    /// Number of differences that the table explains.
    pub explained: usize,
    /// Differences that it does not explain.
    pub unexplained: Vec<Difference>,
    /// Differences that depend on the duration of the whole run.
    pub not_compared: Vec<Difference>,
}

impl Finding {
    /// Compares the responses of both servers to the same sequence.
    pub fn new(
        sequence: &Sequence,
        upstream: Vec<StepResponse>,
        ours: Vec<StepResponse>,
        known: &KnownDifferences,
    ) -> Self {
        let mut finding = Self { upstream, ours, ..Self::default() };
        let responses = finding.upstream.iter().zip(&finding.ours);
        let mut renumbered = false;
        let mut unknown = Unknown::default();
        for (step, (upstream, ours)) in responses.enumerate() {
            let differences = compare(step, upstream, ours);
            let expired = expired_upstream_only(sequence, step, upstream, ours);
            renumbered |= expired;
            if expired || unknown.affects(&sequence.steps[step]) {
                finding.not_compared.extend(differences);
                unknown.add(&sequence.steps[step]);
                continue;
            }
            for difference in differences {
                // Versions are numbered as they occur, and only one server has shown some of them.
                if renumbered && difference.at.ends_with("resourceVersion") {
                    finding.not_compared.push(difference);
                } else if known.explains(&sequence.steps[step].request(), &difference) {
                    finding.explained += 1;
                } else {
                    finding.unexplained.push(difference);
                }
            }
        }
        finding
    }
}

/// Variables and watches that depend on a response that was not compared.
#[derive(Default)]
struct Unknown<'a> {
    variables: Vec<&'a str>,
    watches: Vec<&'a str>,
}

impl<'a> Unknown<'a> {
    fn affects(&self, step: &Step) -> bool {
        let read = step.read.as_deref();
        let uses = |name: &&str| step.call.contains(&format!("${{{name}}}"));
        read.is_some_and(|watch| self.watches.contains(&watch)) || self.variables.iter().any(uses)
    }

    fn add(&mut self, step: &'a Step) {
        self.variables.extend(step.save.keys().chain(step.renew.keys()).map(String::as_str));
        self.watches.extend(step.watch.as_deref());
    }
}

/// Returns whether a step reads a watch of a built-in kind from the first revision, which only
/// kube-apiserver no longer has. It removes events of a full watch cache once they are older than 75
/// seconds, so this depends on the duration of the whole run. The cache of a custom resource begins
/// later than the first revision, and so does every cache after compaction, which restarts
/// kube-apiserver: such a watch always expires.
fn expired_upstream_only(
    sequence: &Sequence,
    step: usize,
    upstream: &StepResponse,
    ours: &StepResponse,
) -> bool {
    let Some(read) = &sequence.steps[step].read else { return false };
    let watch = sequence.steps[..step].iter().rev().find(|step| step.watch.as_ref() == Some(read));
    let from_first = watch.is_some_and(|watch| {
        let mut query = watch.call.split(['?', '&']);
        query.any(|part| part == "resourceVersion=1") && !is_custom(watch)
    });
    let expired = |response: &StepResponse| {
        response.body["events"][0]["object"]["code"] == EXPIRED && response.body["ended"] == true
    };
    from_first && !sequence.compacts() && expired(upstream) && !expired(ours)
}

/// Returns whether a request is for a custom resource of its sequence or of all sequences.
fn is_custom(step: &Step) -> bool {
    ["/${group}/", "/shared.differ.test/"].iter().any(|group| step.call.contains(group))
}

/// Status code of a watch from a version that is no longer kept.
const EXPIRED: u16 = 410;

impl Pair {
    /// Creates a pair on which namespaces that begin with `prefix` are unused.
    pub fn new(upstream: Server, ours: Server, prefix: impl Into<String>) -> Self {
        Self { upstream, ours, prefix: prefix.into(), runs: AtomicUsize::new(0), webhooks: None }
    }

    /// Sets the webhooks that sequences configure.
    #[must_use]
    pub fn with_webhooks(self, webhooks: WebhookServer) -> Self {
        Self { webhooks: Some(webhooks), ..self }
    }

    fn webhooks(&self) -> WebhookAddress {
        self.webhooks.as_ref().map(|server| server.address().clone()).unwrap_or_default()
    }

    /// Runs a sequence on both servers, in a new namespace.
    ///
    /// # Errors
    ///
    /// If a connection to one of the servers fails.
    pub async fn compare(
        &self,
        sequence: &Sequence,
        known: &KnownDifferences,
    ) -> Result<Finding, RunError> {
        self.compare_once(sequence, known, false).await
    }

    /// Like [`compare`](Self::compare), to confirm a difference: waits longer for watch events.
    ///
    /// # Errors
    ///
    /// If a connection to one of the servers fails.
    pub async fn confirm(
        &self,
        sequence: &Sequence,
        known: &KnownDifferences,
    ) -> Result<Finding, RunError> {
        self.compare_once(sequence, known, true).await
    }

    async fn compare_once(
        &self,
        sequence: &Sequence,
        known: &KnownDifferences,
        confirms: bool,
    ) -> Result<Finding, RunError> {
        let namespace = self.namespace();
        let webhooks = self.webhooks();
        let options = RunOptions { namespace, expected: None, confirms, webhooks };
        let upstream = run(&self.upstream, sequence, options.clone()).await?;
        let options = RunOptions { expected: Some(upstream.clone()), ..options };
        let ours = run(&self.ours, sequence, options).await?;
        Ok(Finding::new(sequence, canonical(&upstream), canonical(&ours), known))
    }

    /// Runs sequences concurrently and compacts once for all of them: compacting kube-apiserver
    /// takes seconds, and no other client may use it meanwhile. A run that confirms differences
    /// waits longer for watch events.
    pub async fn compare_together(
        &self,
        sequences: &[Arc<Sequence>],
        known: &KnownDifferences,
        confirms: bool,
    ) -> Vec<Result<Finding, RunError>> {
        let runs = sequences.iter().map(|sequence| {
            let namespace = self.namespace();
            let webhooks = self.webhooks();
            (sequence.clone(), RunOptions { namespace, expected: None, confirms, webhooks })
        });
        let runs: Vec<_> = runs.collect();
        let upstream = run_together(&self.upstream, runs.clone()).await;
        let again = runs.into_iter().zip(&upstream).map(|((sequence, options), responses)| {
            (sequence, RunOptions { expected: responses.as_ref().ok().cloned(), ..options })
        });
        let ours = run_together(&self.ours, again.collect()).await;
        let found = sequences.iter().zip(upstream).zip(ours);
        found
            .map(|((sequence, upstream), ours)| {
                Ok(Finding::new(sequence, canonical(&upstream?), canonical(&ours?), known))
            })
            .collect()
    }

    fn namespace(&self) -> String {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.prefix)
    }
}

type RunResult = Result<Vec<StepResponse>, RunError>;

async fn run_together(server: &Server, runs: Vec<(Arc<Sequence>, RunOptions)>) -> Vec<RunResult> {
    let mut results: Vec<Option<RunResult>> = runs.iter().map(|_| None).collect();
    let mut tasks = JoinSet::new();
    for (at, (sequence, options)) in runs.into_iter().enumerate() {
        let server = server.clone();
        tasks.spawn(async move {
            let session = Session::begin(&server, sequence, options).await;
            (at, advance(session).await)
        });
    }
    loop {
        let mut waiting = Vec::new();
        // The result of a task that panicked stays empty, which is reported below.
        while let Some(Ok((at, result))) = tasks.join_next().await {
            match result {
                Ok((session, true)) => waiting.push((at, session)),
                Ok((session, false)) => results[at] = Some(Ok(session.finish().await)),
                Err(error) => results[at] = Some(Err(error)),
            }
        }
        if waiting.is_empty() {
            break;
        }
        match compact_and_wait(server).await {
            Ok(()) => {
                for (at, session) in waiting {
                    tasks.spawn(async move { (at, advance(Ok(session)).await) });
                }
            }
            Err(error) => {
                if let Some((at, _)) = waiting.first() {
                    results[*at] = Some(Err(error));
                }
                break;
            }
        }
    }
    results.into_iter().map(|result| result.unwrap_or(Err(RunError::Abandoned))).collect()
}

async fn advance(session: Result<Session, RunError>) -> Result<(Session, bool), RunError> {
    let mut session = session?;
    let more = session.advance().await?;
    Ok((session, more))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn watches_from_the_first_revision_may_expire_in_kube_apiserver_only() {
        let expired =
            json!({"events": [{"type": "ERROR", "object": {"code": 410}}], "ended": true});
        let open = json!({"events": [{"type": "ADDED", "object": {}}], "ended": false});
        let other = json!({"events": [], "ended": false});
        let pods = "/api/v1/pods?watch=1&resourceVersion";
        let (first, later) = (format!("{pods}=1"), format!("{pods}=12"));
        let things = "/apis/${group}/v1/things?watch=1&resourceVersion=1".to_owned();
        let widgets = "/apis/shared.differ.test/v1/widgets?watch=1&resourceVersion=1".to_owned();
        let cases = [
            (&first, "", &expired, &open, false),
            (&first, "", &expired, &expired, false),
            (&first, "", &open, &expired, true),
            (&first, "", &open, &other, true),
            (&first, "- {compact: true}\n", &expired, &open, true),
            (&later, "", &expired, &open, true),
            (&things, "", &expired, &open, true),
            (&widgets, "", &expired, &open, true),
        ];
        for (path, before, upstream, ours, differs) in cases {
            let text = format!(
                "about: a watch\nsteps:\n{before}- {{watch: w, do: 'GET {path}'}}\n- {{read: w}}\n"
            );
            let sequence = Sequence::parse("watch", &text).unwrap();
            let responses = |body: &serde_json::Value| {
                let mut all = vec![StepResponse::default(); sequence.steps.len()];
                all.last_mut().unwrap().body = body.clone();
                all
            };
            let known = KnownDifferences::default();
            let found = Finding::new(&sequence, responses(upstream), responses(ours), &known);
            assert_eq!(!found.unexplained.is_empty(), differs, "{text}");
            let expires = upstream != ours && !differs;
            assert_eq!(!found.not_compared.is_empty(), expires, "{text}");
        }
    }

    #[test]
    fn versions_are_not_compared_after_a_watch_that_only_upstream_has_expired() {
        let text = "about: a watch\nsteps:\n\
                    - {watch: w, do: 'GET /api/v1/pods?watch=1&resourceVersion=1'}\n- {read: w}\n\
                    - {do: 'GET /api/v1/pods'}\n";
        let sequence = Sequence::parse("watch", text).unwrap();
        let responses = |read: serde_json::Value, version: &str, kind: &str| {
            let list = json!({"kind": kind, "metadata": {"resourceVersion": version}});
            [json!({}), read, list]
                .map(|body| StepResponse { body, ..StepResponse::default() })
                .to_vec()
        };
        let expired =
            json!({"events": [{"type": "ERROR", "object": {"code": 410}}], "ended": true});
        let open = json!({"events": [], "ended": false});
        let upstream = responses(expired, "<rv 1>", "PodList");
        let ours = responses(open, "<rv 2>", "List");
        let found = Finding::new(&sequence, upstream, ours, &KnownDifferences::default());
        let places: Vec<&str> = found.unexplained.iter().map(|it| &*it.at).collect();
        assert_eq!(places, ["body/kind"]);
    }

    #[test]
    fn what_depends_on_a_watch_that_only_upstream_has_expired_is_not_compared() {
        let text = "about: a watch\nsteps:\n\
                    - {watch: w, do: 'GET /api/v1/pods?watch=1&resourceVersion=1'}\n\
                    - {read: w, save: {v: /events/0/object/metadata/resourceVersion}}\n\
                    - {watch: x, do: 'GET /api/v1/pods?watch=1&resourceVersion=${v}'}\n\
                    - {read: x}\n- {watch: y, do: 'GET /api/v1/pods?watch=1'}\n- {read: y}\n";
        let sequence = Sequence::parse("watch", text).unwrap();
        let responses = |expired: bool, name: &str| {
            let first = match expired {
                true => {
                    json!({"events": [{"type": "ERROR", "object": {"code": 410}}], "ended": true})
                }
                false => json!({"events": [], "ended": false}),
            };
            let read = json!({"events": [{"object": {"metadata": {"name": name}}}]});
            [json!({}), first, json!({}), read.clone(), json!({}), read]
                .map(|body| StepResponse { body, ..StepResponse::default() })
                .to_vec()
        };
        let (upstream, ours) = (responses(true, "a"), responses(false, "b"));
        let found = Finding::new(&sequence, upstream, ours, &KnownDifferences::default());
        let steps: Vec<usize> = found.unexplained.iter().map(|it| it.step).collect();
        assert_eq!(steps, [5]);
    }
}
