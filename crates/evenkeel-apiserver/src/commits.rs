//! Writes that complete although their request is dropped.
//!
//! A client may disconnect, or its request time out, while a durable store commits a write. The write
//! is committed nevertheless, so what belongs to it has to follow: its reservations are kept and the
//! hooks of its kind run. A request that is dropped within such a [`Section`] continues in a task of
//! its own until the section ends.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;

/// The sections that a request is in. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits(Arc<AtomicUsize>);

/// A part of a request that is not cancelled. Ends when dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Section(Commits);

impl Commits {
    /// Begins a section. Sections may be nested.
    pub(crate) fn begin(&self) -> Section {
        self.0.fetch_add(1, Ordering::Relaxed);
        Section(self.clone())
    }

    /// Runs `work`. If this future is dropped within a section, `work` continues in a task until
    /// the section ends.
    pub(crate) async fn complete<T: 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let work: Work<T> = Box::pin(work);
        let runtime = Handle::try_current().ok();
        Attached { work: Some(work), commits: self.clone(), runtime }.await
    }

    fn in_progress(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The work of a request that has not been dropped.
struct Attached<T: 'static> {
    /// `None` once it is complete.
    work: Option<Work<T>>,
    commits: Commits,
    /// Kept because the future may be dropped outside of the runtime.
    runtime: Option<Handle>,
}

impl<T> Future for Attached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let output = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<T> Drop for Attached<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take().filter(|_| self.commits.in_progress()) else { return };
        if let Some(runtime) = &self.runtime {
            runtime.spawn(Rest { work, commits: self.commits.clone() });
        }
    }
}

/// The rest of a section of a request that was dropped.
struct Rest<T> {
    work: Work<T>,
    commits: Commits,
}

impl<T> Future for Rest<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let ended = self.work.as_mut().poll(cx).is_ready();
        if ended || !self.commits.in_progress() { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    /// Drops a request at its second await, within its section if it has one. Returns whether the
    /// code after that await and the code after the section have run.
    async fn drop_request(has_section: bool) -> [bool; 2] {
        let commits = Commits::default();
        let (resume, resumed) = oneshot::channel::<()>();
        let (inside, after) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let ran = [inside.clone(), after.clone()];
        let own = commits.clone();
        let (ended, end) = oneshot::channel::<()>();
        let mut request = Box::pin(async move {
            commits
                .complete(async move {
                    // Dropped with the work.
                    let _ended = ended;
                    let section = has_section.then(|| own.begin());
                    resumed.await.ok();
                    inside.store(1, Ordering::Relaxed);
                    drop(section);
                    std::future::pending::<()>().await;
                    after.store(1, Ordering::Relaxed);
                })
                .await;
        });
        assert!(request.as_mut().now_or_never().is_none());
        drop(request);
        drop(resume);
        assert!(end.await.is_err(), "the work is dropped at the end of the section");
        ran.map(|ran| ran.load(Ordering::Relaxed) == 1)
    }

    #[tokio::test]
    async fn a_dropped_request_continues_until_its_section_ends() {
        assert_eq!(drop_request(true).await, [true, false]);
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_outside_of_a_section_ends() {
        assert_eq!(drop_request(false).await, [false, false]);
    }

    #[tokio::test]
    async fn the_output_of_a_request_is_returned() {
        let commits = Commits::default();
        let own = commits.clone();
        let output = commits.complete(async move {
            let _section = own.begin();
            5
        });
        assert_eq!(output.await, 5);
        assert!(!commits.in_progress());
    }
}
