//! Watches and streaming lists: opened in every way, moved by selectors, resumed from where they
//! were.

use serde_json::json;

use super::super::random::Random;
use super::super::steps::{PARTIAL, TABLE, collection};
use super::{close, delete, get, namespaced, object, post, read, touch, watch};
use crate::sequence::Step;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What a watch may be opened with; `$v` is a version from before.
const QUERIES: [&str; 20] = [
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
];

pub(super) fn write(random: &mut Random) -> Vec<Step> {
    let kind = namespaced(random);
    let path = collection(kind);
    let mut steps = Vec::new();
    let mut versions = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let create = |random: &mut Random, name: &str, versions: &mut Vec<String>| {
        let saved = format!("v{}", versions.len());
        let step = post(&path, object(random, kind, name));
        versions.push(saved.clone());
        step.keeping(&saved, "/metadata/resourceVersion")
    };
    for name in &NAMES[..2] {
        steps.push(create(random, name, &mut versions));
    }
    while steps.len() < 34 {
        let object_name = *random.pick(&NAMES);
        match random.weighted(&[10, 9, 4, 3, 8, 2, 2]) {
            0 if open.len() < 4 => {
                let name = format!("w{}", steps.len());
                let version = format!("${{{}}}", random.pick(&versions));
                let query = random.pick(&QUERIES).replace("$v", &version);
                if query.contains("resourceVersion=0") {
                    // It waits until the cache behind the watch is up to date.
                    steps.push(get(&path));
                }
                let mut step = watch(&name, format!("{path}?watch=1{query}"));
                match random.below(7) {
                    0 => step = step.accepting(TABLE),
                    1 => step = step.accepting(PARTIAL),
                    _ => {}
                }
                steps.push(step);
                open.push(name);
            }
            1 => steps.push(touch(random, kind, object_name)),
            2 => steps.push(create(random, object_name, &mut versions)),
            3 => {
                let mut step = delete(format!("{path}/{}", object_name));
                if random.percent(30) {
                    step.body = Some(json!({"gracePeriodSeconds": 0}));
                }
                steps.push(step);
            }
            4 if !open.is_empty() => {
                let name = open.remove(random.below(open.len()));
                let seen = format!("v{}", versions.len());
                versions.push(seen.clone());
                let event = random.below(2);
                let pointer = format!("/events/{event}/object/metadata/resourceVersion");
                steps.push(read(&name).keeping(&seen, &pointer));
                steps.push(close(&name));
            }
            5 => {
                // The end comes from the server, which counts in seconds.
                let name = format!("w{}", steps.len());
                steps.push(watch(&name, format!("{path}?watch=1&timeoutSeconds=1")));
                steps.push(Step { end: true, ..read(&name) });
            }
            6 => {
                // The paths from before there was a parameter.
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
            _ => {
                // The first waits until the cache behind the second is up to date.
                steps.push(get(&path));
                steps.push(get(format!("{path}?resourceVersion=0")));
            }
        }
    }
    steps.extend(open.iter().map(|name| read(name)));
    steps
}
