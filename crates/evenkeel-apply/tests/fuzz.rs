//! Fuzzes the decoders and the merge on stable Rust: random edits of valid inputs, from a fixed
//! seed.
//!
//! `EVENKEEL_FUZZ_ROUNDS` is the number of inputs for each target. The cargo-fuzz targets in
//! `fuzz`, which are coverage-guided, call the same functions.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

#[path = "fuzz/entries.rs"]
mod entries;

use evenkeel_types::random::SplitMix64;
use serde_json::{Value, json};

#[test]
fn fields_v1() {
    let seeds = [
        json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:replicas": {}}}),
        json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}),
        json!({"f:l": {"v:1": {}, "v:1.0": {}, "v:\"a\"": {}, "v:true": {}, "i:0": {}, "i:-7": {}, "x:?": 1}}),
        json!({"f:l": {"k:{\"a\":[1,{\"b\":null}],\"c\":1e300}": {}, "k:null": {}, "k:{}": {".": {}}}}),
        json!({"f:l": {"v:99999999999999999999999999999999999999999999999999999990": {}}}),
        json!({"v:\"\\u2028<>&\"": {}, "f:": {}, "f:.": {}, "": {}, "f": {}}),
    ];
    fuzz(&seeds, 1, entries::fields_v1);
}

#[test]
fn managed_fields() {
    let entry = json!({
        "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {".": {}, "f:a": {}}}, "time": "2024-01-01T00:00:00Z",
        "subresource": "status"
    });
    fuzz(
        &[json!([entry, entry]), json!([{}]), json!([null, entry]), json!(null)],
        2,
        entries::managed_fields,
    );
}

#[test]
fn json_patches() {
    let seeds = [
        json!([{"a": [1, {"b": 2}], "c": {"d": "e"}}, [
            {"op": "add", "path": "/a/-", "value": 1}, {"op": "add", "path": "/a/0", "value": [[]]},
            {"op": "remove", "path": "/a/1/b"}, {"op": "replace", "path": "/c", "value": {}},
            {"op": "move", "from": "/a", "path": "/c/a"}, {"op": "copy", "from": "/c", "path": "/c/x"},
            {"op": "test", "path": "/c/x/d", "value": null}
        ]]),
        json!([{"a": {"~": 1, "/": 2}}, [
            {"op": "test", "path": "/a/~0", "value": 1}, {"op": "copy", "from": "/a/~1", "path": "/a/~01"},
            {"op": "replace", "path": "", "value": []}, {"op": "add", "path": "/-1", "value": 0},
            {"op": "copy", "from": "", "path": "/0"}, {"op": "move", "from": "/0", "path": "/0/1"}
        ]]),
    ];
    fuzz(&seeds, 3, entries::json_patch);
}

#[test]
fn merge_patches() {
    let seeds = [
        json!([{"a": {"b": 1}, "l": [1, 2]}, {"a": {"b": null, "c": {"d": null}}, "l": [null]}]),
        json!([
            {"containers": [{"name": "a", "image": "i", "env": [{"name": "x"}]}, {"name": "b"}], "set": ["a", "b"]},
            {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
             "containers": [{"name": "c"}, {"name": "a", "env": [{"name": "x", "$patch": "delete"}]},
                            {"name": "b", "$patch": "delete"}],
             "$deleteFromPrimitiveList/set": ["a"], "$setElementOrder/set": ["c", "b"], "set": ["c"]}
        ]),
        json!([
            {"strategy": {"type": "a", "rolling": {"x": 1}}, "whole": {"a": 1}, "command": ["a"]},
            {"strategy": {"$retainKeys": ["type"], "type": "b", "rolling": null}, "whole": {"$patch": "replace", "b": 1},
             "command": ["b"], "unknown": {"a": 1}}
        ]),
        json!([{"l": [{"name": "a"}]}, {"l": [{"$patch": "replace"}, {"name": "b"}], "m": {"$patch": "delete"}}]),
    ];
    fuzz(&seeds, 4, entries::merge_patches);
}

