//! Streaming lists, and the fallback to lists.

use super::script::{failure, list, open, silent, too_large, unreachable};
use super::*;

#[tokio::test(start_paused = true)]
async fn only_the_final_bookmark_completes_a_streaming_list() {
    let run = streaming([open()
        .added("b@1")
        .added("a@2")
        .bookmark("2")
        .end("3", "false")
        .end("4", "true")
        .modified("a@5")
        .bookmark("9")])
    .await;
    assert_eq!(
        run.log,
        ["begin", "listed b@1", "listed a@2", "commit 4", "connected", "changed a@5", "bookmark 9"]
    );
    assert_eq!(run.requests, [stream(""), watch("9")]);
    assert!(run.timeouts.iter().all(|timeout| (30..40).contains(timeout)));
    assert_eq!(run.heads[0].headers["accept-encoding"], "identity");
}

#[tokio::test(start_paused = true)]
async fn changes_and_deletes_within_a_streaming_list_are_applied() {
    let run = streaming([open()
        .added("a@1")
        .added("b@2")
        .modified("a@3")
        .added("c@4")
        .deleted("c@5")
        .end("5", "true")
        .wait(1)])
    .await;
    assert_eq!(
        run.calls(),
        [
            "begin",
            "listed a@1",
            "listed b@2",
            "listed a@3",
            "listed c@4",
            "unlisted c@5",
            "commit 5"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn server_without_streaming_lists_is_listed_in_the_same_round() {
    for refusal in [
        failure(422, "Invalid"),
        failure(400, "BadRequest"),
        failure(403, "Forbidden"),
        failure(500, "InternalError"),
        unreachable(std::io::ErrorKind::ConnectionReset),
        open().error(500, "InternalError"),
        open().send("rubbish\n"),
        // Closed immediately without an event.
        open(),
        open().hang(),
        silent(),
    ] {
        let run = streaming([
            refusal,
            list("10", "", &["a@3"]),
            open().modified("a@12").error(410, "Expired"),
            open().added("a@12").end("20", "true").wait(1),
        ])
        .await;
        // A failed streaming list is tried again in the next round.
        assert_eq!(run.requests, [stream(""), paged("0"), watch("10"), stream("12"), watch("20")]);
        assert!(!run.log.iter().any(|line| line.starts_with("failing")), "{:?}", run.log);
    }
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_are_not_requested_if_disabled() {
    let run = listing([list("10", "", &[]), failure(410, "Expired"), list("11", "", &[])]).await;
    assert_eq!(run.requests, [paged("0"), watch("10"), whole("10"), watch("11")]);
}

#[tokio::test(start_paused = true)]
async fn throttled_streaming_list_is_retried() {
    for unavailable in [
        || failure(429, "TooManyRequests").header("retry-after", "3"),
        || unreachable(std::io::ErrorKind::ConnectionRefused),
    ] {
        let run =
            streaming([unavailable(), unavailable(), open().added("a@1").end("2", "true").wait(1)]);
        let run = run.await;
        assert_eq!(run.requests, [stream(""), stream(""), stream(""), watch("2")]);
        assert!(run.log[0].starts_with("failing"));
        assert!(run.pause(2) >= Duration::from_millis(1600));
    }
}

#[tokio::test(start_paused = true)]
async fn interrupted_streaming_list_is_retried_once() {
    let run =
        streaming([open().added("a@1"), open().added("a@1").cut(), list("5", "", &["a@1"])]).await;
    assert_eq!(run.requests, [stream(""), stream(""), paged("0"), watch("5")]);
    assert_eq!(
        run.calls(),
        [
            "begin",
            "listed a@1",
            "abandon",
            "begin",
            "listed a@1",
            "abandon",
            "begin",
            "listed a@1",
            "commit 5"
        ]
    );
    assert!(run.times[3] < Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn streaming_list_closed_after_its_initial_events_is_resumed() {
    let run =
        streaming([open().added("a@1").end("2", "true").modified("a@3"), open().modified("a@4")])
            .await;
    assert_eq!(run.requests, [stream(""), watch("3"), watch("4")]);
}

#[tokio::test(start_paused = true)]
async fn expired_streaming_list_uses_the_last_then_the_latest_version() {
    for refusal in [
        || failure(410, "Expired"),
        || open().error(410, "Expired"),
        || open().added("a@1").error(410, "Gone"),
        || too_large(),
    ] {
        let run = streaming([
            open().added("a@1").end("2", "true").modified("a@3"),
            failure(410, "Expired"),
            refusal(),
            open().added("a@3").end("9", "true").modified("a@10"),
            failure(410, "Expired"),
            open().added("a@3").end("11", "true").wait(1),
        ])
        .await;
        assert_eq!(
            run.requests,
            [
                stream(""),
                watch("3"),
                stream("3"),
                stream(""),
                watch("10"),
                // The list before succeeded, so its version is valid again.
                stream("10"),
                watch("11"),
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn streaming_list_that_always_expires_backs_off() {
    let responses: Vec<_> = (0..40).map(|_| failure(410, "Expired")).collect();
    let run = streaming(responses).await;
    assert!(*run.times.last().unwrap() > Duration::from_secs(60), "{:?}", run.times);
}
