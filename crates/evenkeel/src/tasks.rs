//! A set of tasks that are aborted when it is dropped.

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

#[derive(Debug)]
pub(crate) struct Tasks(Mutex<Option<JoinSet<()>>>);

impl Tasks {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(JoinSet::new())))
    }

    /// Spawns a task, unless the set has been stopped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Option<AbortHandle> {
        let mut tasks = self.0.lock();
        let tasks = tasks.as_mut()?;
        // Removes finished tasks, whose results would accumulate otherwise.
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!(%error, "task panicked");
            }
        }
        Some(tasks.spawn(task))
    }

    /// Returns whether the set has been stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.lock().is_none()
    }

    /// Aborts all tasks and waits for them.
    pub(crate) async fn stop(&self) {
        let tasks = self.0.lock().take();
        if let Some(mut tasks) = tasks {
            tasks.shutdown().await;
        }
    }
}
