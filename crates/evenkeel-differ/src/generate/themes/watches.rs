//! Watches and streaming lists: opened in every way, with selectors, resumed, concurrent with
//! writes.

use serde_json::{Value, json};

use super::super::kinds::Kind;
use super::super::random::Random;
use super::super::steps::{PARTIAL, TABLE, collection};
use super::{MERGE, close, delete, get, namespaced, object, patch, post, read, touch, watch};
use crate::sequence::Step;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Representations of an event, and invalid media types.
const VIEWS: [&str; 6] = [
    TABLE,
    PARTIAL,
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/json;stream=watch",
    "application/yaml",
    "application/json;as=Nothing;v=v1;g=meta.k8s.io",
];

/// Valid watch queries; `$v` is an earlier resourceVersion.
const QUERIES: [&str; 24] = [
    "",
    "&resourceVersion=0",
    "&resourceVersion=$v",
    "&resourceVersion=$v&allowWatchBookmarks=true",
    "&labelSelector=app%3Dx",
    "&labelSelector=app%3Dx&resourceVersion=$v",
    "&labelSelector=app%20notin%20(x)&resourceVersion=$v",
    "&fieldSelector=metadata.name%3Da",
    "&fieldSelector=metadata.name%21%3Da&resourceVersion=$v",
    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=app%3Dx",
    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=$v",
    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=0",
    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=$v",
    "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    "&resourceVersion=1",
    "&limit=2&resourceVersion=$v",
    "&resourceVersionMatch=NotOlderThan&resourceVersion=$v",
    "&resourceVersionMatch=Exact&resourceVersion=$v",
    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name%3Db&resourceVersion=$v",
    "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0&allowWatchBookmarks=true",
    "&labelSelector=app&resourceVersion=0",
    "&allowWatchBookmarks=true&resourceVersion=99999999999",
];

/// Invalid watch queries.
const BAD_QUERIES: [&str; 14] = [
    "watch=1&resourceVersion=abc",
    "watch=1&resourceVersion=-1",
    "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=$v",
    "watch=1&sendInitialEvents=maybe",
    "watch=1&allowWatchBookmarks=maybe",
    "watch=1&timeoutSeconds=soon",
    "watch=1&labelSelector=a%20b",
    "watch=1&fieldSelector=spec.nothing%3Dx",
    "watch=1&fieldSelector=metadata.name",
    "watch=1&resourceVersionMatch=Never&resourceVersion=$v",
    "watch=1&continue=bogus",
    "watch=1&limit=many",
    "watch=maybe&sendInitialEvents=true",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let kind = namespaced(random);
    let path = collection(kind);
    let mut steps = Vec::new();
    let mut versions = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let create = |random: &mut Random, name: &str, versions: &mut Vec<String>| {
        let saved = format!("v{}", versions.len());
        let step = post(&path, object(random, kind, name));
        versions.push(saved.clone());
        step.saving_field(&saved, "/metadata/resourceVersion")
    };
    for name in &NAMES[..2] {
        steps.push(create(random, name, &mut versions));
    }
    while steps.len() < 34 {
        let object_name = *random.pick(&NAMES);
        match random.weighted(&[10, 7, 4, 3, 8, 2, 2, 6, 2, 2]) {
            0 if open.len() < 4 => {
                let name = format!("w{}", steps.len());
                let version = format!("${{{}}}", random.pick(&versions));
                let query = random.pick(&QUERIES).replace("$v", &version);
                if query.contains("resourceVersion=0") {
                    // This request waits until the watch cache behind the watch is current.
                    steps.push(get(&path));
                }
                steps.push(open_watch(random, kind, &name, &query));
                open.push(name);
            }
            1 => steps.push(touch(random, kind, object_name)),
            2 => steps.push(create(random, object_name, &mut versions)),
            3 => steps.push(deletion(random, &path, object_name)),
            4 if !open.is_empty() => {
                let name = open.remove(random.below(open.len()));
                let seen = format!("v{}", versions.len());
                versions.push(seen.clone());
                let event = random.below(2);
                let pointer = format!("/events/{event}/object/metadata/resourceVersion");
                steps.push(read(&name).saving_field(&seen, &pointer));
                steps.push(close(&name));
            }
            5 => {
                // The server ends the watch. Its timeout has a resolution of seconds.
                let name = format!("w{}", steps.len());
                let more = *random.pick(&["", "&allowWatchBookmarks=true"]);
                steps.push(watch(&name, format!("{path}?watch=1&timeoutSeconds=1{more}")));
                steps.push(Step { end: true, ..read(&name) });
            }
            6 => {
                // The watch paths from before the `watch` parameter.
                let (root, rest) = path.split_once("/namespaces/").unwrap_or((&path, ""));
                let name = format!("w{}", steps.len());
                let old = match random.below(3) {
                    0 => format!("{root}/watch/namespaces/{rest}"),
                    1 => format!("{root}/watch/namespaces/{rest}/a"),
                    _ => format!("{root}/namespaces/{rest}/a?watch=1"),
                };
                steps.push(watch(&name, old));
                steps.push(read(&name));
                steps.push(close(&name));
            }
            7 => steps.push(change(random, kind, object_name)),
            8 => {
                let version = format!("${{{}}}", random.pick(&versions));
                let query = random.pick(&BAD_QUERIES).replace("$v", &version);
                let name = format!("w{}", steps.len());
                steps.push(watch(&name, format!("{path}?{query}")));
                steps.push(read(&name));
            }
            _ => {
                // The first request waits until the watch cache behind the second is current.
                steps.push(get(&path));
                steps.push(get(format!("{path}?resourceVersion=0")));
            }
        }
    }
    steps.extend(open.iter().map(|name| read(name)));
    steps
}

