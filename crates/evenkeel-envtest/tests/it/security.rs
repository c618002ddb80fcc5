//! Authentication, authorization and audit of the drop-in kube-apiserver, as its flags set them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::apiserver::{KUBE_APISERVER, READY, connect_tls};
use crate::executable::{Executable, TempDir};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

/// A server with the static tokens `root`, of a member of `system:masters`, and `secret`, of bob.
struct Server {
    process: Executable,
    address: SocketAddr,
    directory: TempDir,
}

impl Server {
    fn start(flags: &[String]) -> Self {
        Self::start_in(TempDir::new(), flags)
    }

    fn start_in(directory: TempDir, flags: &[String]) -> Self {
        let tokens = directory.path().join("tokens.csv");
        fs::write(&tokens, "root,root,1,system:masters\nsecret,bob,2,dev\n").unwrap();
        let own = [
            format!("--cert-dir={}", directory.path().display()),
            "--secure-port=0".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--token-auth-file={}", tokens.display()),
        ];
        let arguments: Vec<&str> = own.iter().chain(flags).map(String::as_str).collect();
        let mut process = Executable::start(KUBE_APISERVER, &arguments);
        let address = process.address_after(READY);
        Self { process, address, directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Sends a request with a bearer token; returns the status code and the body.
    fn send(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut stream = connect_tls(self.address, &self.file("apiserver.crt"));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: \
             Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        (code, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn get(&self, token: &str, path: &str) -> (u16, Value) {
        self.send(token, "GET", path, &Value::Null)
    }

    fn create(&self, path: &str, object: &Value) -> Value {
        let (code, created) = self.send("root", "POST", path, object);
        assert_eq!(code, 201, "{created}");
        created
    }

    fn stop(self) -> TempDir {
        assert_eq!(self.process.stop("TERM").code(), Some(0));
        self.directory
    }
}

#[test]
fn rbac_denies_users_without_a_binding() {
    let server = Server::start(&["--authorization-mode=RBAC".to_owned()]);
    let (code, denied) = server.get("secret", CONFIG_MAPS);
    assert_eq!(code, 403);
    assert_eq!(
        denied["message"],
        "configmaps is forbidden: User \"bob\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"default\""
    );
    assert_eq!(server.get("wrong", CONFIG_MAPS).0, 401);
    let rule = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]});
    let role = json!({"metadata": {"name": "reader"}, "rules": [rule]});
    server.create(&format!("{RBAC}/roles"), &role);
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}],
    });
    server.create(&format!("{RBAC}/rolebindings"), &binding);
    assert_eq!(server.get("secret", CONFIG_MAPS).0, 200);
    assert_eq!(server.get("secret", "/api/v1/namespaces/kube-system/configmaps").0, 403);
    server.stop();
}

#[test]
fn modes_without_rbac_do_not_allow_everything() {
    for mode in ["AlwaysDeny", "Node"] {
        let server = Server::start(&[format!("--authorization-mode={mode}")]);
        assert_eq!(server.get("secret", CONFIG_MAPS).0, 403, "{mode}");
        assert_eq!(server.get("root", CONFIG_MAPS).0, 200, "{mode}");
        server.stop();
    }
}

/// Returns the claims of a token.
fn claims(token: &str) -> Value {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&payload).unwrap()
}

#[test]
fn service_account_flags_apply_to_requested_tokens() {
    let directory = TempDir::new();
    let key = directory.path().join("sa.key");
    fs::write(&key, evenkeel_pki::signing_key::generate().unwrap()).unwrap();
    let (issuer, keys) = ("https://issuer.example.com", "https://keys.example.com/jwks");
    let server = Server::start_in(
        directory,
        &[
            "--authorization-mode=RBAC".to_owned(),
            format!("--service-account-issuer={issuer}"),
            format!("--service-account-key-file={}", key.display()),
            format!("--service-account-signing-key-file={}", key.display()),
            "--api-audiences=api,other".to_owned(),
            format!("--service-account-jwks-uri={keys}"),
            "--service-account-extend-token-expiration=false".to_owned(),
        ],
    );
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    server.create(accounts, &json!({"metadata": {"name": "app"}}));
    let request = |spec: Value| {
        let token = server.create(&format!("{accounts}/app/token"), &json!({"spec": spec}));
        token["status"]["token"].as_str().unwrap().to_owned()
    };
    let token = request(json!({}));
    let own = claims(&token);
    assert_eq!((&own["iss"], &own["aud"]), (&json!(issuer), &json!(["api", "other"])));
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, review) = server.send(&token, "POST", path, &json!({}));
    assert_eq!(code, 201);
    let user = &review["status"]["userInfo"]["username"];
    assert_eq!(user, "system:serviceaccount:default:app");
    let elsewhere = request(json!({"audiences": ["elsewhere"]}));
    assert_eq!(server.send(&elsewhere, "POST", path, &json!({})).0, 401);

    // What a kubelet requests for a pod by default would be valid for a year.
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "app", "containers": [{"name": "c", "image": "i"}]},
    });
    server.create("/api/v1/namespaces/default/pods", &pod);
    let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "p"});
    let token = request(json!({"expirationSeconds": 3607, "boundObjectRef": bound}));
    let own = claims(&token);
    assert_eq!(own["exp"].as_i64().unwrap() - own["iat"].as_i64().unwrap(), 3607);

    let (_, discovery) = server.get("root", "/.well-known/openid-configuration");
    assert_eq!((&discovery["issuer"], &discovery["jwks_uri"]), (&json!(issuer), &json!(keys)));
    server.stop();
}

#[test]
fn requests_are_recorded_by_the_audit_policy() {
    let directory = TempDir::new();
    let (policy, log) = (directory.path().join("policy.yaml"), directory.path().join("audit.log"));
    fs::write(
        &policy,
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
         - level: Request\n  users: [bob]\n- level: None\n",
    )
    .unwrap();
    let server = Server::start_in(
        directory,
        &[
            "--authorization-mode=RBAC".to_owned(),
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", log.display()),
        ],
    );
    server.get("root", CONFIG_MAPS);
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(server.send("secret", "POST", CONFIG_MAPS, &map).0, 403);
    let directory = server.stop();
    let text = fs::read_to_string(directory.path().join("audit.log")).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [event] = events.as_slice() else { panic!("{text}") };
    assert_eq!((&event["user"]["username"], &event["verb"]), (&json!("bob"), &json!("create")));
    assert_eq!(event["stage"], "ResponseComplete");
    assert_eq!(event["responseStatus"]["code"], 403);
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
}
