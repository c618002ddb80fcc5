//! Limits, queues and slots, without a server.

use futures_util::FutureExt as _;
use parking_lot::Mutex;

use super::*;

fn user(name: &str) -> User {
    User::of(&Identity::authenticated(name, ["dev"]))
}

fn anonymous() -> User {
    User::of(&Identity::anonymous())
}

fn throttle(change: impl FnOnce(&mut Limits)) -> Throttle {
    let mut limits = Limits::default();
    change(&mut limits);
    Throttle::new(limits)
}

/// Acquires permits until none is left for this user.
fn fill(semaphore: &FairSemaphore, user: &User) -> Vec<Permit> {
    std::iter::from_fn(|| semaphore.try_acquire(user, 1)).collect()
}

#[test]
fn one_user_gets_three_quarters_and_anonymous_an_eighth() {
    let semaphore = FairSemaphore::new(400);
    let anonymous = fill(&semaphore, &anonymous());
    assert_eq!(anonymous.len(), 50);
    let greedy = fill(&semaphore, &user("greedy"));
    assert_eq!(greedy.len(), 300);
    assert_eq!(fill(&semaphore, &user("other")).len(), 50);
    drop(greedy);
    assert_eq!(fill(&semaphore, &user("other")).len(), 300);
}

#[test]
fn users_without_permits_are_forgotten() {
    let semaphore = FairSemaphore::new(10);
    let kept = semaphore.try_acquire(&user("kept"), 1).unwrap();
    for n in 0..10_000 {
        semaphore.try_acquire(&user(&n.to_string()), 1).unwrap();
    }
    assert!(semaphore.users() <= 257, "{}", semaphore.users());
    assert_eq!(fill(&semaphore, &user("kept")).len(), 7, "its limit is 8 and it holds 1");
    drop(kept);
}

#[test]
fn body_bytes_are_reserved_as_they_arrive_and_refused_beyond_the_user_limit() {
    let throttle = throttle(|limits| limits.body_bytes = 8 * UNIT);
    let (greedy, mut held) = (user("greedy"), None);
    throttle.reserve_body(&greedy, &mut held, 1).unwrap();
    throttle.reserve_body(&greedy, &mut held, UNIT).unwrap();
    assert_eq!(held.as_ref().unwrap().size(), 1);
    throttle.reserve_body(&greedy, &mut held, 6 * UNIT).unwrap();
    assert_eq!(throttle.reserve_body(&greedy, &mut held, 6 * UNIT + 1).unwrap_err().code(), 429);
    throttle.reserve_body(&user("other"), &mut None, 2 * UNIT).unwrap();
    drop(held);
    throttle.reserve_body(&greedy, &mut None, 6 * UNIT).unwrap();
}

#[tokio::test(start_paused = true)]
async fn slots_are_granted_round_robin_by_user() {
    let throttle = Arc::new(throttle(|limits| limits.heavy_in_flight = 1));
    let (greedy, other) = (user("greedy"), user("other"));
    let first = throttle.heavy_slot(&greedy).await.unwrap();
    let order = Mutex::new(Vec::new());
    let wait = async |user: &User, label: &'static str| {
        let _slot = throttle.heavy_slot(user).await.unwrap();
        order.lock().push(label);
    };
    let release = async {
        tokio::task::yield_now().await;
        drop(first);
    };
    tokio::join!(
        wait(&greedy, "greedy 1"),
        wait(&greedy, "greedy 2"),
        wait(&greedy, "greedy 3"),
        wait(&other, "other"),
        release,
    );
    assert_eq!(*order.lock(), ["greedy 1", "other", "greedy 2", "greedy 3"]);
    throttle.idle().now_or_never().expect("all slots are released");
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiter_passes_its_slot_on() {
    let throttle = throttle(|limits| limits.heavy_in_flight = 1);
    let user = user("one");
    let first = throttle.heavy_slot(&user).await.unwrap();
    let mut given_up = Box::pin(throttle.heavy_slot(&user));
    assert!(given_up.as_mut().now_or_never().is_none());
    let mut waits = Box::pin(throttle.heavy_slot(&user));
    assert!(waits.as_mut().now_or_never().is_none());
    drop(given_up);
    drop(first);
    let slot = waits.now_or_never().expect("the slot is passed on").unwrap();
    assert!(throttle.idle().now_or_never().is_none());
    drop(slot);
    throttle.idle().now_or_never().expect("all slots are released");

    // The slot has been granted but not received when the request ends.
    let first = throttle.heavy_slot(&user).await.unwrap();
    let mut given_up = Box::pin(throttle.heavy_slot(&user));
    assert!(given_up.as_mut().now_or_never().is_none());
    drop(first);
    drop(given_up);
    throttle.idle().now_or_never().expect("all slots are released");
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_are_bounded() {
    let throttle = throttle(|limits| {
        limits.heavy_in_flight = 1;
        limits.heavy_waiting = 4;
    });
    let user = user("one");
    let _first = throttle.heavy_slot(&user).await.unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(throttle.heavy_slot(&user))).collect();
    for wait in &mut waiting {
        assert!(wait.as_mut().now_or_never().is_none());
    }
    assert_eq!(throttle.heavy_slot(&user).await.unwrap_err().code(), 429);
}
