//! Causes, in the queue and by themselves.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;
use crate::{Key, Kind};

fn own() -> Origin {
    Origin::own(Kind::of::<Deployment>())
}

fn other(name: &str) -> Origin {
    Origin::other(Kind::of::<ConfigMap>(), Key::namespaced("shop", name))
}

fn generation(from: i64, to: i64) -> Change {
    Change { generation: Some((from, to)), ..Change::default() }
}

fn merged(causes: impl IntoIterator<Item = Cause>) -> Causes {
    let mut merged = Causes::default();
    causes.into_iter().for_each(|cause| merged.merge(cause.into()));
    merged
}

#[tokio::test(start_paused = true)]
async fn merged_adds_keep_all_causes() {
    let queue = Queue::<Key>::default();
    let key = Key::namespaced("shop", "web");
    queue.add(key.clone(), Cause::Listed(own()));
    queue.add(key.clone(), Cause::Updated(other("settings"), Change::default()));
    queue.add(key, Cause::Retry(2));
    let item = poll(&queue).unwrap();
    assert_eq!(
        item.causes.to_string(),
        "Deployment listed, ConfigMap shop/settings updated, retry 2"
    );
    assert_eq!(item.causes.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn run_has_only_the_causes_added_before_it() {
    let queue = Queue::<Key>::default();
    let key = Key::namespaced("shop", "web");
    queue.add(key.clone(), Cause::Requeue);
    let first = poll(&queue).unwrap();
    queue.add(key, Cause::Deleted(own()));
    assert_eq!(first.causes.to_string(), "requeue");
    first.done();
    assert_eq!(poll(&queue).unwrap().causes.to_string(), "Deployment deleted");
}

#[test]
fn each_cause_has_a_readable_display() {
    let change = Change { labels: true, deletion: true, ..generation(3, 4) };
    let texts = [
        (Cause::Listed(own()), "Deployment listed"),
        (Cause::Created(other("a")), "ConfigMap shop/a created"),
        (Cause::Updated(own(), change), "Deployment updated (generation 3→4, labels, deletion)"),
        (Cause::Updated(own(), Change::default()), "Deployment updated"),
        (Cause::Deleted(own()), "Deployment deleted"),
        (Cause::Resync(own()), "Deployment resync"),
        (Cause::Requeue, "requeue"),
        (Cause::RequeueAfter(Duration::from_secs(90)), "requeue after 90s"),
        (Cause::Retry(3), "retry 3"),
        (Cause::External("billing".into()), "billing external"),
    ];
    for (cause, text) in texts {
        let causes = Causes::from(cause.clone());
        assert_eq!(causes.to_string(), text);
        assert_eq!(causes.iter().collect::<Vec<_>>(), [cause], "round trip");
    }
    assert_eq!(Causes::default().to_string(), "no cause");
}

#[test]
fn updates_of_one_object_become_one_from_the_first_generation_to_the_last() {
    let labels = Change { labels: true, ..Change::default() };
    let causes = merged([
        Cause::Updated(own(), labels),
        Cause::Updated(own(), generation(3, 4)),
        Cause::Updated(own(), generation(4, 6)),
    ]);
    assert_eq!(causes.to_string(), "Deployment updated (generation 3→6, labels) ×3");
}

#[test]
fn causes_about_one_object_share_a_detail() {
    let causes = merged([Cause::Created(own()), Cause::Updated(own(), generation(1, 2))]);
    assert_eq!(causes.to_string(), "Deployment created and updated (generation 1→2)");
}

#[test]
fn latest_retry_and_delay_are_kept() {
    let causes = merged([
        Cause::Retry(3),
        Cause::RequeueAfter(Duration::from_secs(9)),
        Cause::RequeueAfter(Duration::from_secs(8)),
        Cause::Retry(4),
        Cause::Requeue,
    ]);
    assert_eq!(causes.to_string(), "requeue, requeue after 8s, retry 4 ×5");
}

#[test]
fn details_are_capped_but_no_kind_is_lost() {
    let mut causes = merged((0..100).map(|n| Cause::Created(other(&format!("c{n}")))));
    causes.merge(Cause::Deleted(other("gone")).into());
    causes.merge(Cause::Requeue.into());
    causes.merge(Cause::Created(other("c1")).into());
    assert_eq!(
        causes.to_string(),
        "ConfigMap shop/c0 created, ConfigMap shop/c1 created ×2, ConfigMap shop/c2 created, \
         ConfigMap shop/c3 created and 98 more (deleted, requeue)"
    );
    assert_eq!(causes.count(), 103);
    let kinds: Vec<_> = causes.kinds().iter().collect();
    assert_eq!(kinds, [CauseKind::Created, CauseKind::Deleted, CauseKind::Requeue]);
}

#[test]
fn merging_merged_causes_is_merging_each() {
    let all: Vec<Cause> = (0..6)
        .map(|n| Cause::Created(other(&format!("c{n}"))))
        .chain([Cause::Retry(1), Cause::Requeue, Cause::Deleted(own())])
        .collect();
    for split in 0..all.len() {
        let (first, second) = all.split_at(split);
        let mut causes = merged(first.iter().cloned());
        causes.merge(merged(second.iter().cloned()));
        let expected = merged(all.iter().cloned());
        assert_eq!(causes.kinds(), expected.kinds(), "{split}");
        assert_eq!(causes.count(), expected.count(), "{split}");
    }
}

fn after(seconds: u64) -> AddOptions {
    AddOptions { after: Some(Duration::from_secs(seconds)), ..AddOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_has_not_fired_is_no_cause() {
    let queue = Queue::<Key>::default();
    let key = Key::namespaced("shop", "web");
    let pause = |seconds| Cause::RequeueAfter(Duration::from_secs(seconds));
    // An event arrives before the timer fires.
    queue.add_with(key.clone(), after(30), pause(30));
    queue.add(key.clone(), Cause::Deleted(own()));
    let item = poll(&queue).unwrap();
    assert_eq!(item.causes.to_string(), "Deployment deleted");
    assert_eq!(item.causes.count(), 1);
    // An event arrives during the run, and the run ends with a timer.
    queue.add(key.clone(), Cause::Created(other("a")));
    queue.add(key.clone(), Cause::Created(own()));
    item.requeue(after(30), pause(30));
    item.done();
    let item = poll(&queue).unwrap();
    assert_eq!(item.causes.to_string(), "ConfigMap shop/a created, Deployment created");
    assert_eq!(item.causes.count(), 2);
    // The earlier of two timers is the cause, in either order.
    item.requeue(after(9), pause(9));
    item.requeue(after(8), pause(8));
    item.requeue(after(20), Cause::Retry(1));
    item.done();
    assert_eq!(soon(queue.get()).await.unwrap().causes.to_string(), "requeue after 8s");
    // A fired timer stays a cause when an event follows.
    queue.add_with(key.clone(), after(1), Cause::Retry(2));
    tokio::time::advance(Duration::from_secs(1)).await;
    queue.add(key, Cause::Deleted(own()));
    assert_eq!(poll(&queue).unwrap().causes.to_string(), "retry 2, Deployment deleted");
}

#[test]
fn causes_can_be_shown_in_short() {
    let causes = merged([Cause::Created(other("a")), Cause::Deleted(own()), Cause::Retry(1)]);
    assert_eq!(format!("{causes:.1}"), "ConfigMap shop/a created and 2 more (deleted, retry)");
    assert_eq!(format!("{causes:#}"), "ConfigMap shop/a created, deleted, retry 1");
}

#[test]
fn slot_has_the_documented_size() {
    assert_eq!(size_of::<super::super::slots::Slot<Key, Causes>>(), 72);
}
