//! Levels of a server with few seats, through a store.

use std::time::Duration;

use futures_util::FutureExt as _;

use super::*;
use crate::ApiServer;
use crate::identity::Identity;
use crate::limits::Limits;

async fn server(seats: usize) -> ApiServer {
    let limits = Limits { reads_in_flight: seats, writes_in_flight: 0, ..Limits::default() };
    ApiServer::builder().seed(1).limits(limits).build().await.unwrap()
}

fn flow(server: &ApiServer, user: &Identity) -> Flow {
    let attributes = Attributes { user, verb: "get", path: "/version", resource: None };
    server.core_for_tests().flow_control.classify(&attributes).unwrap()
}

async fn acquire(server: &ApiServer, flow: &Flow) -> Result<Option<Seats>, u32> {
    let control = &server.core_for_tests().flow_control;
    control.acquire(flow, None, Duration::from_secs(15), 100).await
}

#[tokio::test(start_paused = true)]
async fn levels_share_all_seats_and_masters_are_exempt() {
    let server = server(600).await;
    let limits: Vec<(String, usize)> = {
        let configuration = server.core_for_tests().flow_control.configuration.read().clone();
        let levels = configuration.levels.iter();
        levels.map(|level| (level.name.clone(), level.queues.counts().limit)).collect()
    };
    let sum: usize = limits.iter().map(|(_, limit)| limit).sum();
    assert!((600..=606).contains(&sum), "{limits:?}");
    let bob = flow(&server, &Identity::authenticated("bob", ["dev"]));
    let mut held = Vec::new();
    while let Some(Ok(seats)) = acquire(&server, &bob).now_or_never() {
        held.push(seats);
    }
    let nominal = 49;
    assert!(held.len() >= nominal, "{}: idle levels lend", held.len());
    let admin = flow(&server, &Identity::admin());
    assert!(acquire(&server, &admin).now_or_never().unwrap().is_ok());
    let account = flow(&server, &Identity::service_account("a", "b"));
    assert!(acquire(&server, &account).now_or_never().unwrap().is_ok(), "another level");
}

#[tokio::test(start_paused = true)]
async fn one_user_does_not_displace_another_of_the_same_level() {
    let server = server(60).await;
    let greedy = flow(&server, &Identity::authenticated("greedy", ["dev"]));
    let mut held = Vec::new();
    while let Some(Ok(seats)) = acquire(&server, &greedy).now_or_never() {
        held.push(seats);
    }
    let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(acquire(&server, &greedy))).collect();
    for wait in &mut waiting {
        assert!(wait.as_mut().now_or_never().is_none());
    }
    let modest = flow(&server, &Identity::authenticated("modest", ["dev"]));
    let mut other = Box::pin(acquire(&server, &modest));
    assert!(other.as_mut().now_or_never().is_none());
    // The requests of the greedy user wait in the queues of its hand, which has at most eight.
    let served = (0..9).find_map(|_| {
        held.pop();
        other.as_mut().now_or_never()
    });
    assert!(served.is_some_and(|seats| seats.is_ok()), "each queue is served in turn");
}

#[tokio::test(start_paused = true)]
async fn request_that_waits_too_long_is_rejected_with_a_time_to_retry() {
    let server = server(10).await;
    let bob = flow(&server, &Identity::authenticated("bob", ["dev"]));
    let mut held = Vec::new();
    while let Some(Ok(seats)) = acquire(&server, &bob).now_or_never() {
        held.push(seats);
    }
    assert_eq!(acquire(&server, &bob).await.unwrap_err(), 1);
}

#[tokio::test(start_paused = true)]
async fn seats_follow_the_demand_every_ten_seconds() {
    let server = server(100).await;
    let bob = flow(&server, &Identity::authenticated("bob", ["dev"]));
    let mut held = vec![acquire(&server, &bob).await.unwrap()];
    let limit = || bob.level.queues.counts().limit;
    let before = limit();
    while let Some(Ok(seats)) = acquire(&server, &bob).now_or_never() {
        held.push(seats);
    }
    let mut waiting: Vec<_> = (0..60).map(|_| Box::pin(acquire(&server, &bob))).collect();
    for wait in &mut waiting {
        let _ = wait.as_mut().now_or_never();
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    let _adjusts = acquire(&server, &bob).now_or_never();
    assert!(limit() > before, "{before} {}", limit());
}
