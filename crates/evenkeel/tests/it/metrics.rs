//! Metrics: names, labels and values, and that what is exported parses.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::metrics::text::{ParsedFamily, parse};
use evenkeel::metrics::{Kind, RegisterError};
use evenkeel::prelude::*;
use evenkeel::queue::{AddOptions, Cause};
use tokio::time::sleep;

use crate::harness::{Fault, World, each, key, map, next, recording, start, stop, until};

/// The metrics of controller-runtime and client-go: name, type, labels, and the number of buckets
/// with `+Inf`.
const NAMES: &[(&str, Kind, &[&str], usize)] = &[
    ("certwatcher_read_certificate_errors_total", Kind::Counter, &[], 0),
    ("certwatcher_read_certificate_total", Kind::Counter, &[], 0),
    ("controller_runtime_active_workers", Kind::Gauge, &["controller"], 0),
    ("controller_runtime_conversion_webhook_panics_total", Kind::Counter, &[], 0),
    ("controller_runtime_max_concurrent_reconciles", Kind::Gauge, &["controller"], 0),
    ("controller_runtime_reconcile_errors_total", Kind::Counter, &["controller"], 0),
    ("controller_runtime_reconcile_panics_total", Kind::Counter, &["controller"], 0),
    ("controller_runtime_reconcile_time_seconds", Kind::Histogram, &["controller"], 41),
    ("controller_runtime_reconcile_timeouts_total", Kind::Counter, &["controller"], 0),
    ("controller_runtime_reconcile_total", Kind::Counter, &["controller", "result"], 0),
    ("controller_runtime_terminal_reconcile_errors_total", Kind::Counter, &["controller"], 0),
    ("controller_runtime_webhook_latency_seconds", Kind::Histogram, &["webhook"], 13),
    ("controller_runtime_webhook_panics_total", Kind::Counter, &[], 0),
    ("controller_runtime_webhook_requests_in_flight", Kind::Gauge, &["webhook"], 0),
    ("controller_runtime_webhook_requests_total", Kind::Counter, &["webhook", "code"], 0),
    ("leader_election_master_status", Kind::Gauge, &["name"], 0),
    ("leader_election_slowpath_total", Kind::Counter, &["name"], 0),
    ("rest_client_dns_resolution_duration_seconds", Kind::Histogram, &["host"], 13),
    ("rest_client_rate_limiter_duration_seconds", Kind::Histogram, &["verb", "host"], 13),
    ("rest_client_request_duration_seconds", Kind::Histogram, &["verb", "host"], 13),
    ("rest_client_request_retries_total", Kind::Counter, &["code", "verb", "host"], 0),
    ("rest_client_request_size_bytes", Kind::Histogram, &["verb", "host"], 12),
    ("rest_client_requests_total", Kind::Counter, &["code", "method", "host"], 0),
    ("rest_client_response_size_bytes", Kind::Histogram, &["verb", "host"], 12),
    ("workqueue_adds_total", Kind::Counter, &["name", "controller"], 0),
    ("workqueue_depth", Kind::Gauge, &["name", "controller", "priority"], 0),
    ("workqueue_longest_running_processor_seconds", Kind::Gauge, &["name", "controller"], 0),
    ("workqueue_queue_duration_seconds", Kind::Histogram, &["name", "controller"], 13),
    ("workqueue_retries_total", Kind::Counter, &["name", "controller"], 0),
    ("workqueue_unfinished_work_seconds", Kind::Gauge, &["name", "controller"], 0),
    ("workqueue_work_duration_seconds", Kind::Histogram, &["name", "controller"], 13),
];

/// Scrapes a manager with the strict parser.
fn scrape(manager: &Manager) -> BTreeMap<String, ParsedFamily> {
    let families = parse(&manager.metrics().encode()).unwrap();
    families.into_iter().map(|family| (family.name.clone(), family)).collect()
}

/// Returns the value of the sample with these labels.
fn value(families: &BTreeMap<String, ParsedFamily>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let family = name.strip_suffix("_count").filter(|name| families.contains_key(*name));
    let family = &families[family.unwrap_or(name)];
    let mut found = family.samples.iter().filter(|sample| {
        sample.name == name && labels.iter().all(|(name, value)| sample.label(name) == Some(*value))
    });
    let sample = found.next().unwrap_or_else(|| panic!("no {name} with {labels:?}: {family:?}"));
    assert!(found.next().is_none(), "{name} with {labels:?} is ambiguous");
    sample.value
}

