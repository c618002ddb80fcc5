//! Trying again when somebody else was faster.

use std::future::Future;
use std::time::Duration;

use super::error::Error;

/// Runs `write` again, up to five times in all, while it fails with a conflict; each run must read
/// the object anew.
///
/// Most reconcilers need not: an error requeues the key, and the next reconcile reads anew anyway.
///
/// # Errors
/// What the last run answered.
pub async fn retry_on_conflict<T, F>(mut write: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for _ in 0..4 {
        match write().await {
            Err(error) if error.is_conflict() => tokio::time::sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
    write().await
}

/// As client-go's default.
const PAUSE: Duration = Duration::from_millis(10);
