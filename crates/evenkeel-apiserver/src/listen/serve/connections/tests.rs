//! Which connection makes room for which.

use std::time::Duration;

use super::*;

fn connections(total: usize, anonymous: usize) -> Arc<Connections> {
    let options = Options {
        connections_max: total,
        anonymous_connections_max: anonymous,
        ..Options::default()
    };
    Connections::new(&options)
}

fn order(member: &Member) -> Order {
    member.0.doing().order
}

fn user(name: &str) -> Arc<str> {
    name.into()
}

#[tokio::test(start_paused = true)]
async fn the_oldest_anonymous_connection_makes_room_for_a_new_one() {
    let all = connections(100, 3);
    let flood: Vec<Member> = (0..10).map(|_| all.open().unwrap()).collect();
    let orders: Vec<Order> = flood.iter().map(order).collect();
    assert_eq!(orders[..7], [Order::Cut; 7]);
    assert_eq!(orders[7..], [Order::Go; 3]);
    assert_eq!(all.lock().total, 3);
}

#[tokio::test(start_paused = true)]
async fn connections_with_credentials_are_not_cut_for_those_without() {
    let all = connections(8, 100);
    let open = || {
        let member = all.open().unwrap();
        member.life().promote(&user("bob"));
        member
    };
    let own: Vec<Member> = (0..4).map(|_| open()).collect();
    for _ in 0..100 {
        // At most a quarter of all is anonymous.
        let _ = all.open();
        assert!(all.lock().anonymous.len() <= 2);
    }
    assert!(own.iter().all(|member| order(member) == Order::Go));
}

#[tokio::test(start_paused = true)]
async fn one_user_has_half_of_all_and_loses_what_is_idle_for_longest() {
    let all = connections(8, 8);
    let bob = user("bob");
    let mut own = Vec::new();
    for _ in 0..4 {
        let member = all.open().unwrap();
        member.life().promote(&bob);
        tokio::time::advance(Duration::from_secs(1)).await;
        own.push(member);
    }
    let busy = own[0].life().begin_request(None);
    let fifth = all.open().unwrap();
    fifth.life().promote(&bob);
    let orders: Vec<Order> = own.iter().map(order).collect();
    assert_eq!(orders, [Order::Go, Order::Cut, Order::Go, Order::Go]);
    assert_eq!(order(&fifth), Order::Go);
    drop(busy);

    let requests: Vec<Request> =
        own.iter().chain([&fifth]).map(|member| member.life().begin_request(None)).collect();
    let sixth = all.open().unwrap();
    sixth.life().promote(&bob);
    assert_eq!(order(&sixth), Order::Retire, "all others are busy");
    let alice = all.open().unwrap();
    alice.life().promote(&user("alice"));
    assert_eq!(order(&alice), Order::Go);
    drop(requests);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_connections_that_have_ended() {
    let all = connections(8, 8);
    let members: Vec<Member> = (0..6).map(|_| all.open().unwrap()).collect();
    for (n, member) in members.iter().enumerate().take(3) {
        member.life().promote(&user(if n == 0 { "bob" } else { "alice" }));
    }
    drop(members);
    let state = all.lock();
    assert_eq!((state.total, state.anonymous.len(), state.users.len()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn limits_depend_on_credentials_and_on_what_is_being_done() {
    let options = Options::default();
    let all = connections(8, 8);
    let member = all.open().unwrap();
    let life = member.life();
    let left = |life: &Arc<Life>| {
        life.overdue(&options).map_err(|later| (later - Instant::now()).as_secs())
    };
    assert_eq!(left(life), Err(10), "idle without credentials");
    let endless = Arc::new(AtomicBool::new(false));
    let request = life.begin_request(Some(endless.clone()));
    assert_eq!(left(life), Err(60), "without credentials");
    life.promote(&user("bob"));
    assert_eq!(left(life), Err(65), "one answer over HTTP/1");
    endless.store(true, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(left(life), Err(65), "a watch has no limit");
    drop(request);
    tokio::time::advance(Duration::from_secs(119)).await;
    assert_eq!(left(life), Err(1), "idle");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(left(life), Ok(Order::Retire));
}
