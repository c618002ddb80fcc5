//! A world that a test drives by hand.

use std::borrow::Cow;

use evenkeel::{Kind, Object};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::plan::Plan;
use crate::simulation::{self, Config, Simulation};
use crate::trace::{self, TraceEvent};
use crate::workload::{ObjectRef, Step};
use crate::world::{self, Abort};
use crate::{fail, state};

/// A simulated cluster with an operator, in which a test determines the order of what happens: which
/// event is delivered next, and when an object is reconciled. See [`Simulation::world`].
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
/// use evenkeel::prelude::*;
/// use evenkeel::reconciler_fn;
///
/// /// Copies the label `tier` of a ConfigMap to the ServiceAccount of the same name.
/// async fn reconcile(map: Arc<ConfigMap>, cx: Context<ConfigMap>) -> Result<Action> {
///     if let Some(account) = cx.client().get::<ServiceAccount>(cx.key()).await? {
///         let mut wanted = ServiceAccount::clone(&account);
///         wanted.metadata.labels = map.metadata.labels.clone();
///         wanted.metadata.managed_fields = None;
///         wanted.metadata.resource_version = None;
///         wanted.metadata.uid = None;
///         wanted.metadata.creation_timestamp = None;
///         cx.client().apply(&wanted).force().await?;
///     }
///     Ok(Action::done())
/// }
///
/// let mut world = evenkeel_sim::operator("copier", |manager| {
///     let same_name = |account: &ServiceAccount, _: &evenkeel::MapContext| {
///         vec![Key::namespaced("default", &account.name_any())]
///     };
///     let controller = manager.controller(reconciler_fn(reconcile));
///     controller.watches::<ServiceAccount>(same_name).register()
/// })
/// .world();
/// world.hold::<ServiceAccount>();
/// world.create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}");
/// world.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {tier: web}}}");
/// // While the account is not in the cache, there is nothing to copy to.
/// while world.reconcile_next().is_some() {}
/// assert_eq!(world.get::<ServiceAccount>("a").unwrap().metadata.labels, None);
/// assert_eq!(world.deliver_next::<ServiceAccount>().as_deref(), Some("added \"a\""));
/// world.flush();
/// let labels = world.get::<ServiceAccount>("a").unwrap().metadata.labels.unwrap();
/// assert_eq!(labels["tier"], "web");
/// ```
pub struct World {
    // Dropped before the runtime.
    world: world::World<'static>,
    runtime: Runtime,
}

impl Simulation {
    /// Starts the cluster and the operator, for a test that drives them by hand. The workload is not
    /// played. Controllers reconcile only when the test requires it.
    ///
    /// # Panics
    /// When the cluster or the operator cannot be started.
    #[track_caller]
    #[must_use]
    pub fn world(self) -> World {
        World::start(self.config)
    }
}

impl World {
    #[track_caller]
    fn start(config: Config) -> Self {
        let runtime = world::runtime();
        let started = runtime.block_on(async {
            let plan = Plan::default();
            let mut world = world::World::start(Cow::Owned(config), &plan)
                .await
                .map_err(|error| evenkeel::chain(&*error))?;
            world.set_stepped(true);
            world.begin().await.map_err(|abort| format!("{abort:?}"))?;
            Ok::<_, String>(world)
        });
        match started {
            Ok(world) => Self { world, runtime },
            Err(error) => fail(&format!("cannot start the simulated cluster: {error}")),
        }
    }

    /// Creates objects, given as YAML or JSON, as the user.
    ///
    /// # Panics
    /// When the server rejects one.
    #[track_caller]
    pub fn create(&mut self, text: &str) {
        for object in simulation::parse(text) {
            self.step(&Step::Create(object));
        }
    }

    /// Changes the object of type `K` with this name by a merge patch, as the user.
    ///
    /// # Panics
    /// When the server rejects it.
    #[track_caller]
    pub fn patch<K: Object>(&mut self, name: &str, patch: Value) {
        self.step(&Step::Patch { object: simulation::reference::<K>(name), patch });
    }

