//! The behaviours an operator author may rely on, one test each.

use super::*;

#[tokio::test(start_paused = true)]
async fn every_handler_gets_the_initial_list_before_it_counts_as_synced() {
    let stage = Stage::new().await;
    for name in ["a", "b", "c"] {
        stage.create(name, "1").await;
    }
    let informer = stage.informer();
    let logs = [Log::default(), Log::default()];
    let subscriptions = logs.each_ref().map(|log| informer.subscribe(log.handler()));
    for (log, subscription) in logs.iter().zip(&subscriptions) {
        subscription.synced().await.unwrap();
        assert_eq!(
            log.take(),
            ["default/a initial 1", "default/b initial 1", "default/c initial 1"]
        );
    }
    stage.set("b", "2").await;
    stage.delete("a").await;
    stage.create("d", "1").await;
    stage.caught_up(&informer).await;
    tokio::task::yield_now().await;
    for log in logs {
        assert_eq!(log.take(), ["default/b 1 → 2", "default/a deleted 1", "default/d added 1"]);
    }
}
