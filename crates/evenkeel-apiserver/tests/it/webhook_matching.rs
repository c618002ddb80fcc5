//! Which requests admission webhooks are called for, in what order, and with which kinds.

use std::sync::Arc;

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::harness::{
    CONFIG_MAPS, CRDS, Cluster, DEPLOYMENTS, NAMESPACES, PODS, config_map, deployment, namespace,
    pod, text, widget, widget_crd,
};
use crate::webhook_service::{
    MUTATING, VALIDATING, Webhook, allow, configuration, deny, hook, install, install_patch,
    patched,
};

#[tokio::test(start_paused = true)]
async fn mutating_webhooks_run_by_configuration_name_and_position() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(|request| {
        let order = request["object"]["data"]["order"].as_str().unwrap_or("").to_owned();
        // The webhook is known by nothing but what it finds.
        let order = order + "x";
        patched(request, json!([{"op": "add", "path": "/data", "value": {"order": order}}]))
    });
    let client = webhook.register(&cluster, "w");
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    for name in ["b1", "a2", "a1"] {
        let (seen, own) = (seen.clone(), name.to_owned());
        let webhook = Webhook::new(move |request| {
            seen.lock().push(own.clone());
            allow(request)
        });
        webhook.register(&cluster, name);
    }
    let by = |name: &str| {
        let client = json!({"service": {"namespace": "default", "name": name}});
        hook(&format!("{name}.example.com"), &client, json!(["configmaps"]))
    };
    let b = configuration(MUTATING, "b", json!([by("b1")]));
    cluster.post(MUTATING, b).await.expect(201);
    let a = configuration(MUTATING, "a", json!([by("a1"), by("a2")]));
    cluster.post(MUTATING, a).await.expect(201);
    install(&cluster, MUTATING, "c", &client, |_| ()).await;
    let stored = cluster.post(CONFIG_MAPS, config_map("x", json!({}))).await.expect(201);
    assert_eq!(*seen.lock(), ["a1", "a2", "b1"]);
    assert_eq!(stored["data"]["order"], "x");
}

#[tokio::test(start_paused = true)]
async fn webhooks_that_request_it_are_called_again_after_a_change() {
    let cluster = Cluster::new().await;
    let first = Webhook::new(allow);
    let second = Webhook::new(|request| {
        patched(request, json!([{"op": "add", "path": "/data", "value": {"changed": "yes"}}]))
    });
    let client = first.register(&cluster, "first");
    install(&cluster, MUTATING, "a", &client, |hook| {
        hook["reinvocationPolicy"] = "IfNeeded".into();
    })
    .await;
    let client = second.register(&cluster, "second");
    install(&cluster, MUTATING, "b", &client, |_| ()).await;
    cluster.post(CONFIG_MAPS, config_map("x", json!({}))).await.expect(201);
    let seen = first.take();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1]["object"]["data"], json!({"changed": "yes"}));
    assert_eq!(second.take().len(), 1);
    // Nothing changes: nothing is called again.
    cluster.merge(&format!("{CONFIG_MAPS}/x"), json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!((first.take().len(), second.take().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn selectors_restrict_webhooks() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(allow);
    let client = webhook.register(&cluster, "w");
    install(&cluster, VALIDATING, "w", &client, |hook| {
        hook["rules"][0]["resources"] = json!(["configmaps", "namespaces", "nodes"]);
        hook["namespaceSelector"] = json!({"matchLabels": {"env": "prod"}});
        hook["objectSelector"] = json!({"matchExpressions": [
            {"key": "skip", "operator": "DoesNotExist"},
        ]});
    })
    .await;
    let mut prod = namespace("prod");
    prod["metadata"]["labels"] = json!({"env": "prod"});
    cluster.post(NAMESPACES, prod).await.expect(201);
    cluster.post(NAMESPACES, namespace("dev")).await.expect(201);
    assert_eq!(webhook.take().len(), 1, "the labels of a namespace are its own");
    let skipped = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "skipped", "labels": {"skip": "me"}},
    });
    cluster.post("/api/v1/namespaces/dev/configmaps", config_map("a", json!({}))).await.expect(201);
    let prod = "/api/v1/namespaces/prod/configmaps";
    cluster.post(prod, skipped).await.expect(201);
    assert!(webhook.take().is_empty());
    cluster.post(prod, config_map("a", json!({}))).await.expect(201);
    // Either the old or the new object is selected.
    let labels = json!({"metadata": {"labels": {"skip": "me"}}});
    cluster.merge(&format!("{prod}/a"), labels).await.expect(200);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    cluster.post("/api/v1/nodes", node).await.expect(201);
    let names: Vec<String> = webhook.take().iter().map(|seen| text(&seen["name"])).collect();
    assert_eq!(names, ["a", "a", "n"]);
}

