//! Thousands of faults between the reflector and a server.
//!
//! The oracle is the record of the writes. Each committed full state must equal the record at its
//! version, and the changes after it must be the writes that follow, in order, up to the next full
//! state.
//!
//! `cargo xtask campaign watches 0..300` runs 3,500 writes per seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::super::{Health, History, Reflector, ReflectorOptions, Sink};
use super::between::{Between, Faults};
use crate::key::Key;
use crate::random::Random;

const NAMESPACES: [&str; 3] = ["one", "two", "three"];
const NAMES: u64 = 30;

/// A change of an object: its version and uid, and whether it is a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Write {
    version: u64,
    key: Key,
    uid: String,
    deleted: bool,
}

type State = BTreeMap<Key, (String, u64)>;

/// The calls of the sink, in terms of the record.
#[derive(Debug)]
enum SinkCall {
    State(u64, State),
    Change(Write),
    Bookmark(u64),
}

#[derive(Default)]
struct Model {
    state: State,
    coming: Option<State>,
    version: u64,
    calls: Vec<SinkCall>,
    abandoned: usize,
    connected: bool,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Model>>);

#[derive(Deserialize)]
struct Object {
    metadata: ObjectMeta,
}

fn read(raw: &[u8]) -> (Key, String, u64) {
    let Object { metadata } = serde_json::from_slice(raw).unwrap();
    let key = Key::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap());
    (key, metadata.uid.unwrap(), metadata.resource_version.unwrap().parse().unwrap())
}

impl Model {
    fn change(&mut self, raw: &[u8], deleted: bool) {
        assert!(self.coming.is_none(), "change within a full state");
        let (key, uid, version) = read(raw);
        assert!(version > self.version, "{key} regressed to {version} from {}", self.version);
        self.version = version;
        if deleted {
            let (known, _) = self.state.remove(&key).expect("deleted object exists");
            assert_eq!(known, uid, "uid of the deleted object");
        } else {
            self.state.insert(key.clone(), (uid.clone(), version));
        }
        self.calls.push(SinkCall::Change(Write { version, key, uid, deleted }));
    }
}

impl Sink for Shared {
    fn begin(&mut self, _: bool) {
        assert!(self.0.lock().coming.replace(State::new()).is_none());
    }
    fn listed(&mut self, raw: &[u8]) {
        let (key, uid, version) = read(raw);
        self.0.lock().coming.as_mut().unwrap().insert(key, (uid, version));
    }
    fn unlisted(&mut self, raw: &[u8]) {
        self.0.lock().coming.as_mut().unwrap().remove(&read(raw).0).unwrap();
    }
    fn commit(&mut self, version: &str) {
        let mut model = self.0.lock();
        let version = version.parse().unwrap();
        assert!(version >= model.version, "back to {version} from {}", model.version);
        model.version = version;
        model.state = model.coming.take().unwrap();
        let state = model.state.clone();
        model.calls.push(SinkCall::State(version, state));
    }
    fn abandon(&mut self) {
        let mut model = self.0.lock();
        assert!(model.coming.take().is_some());
        model.abandoned += 1;
    }
    fn changed(&mut self, raw: &[u8]) {
        self.0.lock().change(raw, false);
    }
    fn deleted(&mut self, raw: &[u8]) {
        self.0.lock().change(raw, true);
    }
    fn bookmark(&mut self, version: &str) {
        let mut model = self.0.lock();
        let version = version.parse().unwrap();
        assert!(version >= model.version);
        model.version = version;
        model.calls.push(SinkCall::Bookmark(version));
    }
    fn matches_first(&mut self, _: Option<&[u8]>) -> bool {
        true
    }
    fn health(&mut self, health: &Health) {
        self.0.lock().connected = matches!(health, Health::Connected);
    }
}

/// Checks the calls against the record.
fn check(calls: &[SinkCall], record: &[Write]) {
    let mut next = 0;
    for call in calls {
        match call {
            SinkCall::State(version, state) => {
                let mut truth = State::new();
                next = record.partition_point(|write| write.version <= *version);
                for write in &record[..next] {
                    if write.deleted {
                        truth.remove(&write.key);
                    } else {
                        truth.insert(write.key.clone(), (write.uid.clone(), write.version));
                    }
                }
                assert_eq!(*state, truth, "the state committed at {version}");
            }
            SinkCall::Change(change) => {
                assert_eq!(Some(change), record.get(next), "the change after the last");
                next += 1;
            }
            SinkCall::Bookmark(version) => {
                let due = record.get(next).is_some_and(|write| write.version <= *version);
                assert!(!due, "a bookmark at {version} after {:?} was missed", record[next]);
            }
        }
    }
    assert_eq!(next, record.len(), "all writes were delivered");
}

/// Writes randomly and keeps the record.
struct Writer {
    random: Random,
    client: Client,
    record: Vec<Write>,
    present: BTreeMap<Key, String>,
}

impl Writer {
    async fn step(&mut self, server: &ApiServer) {
        let namespace = NAMESPACES[usize::try_from(self.random.next() % 3).unwrap()];
        let name = format!("map-{}", self.random.next() % NAMES);
        let key = Key::namespaced(namespace, &name);
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let value = self.random.next().to_string();
        let (object, deleted) = if !self.present.contains_key(&key) {
            let object: ConfigMap = serde_json::from_value(json!({
                "metadata": {"name": name}, "data": {"value": value},
            }))
            .unwrap();
            (api.create(&PostParams::default(), &object).await.unwrap(), false)
        } else if !self.random.next().is_multiple_of(3) {
            let patch = Patch::Merge(json!({"data": {"value": value}}));
            (api.patch(&name, &PatchParams::default(), &patch).await.unwrap(), false)
        } else {
            let object = api.get(&name).await.unwrap();
            api.delete(&name, &DeleteParams::default()).await.unwrap();
            (object, true)
        };
        let uid = object.uid().unwrap();
        // The response of a delete has no version; this is the only writer.
        let version = server.revision();
        if deleted {
            self.present.remove(&key);
        } else {
            assert_eq!(object.resource_version(), Some(version.to_string()));
            self.present.insert(key.clone(), uid.clone());
        }
        self.record.push(Write { version, key, uid, deleted });
    }
}