    /// Deletes the object of type `K` with this name, as the user.
    ///
    /// # Panics
    /// When the server rejects it.
    #[track_caller]
    pub fn delete<K: Object>(&mut self, name: &str) {
        self.step(&Step::Delete(simulation::reference::<K>(name)));
    }

    /// Performs a step of the user.
    ///
    /// # Panics
    /// When the server rejects it.
    #[track_caller]
    pub fn step(&mut self, step: &Step) {
        let Self { world, runtime } = self;
        let performed = runtime.block_on(async {
            world.user().perform(step).await.map_err(|refused| refused.message)?;
            world.pass_moment().await.map_err(|abort| format!("{abort:?}"))
        });
        if let Err(error) = performed {
            fail(&format!("the user {step}: {error}"));
        }
    }

    /// Returns the object of type `K` with this name, as stored.
    #[must_use]
    pub fn get<K: Object>(&mut self, name: &str) -> Option<K> {
        let Self { world, runtime } = self;
        let reference: ObjectRef = simulation::reference::<K>(name);
        let found = runtime.block_on(async {
            let path = world.user().path(&reference, false).await.ok()?;
            world.user().get(&path).await
        })?;
        serde_json::from_value(found).ok()
    }

    /// Holds the events of type `K` from now on: the operator does not get them until they are
    /// delivered or released. Events of other types overtake them.
    pub fn hold<K: Object>(&mut self) {
        self.world.gate().hold(&resource::<K>());
    }

    /// Delivers the next event of type `K` that is held, and returns what it is; `None` if there is
    /// none.
    #[track_caller]
    pub fn deliver_next<K: Object>(&mut self) -> Option<String> {
        let resource = resource::<K>();
        self.moment();
        let event = self.world.gate().held_events().remove(&resource)?;
        self.world.gate().deliver_next(&resource);
        self.moment();
        Some(event.text)
    }

    /// Delivers the events of type `K` from now on, and those that were held.
    #[track_caller]
    pub fn release<K: Object>(&mut self) {
        self.world.gate().release(&resource::<K>());
        self.moment();
    }

    /// Reconciles the next object in a workqueue, and returns the record; `None` if the workqueues
    /// are empty.
    #[track_caller]
    pub fn reconcile_next(&mut self) -> Option<String> {
        self.moment();
        let Self { world, runtime } = self;
        let record = runtime.block_on(world.reconcile_next());
        self.moment();
        record
    }

    /// Crashes the operator and starts it again. Its caches are filled when it returns.
    #[track_caller]
    pub fn restart(&mut self) {
        let Self { world, runtime } = self;
        let restarted = runtime.block_on(world.crash());
        self.expect(restarted);
        self.moment();
    }

    /// Delivers all events and lets the controllers run until the cluster is at rest. Then they are
    /// paused again.
    ///
    /// # Panics
    /// When the cluster is not at rest within the bound, or the operator has ended.
    #[track_caller]
    pub fn flush(&mut self) {
        let Self { world, runtime } = self;
        let rested = runtime.block_on(async {
            world.gate().release_all();
            world.set_stepped(false);
            let rested = world.rest().await;
            world.set_stepped(true);
            rested
        });
        self.expect(rested);
    }

    /// Returns what has happened so far.
    #[must_use]
    pub fn trace(&self) -> Vec<TraceEvent> {
        self.world.recorder().events()
    }

    #[track_caller]
    fn moment(&mut self) {
        let Self { world, runtime } = self;
        let passed = runtime.block_on(world.pass_moment());
        self.expect(passed);
    }

    #[track_caller]
    fn expect(&self, result: Result<(), Abort>) {
        if let Err(abort) = result {
            let events = self.trace();
            fail(&format!("{abort:?}\n{}", trace::render(&events)));
        }
    }
}

fn resource<K: Object>() -> String {
    let kind = Kind::of::<K>();
    state::resource(kind.group(), kind.plural())
}
