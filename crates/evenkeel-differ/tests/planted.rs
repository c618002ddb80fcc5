//! Generated sequences find a bug planted in the embedded server and shrink it to its core.

use evenkeel_apiserver::ApiServer;
use evenkeel_differ::generate::{self, shared_crds};
use evenkeel_differ::{KnownDifferences, Pair, Server, render_report, shrink};

#[tokio::test(start_paused = true)]
async fn resource_version_bumped_by_no_op_update_is_found_and_shrunk() {
    let good = ApiServer::builder().seed(1).build().await.unwrap();
    let bad = ApiServer::builder().seed(1).commit_no_changes().build().await.unwrap();
    let (good, bad) = (Server::ours(good), Server::ours(bad));
    shared_crds::create(&good).await.unwrap();
    shared_crds::create(&bad).await.unwrap();
    let pair = Pair::new(good, bad, "planted");
    let known = KnownDifferences::default();
    for number in 0..50 {
        let sequence = generate::sequence(1, number);
        let finding = pair.compare(&sequence, &known).await.unwrap();
        let Some(first) = finding.unexplained.first() else { continue };
        let short = shrink(&pair, &known, &sequence, first).await;
        let finding = pair.compare(&short, &known).await.unwrap();
        let text = render_report(&short, &finding);
        assert!(short.steps.len() <= 3, "{text}");
        assert!(text.contains("resourceVersion"), "{text}");
        return;
    }
    panic!("fifty sequences did not reproduce the bug");
}
