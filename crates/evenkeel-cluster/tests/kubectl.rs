//! Workloads driven by kubectl over the network.
//!
//! Skipped, with a message, if kubectl is not installed.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use evenkeel_cluster::{Cluster, ClusterOptions};
use evenkeel_upstream::{locate, report_skipped};

struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// Runs kubectl and returns its output.
    fn run(&self, line: &str) -> String {
        self.feed(line, "")
    }

    fn feed(&self, line: &str, input: &str) -> String {
        let (succeeded, text) = self.attempt(line, input);
        assert!(succeeded, "kubectl {line}: {text}");
        text
    }

    /// Runs kubectl and returns whether it succeeded, and its output.
    fn attempt(&self, line: &str, input: &str) -> (bool, String) {
        let mut child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(line.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            text.push_str(&String::from_utf8_lossy(&output.stderr));
        }
        (output.status.success(), text)
    }

    fn image(&self, what: &str) -> String {
        self.run(&format!("get {what} -o jsonpath={{.spec.template.spec.containers[0].image}}"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollouts_are_driven_by_kubectl() {
    with_kubectl("rollouts", |kubectl| {
        deployments(kubectl);
        stateful_sets(kubectl);
        daemon_sets(kubectl);
        jobs(kubectl);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_are_checked_and_tokens_created_by_kubectl() {
    with_kubectl("auth", auth).await;
}

/// Runs commands against a cluster of their own.
async fn with_kubectl(test: &str, run: impl FnOnce(&Kubectl) + Send + 'static) {
    let what = format!("test of the cluster with kubectl ({test})");
    let program = match locate() {
        Ok(binaries) => binaries.kubectl,
        Err(missing) => return report_skipped(1, &what, missing),
    };
    let Some(program) = program else {
        return report_skipped(1, &what, "kubectl is not installed");
    };
    let cluster = Cluster::start_with(&ClusterOptions::new().nodes(2)).await.unwrap();
    let serving = cluster.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let folder = format!("evenkeel-kubectl-{test}-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let kubeconfig = folder.join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let kubectl = Kubectl { program, kubeconfig };
    tokio::task::spawn_blocking(move || run(&kubectl)).await.unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    serving.stop().await;
    cluster.stop().await;
}

fn deployments(kubectl: &Kubectl) {
    let status = "rollout status deployment/web --timeout=30s";
    kubectl.run("create deployment web --image=app:1 --replicas=2");
    assert!(kubectl.run(status).contains("successfully rolled out"));
    kubectl.run("set image deployment/web app=app:2");
    assert!(kubectl.run(status).contains("successfully rolled out"));
    let history = kubectl.run("rollout history deployment/web");
    let numbers: Vec<_> = history.lines().skip(2).filter_map(|l| l.split(' ').next()).collect();
    assert_eq!(numbers.iter().filter(|n| !n.is_empty()).collect::<Vec<_>>(), [&"1", &"2"]);
    kubectl.run("rollout undo deployment/web");
    kubectl.run(status);
    assert_eq!(kubectl.image("deployment/web"), "app:1");
    kubectl.run("rollout undo deployment/web --to-revision=2");
    kubectl.run(status);
    assert_eq!(kubectl.image("deployment/web"), "app:2");
    kubectl.run("scale deployment/web --replicas=4");
    kubectl.run(status);
    let ready = "get deployment/web -o jsonpath={.status.readyReplicas}/{.status.replicas}";
    assert_eq!(kubectl.run(ready), "4/4");
    kubectl.run("rollout pause deployment/web");
    kubectl.run("set image deployment/web app=app:3");
    kubectl.run("rollout resume deployment/web");
    kubectl.run(status);
    kubectl.run("rollout restart deployment/web");
    kubectl.run(status);
    kubectl.run("wait --for=condition=Available deployment/web --timeout=30s");
    let images = "get pods -l app=web -o jsonpath={.items[*].spec.containers[0].image}";
    assert!(kubectl.run(images).split(' ').all(|image| image == "app:3"));
    kubectl.run("delete deployment/web --wait --timeout=30s");
}

const STATEFUL_SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: app, image: 'db:1'}]}
";

fn stateful_sets(kubectl: &Kubectl) {
    let status = "rollout status statefulset/db --timeout=30s";
    kubectl.feed("apply -f -", STATEFUL_SET);
    kubectl.run(status);
    kubectl.run("set image statefulset/db app=db:2");
    kubectl.run(status);
    let history = kubectl.run("rollout history statefulset/db");
    assert!(history.contains('1') && history.contains('2'), "{history}");
    kubectl.run("rollout undo statefulset/db");
    kubectl.run(status);
    assert_eq!(kubectl.image("statefulset/db"), "db:1");
    kubectl.run("scale statefulset/db --replicas=3");
    kubectl.run(status);
    kubectl.run("delete statefulset/db --wait --timeout=30s");
}

const DAEMON_SET: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: app, image: 'agent:1'}]}
";

fn daemon_sets(kubectl: &Kubectl) {
    let status = "rollout status daemonset/agent --timeout=30s";
    kubectl.feed("apply -f -", DAEMON_SET);
    kubectl.run(status);
    kubectl.run("set image daemonset/agent app=agent:2");
    kubectl.run(status);
    kubectl.run("rollout undo daemonset/agent");
    kubectl.run(status);
    assert_eq!(kubectl.image("daemonset/agent"), "agent:1");
    kubectl.run("rollout restart daemonset/agent");
    kubectl.run(status);
}

fn jobs(kubectl: &Kubectl) {
    kubectl.run("create job sum --image=sum:1");
    kubectl.run("wait --for=condition=Complete job/sum --timeout=30s");
    kubectl.run("create cronjob tick --image=tick:1 --schedule=@hourly");
    kubectl.run("create job now --from=cronjob/tick");
    kubectl.run("wait --for=condition=Complete job/now --timeout=30s");
    kubectl.run("delete job/sum --wait --timeout=30s");
}

const READERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules: [{apiGroups: [''], resources: [pods], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: bob, namespace: default}]
";

fn auth(kubectl: &Kubectl) {
    let user = "-o jsonpath={.status.userInfo.username}";
    assert_eq!(kubectl.run(&format!("auth whoami {user}")), "admin");
    let bob = "--as=system:serviceaccount:default:bob";
    assert_eq!(
        kubectl.run(&format!("auth whoami {user} {bob}")),
        "system:serviceaccount:default:bob"
    );
    assert_eq!(kubectl.run("auth can-i delete nodes"), "yes\n");
    kubectl.run("create serviceaccount bob");
    let (allowed, text) = kubectl.attempt(&format!("auth can-i list pods {bob}"), "");
    assert!(!allowed && text.starts_with("no"), "{text}");
    let reconciled = kubectl.feed("auth reconcile -f -", READERS);
    assert!(
        reconciled.contains("role.rbac.authorization.k8s.io/reader reconciled"),
        "{reconciled}"
    );
    assert_eq!(kubectl.run(&format!("auth can-i list pods {bob}")), "yes\n");
    let (allowed, _) = kubectl.attempt(&format!("auth can-i list pods -n kube-system {bob}"), "");
    assert!(!allowed);
    let all = kubectl.run(&format!("auth can-i --list {bob}"));
    assert!(
        all.lines().any(|line| line.starts_with("pods ") && line.contains("[get list]")),
        "{all}"
    );
    // What is missing is added again, and what is there is kept.
    kubectl.run("patch role reader --type=json -p [{\"op\":\"remove\",\"path\":\"/rules/0\"}]");
    kubectl.feed("auth reconcile -f -", READERS);
    assert_eq!(kubectl.run(&format!("auth can-i list pods {bob}")), "yes\n");

    let token = kubectl.run("create token bob --duration=10m --audience=vault");
    let review = |audience: &str| {
        let token = token.trim();
        let review = format!(
            "{{\"apiVersion\": \"authentication.k8s.io/v1\", \"kind\": \"TokenReview\", \"spec\": \
             {{\"token\": \"{token}\", \"audiences\": [\"{audience}\"]}}}}"
        );
        kubectl.feed("create -f - -o jsonpath={.status.user.username}", &review)
    };
    assert_eq!(review("vault"), "system:serviceaccount:default:bob");
    assert_eq!(review("other"), "");
}
