//! The flags of leader election.

use std::time::Duration;

use crate::leader::LeaderElection;

/// The flags that were given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::manager) struct LeaderElectionArgs {
    pub(super) enabled: Option<bool>,
    pub(super) id: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) lease_duration: Option<Duration>,
    pub(super) renew_deadline: Option<Duration>,
    pub(super) retry_period: Option<Duration>,
}

impl LeaderElectionArgs {
    /// Overrides the options of the program; returns `None` if leader election is disabled.
    pub(in crate::manager) fn apply(
        self,
        options: Option<LeaderElection>,
    ) -> Option<LeaderElection> {
        if !self.enabled.unwrap_or(options.is_some()) {
            return None;
        }
        let mut options = options.unwrap_or_default();
        options.id = self.id.or(options.id);
        options.namespace = self.namespace.or(options.namespace);
        options.lease_duration = self.lease_duration.unwrap_or(options.lease_duration);
        options.renew_deadline = self.renew_deadline.unwrap_or(options.renew_deadline);
        options.retry_period = self.retry_period.unwrap_or(options.retry_period);
        Some(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_override_the_options_of_the_program() {
        let args = || LeaderElectionArgs::default();
        assert!(args().apply(None).is_none());
        let program = || LeaderElection::new().id("ours").retry_period(Duration::from_secs(1));
        let kept = args().apply(Some(program())).unwrap();
        assert_eq!((kept.id.as_deref(), kept.retry_period.as_secs()), (Some("ours"), 1));
        let off = LeaderElectionArgs { enabled: Some(false), ..args() };
        assert!(off.apply(Some(program())).is_none());
        let on = LeaderElectionArgs {
            enabled: Some(true),
            namespace: Some("there".to_owned()),
            lease_duration: Some(Duration::from_secs(30)),
            ..args()
        };
        let on = on.apply(None).unwrap();
        assert_eq!(on.namespace.as_deref(), Some("there"));
        assert_eq!((on.lease_duration.as_secs(), on.renew_deadline.as_secs()), (30, 10));
    }
}
