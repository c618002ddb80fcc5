//! `evenkeel install`, `deploy` and their opposites, with the operator of the README.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::authentication::v1::TokenRequest;
use evenkeel::k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::kube::api::{ApiResource, DynamicObject, PostParams};
use evenkeel::kube::core::GroupVersionKind;
use evenkeel::kube::{Api, Client};
use serde_json::json;

use crate::support::{
    Background, Output, TempDir, block_on, client, client_of, operator, run, wait_for,
};

const CRD: &str = "greetings.example.com";

fn evenkeel(dir: &TempDir, command: &str) -> Output {
    run(&dir.0, &[command, "--binary", operator().to_str().unwrap()])
}

pub(crate) fn greetings(client: Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("example.com", "v1", "Greeting");
    Api::namespaced_with(client, "default", &ApiResource::from_gvk(&gvk))
}

pub(crate) fn greeting(finalizers: &[&str]) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "example.com/v1",
        "kind": "Greeting",
        "metadata": {"name": "ada", "finalizers": finalizers},
        "spec": {"name": "Ada"},
    }))
    .unwrap()
}

async fn has_crd(client: Client) -> bool {
    Api::<CustomResourceDefinition>::all(client).get_opt(CRD).await.unwrap().is_some()
}

#[test]
fn crds_are_installed_and_uninstalled() {
    let dir = TempDir::new("install");
    let _cluster = Background::start(&dir, &[]);
    let output = evenkeel(&dir, "install").success();
    assert!(output.stderr.contains("CustomResourceDefinition greetings.example.com created"));
    let output = evenkeel(&dir, "install").success();
    assert!(output.stderr.contains("greetings.example.com unchanged"), "{output:?}");
    block_on(async {
        let client = client(&dir).await;
        assert!(has_crd(client.clone()).await);
        let greetings = greetings(client);
        greetings.create(&PostParams::default(), &greeting(&[])).await.unwrap();
    });
    let output = evenkeel(&dir, "uninstall").success();
    assert!(output.stderr.contains("Greeting default/ada deleted"), "{output:?}");
    block_on(async { assert!(!has_crd(client(&dir).await).await) });
}

/// An operator, killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes a kubeconfig with a token of a service account.
pub(crate) async fn account_kubeconfig(
    dir: &TempDir,
    client: Client,
    namespace: &str,
    name: &str,
) -> PathBuf {
    let accounts = Api::<ServiceAccount>::namespaced(client, namespace);
    let request = TokenRequest::default();
    let token = accounts.create_token_request(name, &PostParams::default(), &request).await;
    let token = token.unwrap().status.unwrap().token.unwrap();
    let admin = std::fs::read_to_string(dir.kubeconfig()).unwrap();
    let mut kubeconfig = String::new();
    for line in admin.lines().filter(|line| !line.contains("client-key-data")) {
        match line.split_once("client-certificate-data:") {
            Some((indent, _)) => kubeconfig.push_str(&format!("{indent}token: {token}\n")),
            None => kubeconfig.push_str(&format!("{line}\n")),
        }
    }
    dir.write("account.kubeconfig", &kubeconfig)
}

/// Resources that an operator may want to use.
const RESOURCES: &[(&str, &str, Option<&str>)] = &[
    ("example.com", "greetings", None),
    ("example.com", "greetings", Some("status")),
    ("example.com", "greetings", Some("finalizers")),
    ("", "configmaps", None),
    ("", "secrets", None),
    ("", "pods", None),
    ("", "pods", Some("exec")),
    ("", "serviceaccounts", Some("token")),
    ("apps", "deployments", None),
    ("events.k8s.io", "events", None),
    ("coordination.k8s.io", "leases", None),
    ("rbac.authorization.k8s.io", "roles", None),
    ("apiextensions.k8s.io", "customresourcedefinitions", None),
];

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Returns what the user of a client may do in a namespace.
async fn allowed(client: &Client, namespace: &str) -> Vec<String> {
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let mut allowed = Vec::new();
    for (group, resource, subresource) in RESOURCES {
        let mut verbs = Vec::new();
        for verb in VERBS {
            let attributes = json!({
                "group": group, "resource": resource, "subresource": subresource, "verb": verb,
                "namespace": namespace,
            });
            let review = json!({"metadata": {}, "spec": {"resourceAttributes": attributes}});
            let review = serde_json::from_value(review).unwrap();
            let review = reviews.create(&PostParams::default(), &review).await.unwrap();
            if review.status.unwrap().allowed {
                verbs.push(*verb);
            }
        }
        if !verbs.is_empty() {
            let subresource = subresource.map(|it| format!("/{it}")).unwrap_or_default();
            allowed.push(format!("{resource}{subresource} {}", verbs.join(",")));
        }
    }
    allowed
}

/// Runs the operator as its service account.
fn run_as_service_account(kubeconfig: &Path) -> Running {
    let mut command = Command::new(operator());
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args(["--leader-elect", "--leader-election-namespace", "greeter"]);
    Running(command.stdin(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap())
}

#[test]
fn deployed_permissions_are_those_that_the_operator_needs() {
    let dir = TempDir::new("deploy");
    let _cluster = Background::start(&dir, &[]);
    let output = evenkeel(&dir, "deploy").success();
    assert!(output.stderr.contains("Deployment greeter/greeter created"), "{output:?}");
    assert!(output.stderr.contains("pods of this cluster are simulated"), "{output:?}");
    block_on(async {
        let client = client(&dir).await;
        // Its namespace admits only pods of the restricted profile.
        let deployments = Api::<Deployment>::namespaced(client.clone(), "greeter");
        let available = async || {
            let status = deployments.get_status("greeter").await.unwrap().status;
            status.and_then(|status| status.available_replicas) == Some(1)
        };
        wait_for("the Deployment is available", available).await;

        let kubeconfig = account_kubeconfig(&dir, client.clone(), "greeter", "greeter").await;
        let account = client_of(&kubeconfig).await;
        let everywhere = [
            "greetings get,list,patch,watch",
            "greetings/status patch",
            "greetings/finalizers update",
            "configmaps create,get,list,patch,watch",
            "events create,patch",
        ];
        assert_eq!(allowed(&account, "default").await, everywhere);
        let own = [&everywhere[..], &["leases create,get,list,update,watch"]].concat();
        assert_eq!(allowed(&account, "greeter").await, own);

        let _operator = run_as_service_account(&kubeconfig);
        let greetings = greetings(client.clone());
        greetings.create(&PostParams::default(), &greeting(&[])).await.unwrap();
        let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
        let created = async || maps.get_opt("ada").await.unwrap().is_some();
        wait_for("the ConfigMap exists", created).await;
    });
    evenkeel(&dir, "undeploy").success();
    block_on(async {
        let client = client(&dir).await;
        assert!(!has_crd(client.clone()).await);
        let namespaces = Api::<Namespace>::all(client);
        assert!(namespaces.get_opt("greeter").await.unwrap().is_none());
    });
}
