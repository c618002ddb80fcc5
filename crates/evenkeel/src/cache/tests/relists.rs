//! Relists and unusual events.

use super::*;

/// Returns a handler that has received the initial objects.
async fn subscribed(test: &TestCache) -> (Subscription, Log) {
    let log = Log::default();
    let subscription = test.informer.subscribe(log.handler());
    subscription.wait_until_synced().await.unwrap();
    log.take();
    (subscription, log)
}

#[tokio::test(start_paused = true)]
async fn object_missing_from_a_relist_is_deleted_with_state_unknown() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1"), &*raw("b", "u2", 2, "1"), &*raw("c", "u3", 3, "1")]);
    let (_subscription, log) = subscribed(&test).await;
    test.list(9, [&*raw("0", "u0", 8, "1"), &*raw("a", "u1", 7, "2"), &*raw("b", "u2", 2, "1")]);
    run_ready_tasks().await;
    assert_eq!(log.take(), ["default/c vanished 1", "default/0 added 1", "default/a 1 → 2"]);
    assert_eq!(test.informer.version(&Key::namespaced("default", "a")), Some(Version(9)));
}

#[tokio::test(start_paused = true)]
async fn own_write_that_was_created_and_deleted_in_a_gap_is_deleted_with_state_unknown() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1")]);
    let (_subscription, log) = subscribed(&test).await;
    let kind = Kind::of::<ConfigMap>();
    for (name, uid, version) in [("a", "u1", 6), ("b", "u2", 7), ("c", "u3", 8), ("d", "u4", 12)] {
        test.cache.wrote(&kind, &raw(name, uid, version, "2"));
    }
    // b and c were deleted, c was created again, and d is newer than the list.
    test.list(11, [&*raw("a", "u1", 6, "2"), &*raw("c", "u5", 10, "3")]);
    run_ready_tasks().await;
    assert_eq!(log.take(), ["default/a 1 → 2", "default/c added 3", "default/b vanished 2"]);
    assert!(test.get("b").is_none() && test.get("d").is_some());
    test.list(13, [&*raw("a", "u1", 6, "2"), &*raw("c", "u5", 10, "3")]);
    run_ready_tasks().await;
    assert_eq!(log.take(), ["default/d vanished 2"]);
    // The store of the server was restored: also what is newer than the list is gone.
    test.cache.wrote(&kind, &raw("e", "u6", 20, "2"));
    test.list(9, [&*raw("a", "u1", 6, "2"), &*raw("c", "u5", 8, "3")]);
    run_ready_tasks().await;
    assert_eq!(log.take(), ["default/c 3 → 3", "default/e vanished 2"]);
    assert_eq!(test.informer.stats().own_writes, 0);
}

#[tokio::test(start_paused = true)]
async fn recreated_in_a_gap_is_an_update_to_another_uid() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1")]);
    let uids = Arc::new(Mutex::new(Vec::new()));
    let seen = uids.clone();
    let subscription = test.informer.subscribe(move |event| {
        let uid = |entry: Option<&Arc<Entry>>| entry.map(|entry| entry.meta().uid().to_string());
        seen.lock().push((uid(event.old()), uid(event.new())));
    });
    subscription.wait_until_synced().await.unwrap();
    test.list(9, [&*raw("a", "u2", 8, "1")]);
    run_ready_tasks().await;
    let some = |uid: &str| Some(uid.to_owned());
    assert_eq!(*uids.lock(), [(None, some("u1")), (some("u1"), some("u2"))]);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_moves_the_version_and_calls_no_handler() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1")]);
    let (_subscription, log) = subscribed(&test).await;
    test.writer.bookmark("77");
    run_ready_tasks().await;
    assert!(log.take().is_empty());
    assert_eq!(test.informer.version(&Key::namespaced("default", "a")), Some(Version(77)));
}

#[tokio::test(start_paused = true)]
async fn interrupted_list_changes_nothing() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1"), &*raw("b", "u2", 2, "1")]);
    let (_subscription, log) = subscribed(&test).await;
    test.writer.begin(false);
    test.writer.listed(&raw("a", "u1", 8, "2"));
    test.writer.abandon();
    run_ready_tasks().await;
    assert!(log.take().is_empty());
    assert_eq!(value(&test.get("a").unwrap()), "1");
    // The next list starts over.
    test.list(9, [&*raw("b", "u2", 2, "1")]);
    run_ready_tasks().await;
    assert_eq!(log.take(), ["default/a vanished 1"]);
}

