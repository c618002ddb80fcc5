//! The full state as a stream, and the way back to lists where that does not work.

use super::script::{failure, list, open, silent, too_large, unreachable};
use super::*;

#[tokio::test(start_paused = true)]
async fn the_end_bookmark_alone_completes_the_state_and_the_connection_goes_on() {
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
        run.diary,
        ["begin", "listed b@1", "listed a@2", "commit 4", "connected", "changed a@5", "bookmark 9"]
    );
    assert_eq!(run.requests, [stream(""), watch("9")]);
    assert!(run.timeouts.iter().all(|timeout| (30..40).contains(timeout)));
    assert_eq!(run.heads[0].headers["accept-encoding"], "identity");
}

#[tokio::test(start_paused = true)]
async fn changes_and_deletes_within_the_stream_belong_to_the_state() {
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
        run.told(),
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
async fn a_server_that_cannot_stream_is_listed_in_the_same_round() {
    for refusal in [
        failure(422, "Invalid"),
        failure(400, "BadRequest"),
        failure(403, "Forbidden"),
        failure(500, "InternalError"),
        unreachable(std::io::ErrorKind::ConnectionReset),
        open().error(500, "InternalError"),
        open().send("rubbish\n"),
        // Closed at once, and no event.
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
        // What did not work in one round is tried again in the next.
        assert_eq!(run.requests, [stream(""), paged("0"), watch("10"), stream("12"), watch("20")]);
        assert!(!run.diary.iter().any(|line| line.starts_with("failing")), "{:?}", run.diary);
    }
}

#[tokio::test(start_paused = true)]
async fn streams_are_not_asked_for_if_switched_off() {
    let run = listing([list("10", "", &[]), failure(410, "Expired"), list("11", "", &[])]).await;
    assert_eq!(run.requests, [paged("0"), watch("10"), whole("10"), watch("11")]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_for_the_stream_again() {
    for trouble in [
        || failure(429, "TooManyRequests").header("retry-after", "3"),
        || unreachable(std::io::ErrorKind::ConnectionRefused),
    ] {
        let run = streaming([trouble(), trouble(), open().added("a@1").end("2", "true").wait(1)]);
        let run = run.await;
        assert_eq!(run.requests, [stream(""), stream(""), stream(""), watch("2")]);
        assert!(run.diary[0].starts_with("failing"));
        assert!(run.pause(2) >= Duration::from_millis(1600));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_too_early_is_begun_again_and_then_given_up() {
    let run =
        streaming([open().added("a@1"), open().added("a@1").cut(), list("5", "", &["a@1"])]).await;
    assert_eq!(run.requests, [stream(""), stream(""), paged("0"), watch("5")]);
    assert_eq!(
        run.told(),
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
async fn a_stream_closed_after_its_state_is_resumed_as_a_watch() {
    let run =
        streaming([open().added("a@1").end("2", "true").modified("a@3"), open().modified("a@4")])
            .await;
    assert_eq!(run.requests, [stream(""), watch("3"), watch("4")]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_stream_begins_at_the_last_version_and_then_at_the_newest() {
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
                // The one before worked, so its version is good again.
                stream("10"),
                watch("11"),
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_for_which_every_version_is_expired_is_not_pressed() {
    let answers: Vec<_> = (0..40).map(|_| failure(410, "Expired")).collect();
    let run = streaming(answers).await;
    assert!(*run.times.last().unwrap() > Duration::from_secs(60), "{:?}", run.times);
}
