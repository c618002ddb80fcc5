//! Decisions by roles and bindings.

use serde_json::{Value, json};

use super::*;
use crate::authz::ResourceAttributes;

fn decide(rbac: &Rbac, user: &Identity, verb: &str, namespace: &str, name: &str) -> Decision {
    let resource = ResourceAttributes {
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace,
        name,
        selected_fields: &[],
    };
    rbac.decide(&Attributes { user, verb, path: "", resource: Some(resource) })
}

fn put(rbac: &Rbac, kind: Kind, (namespace, name): (&str, &str), content: Value) {
    rbac.put(kind, &Key::new(namespace, name), serde_json::from_value(content).unwrap());
}

fn reader(rbac: &Rbac, kind: Kind, namespace: &str) {
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    put(rbac, kind, (namespace, "reader"), json!({"rules": [rule]}));
}

fn bind(rbac: &Rbac, kind: Kind, namespace: &str, role: &str, subject: &Value) {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "reader"});
    let content = json!({"roleRef": role, "subjects": [subject]});
    put(rbac, kind, (namespace, "readers"), content);
}

#[test]
fn role_bindings_grant_in_their_namespace_only() {
    let rbac = Rbac::default();
    let bob = Identity::authenticated("bob", ["dev"]);
    reader(&rbac, Kind::ClusterRole, "");
    bind(&rbac, Kind::RoleBinding, "shop", "ClusterRole", &json!({"kind": "User", "name": "bob"}));
    assert_eq!(decide(&rbac, &bob, "get", "shop", "web"), Decision::Allow);
    let denied = Decision::Deny(String::new());
    assert_eq!(decide(&rbac, &bob, "get", "other", "web"), denied);
    assert_eq!(decide(&rbac, &bob, "list", "shop", ""), denied);
    let eve = Identity::authenticated("eve", ["ops"]);
    assert_eq!(decide(&rbac, &eve, "get", "shop", "web"), denied);

    bind(
        &rbac,
        Kind::ClusterRoleBinding,
        "",
        "ClusterRole",
        &json!({"kind": "Group", "name": "ops"}),
    );
    assert_eq!(decide(&rbac, &eve, "get", "other", "web"), Decision::Allow);
    rbac.remove(Kind::ClusterRoleBinding, &Key::new("", "readers"));
    assert_eq!(decide(&rbac, &eve, "get", "other", "web"), denied);
    rbac.remove(Kind::RoleBinding, &Key::new("shop", "readers"));
    assert_eq!(decide(&rbac, &bob, "get", "shop", "web"), denied);
    rbac.remove(Kind::ClusterRole, &Key::new("", "reader"));
    assert!(rbac.0.read().is_empty());
}

#[test]
fn service_accounts_of_the_binding_namespace_need_no_namespace() {
    let rbac = Rbac::default();
    reader(&rbac, Kind::Role, "shop");
    let subject = json!({"kind": "ServiceAccount", "name": "operator"});
    bind(&rbac, Kind::RoleBinding, "shop", "Role", &subject);
    let own = Identity::authenticated("system:serviceaccount:shop:operator", ["x"]);
    assert_eq!(decide(&rbac, &own, "get", "shop", "web"), Decision::Allow);
    let other = Identity::authenticated("system:serviceaccount:other:operator", ["x"]);
    assert_ne!(decide(&rbac, &other, "get", "shop", "web"), Decision::Allow);
}

#[test]
fn reasons_name_the_binding_or_the_missing_role() {
    let rbac = Rbac::default();
    let own = Identity::authenticated("system:serviceaccount:shop:operator", ["x"]);
    let subject = json!({"kind": "ServiceAccount", "name": "operator", "namespace": "shop"});
    bind(&rbac, Kind::RoleBinding, "shop", "Role", &subject);
    assert_eq!(
        decide(&rbac, &own, "get", "shop", "web"),
        Decision::Deny("RBAC: role.rbac.authorization.k8s.io \"reader\" not found".to_owned())
    );
    reader(&rbac, Kind::Role, "shop");
    let resource = ResourceAttributes {
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "shop",
        name: "web",
        selected_fields: &[],
    };
    let attributes = Attributes { user: &own, verb: "get", path: "", resource: Some(resource) };
    assert_eq!(
        rbac.allow_reason(&attributes).unwrap(),
        "RBAC: allowed by RoleBinding \"readers/shop\" of Role \"reader\" to ServiceAccount \
         \"operator/shop\""
    );
}