#[tokio::test(start_paused = true)]
async fn interrupted_first_list_is_completed_by_the_next() {
    let mut test = TestCache::new(TypeOptions::new());
    let log = Log::default();
    let subscription = test.informer.subscribe(log.handler());
    test.writer.begin(false);
    test.writer.listed(&raw("a", "u1", 1, "1"));
    test.writer.listed(&raw("b", "u2", 2, "1"));
    test.writer.abandon();
    assert!(test.informer.get(&Key::namespaced("default", "a")).is_err(), "not synced");
    test.list(9, [&*raw("b", "u2", 2, "1"), &*raw("c", "u3", 8, "1")]);
    subscription.wait_until_synced().await.unwrap();
    let lines = log.take();
    assert_eq!(
        lines,
        [
            "default/a initial 1",
            "default/b initial 1",
            "default/c initial 1",
            "default/a vanished 1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn object_deleted_during_a_streaming_list_is_absent() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1"), &*raw("b", "u2", 2, "1")]);
    let (_subscription, log) = subscribed(&test).await;
    test.writer.begin(false);
    test.writer.listed(&raw("a", "u1", 1, "1"));
    test.writer.listed(&raw("b", "u2", 2, "1"));
    test.writer.listed(&raw("c", "u3", 6, "1"));
    test.writer.unlisted(&raw("c", "u3", 7, "1"));
    test.writer.unlisted(&raw("b", "u2", 8, "1"));
    test.writer.commit("9");
    run_ready_tasks().await;
    assert_eq!(log.take(), ["default/b vanished 1"]);
}

#[tokio::test(start_paused = true)]
async fn older_states_are_ignored() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(10, [&*raw("a", "u1", 9, "new")]);
    let (_subscription, log) = subscribed(&test).await;
    test.writer.changed(&raw("a", "u1", 8, "old"));
    test.writer.changed(&raw("a", "u1", 9, "new"));
    test.writer.deleted(&raw("a", "u0", 3, "another"));
    test.list(12, [&*raw("a", "u1", 7, "old")]);
    run_ready_tasks().await;
    assert!(log.take().is_empty());
    assert_eq!(value(&test.get("a").unwrap()), "new");
    assert_eq!(test.informer.version(&Key::namespaced("default", "a")), Some(Version(12)));
}

#[tokio::test(start_paused = true)]
async fn restored_server_replaces_the_cached_state() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(100, [&*raw("a", "u1", 90, "new"), &*raw("b", "u2", 95, "1")]);
    test.cache.wrote(test.informer.kind(), &raw("c", "u3", 110, "lost"));
    let (_subscription, log) = subscribed(&test).await;
    test.list(50, [&*raw("a", "u1", 40, "old")]);
    run_ready_tasks().await;
    assert_eq!(
        log.take(),
        ["default/b vanished 1", "default/a new → old", "default/c vanished lost"]
    );
    assert!(test.get("c").is_none(), "a write from the replaced history");
    test.writer.changed(&raw("a", "u1", 51, "newer"));
    assert_eq!(value(&test.get("a").unwrap()), "newer");
}

#[tokio::test(start_paused = true)]
async fn unreadable_object_does_not_affect_others() {
    let mut test = TestCache::new(TypeOptions::new());
    let broken: [&[u8]; 4] = [
        br#"{"metadata":{"namespace":"default"}}"#,
        br#"{"metadata":{"name":7}}"#,
        b"{\"metadata",
        br#"{"data":{}}"#,
    ];
    test.list(5, broken.into_iter().chain([&*raw("a", "u1", 1, "1")]));
    assert!(test.get("a").is_some());
    let stats = test.informer.stats();
    assert_eq!((stats.objects, stats.rejections), (1, 4));
    assert!(!stats.rejected.is_empty());
    test.writer.changed(broken[0]);
    test.writer.deleted(broken[1]);
    assert!(test.get("a").is_some());
}

#[tokio::test(start_paused = true)]
async fn object_that_does_not_decode_fails_only_its_own_read() {
    let mut test = TestCache::new(TypeOptions::new());
    let odd = br#"{"metadata":{"namespace":"default","name":"odd"},"data":7}"#;
    test.list(5, [&*raw("a", "u1", 1, "1"), odd]);
    let entry = test.get("odd").unwrap();
    let error = test.cache.typed::<ConfigMap>(&entry).unwrap_err();
    assert!(error.to_string().starts_with("ConfigMap default/odd does not decode"), "{error}");
    assert!(test.cache.typed::<ConfigMap>(&test.get("a").unwrap()).is_ok());
}