#[test]
fn merge_and_ownership() {
    let shapes = |letter: &str| {
        json!({"metadata": {"name": "n", "labels": {"l": letter}, "finalizers": [letter, "x"]}, "spec": {
            "string": letter, "number": 1.5, "flag": true, "either": 80, "list": [letter], "set": [letter, "b"],
            "items": [{"name": letter, "value": "v", "set": ["x"]}, {"name": "b", "nested": {"x": "y"}}],
            "ports": [{"name": letter}, {"name": letter, "port": 81}], "map": {letter: "1"},
            "atomic": {letter: "1"}, "struct": {"name": letter}, "maps": {letter: {"value": "1"}},
            "free": {letter: [1, {"a": null}]}
        }})
    };
    let deployment = |letter: &str| {
        json!({"metadata": {"name": "n"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": letter}},
            "template": {"metadata": {"labels": {"a": letter}}, "spec": {"containers": [
                {"name": letter, "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
                 "env": [{"name": "A", "value": letter}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                 "resources": {"limits": {"cpu": "1"}}},
                {"name": "same", "args": [letter]}
            ]}}}, "status": {"conditions": [{"type": letter, "status": "True"}]}})
    };
    let seeds = [
        json!([shapes("a"), shapes("b"), shapes("a")]),
        json!([shapes("a"), shapes("c"), {"spec": {}}]),
        json!([deployment("a"), deployment("b"), deployment("c")]),
        json!([{}, {"spec": null}, {"spec": {"items": [null], "set": null, "free": null}}]),
    ];
    fuzz(&seeds, 5, entries::merge);
}

/// Calls `entry` with the seeds and with random edits of them.
fn fuzz(seeds: &[Value], seed: u64, entry: fn(&[u8])) {
    let rounds = std::env::var("EVENKEEL_FUZZ_ROUNDS").ok().map_or(2_000, |n| n.parse().unwrap());
    let mut random = Random(SplitMix64(seed));
    for seed in seeds {
        entry(seed.to_string().as_bytes());
    }
    let mut pool: Vec<Value> = seeds.to_vec();
    for _ in 0..rounds {
        let mut value = random.pick(&pool).clone();
        for _ in 0..=random.below(4) {
            random.edit(&mut value, seeds);
        }
        let mut bytes = value.to_string().into_bytes();
        if random.below(4) == 0 {
            random.edit_bytes(&mut bytes);
        }
        entry(&bytes);
        // Edited inputs are edited further, as long as they stay small.
        if bytes.len() < 4_096 {
            let at = random.below(64);
            if at < pool.len() { pool[at] = value } else { pool.push(value) }
        }
    }
}

/// Random choices, the same in every run.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.next() % bound as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Replaces, removes, duplicates or wraps a part of the value.
    fn edit(&mut self, value: &mut Value, seeds: &[Value]) {
        let other = self.part_of(self.0.0 as usize % seeds.len(), seeds);
        let here = self.inside(value);
        match (self.below(7), &mut *here) {
            (0, Value::Object(map)) => {
                if let Some(key) = map.keys().nth(self.below(map.len().max(1))).cloned() {
                    map.remove(&key);
                }
            }
            (0 | 1, Value::Array(items)) if !items.is_empty() => {
                let at = self.below(items.len());
                items.remove(at);
            }
            (1, Value::Object(map)) => {
                let key = ["name", "f:a", "$patch", "k:{\"name\":\"a\"}", "a", ""];
                map.insert((*self.pick(&key)).to_owned(), other);
            }
            (2, Value::Array(items)) if !items.is_empty() => {
                let item = self.pick(items).clone();
                let at = self.below(items.len() + 1);
                items.insert(at, item);
            }
            (3, Value::Array(items)) => items.reverse(),
            (4, place) => *place = json!([place.take()]),
            (5, place) => *place = json!({"a": place.take()}),
            (6, place) => {
                let scalars = [
                    json!(null),
                    json!(0),
                    json!(-1),
                    json!(1e300),
                    json!(""),
                    json!("a"),
                    json!("delete"),
                    json!(true),
                    json!([]),
                    json!({}),
                    json!(u64::MAX),
                    json!(0.5),
                ];
                *place = self.pick(&scalars).clone();
            }
            (_, place) => *place = other,
        }
    }

    /// Returns a random part of a seed.
    fn part_of(&mut self, seed: usize, seeds: &[Value]) -> Value {
        let mut value = seeds[seed].clone();
        self.inside(&mut value).take()
    }

    /// Returns a random position in the value.
    fn inside<'v>(&mut self, value: &'v mut Value) -> &'v mut Value {
        let len = match value {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        if len == 0 || self.below(5) == 0 {
            return value;
        }
        let at = self.below(len);
        let inner = match value {
            Value::Array(items) => &mut items[at],
            Value::Object(map) => map.values_mut().nth(at).unwrap(),
            _ => unreachable!("scalars have no parts"),
        };
        self.inside(inner)
    }

    fn edit_bytes(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            match self.below(3) {
                0 => bytes.insert(at, *self.pick(b"{}[]\",:0-.ef\\k\x00\xff")),
                1 if at < bytes.len() => {
                    bytes.remove(at);
                }
                _ => bytes.truncate(at.max(1)),
            }
        }
    }
}
