//! What RBAC adds to a create, with hundreds of roles and bindings.

use evenkeel_apiserver::identity::Identity;
use evenkeel_apiserver::{ApiServer, Service};
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::Full;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::figure::{Figure, Report, Target};
use crate::load;
use crate::probe::thread_cpu_time;

/// Roles and bindings of each scope; half of the bindings name the user or one of its groups.
const ROLES: usize = 100;
const CREATES: usize = 10_000;
const ROUNDS: usize = 9;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Creates objects as a user that the last of 200 roles allows to, and as the same user of a server
/// that allows everything, in turns.
pub(crate) async fn authorized(report: &mut Report) -> anyhow::Result<()> {
    let groups = (0..4).map(|number| format!("group-{number}"));
    let user = Identity::authenticated("bench", groups);
    let open = ApiServer::builder().build().await?;
    let limited = ApiServer::builder().rbac().build().await?;
    let mut admin = limited.service();
    for number in 0..ROLES {
        let plural = if number + 1 == ROLES { "configmaps" } else { "secrets" };
        for scope in ["namespaces/default/role", "clusterrole"] {
            bind(&mut admin, scope, number, plural).await?;
        }
    }
    let (mut open, mut limited) = (open.service_as(user.clone()), limited.service_as(user));
    // The first creates build what later ones share.
    creates(&mut open, "warm").await?;
    creates(&mut limited, "warm").await?;
    let mut added = Vec::new();
    let mut cost = Vec::new();
    for round in 0..ROUNDS {
        let without = creates(&mut open, &round.to_string()).await?;
        let with = creates(&mut limited, &round.to_string()).await?;
        added.push(100.0 * (with / without - 1.0));
        cost.push(with);
    }
    added.sort_by(f64::total_cmp);
    cost.sort_by(f64::total_cmp);
    report.add(&Figure {
        what: "create with 200 roles and bindings, CPU",
        unit: "us",
        ours: cost[ROUNDS / 2],
        target: None,
        rival: None,
    });
    report.add(&Figure {
        what: "  more than without authorization",
        unit: "%",
        ours: added[ROUNDS / 2],
        target: Some(Target::AtMost(15.0)),
        rival: None,
    });
    Ok(())
}

/// Returns the microseconds of CPU time of a create.
async fn creates(service: &mut Service, round: &str) -> anyhow::Result<f64> {
    let path = load::path("default");
    let begin = thread_cpu_time()?;
    for number in 0..CREATES {
        load::create(service, &path, &format!("object-{round}-{number:07}")).await?;
    }
    Ok((thread_cpu_time()? - begin).as_secs_f64() * 1e6 / CREATES as f64)
}

/// Creates a role and a binding of it.
async fn bind(admin: &mut Service, scope: &str, number: usize, plural: &str) -> anyhow::Result<()> {
    let name = format!("bench-{number}");
    let kind = if scope.starts_with("cluster") { "ClusterRole" } else { "Role" };
    let role = json!({
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": [plural], "verbs": ["get", "create"]},
        ],
    });
    post(admin, &format!("{RBAC}/{scope}s"), &role).await?;
    let subject = match number % 4 {
        // The last one is of the user.
        3 => json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bench"}),
        1 => json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "group-1"}),
        _ => json!({"kind": "ServiceAccount", "name": "other", "namespace": "default"}),
    };
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [subject],
    });
    post(admin, &format!("{RBAC}/{scope}bindings"), &binding).await
}

async fn post(service: &mut Service, path: &str, body: &Value) -> anyhow::Result<()> {
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(bytes::Bytes::from(body.to_string())))?;
    let Ok(response) = service.call(request).await;
    anyhow::ensure!(response.status() == 201, "POST {path}: {}", response.status());
    Ok(())
}
