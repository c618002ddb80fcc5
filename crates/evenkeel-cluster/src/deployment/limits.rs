//! How many pods may exist, and how many may be unavailable.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Rollout, Strategy};
use crate::replicaset::replicas;

/// Resolves a count, or a percentage of `total` rounded up or down; an invalid value is 0.
pub(crate) fn resolve(value: Option<&IntOrString>, total: i32, up: bool) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(count)) => *count,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
            let hundredths = percent.unwrap_or(0).saturating_mul(i64::from(total));
            let share =
                if up { hundredths.saturating_add(99).div_euclid(100) } else { hundredths / 100 };
            i32::try_from(share).unwrap_or(i32::MAX)
        }
    }
}

/// Returns the sum of the desired replicas of the ReplicaSets.
pub(super) fn desired_replicas<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i32 {
    sets.into_iter().map(replicas).fold(0, i32::saturating_add)
}

/// Returns the sum of a status count of the ReplicaSets.
pub(super) fn sum_status<'a>(
    sets: impl IntoIterator<Item = &'a ReplicaSet>,
    count: impl Fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> Option<i32>,
) -> i32 {
    let counts = sets.into_iter().filter_map(|set| count(set.status.as_ref()?));
    counts.fold(0, i32::saturating_add)
}

/// Returns how many pods of a ReplicaSet are available.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

impl Rollout<'_> {
    /// How many pods may exist above the desired number.
    pub(super) fn max_surge(&self) -> i32 {
        self.fenceposts().0
    }

    /// How many of the desired pods may be unavailable.
    pub(super) fn max_unavailable(&self) -> i32 {
        if self.strategy() != Strategy::Rolling || self.replicas() == 0 {
            return 0;
        }
        self.fenceposts().1.min(self.replicas())
    }

    /// Resolves `maxSurge` and `maxUnavailable`. If both were 0, no rollout could proceed. Mirrors
    /// `ResolveFenceposts`.
    fn fenceposts(&self) -> (i32, i32) {
        if self.strategy() != Strategy::Rolling {
            return (0, 0);
        }
        let rolling = self.spec.strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let surge = resolve(surge, self.replicas(), true);
        let unavailable = resolve(unavailable, self.replicas(), false);
        if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
    }

    /// Returns how large the new ReplicaSet may be now. Mirrors `NewRSNewReplicas`.
    pub(super) fn new_replicas(&self, new: i32) -> i32 {
        if self.strategy() == Strategy::Recreate {
            return self.replicas();
        }
        let most = self.replicas().saturating_add(self.max_surge());
        let present = desired_replicas(self.sets.iter().map(|set| &**set));
        if present >= most {
            return new;
        }
        new + (most - present).min(self.replicas() - new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_up_or_down() {
        let percent = IntOrString::String("25%".to_owned());
        assert_eq!(resolve(Some(&percent), 10, true), 3);
        assert_eq!(resolve(Some(&percent), 10, false), 2);
        assert_eq!(resolve(Some(&IntOrString::Int(4)), 10, false), 4);
        assert_eq!(resolve(Some(&IntOrString::String("many".to_owned())), 10, true), 0);
    }
}
