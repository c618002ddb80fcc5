//! The scenarios of `it/scenarios.rs` on a real kube-apiserver, if available.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "that is how a test fails, and how fixtures read best"
)]
#![expect(dead_code, reason = "the harness serves the other tests too")]

#[path = "it/harness.rs"]
mod harness;

#[path = "it/scenarios.rs"]
mod scenarios;

#[tokio::test(flavor = "multi_thread")]
async fn all_scenarios_pass_on_a_real_kube_apiserver() {
    use evenkeel::kube::config::{KubeConfigOptions, Kubeconfig};
    use evenkeel::kube::{Client, Config};

    let binaries = match evenkeel_upstream::locate() {
        Ok(binaries) => binaries,
        Err(reason) => {
            let what = "scenarios of the runtime on a real kube-apiserver";
            return evenkeel_upstream::report_skipped(scenarios::ALL.len(), what, reason);
        }
    };
    let options = evenkeel_upstream::UpstreamOptions::default();
    let cluster = evenkeel_upstream::Cluster::start(&binaries, &options).await.unwrap();
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    let client = Client::try_from(config).unwrap();
    for (claim, scenario) in scenarios::ALL {
        eprintln!("{claim}");
        scenario(&client).await;
    }
}
