//! The reflector with a scripted server and with random faults.

mod between;
mod faults;
mod follow;
mod frozen;
mod history;
mod list;
mod script;
mod stream;

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;

use self::script::{Run, ScriptedResponse};
use super::*;
use crate::kind::Kind;

#[expect(dead_code, reason = "that it compiles is the claim")]
fn a_reflector_can_run_on_any_thread<S: Sink>(reflector: Reflector, sink: &mut S) -> impl Send {
    reflector.run(sink)
}

fn scope() -> Scope {
    Scope::all(Kind::of::<ConfigMap>())
}

/// Runs without streaming lists until the scripted responses are used up.
async fn listing(responses: impl IntoIterator<Item = ScriptedResponse>) -> Run {
    let options =
        ReflectorOptions { streaming: false, check_history: false, ..ReflectorOptions::default() };
    script::run(scope(), options, responses).await
}

/// Runs with streaming lists until the scripted responses are used up.
async fn streaming(responses: impl IntoIterator<Item = ScriptedResponse>) -> Run {
    let options = ReflectorOptions { check_history: false, ..ReflectorOptions::default() };
    script::run(scope(), options, responses).await
}

/// The request of a paged list.
fn paged(version: &str) -> String {
    match version {
        "" => "limit=500".to_owned(),
        _ => format!("limit=500&resourceVersion={version}"),
    }
}

/// The request of a further page.
fn page(token: &str) -> String {
    format!("limit=500&continue={token}")
}

/// The request of a full list.
fn whole(version: &str) -> String {
    match version {
        "" => String::new(),
        _ => format!("resourceVersion={version}"),
    }
}

/// The request of a watch.
fn watch(version: &str) -> String {
    format!("watch=true&allowWatchBookmarks=true&{}", whole(version))
        .trim_end_matches('&')
        .to_owned()
}

/// The request of a streaming list.
fn stream(version: &str) -> String {
    let start = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true";
    format!("{start}&resourceVersionMatch=NotOlderThan&{}", whole(version))
        .trim_end_matches('&')
        .to_owned()
}
