//! Tables of names that pass, and of reasons why others do not.

use evenkeel_types::Gvk;

use super::{
    NameRule, Reasons, config_key, dns1035_label, dns1123_label, dns1123_subdomain,
    dns1123_subdomain_with_underscore, env_var_name, http_header_name, label_value, path_segment,
    percent, port_name, qualified_name, rule, wildcard_dns1123_subdomain,
};

fn check(rule: fn(&str) -> Reasons, good: &[&str], bad: &[&str]) {
    for name in good {
        assert_eq!(rule(name), Reasons::new(), "{name:?} is fine");
    }
    for name in bad {
        assert_ne!(rule(name), Reasons::new(), "{name:?} is not");
    }
}

#[test]
fn dns_names_are_lower_case_words_and_dashes() {
    let long = "a".repeat(63);
    let too_long = "a".repeat(64);
    let good = ["a", "ab", "a-b", "1", "0-9", "a--b", long.as_str()];
    let bad = ["", "A", "a.b", "-a", "a-", "a_b", "a b", "é", too_long.as_str()];
    check(dns1123_label, &good, &bad);
    let subdomains = ["a", "a.b", "a-1.b", "1.2.3"];
    check(dns1123_subdomain, &subdomains, &["", ".", "a.", ".a", "a..b", "a.-b", "A.b", "a/b"]);
    check(dns1035_label, &["a", "a1", "a-b"], &["", "1", "1a", "-a", "a-", "A"]);
    let underscored = ["_a.b", "a_b", "_tcp.x"];
    check(dns1123_subdomain_with_underscore, &underscored, &["", "__a", "a_", "_"]);
    check(wildcard_dns1123_subdomain, &["*.a", "*.a.b"], &["*", "*.", "a.*", "*a.b", "*.*.a"]);
}

#[test]
fn a_dotted_label_is_told_about_its_dots() {
    assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
    let long = format!("{}.b", "a".repeat(70));
    let expected = ["must be no more than 63 characters", "must not contain dots"];
    assert_eq!(dns1123_label(&long), expected);
}

#[test]
fn keys_have_an_optional_domain() {
    let good = ["a", "A_b.c-d", "example.com/a", "a/B", "1/2"];
    let bad = ["", "/", "/a", "a/", "a/b/c", "-a", "a-", "a b", "A.com/x", "é"];
    check(qualified_name, &good, &bad);
    assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
    assert_eq!(qualified_name("a/")[0], "name part must be non-empty");
    assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
    check(label_value, &["", "a", "A-b_c.d"], &["-a", "a-", "a b", "a/b"]);
    assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
}

#[test]
fn keys_of_config_maps_are_file_names() {
    check(config_key, &["a", ".a", "a.b", "A_B-c", "a..b"], &["", ".", "..", "..a", "a/b", "a b"]);
    assert_eq!(config_key(".."), ["must not be '..'"]);
    assert_eq!(config_key("..a"), ["must not start with '..'"]);
}

#[test]
fn ports_have_iana_names() {
    let bad = ["", "1", "-a", "a-", "a--b", "A", "a_b", "abcdefghijklmnop"];
    check(port_name, &["a", "http", "a1", "1a", "a-b"], &bad);
    assert_eq!(port_name("1"), ["must contain at least one letter (a-z)"]);
}

#[test]
fn smaller_syntaxes() {
    check(env_var_name, &["A", "a b", "1", "."], &["", "a=b", "é", "a\n"]);
    check(percent, &["0%", "100%", "007%"], &["", "%", "5", "-5%", "5 %"]);
    check(http_header_name, &["X-A", "a"], &["", "a b", "a_b"]);
    check(path_segment, &["a:b", "A b", "..."], &[".", "..", "a/b", "a%b"]);
    assert_eq!(path_segment("a/%"), ["may not contain '/'", "may not contain '%'"]);
}

#[test]
fn a_trailing_dash_is_fine_before_a_generated_suffix() {
    assert_eq!(NameRule::Subdomain.check("web-", true), Reasons::new());
    assert_ne!(NameRule::Subdomain.check("web-", false), Reasons::new());
    assert_ne!(NameRule::Subdomain.check("-", true), Reasons::new());
    assert_ne!(NameRule::Subdomain.check("Web-", true), Reasons::new());
    assert_eq!(NameRule::Subdomain.check("é-", true).len(), 1);
}

#[test]
fn kinds_have_their_own_name_rules() {
    for (group, kind, expected) in [
        ("", "Pod", NameRule::Subdomain),
        ("", "Namespace", NameRule::Label),
        ("", "Service", NameRule::Label),
        ("apps", "StatefulSet", NameRule::Label),
        ("rbac.authorization.k8s.io", "ClusterRole", NameRule::PathSegment),
        ("networking.k8s.io", "IPAddress", NameRule::Ip),
        ("example.com", "Widget", NameRule::Subdomain),
    ] {
        assert_eq!(rule(Gvk::new(group, "v1", kind)), expected, "{group}/{kind}");
    }
}
