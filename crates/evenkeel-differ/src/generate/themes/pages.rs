//! Paginated lists: continue tokens used after writes, used twice, and used with other lists.

use serde_json::json;

use super::super::random::Random;
use super::super::steps::{PARTIAL_LIST, TABLE, collection};
use super::{delete, get, namespaced, object, post, touch};
use crate::sequence::Step;

const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let kind = namespaced(random);
    let path = collection(kind);
    let other = collection(namespaced(random));
    let mut steps: Vec<_> = NAMES[..7]
        .iter()
        .map(|name| {
            post(&path, object(random, kind, name)).saving_field("v", "/metadata/resourceVersion")
        })
        .collect();
    // Continue tokens, and the query of each.
    let mut tokens: Vec<(String, String)> = Vec::new();
    while steps.len() < 36 {
        let name = *random.pick(&NAMES);
        match random.weighted(&[8, 12, 4, 4, 5, 4, 2, 2]) {
            0 => {
                let selector = *random.pick(&[
                    "",
                    "",
                    "&labelSelector=app%3Dx",
                    "&labelSelector=app%21%3Dx",
                    "&fieldSelector=metadata.name%21%3Dc",
                ]);
                let version = *random.pick(&[
                    "",
                    "",
                    "",
                    "&resourceVersion=0",
                    "&resourceVersion=${v}&resourceVersionMatch=Exact",
                    "&resourceVersion=${v}&resourceVersionMatch=NotOlderThan",
                    "&resourceVersion=${v}",
                ]);
                if version.contains("=0") {
                    // This request waits until the watch cache behind the next one is current.
                    steps.push(get(&path));
                }
                let query = format!("limit={}{selector}", 1 + random.below(4));
                let token = format!("t{}", steps.len());
                let mut step = get(format!("{path}?{query}{version}"))
                    .saving_field(&token, "/metadata/continue")
                    .saving_field("list", "/metadata/resourceVersion");
                match random.below(6) {
                    0 => step = step.accepting(TABLE),
                    1 => step = step.accepting(PARTIAL_LIST),
                    _ => {}
                }
                steps.push(step);
                tokens.push((token, query));
            }
            1 if !tokens.is_empty() => {
                let at = random.below(tokens.len());
                let (token, query) = tokens[at].clone();
                let next = format!("t{}", steps.len());
                let query = match random.below(12) {
                    0 => "limit=1".to_owned(),
                    1 => String::new(),
                    2 => format!("{query}&resourceVersion=${{list}}"),
                    3 => format!("{query}&resourceVersion=0"),
                    4 => format!("{query}&resourceVersionMatch=NotOlderThan"),
                    // Continues with a different selector.
                    5 => "limit=2&labelSelector=app%3Dy".to_owned(),
                    _ => query,
                };
                let place = if random.percent(5) { &other } else { &path };
                steps.push(
                    get(format!("{place}?{query}&continue=${{{token}}}"))
                        .saving_field(&next, "/metadata/continue"),
                );
                tokens[at] = (next, query);
            }
            2 => steps.push(post(&path, object(random, kind, name))),
            3 => {
                let mut step = delete(format!("{path}/{name}"));
                step.body = Some(json!({"gracePeriodSeconds": 0}));
                steps.push(step);
            }
            4 => steps.push(touch(random, kind, name)),
            5 => {
                let query = *random.pick(&[
                    "limit=0",
                    "limit=-1",
                    "limit=100",
                    "continue=e30",
                    "continue=%7B%7D",
                    "limit=x",
                    "limit=9223372036854775808",
                    "limit=2&sendInitialEvents=true",
                    "limit=2&resourceVersionMatch=NotOlderThan",
                    "limit=2&resourceVersion=0&resourceVersionMatch=Exact",
                    "limit=2&resourceVersion=old",
                    // Tokens of a compacted revision, without a revision, with a path, and of
                    // another format.
                    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYyJ9&limit=2",
                    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJjIn0",
                    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vYyJ9",
                    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjIiLCJydiI6MSwic3RhcnQiOiJhIn0",
                    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiIn0",
                    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
                    "resourceVersion=${list}&resourceVersionMatch=Exact",
                    "resourceVersion=999999999&resourceVersionMatch=Exact",
                ]);
                steps.push(get(format!("{path}?{query}")));
            }
            6 => {
                let query = *random.pick(&[
                    "?labelSelector=app%3Dx&dryRun=All",
                    "?fieldSelector=metadata.name%3Db",
                    "?limit=2",
                    "?limit=1&labelSelector=app%3Dy",
                    "?continue=bogus",
                    "?resourceVersion=${v}&resourceVersionMatch=Exact&limit=1",
                ]);
                let mut step = delete(format!("{path}{query}"));
                step.body = Some(json!({"gracePeriodSeconds": 0}));
                steps.push(step);
            }
            _ => steps.push(get(&path).saving_field("list", "/metadata/resourceVersion")),
        }
    }
    steps
}
