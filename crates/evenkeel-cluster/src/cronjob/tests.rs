//! CronJobs on a whole cluster in virtual time, which starts at midnight.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use crate::job::is_finished;
use crate::testing::virtual_cluster::VirtualCluster;
use crate::{ClusterOptions, POD_SIMULATION_ANNOTATION};

fn cron(schedule: &str, simulation: &str, spec: &Value) -> Value {
    let mut cron = json!({
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": schedule,
            "jobTemplate": {"spec": {"template": {
                "metadata": {"annotations": {POD_SIMULATION_ANNOTATION: simulation}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "app", "image": "tick:1"}],
                },
            }}},
        },
    });
    for (name, value) in spec.as_object().unwrap() {
        cron["spec"][name] = value.clone();
    }
    cron
}

fn started(job: &Job) -> String {
    job.metadata.creation_timestamp.as_ref().unwrap().0.to_string()
}

#[tokio::test(start_paused = true)]
async fn jobs_start_on_schedule_and_the_history_limit_is_honoured() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let limits = json!({"successfulJobsHistoryLimit": 2});
    cluster.create::<CronJob>(cron("*/10 * * * *", "", &limits)).await;
    let mut seen = BTreeMap::new();
    cluster
        .until::<Job>("four runs", |jobs| {
            for (name, job) in jobs {
                seen.entry(name.clone()).or_insert_with(|| started(job));
            }
            seen.len() == 4
        })
        .await;
    let times: Vec<_> = seen.values().map(String::as_str).collect();
    let wanted = ["00:10", "00:20", "00:30", "00:40"].map(|t| format!("2026-01-01T{t}:00Z"));
    assert_eq!(times, wanted);
    // The name contains the time in minutes since 1970.
    assert_eq!(seen.keys().next().unwrap(), "tick-29453770");
    let jobs = cluster
        .until::<Job>("two are kept", |jobs| jobs.len() == 2 && jobs.values().all(is_finished))
        .await;
    let job = &jobs["tick-29453800"];
    let annotations = job.metadata.annotations.as_ref().unwrap();
    let time = &annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(time, "2026-01-01T00:40:00Z");
    let tick = cluster
        .until_one::<CronJob>("tick", |tick| {
            tick.status.as_ref().is_some_and(|status| status.active.is_none())
        })
        .await;
    let status = tick.status.unwrap();
    assert_eq!(status.last_schedule_time.unwrap().0.to_string(), "2026-01-01T00:40:00Z");
    assert!(status.last_successful_time.is_some());
}

