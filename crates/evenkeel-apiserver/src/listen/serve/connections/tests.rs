//! Which connection is closed at which bound.

use std::time::Duration;

use super::*;

fn connections(total: usize, anonymous: usize) -> Arc<Connections> {
    let options = ListenOptions {
        connections_max: total,
        anonymous_connections_max: anonymous,
        ..ListenOptions::default()
    };
    Connections::new(&options)
}

fn close_mode(guard: &ConnectionGuard) -> CloseMode {
    guard.0.activity().close_mode
}

fn user(name: &str) -> Arc<str> {
    name.into()
}

#[tokio::test(start_paused = true)]
async fn oldest_anonymous_connection_is_closed_for_a_new_one() {
    let all = connections(100, 3);
    let flood: Vec<ConnectionGuard> = (0..10).map(|_| all.open().unwrap()).collect();
    let close_modes: Vec<CloseMode> = flood.iter().map(close_mode).collect();
    assert_eq!(close_modes[..7], [CloseMode::Close; 7]);
    assert_eq!(close_modes[7..], [CloseMode::KeepOpen; 3]);
    assert_eq!(all.lock().total, 3);
}

#[tokio::test(start_paused = true)]
async fn authenticated_connections_are_not_closed_for_anonymous_ones() {
    let all = connections(8, 100);
    let open = || {
        let guard = all.open().unwrap();
        guard.tracked().assign_user(&user("bob"));
        guard
    };
    let own: Vec<ConnectionGuard> = (0..4).map(|_| open()).collect();
    for _ in 0..100 {
        // At most a quarter of all connections is anonymous.
        let _ = all.open();
        assert!(all.lock().anonymous.len() <= 2);
    }
    assert!(own.iter().all(|guard| close_mode(guard) == CloseMode::KeepOpen));
}

#[tokio::test(start_paused = true)]
async fn user_beyond_half_of_all_loses_its_longest_idle_connection() {
    let all = connections(8, 8);
    let bob = user("bob");
    let mut own = Vec::new();
    for _ in 0..4 {
        let guard = all.open().unwrap();
        guard.tracked().assign_user(&bob);
        tokio::time::advance(Duration::from_secs(1)).await;
        own.push(guard);
    }
    let busy = own[0].tracked().begin_request(None);
    let fifth = all.open().unwrap();
    fifth.tracked().assign_user(&bob);
    let close_modes: Vec<CloseMode> = own.iter().map(close_mode).collect();
    assert_eq!(
        close_modes,
        [CloseMode::KeepOpen, CloseMode::Close, CloseMode::KeepOpen, CloseMode::KeepOpen]
    );
    assert_eq!(close_mode(&fifth), CloseMode::KeepOpen);
    drop(busy);

    let requests: Vec<RequestGuard> =
        own.iter().chain([&fifth]).map(|guard| guard.tracked().begin_request(None)).collect();
    let sixth = all.open().unwrap();
    sixth.tracked().assign_user(&bob);
    assert_eq!(close_mode(&sixth), CloseMode::Drain, "all others are busy");
    let alice = all.open().unwrap();
    alice.tracked().assign_user(&user("alice"));
    assert_eq!(close_mode(&alice), CloseMode::KeepOpen);
    drop(requests);
}

#[tokio::test(start_paused = true)]
async fn closed_connections_are_forgotten() {
    let all = connections(8, 8);
    let guards: Vec<ConnectionGuard> = (0..6).map(|_| all.open().unwrap()).collect();
    for (n, guard) in guards.iter().enumerate().take(3) {
        guard.tracked().assign_user(&user(if n == 0 { "bob" } else { "alice" }));
    }
    drop(guards);
    let state = all.lock();
    assert_eq!((state.total, state.anonymous.len(), state.users.len()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn timeouts_depend_on_credentials_and_activity() {
    let options = ListenOptions::default();
    let all = connections(8, 8);
    let guard = all.open().unwrap();
    let tracked = guard.tracked();
    let left = |tracked: &Arc<TrackedConnection>| {
        tracked.check_timeouts(&options).map_err(|later| (later - Instant::now()).as_secs())
    };
    assert_eq!(left(tracked), Err(10), "idle without credentials");
    let long_running = Arc::new(AtomicBool::new(false));
    let request = tracked.begin_request(Some(long_running.clone()));
    assert_eq!(left(tracked), Err(60), "without credentials");
    tracked.assign_user(&user("bob"));
    assert_eq!(left(tracked), Err(65), "one response over HTTP/1");
    long_running.store(true, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(left(tracked), Err(65), "a watch has no limit");
    drop(request);
    tokio::time::advance(Duration::from_secs(119)).await;
    assert_eq!(left(tracked), Err(1), "idle");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(left(tracked), Ok(CloseMode::Drain));
}