struct Outcome {
    counts: BTreeMap<&'static str, usize>,
    expiries: usize,
    states: usize,
    changes: usize,
    abandoned: usize,
}

/// Writes, `burst` times for each pause, while there are faults.
async fn trial(seed: u64, writes: usize, burst: usize, options: ReflectorOptions) -> Outcome {
    let server = ApiServer::builder().seed(seed).build().await.unwrap();
    let direct = Client::new(server.service(), "default");
    for name in NAMESPACES {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let api = Api::<Namespace>::all(direct.clone());
        api.create(&PostParams::default(), &namespace).await.unwrap();
    }
    let all = Api::<ConfigMap>::all(direct.clone());
    let mut writer = Writer {
        random: Random::new(seed),
        client: direct,
        record: Vec::new(),
        present: BTreeMap::new(),
    };
    // The initial objects of the cluster are part of the record.
    for object in all.list(&ListParams::default()).await.unwrap() {
        let version = object.resource_version().unwrap().parse().unwrap();
        let (key, uid) = (Key::of(&object), object.uid().unwrap());
        writer.record.push(Write { version, key, uid, deleted: false });
    }
    writer.record.sort_by_key(|write| write.version);

    let faults = Arc::new(Mutex::new(Faults {
        random: Random::new(!seed),
        on: true,
        counts: BTreeMap::new(),
        expiries: 0,
    }));
    let between = Between { server: server.service(), faults: faults.clone() };
    let reflector = Reflector::new(
        Client::new(between, "default"),
        super::scope(),
        options,
        History::default(),
        Random::new(seed),
    );
    let model = Shared::default();
    let mut sink = model.clone();
    let writing = async {
        for step in 0..writes {
            writer.step(&server).await;
            if step % burst != 0 {
                continue;
            }
            match writer.random.next() % 200 {
                0 => sleep(Duration::from_secs(400)).await,
                1..8 => server.compact(),
                8..160 => sleep(Duration::from_millis(writer.random.next() % 80_000)).await,
                _ => tokio::task::yield_now().await,
            }
        }
        faults.lock().on = false;
        // An open watch may still be faulty; it ends by its read timeout.
        let caught_up = async {
            let last = writer.record.last().unwrap().version;
            while !(model.0.lock().version >= last && model.0.lock().connected) {
                sleep(Duration::from_secs(1)).await;
            }
        };
        timeout(Duration::from_secs(30 * 60), caught_up).await.expect("the sink catches up");
    };
    tokio::select! {
        biased;
        () = writing => {}
        never = reflector.run(&mut sink) => match never {},
    }

    let model = std::mem::take(&mut *model.0.lock());
    let truth: State = all
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|object| {
            let version = object.resource_version().unwrap().parse().unwrap();
            (Key::of(&object), (object.uid().unwrap(), version))
        })
        .collect();
    assert_eq!(model.state, truth, "the final state");
    check(&model.calls, &writer.record);
    let counts = std::mem::take(&mut faults.lock().counts);
    let expiries = faults.lock().expiries;
    let of = |kind: fn(&&SinkCall) -> bool| model.calls.iter().filter(kind).count();
    let states = of(|call| matches!(call, SinkCall::State(..)));
    assert!(states <= 1 + expiries, "{states} lists for {expiries} expired watches");
    Outcome {
        counts,
        expiries,
        states,
        changes: of(|call| matches!(call, SinkCall::Change(_))),
        abandoned: model.abandoned,
    }
}

/// Returns the seeds, and the writes of each in all and between two pauses.
fn size() -> (std::ops::Range<u64>, usize, usize) {
    let Ok(text) = std::env::var("EVENKEEL_SEEDS") else { return (0..6, 700, 1) };
    let (from, to) = text.split_once("..").expect("EVENKEEL_SEEDS is a range FROM..TO");
    (from.parse().unwrap()..to.parse().unwrap(), 3500, 8)
}

#[tokio::test(start_paused = true)]
async fn state_is_exact_under_thousands_of_faults() {
    let mut counts = BTreeMap::<_, usize>::new();
    let (mut states, mut changes, mut abandoned, mut expiries) = (0, 0, 0, 0);
    let (seeds, writes, burst) = size();
    for seed in seeds {
        let options = ReflectorOptions {
            streaming: seed % 2 == 0,
            page_size: (seed % 3 == 1).then_some(7),
            ..ReflectorOptions::default()
        };
        println!("seed {seed}");
        let outcome = trial(seed, writes, burst, options).await;
        for (name, count) in outcome.counts {
            *counts.entry(name).or_default() += count;
        }
        states += outcome.states;
        changes += outcome.changes;
        abandoned += outcome.abandoned;
        expiries += outcome.expiries;
    }
    let faults: usize = counts.values().sum();
    println!(
        "{states} states, {abandoned} abandoned, {changes} changes, {expiries} expired watches, \
         {faults} faults: {counts:#?}"
    );
    assert!(faults >= 2000);
    assert_eq!(counts.len(), Faults::kinds(), "all kinds of faults");
    assert!(states > 100 && abandoned > 100 && changes > 1000);
}