#[tokio::test(start_paused = true)]
async fn concurrency_policies_are_honoured() {
    // Each run takes 90 s, and one is due every minute. A forbidden start is made up later.
    for (policy, running, total) in [("Allow", 2, 4), ("Forbid", 1, 3), ("Replace", 1, 4)] {
        let cluster = VirtualCluster::start(ClusterOptions::default()).await;
        let spec = json!({"concurrencyPolicy": policy});
        cluster.create::<CronJob>(cron("* * * * *", "complete-after=90s", &spec)).await;
        cluster.advance(Duration::from_secs(4 * 60 + 10)).await;
        let running_jobs = |jobs: &BTreeMap<String, Job>| {
            let running_jobs =
                |job: &&Job| !is_finished(job) && job.metadata.deletion_timestamp.is_none();
            jobs.values().filter(running_jobs).count()
        };
        let jobs = cluster.until::<Job>(policy, |jobs| running_jobs(jobs) == running).await;
        let status = cluster.api::<CronJob>().get("tick").await.unwrap().status.unwrap();
        assert_eq!(status.active.map_or(0, |active| active.len()), running, "{policy}");
        match policy {
            "Replace" => assert!(jobs.values().all(|job| !is_finished(job)), "{policy}"),
            _ => assert_eq!(jobs.len(), total, "{policy}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_cron_job_starts_one_missed_time_within_its_deadline() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({"suspend": true, "startingDeadlineSeconds": 100});
    cluster.create::<CronJob>(cron("*/5 * * * *", "", &spec)).await;
    cluster.advance(Duration::from_secs(16 * 60)).await;
    assert!(cluster.until::<Job>("none", BTreeMap::is_empty).await.is_empty());
    cluster.patch::<CronJob>("tick", json!({"spec": {"suspend": false}})).await;
    let jobs = cluster.until::<Job>("one", |jobs| jobs.len() == 1).await;
    assert_eq!(jobs.into_keys().next().unwrap(), "tick-29453775");
    cluster.patch::<CronJob>("tick", json!({"spec": {"suspend": true}})).await;
    cluster.advance(Duration::from_secs(6 * 60)).await;
    // 00:20 was two minutes ago, past the deadline.
    cluster.patch::<CronJob>("tick", json!({"spec": {"suspend": false}})).await;
    let jobs = cluster.until::<Job>("the next", |jobs| jobs.len() == 2).await;
    assert!(jobs.contains_key("tick-29453785"), "{:?}", jobs.keys());
}

#[tokio::test(start_paused = true)]
async fn time_zones_are_honoured() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({"timeZone": "Asia/Tokyo"});
    cluster.create::<CronJob>(cron("30 9 * * *", "", &spec)).await;
    let jobs = cluster.until::<Job>("one", |jobs| jobs.len() == 1).await;
    let job = jobs.values().next().unwrap();
    assert_eq!(started(job), "2026-01-01T00:30:00Z");
    let annotations = job.metadata.annotations.as_ref().unwrap();
    let time = &annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(time, "2026-01-01T09:30:00+09:00");
}

async fn event(cluster: &VirtualCluster, reason: &str) -> String {
    let with = |event: &Event| event.reason.as_deref() == Some(reason);
    let events = cluster.until::<Event>(reason, |events| events.values().any(with)).await;
    events.into_values().find(with).unwrap().message.unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_schedule_the_api_accepts_runs() {
    for (schedule, first) in [("@every 1.5h", "tick-29453850"), ("7,,29 1 * * *", "tick-29453827")]
    {
        let cluster = VirtualCluster::start(ClusterOptions::default()).await;
        cluster.create::<CronJob>(cron(schedule, "", &json!({}))).await;
        cluster.advance(Duration::from_secs(91 * 60)).await;
        assert!(cluster.api::<Job>().get_opt(first).await.unwrap().is_some(), "{schedule}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interval_counts_from_the_last_start() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<CronJob>(cron("@every 1h", "complete-after=50m", &json!({}))).await;
    // The end of each Job reconciles the CronJob, which must not start a new interval.
    let mut seen = BTreeMap::new();
    let watch = async {
        for hour in 1..=3 {
            cluster.advance(Duration::from_secs(3600)).await;
            let jobs = cluster.until::<Job>("one more", |jobs| jobs.len() == hour).await;
            seen.extend(jobs.iter().map(|(name, job)| (name.clone(), started(job))));
        }
    };
    watch.await;
    let times: Vec<_> = seen.values().map(String::as_str).collect();
    assert_eq!(times, ["01", "02", "03"].map(|hour| format!("2026-01-01T{hour}:00:00Z")));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_without_starts_is_reported() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<CronJob>(cron("59 23 31 2 *", "", &json!({}))).await;
    assert_eq!(
        event(&cluster, "InvalidSchedule").await,
        "invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second"
    );
}

#[tokio::test(start_paused = true)]
async fn many_missed_starts_record_an_event_and_the_last_is_started() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<CronJob>(cron("* * * * *", "", &json!({"suspend": true}))).await;
    cluster.advance(Duration::from_secs(102 * 60)).await;
    cluster.patch::<CronJob>("tick", json!({"spec": {"suspend": false}})).await;
    assert_eq!(
        event(&cluster, "TooManyMissedTimes").await,
        "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock \
         skew"
    );
    let jobs = cluster.until::<Job>("one", |jobs| !jobs.is_empty()).await;
    assert_eq!(jobs.into_keys().collect::<Vec<_>>(), ["tick-29453862"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_created_by_another_client_does_not_count_as_active() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({"concurrencyPolicy": "Forbid"});
    let tick = cluster.create::<CronJob>(cron("*/10 * * * *", "complete-after=1s", &spec)).await;
    let template = tick.spec.job_template.spec.clone().unwrap();
    cluster
        .create::<Job>(json!({
            "metadata": {"name": "by-hand", "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "controller": true,
                "uid": tick.metadata.uid,
            }]},
            "spec": {"template": template.template, "suspend": true},
        }))
        .await;
    let message = event(&cluster, "UnexpectedJob").await;
    assert!(message.ends_with(": by-hand"), "{message}");
    cluster.until::<Job>("the next start", |jobs| jobs.contains_key("tick-29453770")).await;
    event(&cluster, "SawCompletedJob").await;
}
