//! Where the binaries of a release are found.

use std::collections::HashMap;

use super::*;

fn environment(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
    let map: HashMap<String, OsString> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    move |name| map.get(name).cloned()
}

fn accept_all(_: Program, _: &Path) -> Result<(), String> {
    Ok(())
}

#[test]
fn evenkeel_variables_take_precedence_over_envtest() {
    let found = locate_in(
        environment(&[
            ("EVENKEEL_TEST_ETCD", "/ours/etcd"),
            ("TEST_ASSET_ETCD", "/theirs/etcd"),
            ("TEST_ASSET_KUBE_APISERVER", "/theirs/kube-apiserver"),
            ("EVENKEEL_CACHE", "/nowhere"),
        ]),
        accept_all,
    )
    .unwrap();
    assert_eq!(found.etcd, Path::new("/ours/etcd"));
    assert_eq!(found.kube_apiserver, Path::new("/theirs/kube-apiserver"));
    assert_eq!(found.kubectl, None);
}

#[test]
fn missing_executable_error_names_the_remedy() {
    let missing =
        locate_in(environment(&[("EVENKEEL_CACHE", "/nowhere")]), accept_all).unwrap_err();
    let text = missing.to_string();
    assert!(text.contains("no etcd"), "{text}");
    assert!(text.contains("EVENKEEL_TEST_ETCD"), "{text}");
    assert!(text.contains("/nowhere/kubernetes-"), "{text}");
}

#[test]
fn empty_variables_count_as_unset() {
    let missing = locate_in(
        environment(&[("EVENKEEL_TEST_ETCD", ""), ("EVENKEEL_CACHE", "/nowhere")]),
        accept_all,
    );
    assert!(missing.is_err());
}

#[test]
fn cache_dir_follows_the_platform() {
    let dir = cache_dir_from(environment(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "/c")]));
    assert!(dir.starts_with("/c/evenkeel"), "{}", dir.display());
}

#[test]
fn rejected_executable_error_names_its_origin() {
    let named = environment(&[
        ("EVENKEEL_TEST_ETCD", "/ours/etcd"),
        ("EVENKEEL_TEST_KUBE_APISERVER", "/ours/kube-apiserver"),
    ]);
    let rejected = locate_in(named, |program, _| match program {
        Program::KubeApiserver => Err("is broken".to_owned()),
        _ => Ok(()),
    });
    assert_eq!(
        rejected.unwrap_err().to_string(),
        "EVENKEEL_TEST_KUBE_APISERVER names /ours/kube-apiserver, which is broken"
    );
}