#[tokio::test(start_paused = true)]
async fn equivalent_versions_are_converted_for_the_webhook() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(|request| {
        patched(
            request,
            json!([{"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 70}]),
        )
    });
    let client = webhook.register(&cluster, "w");
    install(&cluster, MUTATING, "w", &client, |hook| {
        hook["rules"] = json!([{
            "operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
            "resources": ["horizontalpodautoscalers"],
        }]);
    })
    .await;
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
            }}],
        },
    });
    let stored = cluster.post(path, autoscaler.clone()).await.expect(201);
    let target = &stored["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(target["averageUtilization"], 70);
    let [seen] = webhook.take().try_into().unwrap();
    assert_eq!(seen["kind"]["version"], "v1");
    assert_eq!(seen["requestKind"]["version"], "v2");
    assert_eq!(seen["resource"]["version"], "v1");
    assert_eq!(seen["requestResource"]["version"], "v2");
    assert_eq!(seen["object"]["apiVersion"], "autoscaling/v1");
    assert_eq!(seen["object"]["spec"]["targetCPUUtilizationPercentage"], 50);
    // Exact rules match their own version only.
    cluster
        .merge(
            &format!("{MUTATING}/w"),
            json!({"webhooks": [{
                "name": "w.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": client, "matchPolicy": "Exact",
                "rules": [{
                    "operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
                    "resources": ["horizontalpodautoscalers"],
                }],
            }]}),
        )
        .await
        .expect(200);
    let mut other = autoscaler;
    other["metadata"]["name"] = "b".into();
    cluster.post(path, other).await.expect(201);
    assert!(webhook.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn equivalent_versions_of_custom_resources_match() {
    let cluster = Cluster::new().await;
    let mut crd = widget_crd();
    let mut other = crd["spec"]["versions"][0].clone();
    other["name"] = "v2".into();
    other["storage"] = false.into();
    crd["spec"]["versions"].as_array_mut().unwrap().push(other);
    cluster.post(CRDS, crd).await.expect(201);
    let patch = json!([{"op": "replace", "path": "/spec/color", "value": "blue"}]);
    install_patch(&cluster, "w", patch, |hook| {
        hook["rules"] = json!([{
            "operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"],
            "resources": ["widgets"],
        }]);
    })
    .await;
    let mut object = widget("a", json!({"color": "red"}));
    object["apiVersion"] = "example.com/v2".into();
    let path = "/apis/example.com/v2/namespaces/default/widgets";
    let stored = cluster.post(path, object).await.expect(201);
    assert_eq!(stored["apiVersion"], "example.com/v2");
    assert_eq!(stored["spec"]["color"], "blue");

    // An earlier webhook for the version of the request changes the kind; the conversion for the
    // next one sets it again, as upstream.
    let patch = json!([{"op": "replace", "path": "/kind", "value": "Pod"}]);
    install_patch(&cluster, "a", patch, |hook| {
        hook["rules"] = json!([{
            "operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v2"],
            "resources": ["widgets"],
        }]);
    })
    .await;
    let mut object = widget("b", json!({"color": "red"}));
    object["apiVersion"] = "example.com/v2".into();
    let stored = cluster.post(path, object).await.expect(201);
    assert_eq!(stored["kind"], "Widget");
    assert_eq!(stored["spec"]["color"], "blue");
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    cluster.post(path, widget("c", json!({"color": "red"}))).await.expect(422);
}

