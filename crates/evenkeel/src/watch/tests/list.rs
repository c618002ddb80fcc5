//! Lists: versions, pages and their expiry.

use std::io::ErrorKind;

use super::script::{body, failure, list, open, silent, too_large, unreachable};
use super::*;

#[tokio::test(start_paused = true)]
async fn first_list_requests_any_version() {
    let run = listing([list("5", "", &["a@3", "b@5"])]).await;
    assert_eq!(run.requests, [paged("0"), watch("5")]);
    assert_eq!(run.log, ["begin", "listed a@3", "listed b@5", "commit 5"]);
    assert_eq!(run.heads[0].uri.path(), "/api/v1/configmaps");
}

#[tokio::test(start_paused = true)]
async fn pages_have_the_version_of_the_first() {
    let run = listing([list("5", "t1", &["a@3"]), list("6", "t/2", &["b@5"]), list("7", "", &[])]);
    let run = run.await;
    assert_eq!(run.requests, [paged("0"), page("t1"), page("t%2F2"), watch("5")]);
    assert_eq!(run.log, ["begin", "listed a@3", "listed b@5", "commit 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_is_not_older_and_not_paged() {
    let run = listing([
        list("10", "", &["a@3"]),
        open().modified("a@12").error(410, "Expired"),
        list("20", "", &["a@12"]),
    ]);
    assert_eq!(run.await.requests, [paged("0"), watch("10"), whole("12"), watch("20")]);
}

#[tokio::test(start_paused = true)]
async fn server_that_pages_the_first_list_is_always_paged() {
    let run = listing([
        list("10", "t", &["a@3"]),
        list("10", "", &["b@3"]),
        open().error(410, "Expired"),
        list("20", "", &["a@3"]),
    ]);
    assert_eq!(run.await.requests, [paged("0"), page("t"), watch("10"), paged("10"), watch("20")]);
}

#[tokio::test(start_paused = true)]
async fn configured_page_size_is_always_used() {
    let options = ReflectorOptions {
        streaming: false,
        page_size: Some(4),
        check_history: false,
        ..ReflectorOptions::default()
    };
    let run = script::run(
        scope(),
        options,
        [
            list("10", "t", &["a@3"]),
            list("10", "", &["b@3"]),
            open().error(410, "Expired"),
            list("11", "", &[]),
        ],
    );
    assert_eq!(
        run.await.requests,
        [
            "limit=4&resourceVersion=0",
            "limit=4&continue=t",
            &watch("10"),
            "limit=4&resourceVersion=10",
            &watch("11"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn expired_continue_token_leads_to_a_full_list() {
    let run = listing([
        list("10", "t", &["a@3"]),
        failure(410, "Expired"),
        list("12", "", &["a@3", "b@12"]),
    ])
    .await;
    assert_eq!(run.requests, [paged("0"), page("t"), whole("0"), watch("12")]);
    assert_eq!(
        run.log,
        ["begin", "listed a@3", "abandon", "begin", "listed a@3", "listed b@12", "commit 12"]
    );
}

#[tokio::test(start_paused = true)]
async fn expired_full_list_falls_back_to_the_latest_version() {
    let run = listing([
        list("10", "t", &["a@3"]),
        failure(410, "Expired"),
        failure(410, "Expired"),
        list("12", "", &[]),
    ]);
    assert_eq!(run.await.requests, [paged("0"), page("t"), whole("0"), paged(""), watch("12")]);
}

#[tokio::test(start_paused = true)]
async fn full_list_is_requested_once_even_if_the_server_pages_it() {
    let run = listing([
        list("10", "t", &["a@3"]),
        failure(410, "Expired"),
        list("12", "u", &["a@3"]),
        failure(410, "Expired"),
        list("14", "", &[]),
    ]);
    let rest = "continue=u".to_owned();
    let requests = [paged("0"), page("t"), whole("0"), rest, paged(""), watch("14")];
    assert_eq!(run.await.requests, requests);
}

#[tokio::test(start_paused = true)]
async fn relist_at_an_unavailable_version_uses_the_latest() {
    for refusal in [|| failure(410, "Expired"), || failure(410, "Gone"), || too_large()] {
        let run = listing([
            list("10", "", &["a@3"]),
            open().error(410, "Expired"),
            refusal(),
            list("20", "", &["a@3"]),
            open().wait(31).bookmark("20").wait(31).error(410, "Expired"),
            list("21", "", &["a@3"]),
        ])
        .await;
        assert_eq!(
            run.requests,
            [
                paged("0"),
                watch("10"),
                whole("10"),
                whole(""),
                watch("20"),
                // The list before succeeded, so its version is valid again.
                whole("20"),
                watch("21"),
            ]
        );
        assert!(
            run.pause(3) < Duration::from_millis(1),
            "the latest version is requested immediately"
        );
        assert!(!run.log.iter().any(|line| line.starts_with("failing")), "{:?}", run.log);
    }
}

#[tokio::test(start_paused = true)]
async fn failing_list_is_retried_with_backoff() {
    let mut responses: Vec<_> = (0..6).map(|_| failure(500, "InternalError")).collect();
    responses.push(unreachable(ErrorKind::ConnectionReset));
    responses.push(list("5", "", &[]));
    let run = listing(responses).await;
    assert_eq!(run.requests[..8], vec![paged("0"); 8]);
    for (index, base) in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000].into_iter().enumerate() {
        let base = Duration::from_millis(base);
        let pause = run.pause(index + 1);
        assert!(base <= pause && pause <= base * 2, "{pause:?} for {base:?}");
    }
    assert_eq!(run.log.len(), 7 + 2);
    assert_eq!(run.log[0], "failing: InternalError from the script (HTTP 500)");
    assert_eq!(run.log[6], "failing: cannot reach the API server: connection reset");
}

#[tokio::test(start_paused = true)]
async fn list_honours_retry_after() {
    let run = listing([
        failure(429, "TooManyRequests").header("retry-after", "17"),
        failure(503, "ServiceUnavailable").header("retry-after", "99999999"),
        list("5", "", &[]),
    ])
    .await;
    assert_eq!(run.requests, [paged("0"), paged("0"), paged("0"), watch("5")]);
    let seconds: Vec<_> = (1..3).map(|index| run.pause(index).as_secs()).collect();
    assert_eq!(seconds, [17, 300], "limited to five minutes");
}

#[tokio::test(start_paused = true)]
async fn missing_or_forbidden_type_is_reported_and_retried() {
    for (code, reason) in [(404, "NotFound"), (403, "Forbidden")] {
        let run = streaming([
            failure(code, reason),
            failure(code, reason),
            failure(code, reason),
            failure(code, reason),
            open().end("7", "true").wait(2),
        ])
        .await;
        let failing = format!("failing: {reason} from the script (HTTP {code})");
        assert_eq!(run.log, [&*failing, &failing, "begin", "commit 7", "connected"]);
        assert_eq!(
            run.requests,
            [stream(""), paged("0"), stream(""), paged("0"), stream(""), watch("7")]
        );
        assert!(run.times[1] < Duration::from_millis(1));
        for (since, error) in run.failures {
            assert_eq!(since, run.times[1]);
            assert_eq!((error.is_not_found(), error.is_forbidden()), (code == 404, code == 403));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn list_that_expires_at_the_latest_version_fails() {
    let run = listing([failure(410, "Expired"), failure(410, "Expired"), list("5", "", &[])]).await;
    assert_eq!(run.requests, [paged("0"), paged(""), paged(""), watch("5")]);
    assert_eq!(run.log[0], "failing: Expired from the script (HTTP 410)");
}

#[tokio::test(start_paused = true)]
async fn invalid_list_keeps_the_previous_state() {
    let table = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}"#;
    for (bad, reason) in [
        (body(table), "unexpected response from the API server: not a list but kind \"Table\""),
        (body("<html>"), "unexpected response from the API server: invalid JSON of a list"),
        (body(""), "the stream ended before all objects were sent"),
        (
            body(r#"{"kind":"ConfigMapList","items":["#),
            "the stream ended before all objects were sent",
        ),
        (body(r#"{"items":"#).cut(), "lost the connection to the API server: connection reset"),
        (body(r#"{"items":["#).hang(), "no data from the API server for 65s"),
    ] {
        let run = listing([bad, list("5", "", &["a@5"])]).await;
        assert_eq!(run.calls(), ["begin", "abandon", "begin", "listed a@5", "commit 5"]);
        assert_eq!(run.log[2], format!("failing: {reason}"));
    }
}

#[tokio::test(start_paused = true)]
async fn unresponsive_server_times_out() {
    let run = listing([silent(), list("5", "", &[])]).await;
    assert_eq!(run.log[0], "failing: no data from the API server for 65s");
    assert!(run.pause(1) >= Duration::from_secs(65) && run.pause(1) < Duration::from_secs(67));
}

#[tokio::test(start_paused = true)]
async fn requests_have_scope_selectors_and_content_type() {
    let scope = Scope {
        namespace: Some("shop".to_owned()),
        labels: Some("app in (web,db),!old".to_owned()),
        fields: Some("metadata.name=a".to_owned()),
        metadata_only: true,
        ..scope()
    };
    let options =
        ReflectorOptions { streaming: false, check_history: false, ..ReflectorOptions::default() };
    let run = script::run(scope, options, [list("5", "", &[])]).await;
    let selection =
        "labelSelector=app%20in%20%28web%2Cdb%29%2C%21old&fieldSelector=metadata.name%3Da";
    assert_eq!(
        run.requests,
        [format!("{selection}&{}", paged("0")), format!("{selection}&{}", watch("5"))]
    );
    let accept = |index: usize| run.heads[index].headers["accept"].to_str().unwrap();
    assert_eq!(run.heads[0].uri.path(), "/api/v1/namespaces/shop/configmaps");
    assert_eq!(
        accept(0),
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    );
    assert_eq!(
        accept(1),
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    );
    assert_eq!(run.heads[0].headers.get("accept-encoding"), None);
    assert_eq!(run.heads[1].headers["accept-encoding"], "identity");
}

#[tokio::test(start_paused = true)]
async fn large_frame_does_not_block_other_tasks() {
    let names: Vec<_> = (0..5000).map(|number| format!("a@{}", number + 1)).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let stream = names.iter().fold(String::new(), |text, name| {
        let version = name.trim_start_matches("a@");
        text + "{\"type\":\"ADDED\",\"object\":" + &script::object("a", version).to_string() + "}\n"
    });
    for (streaming, response) in
        [(false, list("9", "", &names)), (true, open().send(&stream).end("9", "true").wait(1))]
    {
        let options =
            ReflectorOptions { streaming, check_history: false, ..ReflectorOptions::default() };
        let mut run = std::pin::pin!(script::run(scope(), options, [response]));
        let mut turns = 0;
        let run = std::future::poll_fn(|cx| {
            turns += 1;
            run.as_mut().poll(cx)
        })
        .await;
        assert_eq!(run.calls().len(), 5002);
        assert!(turns > 20, "{turns}");
    }
}
