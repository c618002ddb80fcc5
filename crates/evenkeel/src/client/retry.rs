//! Retries after conflicts.

use std::future::Future;
use std::time::Duration;

use super::error::Error;

/// Runs `write` until it does not fail with a conflict, at most five times, as client-go's
/// `RetryOnConflict`; each run must read the object again.
///
/// Most reconcilers do not need it: an error requeues the key, and the next reconcile reads again.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// # async fn example(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
/// use evenkeel::client::retry_on_conflict;
///
/// retry_on_conflict(|| async {
///     let Some(mut map) = client.live().get::<ConfigMap>(key).await? else { return Ok(()) };
///     map.labels_mut().insert("seen".to_owned(), "true".to_owned());
///     client.update(&map).await?;
///     Ok(())
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The error of the last run.
pub async fn retry_on_conflict<T, F>(mut write: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for _ in 0..4 {
        match write().await {
            Err(error) if error.is_conflict() => tokio::time::sleep(RETRY_DELAY).await,
            outcome => return outcome,
        }
    }
    write().await
}

/// The delay of client-go's `DefaultRetry`.
const RETRY_DELAY: Duration = Duration::from_millis(10);