/// Opens a watch of the namespace, or of all namespaces with a selector for it, in any
/// representation.
fn open_watch(random: &mut Random, kind: &Kind, name: &str, query: &str) -> Step {
    let path = collection(kind);
    let mut path = match (random.below(8), query.contains("fieldSelector")) {
        (0, false) => {
            let selector = "fieldSelector=metadata.namespace%3D${ns}";
            format!("{}/{}?{selector}&watch=1{query}", kind.base, kind.plural)
        }
        (1, _) if kind.plural == "widgets" => {
            // The same objects in the other version.
            let other = if path.contains("/v1/") {
                path.replace("/v1/", "/v1beta1/")
            } else {
                path.replace("/v1beta1/", "/v1/")
            };
            format!("{other}?watch=true{query}")
        }
        _ => format!("{path}?watch=1{query}"),
    };
    if random.below(5) > 0 {
        return watch(name, path);
    }
    let view = *random.pick(&VIEWS);
    if view.contains("as=Table") && random.percent(40) {
        let include = *random.pick(&["&includeObject=Object", "&includeObject=None"]);
        path.push_str(include);
    }
    watch(name, path).accepting(view)
}

/// Deletes an object immediately, gracefully or as a dry run, or deletes those that match a
/// selector.
fn deletion(random: &mut Random, path: &str, name: &str) -> Step {
    let mut step = delete(format!("{path}/{name}"));
    match random.below(10) {
        0..3 => step.body = Some(json!({"gracePeriodSeconds": 0})),
        3 => step.body = Some(json!({"dryRun": ["All"]})),
        4 => step = delete(format!("{path}?labelSelector=app%3Dx")),
        5 => step.body = Some(json!({"propagationPolicy": "Foreground"})),
        _ => {}
    }
    step
}

/// Changes an object other than by a label, or without an effect.
fn change(random: &mut Random, kind: &Kind, name: &str) -> Step {
    let path = format!("{}/{name}", collection(kind));
    let metadata = |value: Value| patch(&path, MERGE, json!({"metadata": value}));
    match random.below(8) {
        0 => metadata(json!({"finalizers": ["example.com/hold"]})),
        1 => metadata(json!({"finalizers": null})),
        2 => metadata(json!({"labels": null})),
        3 => patch(
            format!("{path}?dryRun=All"),
            MERGE,
            json!({"metadata": {"labels": {"app": "dry"}}}),
        ),
        4 => patch(&path, MERGE, json!({})),
        5 => post(format!("{}?dryRun=All", collection(kind)), object(random, kind, name)),
        _ => match kind.status.first() {
            Some((pointer, value)) => {
                let value: Value = serde_json::from_str(value).unwrap_or_default();
                let step = patch(format!("{path}/status"), MERGE, json!({}));
                step.setting(pointer, value)
            }
            None => metadata(json!({"annotations": {"note": *random.pick(&["1", "2"])}})),
        },
    }
}