#[tokio::test(start_paused = true)]
async fn names_labels_and_buckets_are_those_of_controller_runtime() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (reconciler, mut keys) = recording::<ConfigMap>();
    let controller = manager.controller(reconciler).named("maps").register().unwrap();
    let running = start(&manager);
    next(&mut keys).await;
    until(|| controller.reconcile_counts().success == 1).await;
    let families = scrape(&manager);
    for (name, kind, labels, buckets) in NAMES {
        let family = families.get(*name).unwrap_or_else(|| panic!("{name} is not exported"));
        assert_eq!(family.kind, *kind, "{name}");
        // Metrics of parts that do not run have no samples.
        for sample in &family.samples {
            let found: BTreeSet<_> = sample.labels.iter().map(|(name, _)| &**name).collect();
            let found: Vec<_> = found.into_iter().filter(|name| *name != "le").collect();
            let expected: BTreeSet<_> = labels.iter().copied().collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{name}");
        }
        if let Some(first) = family.samples.first().filter(|_| *buckets > 0) {
            let of_first = |labels: &[(String, String)]| {
                labels.iter().filter(|(name, _)| name != "le").cloned().collect::<Vec<_>>()
            };
            let same = family.samples.iter().filter(|sample| {
                sample.name.ends_with("_bucket")
                    && of_first(&sample.labels) == of_first(&first.labels)
            });
            assert_eq!(same.count(), *buckets, "{name}");
        }
    }
    let foreign = families.keys().filter(|name| !NAMES.iter().any(|(known, ..)| known == *name));
    for name in foreign {
        assert!(name.starts_with("evenkeel_") || name.starts_with("process_"), "{name}");
    }
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn reconciles_are_counted_by_result_and_cause() {
    let world = World::new().await;
    for name in ["done", "requeue", "after", "error", "terminal", "panic", "timeout"] {
        world.create_map(name).await;
    }
    let manager = world.manager();
    let reconciler = each::<ConfigMap, _, _>(|key, _, _| async move {
        match key.name() {
            "done" => Ok(Action::done()),
            "requeue" => Ok(Action::requeue()),
            "after" => Ok(Action::requeue_after(Duration::from_secs(60 * 60 * 24))),
            "error" => Err("broken".into()),
            "terminal" => Err(terminal("broken")),
            "panic" => panic!("broken"),
            _ => std::future::pending().await,
        }
    });
    let controller = manager
        .controller(reconciler)
        .named("maps")
        .workers(3)
        .reconcile_timeout(Duration::from_millis(2))
        .register()
        .unwrap();
    let running = start(&manager);
    until(|| controller.reconcile_counts().timeouts >= 2).await;
    let (counts, families) = (controller.reconcile_counts(), scrape(&manager));
    let total = |result| {
        let labels = [("controller", "maps"), ("result", result)];
        value(&families, "controller_runtime_reconcile_total", &labels)
    };
    let maps = [("controller", "maps")];
    assert_eq!((total("success"), total("requeue_after")), (1.0, 1.0));
    assert_eq!(total("requeue"), counts.requeue as f64);
    assert_eq!(total("error"), counts.error as f64);
    for (name, count) in [
        ("controller_runtime_reconcile_errors_total", counts.error),
        ("controller_runtime_terminal_reconcile_errors_total", 1),
        ("controller_runtime_reconcile_panics_total", counts.panics),
        ("controller_runtime_reconcile_timeouts_total", counts.timeouts),
        ("controller_runtime_max_concurrent_reconciles", 3),
    ] {
        assert_eq!(value(&families, name, &maps), count as f64, "{name}");
    }
    assert!(counts.panics > 0 && counts.requeue > 0, "{counts:?}");
    let all = counts.success + counts.requeue + counts.requeue_after + counts.error;
    for name in [
        "controller_runtime_reconcile_time_seconds_count",
        "workqueue_queue_duration_seconds_count",
        "workqueue_work_duration_seconds_count",
    ] {
        assert_eq!(value(&families, name, &maps), all as f64, "{name}");
    }
    let cause = |cause| {
        let labels = [("controller", "maps"), ("cause", cause)];
        value(&families, "evenkeel_reconcile_causes_total", &labels)
    };
    assert_eq!(cause("listed"), 7.0);
    assert!(cause("retry") > 0.0 && cause("requeue") > 0.0);
    assert_eq!((cause("deleted"), cause("requeue_after")), (0.0, 0.0));
    // Every failure and every requeue was added with a delay.
    let retries = value(&families, "workqueue_retries_total", &[("name", "maps")]);
    assert_eq!(retries, (counts.error - 1 + counts.requeue + counts.requeue_after) as f64);
    assert_eq!(value(&families, "workqueue_adds_total", &[("name", "maps")]), {
        let queue = controller.queue().snapshot();
        queue.adds as f64
    });
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn queues_are_measured_when_they_are_scraped() {
    let world = World::new().await;
    let manager = world.manager();
    let reconciler = each::<ConfigMap, _, _>(|_, _, _| std::future::pending());
    let controller = manager.controller(reconciler).named("maps").register().unwrap();
    let running = start(&manager);
    controller.wait_until_synced().await;
    let queue = controller.queue();
    for number in 0..40 {
        let options = AddOptions::new().priority(number);
        queue.add_with(key(&format!("k{number}")), options, Cause::Requeue);
    }
    queue.add_with(key("late"), AddOptions::new().after(Duration::from_secs(3600)), Cause::Requeue);
    until(|| queue.processing() == 1).await;
    sleep(Duration::from_secs(30)).await;
    let families = scrape(&manager);
    let depths = &families["workqueue_depth"].samples;
    assert_eq!(depths.len(), 26, "25 priorities and the rest");
    let rest = depths.iter().find(|it| it.label("priority") == Some("exceeded_cardinality_limit"));
    assert_eq!(rest.unwrap().value, 39.0 - 25.0);
    assert_eq!(depths.iter().map(|sample| sample.value).sum::<f64>(), 39.0);
    let maps = [("name", "maps"), ("controller", "maps")];
    for name in ["workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds"]
    {
        let seconds = value(&families, name, &maps);
        assert!((30.0..31.0).contains(&seconds), "{name} {seconds}");
    }
    assert_eq!(value(&families, "evenkeel_workqueue_delayed", &maps), 1.0);
    assert_eq!(value(&families, "controller_runtime_active_workers", &maps[1..]), 1.0);
    manager.stop();
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn informers_requests_and_own_writes_are_measured() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    manager.caches::<ConfigMap>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    manager.wait_until_synced().await.unwrap();
    world.rule(|request| match request.method().as_str() {
        "GET" => World::frozen(request),
        "DELETE" => Fault::Respond(503, "{}"),
        _ => Fault::None,
    });
    let client = manager.client();
    client.create(&map("b")).await.unwrap();
    assert!(client.get::<ConfigMap>(&key("b")).await.unwrap().is_some());
    client.delete_by_key::<ConfigMap>(&key("a")).await.unwrap_err();
    let families = scrape(&manager);
    let kind = [("group", ""), ("version", "v1"), ("kind", "ConfigMap")];
    let informer = |name: &str| value(&families, &format!("evenkeel_informer_{name}"), &kind);
    assert_eq!((informer("synced"), informer("lists_total")), (1.0, 1.0));
    assert_eq!(informer("relists_total"), 0.0);
    assert!(informer("objects") >= 1.0 && informer("bytes") > 100.0);
    assert_eq!(informer("own_write_reads_total"), 1.0);
    let requests = |code, method| {
        let labels = [("code", code), ("method", method), ("host", "unknown")];
        value(&families, "rest_client_requests_total", &labels)
    };
    assert_eq!((requests("201", "POST"), requests("503", "DELETE")), (1.0, 1.0));
    let sizes = |name| value(&families, name, &[("verb", "POST")]);
    assert_eq!(sizes("rest_client_request_size_bytes_count"), 1.0);
    assert_eq!(sizes("rest_client_response_size_bytes_count"), 1.0);
    assert_eq!(sizes("rest_client_request_duration_seconds_count"), 1.0);
    // The server ends, the next one has another history, and the type is listed again.
    world.rule(|_| Fault::None);
    world.replace_server().await;
    until(|| manager.cache().stats().types[0].relists > 0).await;
    let families = scrape(&manager);
    assert_eq!(value(&families, "evenkeel_informer_relists_total", &kind), 1.0);
    assert!(value(&families, "evenkeel_informer_watch_age_seconds", &kind) < 60.0);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn alarms_of_the_journal_are_counted() {
    let world = World::new().await;
    world.create_map("hot").await;
    let manager = world.manager();
    let reconciler =
        each::<ConfigMap, _, _>(|_, _, _| async { Ok(Action::requeue_after(Duration::ZERO)) });
    manager.controller(reconciler).named("maps").register().unwrap();
    let running = start(&manager);
    sleep(Duration::from_secs(60)).await;
    let families = scrape(&manager);
    let alarm = |alarm| value(&families, "evenkeel_alarms_total", &[("alarm", alarm)]);
    assert_eq!((alarm("throttled"), alarm("reconcile_loop")), (1.0, 0.0));
    assert_eq!((alarm("contested_field"), alarm("long_running")), (0.0, 0.0));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn operators_register_their_own_metrics() {
    let world = World::new().await;
    let (one, other) = (world.manager(), world.manager());
    let orders = one.metrics().counters("shop_orders_total", "Orders.", ["state"]).unwrap();
    orders.with(["paid"]).inc_by(2);
    let families = scrape(&one);
    assert_eq!(value(&families, "shop_orders_total", &[("state", "paid")]), 2.0);
    assert!(!scrape(&other).contains_key("shop_orders_total"), "each manager has its registry");
    let taken = one.metrics().gauge("workqueue_depth", "Depth.").unwrap_err();
    assert_eq!(taken, RegisterError::NameTaken("workqueue_depth".to_owned()));
}
