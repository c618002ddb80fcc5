//! Tasks that end with their owner.

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

#[derive(Debug)]
pub(crate) struct Tasks(Mutex<Option<JoinSet<()>>>);

impl Tasks {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(JoinSet::new())))
    }

    /// Starts a task, unless all have been stopped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Option<AbortHandle> {
        let mut tasks = self.0.lock();
        let tasks = tasks.as_mut()?;
        // Nobody waits for those that have ended; without this their results would pile up.
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!(%error, "a task panicked");
            }
        }
        Some(tasks.spawn(task))
    }

    /// Whether no task will be started any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.lock().is_none()
    }

    /// Ends all tasks and waits until they have.
    pub(crate) async fn stop(&self) {
        let tasks = self.0.lock().take();
        if let Some(mut tasks) = tasks {
            tasks.shutdown().await;
        }
    }
}
