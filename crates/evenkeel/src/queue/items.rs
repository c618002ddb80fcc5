//! The keys of a queue one by one, for inspection.

use std::time::Duration;

use super::Queue;
use super::slots::Pending;

/// A key in a queue; see [`Queue::items`].
///
/// ```no_run
/// # fn example(controller: &evenkeel::ControllerHandle) {
/// for item in controller.queue().items(100) {
///     println!("{} {:?}: {}", item.key, item.state, item.causes.unwrap_or_default());
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedItem<T, C> {
    /// The key.
    pub key: T,
    /// What the key waits for.
    pub state: ItemState,
    /// The causes of its next processing; `None` if it is processed now and not queued again.
    pub causes: Option<C>,
    /// The priority.
    pub priority: i32,
    /// The number of consecutive failures.
    pub failures: u32,
}

/// The state of a key in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ItemState {
    /// A worker has been processing it for this long.
    Processing(Duration),
    /// It has been waiting for a worker for this long.
    Due(Duration),
    /// It becomes due after this long.
    Delayed(Duration),
}

impl<T, C> Queue<T, C> {
    /// Returns up to `max` keys: those being processed, those that are due, then those that are
    /// delayed. Its cost is linear in the number of keys.
    #[must_use]
    pub fn items(&self, max: usize) -> Vec<QueuedItem<T, C>>
    where
        T: Clone,
        C: Clone,
    {
        let now = self.now();
        let mut items = self.step(|core| {
            core.promote_due(now);
            let since = |at: u64| Duration::from_nanos(now.saturating_sub(at));
            let began: std::collections::HashMap<u32, u64> = core.running.iter().collect();
            let slots = core.slots.iter().filter_map(|(at, slot)| {
                let state = match (began.get(&at), slot.pending) {
                    (Some(began), _) => ItemState::Processing(since(*began)),
                    (None, Pending::Due) => ItemState::Due(since(slot.since)),
                    (None, Pending::Delayed) => {
                        let due = core.delays.at(&core.slots, at);
                        ItemState::Delayed(Duration::from_nanos(due.saturating_sub(now)))
                    }
                    // Stored for its failures only.
                    (None, Pending::No) => return None,
                };
                Some(QueuedItem {
                    key: slot.key.clone()?,
                    state,
                    causes: slot.causes.clone(),
                    priority: slot.priority,
                    failures: slot.failures,
                })
            });
            slots.collect::<Vec<_>>()
        });
        items.sort_by_key(|item| match item.state {
            ItemState::Processing(time) => (0, u128::MAX - time.as_nanos()),
            ItemState::Due(time) => (1, u128::MAX - time.as_nanos()),
            ItemState::Delayed(time) => (2, time.as_nanos()),
        });
        items.truncate(max);
        items
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AddOptions, Cause, Causes, QueueOptions};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_state_of_a_key_is_listed_in_order() {
        let queue = Queue::<&str, Causes>::new(QueueOptions::new());
        queue.add("running", Cause::External("a".into()));
        let item = queue.get().await.unwrap();
        let options = AddOptions { after: Some(Duration::from_secs(60)), ..AddOptions::default() };
        queue.add_with("delayed", options, Cause::Requeue);
        queue.add("due", Cause::External("b".into()));
        tokio::time::advance(Duration::from_secs(5)).await;
        let five = Duration::from_secs(5);
        let found: Vec<_> = queue.items(10).into_iter().map(|it| (it.key, it.state)).collect();
        assert_eq!(
            found,
            [
                ("running", ItemState::Processing(five)),
                ("due", ItemState::Due(five)),
                ("delayed", ItemState::Delayed(Duration::from_secs(55))),
            ]
        );
        assert_eq!(queue.items(1).len(), 1);
        item.done();
        assert_eq!(queue.items(10).len(), 2);
    }
}