#[test]
fn members_of_system_masters_may_do_anything() {
    let rbac = Rbac::default();
    assert_eq!(decide(&rbac, &Identity::admin(), "delete", "shop", "web"), Decision::Allow);
}

#[test]
fn granted_rules_apply_to_their_user_without_a_binding() {
    let rbac = Rbac::default();
    let rule = json!({"metadata": {"name": "x"}, "rules": [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
    ]});
    rbac.grant("bob", PolicyRule::of_role(&rule));
    let bob = Identity::authenticated("bob", ["dev"]);
    assert_eq!(decide(&rbac, &bob, "get", "shop", "web"), Decision::Allow);
    assert_ne!(decide(&rbac, &bob, "list", "shop", ""), Decision::Allow);
    let eve = Identity::authenticated("eve", ["dev"]);
    assert_ne!(decide(&rbac, &eve, "get", "shop", "web"), Decision::Allow);
}

#[test]
fn a_binding_follows_its_role_as_that_is_deleted_and_created() {
    let rbac = Rbac::default();
    let bob = Identity::authenticated("bob", ["dev"]);
    let user = json!({"kind": "User", "name": "bob"});
    bind(&rbac, Kind::RoleBinding, "shop", "Role", &user);
    // Another role must not take its place.
    reader(&rbac, Kind::ClusterRole, "");
    assert_ne!(decide(&rbac, &bob, "get", "shop", "web"), Decision::Allow);
    reader(&rbac, Kind::Role, "shop");
    assert_eq!(decide(&rbac, &bob, "get", "shop", "web"), Decision::Allow);
    let role = Key::new("shop", "reader");
    rbac.remove(Kind::Role, &role);
    put(&rbac, Kind::Role, ("other", "reader"), json!({"rules": []}));
    assert_ne!(decide(&rbac, &bob, "get", "shop", "web"), Decision::Allow);
    reader(&rbac, Kind::Role, "shop");
    bind(&rbac, Kind::RoleBinding, "shop", "Role", &user);
    assert_eq!(decide(&rbac, &bob, "get", "shop", "web"), Decision::Allow);
    put(&rbac, Kind::Role, ("shop", "reader"), json!({"rules": []}));
    assert_ne!(decide(&rbac, &bob, "get", "shop", "web"), Decision::Allow);
}

#[test]
fn decisions_are_those_of_the_rules() {
    let rules = json!([
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
        {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"]},
        {"verbs": ["watch"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["*/*"]},
        {"verbs": ["get", "post"], "nonResourceURLs": ["/healthz", "/logs/*"]},
    ]);
    let names = ["", "*", "pods", "deployments", "log", "scale", "status"];
    let user = Identity::authenticated("bob", ["dev"]);
    for rule in rules.as_array().unwrap() {
        let rbac = Rbac::default();
        put(&rbac, Kind::ClusterRole, ("", "reader"), json!({"rules": [rule]}));
        let bob = json!({"kind": "User", "name": "bob"});
        bind(&rbac, Kind::ClusterRoleBinding, "", "ClusterRole", &bob);
        let [rule] = &PolicyRule::of_role(&json!({"rules": [rule]}))[..] else { panic!() };
        let check = |attributes: &Attributes<'_>| {
            let allowed = rbac.decide(attributes) == Decision::Allow;
            assert_eq!(allowed, rule.allows(attributes), "{rule:?} {attributes:?}");
        };
        for verb in ["get", "list", "watch", "create", "post", "*"] {
            for path in ["/healthz", "/logs/a", "/metrics"] {
                check(&Attributes { user: &user, verb, path, resource: None });
            }
            for group in ["", "apps", "*"] {
                for resource in names {
                    for subresource in names {
                        let resource = ResourceAttributes {
                            group,
                            resource,
                            subresource,
                            ..ResourceAttributes::default()
                        };
                        let resource = Some(resource);
                        check(&Attributes { user: &user, verb, path: "", resource });
                    }
                }
            }
        }
    }
}
