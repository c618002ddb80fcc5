//! Watches: resume, relist and backoff.

use std::io::ErrorKind;

use super::script::{failure, list, object, open, silent, too_large, unreachable};
use super::*;

#[tokio::test(start_paused = true)]
async fn changes_are_delivered_in_order_and_versions_tracked() {
    let run = listing([
        list("10", "", &["a@3"]),
        open().added("b@11").modified("a@12").deleted("b@13").bookmark("15").modified("a@16"),
    ])
    .await;
    assert_eq!(
        run.log,
        [
            "begin",
            "listed a@3",
            "commit 10",
            "connected",
            "changed b@11",
            "changed a@12",
            "deleted b@13",
            "bookmark 15",
            "changed a@16"
        ]
    );
    assert_eq!(run.requests, [paged("0"), watch("10"), watch("16")]);
}

#[tokio::test(start_paused = true)]
async fn cleanly_closed_watch_is_resumed_immediately_without_a_relist() {
    let run = listing([
        list("10", "", &["a@3"]),
        open().modified("a@12"),
        open().wait(2),
        open().modified("a@14"),
    ])
    .await;
    assert_eq!(run.requests, [paged("0"), watch("10"), watch("12"), watch("12"), watch("14")]);
    assert_eq!(run.times.last().unwrap().as_secs(), 2);
    assert_eq!(run.log.iter().filter(|line| *line == "connected").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn bookmark_advances_the_version_to_resume_from() {
    let run = listing([list("10", "", &["a@3"]), open().bookmark("40")]).await;
    assert_eq!(run.calls(), ["begin", "listed a@3", "commit 10", "bookmark 40"]);
    assert_eq!(run.requests, [paged("0"), watch("10"), watch("40")]);
}

#[tokio::test(start_paused = true)]
async fn lost_connection_is_resumed_and_a_partial_event_dropped() {
    let run = listing([
        list("10", "", &[]),
        open().modified("a@12").send("{\"type\":\"MODIFIED\",\"obj").cut(),
        open().modified("a@13").send("{\"type\":\"MODIFIED\",\"obj"),
        // The same at a clean end with a complete event.
        open().send(&format!("{{\"type\":\"MODIFIED\",\"object\":{}}}", object("a", "14"))),
        open().wait(1).cut(),
    ])
    .await;
    assert_eq!(
        run.requests,
        [paged("0"), watch("10"), watch("12"), watch("13"), watch("14"), watch("14")]
    );
    assert_eq!(run.calls()[2..], ["changed a@12", "changed a@13", "changed a@14"]);
    assert!(run.failures.is_empty());
    assert_eq!(run.times.last().unwrap().as_secs(), 1, "resumed without backoff");
}

#[tokio::test(start_paused = true)]
async fn expired_watch_leads_to_a_relist() {
    for expired in [
        failure(410, "Expired"),
        failure(410, "Gone"),
        // As sent by proxies.
        failure(410, ""),
        open().error(410, "Expired"),
        open().error(410, "Gone"),
        too_large(),
    ] {
        let run = listing([list("10", "", &["a@3"]), expired, list("20", "", &["a@3"])]).await;
        assert_eq!(run.requests, [paged("0"), watch("10"), whole("10"), watch("20")]);
    }
}

#[tokio::test(start_paused = true)]
async fn unavailable_server_is_retried_without_a_relist() {
    for unavailable in [
        || failure(429, "TooManyRequests"),
        || open().error(429, "TooManyRequests"),
        || unreachable(ErrorKind::ConnectionRefused),
        || unreachable(ErrorKind::ConnectionReset),
        || failure(502, ""),
        || failure(503, "ServiceUnavailable"),
        || failure(504, "Timeout"),
        || open().cut(),
    ] {
        let responses =
            [list("10", "", &["a@3"]), unavailable(), unavailable(), open().modified("a@12")];
        let run = listing(responses).await;
        assert_eq!(run.requests, [paged("0"), watch("10"), watch("10"), watch("10"), watch("12")]);
        assert!(run.pause(2) >= Duration::from_millis(800));
        assert!(run.pause(3) >= Duration::from_millis(1600));
        assert!(run.log.iter().any(|line| line.starts_with("failing: ")));
        assert_eq!(run.calls().last(), Some(&"changed a@12"));
        let connected = run.log.iter().rposition(|line| line == "connected");
        assert!(connected > run.log.iter().rposition(|line| line.starts_with("failing")));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let run = listing([
        list("10", "", &[]),
        failure(429, "TooManyRequests").header("retry-after", "9"),
        failure(503, "").header("retry-after", "11"),
        open().modified("a@12"),
    ])
    .await;
    assert_eq!((run.pause(2).as_secs(), run.pause(3).as_secs()), (9, 11));
}

#[tokio::test(start_paused = true)]
async fn other_watch_errors_lead_to_a_relist() {
    for unavailable in [
        failure(500, "InternalError"),
        open().error(500, "InternalError"),
        open().error(504, "Timeout"),
        // The event of an unsafe deletion of a corrupt object.
        open().error(0, "StoreReadError"),
        failure(403, "Forbidden"),
        // Closed within a second without an event.
        open(),
    ] {
        let run = listing([list("10", "", &["a@3"]), unavailable, list("20", "", &[])]).await;
        assert_eq!(run.requests, [paged("0"), watch("10"), whole("10"), watch("20")]);
        assert!(run.pause(2) >= Duration::from_millis(800));
        assert!(run.log.iter().any(|line| line.starts_with("failing: ")), "{:?}", run.log);
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_event_leads_to_a_relist() {
    let run = |line: &str| {
        listing([
            list("10", "", &["a@3"]),
            open().modified("a@11").send(line).modified("a@13").hang(),
            list("20", "", &[]),
        ])
    };
    for line in [
        "rubbish\n",
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n",
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"resourceVersion\":\"\"}}}\n",
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":}}\n",
        "{\"type\":\"MODIFIED\"}\n",
        "{\"type\":\"ERROR\",\"object\":7}\n",
    ] {
        let run = run(line).await;
        assert_eq!(run.requests, [paged("0"), watch("10"), whole("11"), watch("20")], "{line}");
        assert_eq!(run.calls()[3..], ["changed a@11", "begin", "commit 20"], "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_events_and_empty_lines_are_skipped() {
    let run = listing([
        list("10", "", &[]),
        open()
            .send("\n{\"type\":\"NEWS\",\"object\":{\"metadata\":{\"resourceVersion\":\"11\"}}}\n")
            .modified("a@12"),
    ])
    .await;
    assert_eq!(run.calls()[2..], ["changed a@12"]);
}

#[tokio::test(start_paused = true)]
async fn watch_timeouts_are_random_above_30_seconds() {
    let watches = (0..100).map(|number| open().modified(&format!("a@{}", 100 + number)));
    let run = listing([list("10", "", &[])].into_iter().chain(watches)).await;
    assert_eq!(run.timeouts.len(), 101);
    assert!(run.timeouts.iter().all(|timeout| (30..40).contains(timeout)));
    assert!(run.timeouts.iter().any(|timeout| *timeout < 33));
    assert!(run.timeouts.iter().any(|timeout| *timeout > 36));
}

#[tokio::test(start_paused = true)]
async fn dead_connection_is_detected_within_45_seconds() {
    let run =
        listing([list("10", "", &[]), open().modified("a@12").hang(), silent(), open().hang()])
            .await;
    assert_eq!(run.requests, [paged("0"), watch("10"), watch("12"), watch("12"), watch("12")]);
    for index in [2, 3, 4] {
        let due = run.timeouts[index - 2] + 5;
        assert!((due..=due + 1).contains(&run.pause(index).as_secs()), "{index}");
        assert!(due <= 45, "{index}");
    }
    // Also after an event, counted from it; and for a streaming list.
    let run = streaming([
        open().added("a@1").end("4", "true").wait(20).bookmark("12").hang(),
        open().modified("a@13").hang(),
    ])
    .await;
    assert_eq!(run.requests, [stream(""), watch("12"), watch("13")]);
    assert!(run.pause(1) <= Duration::from_secs(20 + 45));
    assert!(run.pause(2) <= Duration::from_secs(45));
}

#[tokio::test(start_paused = true)]
async fn watch_without_version_has_none_until_its_initial_events_end() {
    let run = listing([
        list("", "", &[]),
        // The initial events, ordered by name.
        open().added("a@30").added("b@20").cut(),
        open().added("a@30").added("b@20").modified("b@31").added("c@32"),
    ])
    .await;
    assert_eq!(run.requests, [paged("0"), watch(""), watch(""), watch("32")]);
}

#[tokio::test(start_paused = true)]
async fn failing_since_is_the_first_failure_until_a_watch_opens() {
    let run = listing([
        failure(500, ""),
        list("10", "", &[]),
        failure(500, ""),
        list("11", "", &[]),
        open().modified("a@12").error(500, ""),
        list("13", "", &[]),
    ])
    .await;
    let since: Vec<_> = run.failures.iter().map(|(since, _)| *since).collect();
    assert_eq!(since, [run.times[0], run.times[0], run.times[4]]);
}

#[tokio::test(start_paused = true)]
async fn server_that_expires_every_version_is_failing() {
    let state = |version| list(version, "", &[]);
    let expired = || open().error(410, "Expired");
    let run =
        listing([state("10"), expired(), state("11"), expired(), state("12"), open().wait(2)]);
    let run = run.await;
    assert_eq!(run.failures.len(), 1, "{:?}", run.log);
    assert_eq!(run.failures[0].0, run.times[3]);
    // A version that expires later is not a failure.
    let expired = || open().wait(31).bookmark("12").wait(31).error(410, "Expired");
    let run =
        listing([state("10"), expired(), state("11"), expired(), state("12"), open().wait(2)]);
    assert!(run.await.failures.is_empty());
}
