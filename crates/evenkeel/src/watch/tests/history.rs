//! Servers that were restored or replaced.

use super::super::history::is_lower;
use super::script::{failure, list, open, unreachable};
use super::*;

async fn checking(responses: impl IntoIterator<Item = ScriptedResponse>) -> Run {
    let options = ReflectorOptions { streaming: false, ..ReflectorOptions::default() };
    script::run(scope(), options, responses).await
}

const CHECK: &str = "limit=1";

#[tokio::test(start_paused = true)]
async fn restored_server_is_relisted() {
    let run = checking([
        list("10", "", &["a@3", "b@4"]),
        open().modified("a@12").cut(),
        list("5", "", &["c@5"]),
        list("5", "", &["c@5"]),
        open().hang(),
    ])
    .await;
    assert_eq!(run.requests[..5], [paged("0"), watch("10"), CHECK.into(), paged(""), watch("5")]);
    assert_eq!(run.calls()[4..], ["changed a@12", "begin anew", "listed c@5", "commit 5"]);
}

#[tokio::test(start_paused = true)]
async fn server_with_the_same_history_is_resumed() {
    let refused = unreachable(std::io::ErrorKind::ConnectionRefused);
    let run = checking([
        list("10", "", &["a@3"]),
        open().modified("a@12").cut(),
        refused,
        list("12", "", &["a@12"]),
        open().modified("a@13").hang(),
    ])
    .await;
    let check = || CHECK.to_owned();
    assert_eq!(run.requests[..5], [paged("0"), watch("10"), check(), check(), watch("12")]);
    assert_eq!(run.calls().last(), Some(&"changed a@13"));
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_at_its_timeout_needs_no_history_check() {
    let run = checking([
        list("10", "", &["a@3"]),
        open().wait(40).modified("a@12"),
        open().wait(40).bookmark("14"),
        // This server sends bookmarks, but not before this end.
        open().wait(40),
        list("14", "", &["a@12"]),
        open().hang(),
    ])
    .await;
    let expected = [paged("0"), watch("10"), watch("12"), watch("14"), CHECK.into(), watch("14")];
    assert_eq!(run.requests[..6], expected);
}

#[tokio::test(start_paused = true)]
async fn rejected_history_check_does_not_block_the_watch() {
    let run = checking([
        list("10", "", &["a@3"]),
        open().modified("a@12").cut(),
        failure(403, "Forbidden"),
        open().modified("a@13").hang(),
    ])
    .await;
    assert_eq!(run.requests[..4], [paged("0"), watch("10"), CHECK.into(), watch("12")]);
    assert_eq!(run.calls().last(), Some(&"changed a@13"));
}

#[test]
fn only_numeric_versions_are_compared() {
    assert!(is_lower("10", "9"));
    assert!(!is_lower("9", "10"));
    assert!(!is_lower("", "10") && !is_lower("10", "") && !is_lower("b", "a"));
}

#[tokio::test(start_paused = true)]
async fn concurrent_detections_count_once() {
    let history = History::default();
    assert_eq!(history.replace(0), 1);
    assert_eq!(history.replace(0), 1, "detected by another type in the same history");
    assert_eq!(history.replace(1), 2);
    history.changed(1).await;
}
