//! A hundred tests, each with its own cluster and operator, to measure the duration of a suite.
//!
//! `cargo test -p evenkeel-test --test hundred` prints the total duration at the end.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use evenkeel::prelude::*;
use evenkeel_test::TestCluster;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

/// Creates a Deployment for each ConfigMap that has the key `run`.
struct Runner;

impl Reconciler for Runner {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        // Every namespace contains the ConfigMap kube-root-ca.crt, which lacks the key.
        let requests_run =
            |map: &Arc<ConfigMap>| map.data.as_ref().is_some_and(|data| data.contains_key("run"));
        let Some(map) = cx.object().filter(requests_run) else { return Ok(Action::done()) };
        let name = map.name_any();
        let deployment = serde_json::json!({
            "metadata": {"name": name},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]}}},
        });
        cx.apply_owned(serde_json::from_value::<Deployment>(deployment)?).await?;
        Ok(Action::done())
    }
}

async fn scenario() {
    let mut cluster = TestCluster::start().await;
    let manager = cluster.manager("runner");
    manager.controller(Runner).owns::<Deployment>().register().unwrap();
    cluster.run(&manager);
    let map = cluster.parse::<ConfigMap>("metadata: {name: web}\ndata: {run: 'yes'}");
    cluster.client().create(&map).await.unwrap();
    let key = Key::of(&map);
    if cluster.runs_pods() {
        cluster
            .eventually::<Deployment>(&key, |deployment| {
                let status = deployment.status.as_ref();
                status.and_then(|status| status.available_replicas) == Some(3)
            })
            .await;
        cluster.client().delete_by_key::<ConfigMap>(&key).await.unwrap();
        cluster.eventually_all::<Pod>(|pods| pods.is_empty()).await;
    } else {
        cluster.eventually::<Deployment>(&key, |_| true).await;
    }
    cluster.stop().await;
}

macro_rules! hundred {
    ($($ten:ident)*) => { $(
        mod $ten {
            hundred!(@ten zero one two three four five six seven eight nine);
        }
    )* };
    (@ten $($name:ident)*) => { $(
        #[tokio::test]
        async fn $name() {
            super::scenario().await;
        }
    )* };
}

hundred!(zero ten twenty thirty forty fifty sixty seventy eighty ninety);
