//! Events: series, similar events, limits, retries and the flush at shutdown.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::k8s_openapi::api::events::v1::Event;
use evenkeel::kube::Api;
use evenkeel::{EventRecorder, NewEvent, object_reference};

use crate::harness::{Fault, World, map, start, stop, until};

async fn events(world: &World) -> Vec<Event> {
    let events = Api::<Event>::namespaced(world.admin(), "default");
    events.list(&Default::default()).await.unwrap().items
}

fn series(event: &Event) -> i32 {
    event.series.as_ref().map_or(1, |series| series.count)
}

/// Waits until `number` recorded events are written, merged or dropped.
async fn processed(recorder: &EventRecorder, number: u64) {
    let done = || {
        let counts = recorder.counts();
        counts.written + counts.merged + counts.dropped >= number
    };
    until(done).await;
}

#[tokio::test(start_paused = true)]
async fn repeats_are_one_series_whose_count_is_written_at_its_end() {
    let world = World::new().await;
    let manager = world.manager();
    let running = start(&manager);
    let recorder = manager.event_recorder("checker");
    let mut subject: ConfigMap = map("a");
    for number in 0..10 {
        // Another version of the object is the same object.
        subject.metadata.resource_version = Some(number.to_string());
        recorder.event(&object_reference(&subject), "Seen", "it is there");
    }
    processed(&recorder, 10).await;
    let found = events(&world).await;
    assert_eq!(found.iter().map(series).collect::<Vec<_>>(), [2], "the first repeat is written");
    tokio::time::sleep(Duration::from_secs(8 * 60)).await;
    let found = events(&world).await;
    assert_eq!(found.iter().map(series).collect::<Vec<_>>(), [10], "the series has ended");
    assert_eq!(found[0].action.as_deref(), Some("Seen"));
    assert_eq!(found[0].reporting_controller.as_deref(), Some("checker"));
    // Another occurrence begins another event.
    recorder.event(&object_reference(&subject), "Seen", "it is there");
    processed(&recorder, 11).await;
    assert_eq!(events(&world).await.len(), 2);
    let counts = recorder.counts();
    assert_eq!((counts.written, counts.merged, counts.dropped), (2, 9, 0));
    let metrics = manager.metrics().encode();
    for line in ["{result=\"written\"} 2\n", "{result=\"merged\"} 9\n", "{result=\"dropped\"} 0\n"]
    {
        assert!(metrics.contains(&format!("evenkeel_events_total{line}")), "{metrics}");
    }
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_series_is_written_every_half_hour() {
    let world = World::new().await;
    let manager = world.manager();
    let running = start(&manager);
    let recorder = manager.event_recorder("checker");
    let subject = object_reference(&map("a"));
    world.requests();
    for _ in 0..40 {
        recorder.event(&subject, "Seen", "it is there");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let requests = world.requests();
    let patches = requests.iter().filter(|request| request.starts_with("PATCH")).count();
    assert_eq!(patches, 2, "the first repeat and one refresh: {requests:?}");
    let found = events(&world).await;
    assert!(found.len() == 1 && series(&found[0]) >= 30, "{found:?}");
    stop(&manager, running).await;
    assert_eq!(series(&events(&world).await[0]), 40, "flushed at shutdown");
}

#[tokio::test(start_paused = true)]
async fn similar_events_are_combined_after_ten_notes() {
    let world = World::new().await;
    let manager = world.manager();
    let running = start(&manager);
    let recorder = manager.event_recorder("checker");
    let subject = object_reference(&map("a"));
    for number in 0..50 {
        recorder.warning_event(&subject, "Failed", &format!("attempt {number} failed"));
    }
    processed(&recorder, 50).await;
    stop(&manager, running).await;
    let found = events(&world).await;
    assert_eq!(found.len(), 11);
    let combined = |event: &&Event| event.note.as_ref().unwrap().starts_with("(combined from");
    let [combined] = &found.iter().filter(combined).collect::<Vec<_>>()[..] else {
        panic!("{found:?}")
    };
    assert_eq!(series(combined), 40);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_too_many_events_does_not_affect_others() {
    let world = World::new().await;
    let manager = world.manager();
    let running = start(&manager);
    let recorder = manager.event_recorder("checker");
    for number in 0..100 {
        let reason = format!("Reason{number}");
        recorder.event(&object_reference(&map("noisy")), &reason, "");
    }
    let event = NewEvent::normal("Seen", "").action("Look").related(object_reference(&map("b")));
    recorder.record(&object_reference(&map("quiet")), event);
    processed(&recorder, 101).await;
    let found = events(&world).await;
    let about = |name: &str| {
        let is = |event: &&Event| event.regarding.as_ref().unwrap().name.as_deref() == Some(name);
        found.iter().filter(is).collect::<Vec<_>>()
    };
    assert_eq!(about("noisy").len(), 25);
    assert_eq!(recorder.counts().dropped, 75);
    let [quiet] = about("quiet")[..] else { panic!("{found:?}") };
    assert_eq!(quiet.action.as_deref(), Some("Look"));
    assert_eq!(quiet.related.as_ref().unwrap().name.as_deref(), Some("b"));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_survives_an_unavailable_server_and_a_lost_response() {
    let world = World::new().await;
    let attempts = AtomicU32::new(0);
    world.rule(move |request| match request.uri().path().contains("/events") {
        true => match attempts.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Fault::Respond(503, "{}"),
            2 => Fault::LoseResponse,
            _ => Fault::None,
        },
        false => Fault::None,
    });
    let manager = world.manager();
    let running = start(&manager);
    let recorder = manager.event_recorder("checker");
    recorder.event(&object_reference(&map("a")), "Seen", "it is there");
    processed(&recorder, 1).await;
    assert_eq!(events(&world).await.len(), 1);
    assert_eq!(recorder.counts().dropped, 0);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_events_and_does_not_block() {
    let world = World::new().await;
    world.rule(|request| match request.uri().path().contains("/events") {
        true => Fault::Hang,
        false => Fault::None,
    });
    let manager = world.manager();
    let running = start(&manager);
    let recorder = manager.event_recorder("checker");
    for number in 0..1500 {
        recorder.event(&object_reference(&map(&format!("map-{number}"))), "Seen", "");
    }
    assert_eq!(recorder.counts().dropped, 500);
    stop(&manager, running).await;
}