#[tokio::test(start_paused = true)]
async fn configurations_are_exempt_and_take_effect_immediately() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(|request| deny(request, "no"));
    let client = webhook.register(&cluster, "w");
    install(&cluster, VALIDATING, "w", &client, |hook| {
        hook["rules"][0]["resources"] = json!(["*/*"]);
    })
    .await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(400);
    install(&cluster, MUTATING, "other", &client, |_| ()).await;
    cluster.delete(&format!("{MUTATING}/other")).await.expect(200);
    cluster.delete(&format!("{VALIDATING}/w")).await.expect(200);
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn deletecollection_calls_webhooks_for_each_object() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::new(|request| match request["oldObject"]["metadata"]["name"] == "b" {
        true => deny(request, "keep b"),
        false => allow(request),
    });
    let client = webhook.register(&cluster, "w");
    for name in ["a", "b", "c"] {
        cluster.post(CONFIG_MAPS, config_map(name, json!({}))).await.expect(201);
    }
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    let response = cluster.delete(CONFIG_MAPS).await.expect(400);
    assert!(text(&response["message"]).ends_with("denied the request: keep b"));
    let seen = webhook.take();
    assert!(seen.iter().all(|seen| seen.get("name").is_none()), "a collection has no name");
    assert!(cluster.names(CONFIG_MAPS).await.contains(&"b".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn subresources_are_reviewed_as_their_own_kinds() {
    let cluster = Cluster::new().await;
    cluster.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    cluster.post(PODS, pod("p")).await.expect(201);
    let webhook = Webhook::new(|request| match request["subResource"] == "scale" {
        true => patched(request, json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])),
        false => allow(request),
    });
    let client = webhook.register(&cluster, "w");
    install(&cluster, MUTATING, "w", &client, |hook| {
        hook["rules"][0]["resources"] = json!(["deployments/*", "pods/*", "bindings"]);
        hook["rules"][0]["operations"] = json!(["CREATE", "UPDATE", "DELETE", "CONNECT"]);
    })
    .await;
    let scale = cluster
        .merge(&format!("{DEPLOYMENTS}/d/scale"), json!({"spec": {"replicas": 5}}))
        .await
        .expect(200);
    assert_eq!(scale["spec"]["replicas"], 7);
    let stored = cluster.get(&format!("{DEPLOYMENTS}/d")).await.expect(200);
    assert_eq!(stored["spec"]["replicas"], 7);
    let status = json!({"status": {"observedGeneration": 1}});
    cluster.merge(&format!("{DEPLOYMENTS}/d/status"), status).await.expect(200);
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    cluster.post(&format!("{PODS}/p/binding"), binding).await.expect(201);
    cluster.post(&format!("{PODS}/p/exec?command=ls&command=-l&stdin=true"), json!({})).await;
    cluster
        .post(&format!("{PODS}/p/eviction"), json!({"metadata": {"name": "p"}}))
        .await
        .expect(201);
    let seen: Vec<_> = webhook
        .take()
        .into_iter()
        .map(|seen| {
            let kind = text(&seen["kind"]["kind"]);
            let object = text(&seen["object"]["kind"]);
            (text(&seen["operation"]), text(&seen["subResource"]), kind, object)
        })
        .collect();
    let row = |operation: &str, sub: &str, kind: &str| {
        (operation.to_owned(), sub.to_owned(), kind.to_owned(), kind.to_owned())
    };
    assert_eq!(
        seen,
        [
            row("UPDATE", "scale", "Scale"),
            row("UPDATE", "status", "Deployment"),
            row("CREATE", "binding", "Binding"),
            row("CONNECT", "exec", "PodExecOptions"),
            row("CREATE", "eviction", "Eviction"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn reviews_of_subresources_contain_what_is_sent_and_its_managers() {
    let cluster = Cluster::new().await;
    cluster.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    cluster.post(PODS, pod("p")).await.expect(201);
    let webhook = Webhook::new(allow);
    let client = webhook.register(&cluster, "w");
    install(&cluster, MUTATING, "w", &client, |hook| {
        hook["rules"][0]["resources"] = json!(["*/*"]);
        hook["rules"][0]["operations"] = json!(["CREATE", "UPDATE", "CONNECT"]);
    })
    .await;
    let review = || webhook.take().remove(0);
    let managers = |object: &Value| -> Vec<(Value, Value)> {
        let fields = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        fields.iter().map(|it| (it["manager"].clone(), it["subresource"].clone())).collect()
    };
    let path = format!("{DEPLOYMENTS}/d/scale?fieldManager=scaler");
    cluster.merge(&path, json!({"spec": {"replicas": 5}})).await.expect(200);
    let scale = review();
    assert_eq!(scale["object"]["spec"]["replicas"], 5);
    assert_eq!(scale["oldObject"]["spec"]["replicas"], 2);
    let scaler = (json!("scaler"), json!("scale"));
    assert!(managers(&scale["object"]).contains(&scaler), "{scale}");
    assert_eq!(managers(&scale["oldObject"]).len(), 1, "who has created it: {scale}");
    assert_eq!(scale["options"]["fieldManager"], "scaler");

    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    let path = format!("{PODS}/p/binding?fieldManager=scheduler");
    cluster.post(&path, binding).await.expect(201);
    let binding = review();
    assert_eq!(binding["object"]["metadata"]["namespace"], "default");
    assert_eq!(managers(&binding["object"]), [(json!("scheduler"), json!("binding"))]);
    assert_eq!(binding["oldObject"], Value::Null);
    assert_eq!(binding["resource"]["resource"], "pods");
    assert_eq!((&binding["name"], &binding["namespace"]), (&json!("p"), &json!("default")));

    let connect = async |path: &str| {
        cluster.get(&format!("{PODS}/p/{path}")).await;
        let review = review();
        assert_eq!(review["operation"], "CONNECT");
        assert_eq!((&review["options"], &review["oldObject"]), (&Value::Null, &Value::Null));
        assert_eq!(review["dryRun"], false);
        review["object"].clone()
    };
    let proxied = connect("proxy/a/b/?path=ignored").await;
    let expected = json!({"kind": "PodProxyOptions", "apiVersion": "v1", "path": "/a/b/"});
    assert_eq!(proxied, expected);
    let executed = connect("exec?command=ls&command=-l&stdin=true&container=c&path=x").await;
    let expected = json!({
        "kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "container": "c",
        "command": ["ls", "-l"],
    });
    assert_eq!(executed, expected);
    let forwarded = connect("portforward?ports=80&ports=443").await;
    let expected = json!({"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": [80, 443]});
    assert_eq!(forwarded, expected);
}

#[tokio::test(start_paused = true)]
async fn disabled_plugins_call_no_webhooks() {
    let builder = ApiServer::builder().seed(1);
    let cluster =
        Cluster::built(builder.disable_admission_plugins(["ValidatingAdmissionWebhook"])).await;
    let webhook = Webhook::new(|request| deny(request, "no"));
    let client = webhook.register(&cluster, "w");
    install(&cluster, VALIDATING, "w", &client, |_| ()).await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
}
