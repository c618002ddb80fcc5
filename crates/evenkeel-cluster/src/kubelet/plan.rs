//! How a pod fares: the annotation's little language, and plans set from outside.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// The annotation of a pod that tells how it fares.
pub const PLAN_ANNOTATION: &str = "evenkeel.dev/simulate";

/// How a pod fares on its simulated node. In the annotation `evenkeel.dev/simulate` of the pod, or
/// of the template it is made from, parts are separated by commas:
///
/// | part | what happens |
/// |---|---|
/// | `crash-loop` | every container ends with code 1 as soon as it runs |
/// | `never-ready` | containers run and never become ready |
/// | `image-pull-error` | the image cannot be had, so nothing ever runs |
/// | `ready-after=5s` | containers become ready this long after they run, whatever probes they have |
/// | `complete-after=5s` | containers end with code 0 after this long |
/// | `fail-after=5s` | containers end with code 1 after this long |
/// | `exit-code=3` | the code of `fail-after` and `crash-loop` |
/// | `ignore-term` | containers run on when asked to stop, until the grace period is over |
///
/// Without a plan, a container does what its command says where that is plain (`sleep 30`,
/// `sh -c "exit 1"`); any other runs on, or completes if its pod is not always restarted.
///
/// Durations are a number and a unit (`ms`, `s`, `m`, `h`). What follows an end is the pod's restart
/// policy's to say, with the back-off of a real kubelet: at once, then 10 s, 20 s, 40 s up to 5 min.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The image cannot be had.
    pub image_pull_error: bool,
    /// Containers never become ready.
    pub never_ready: bool,
    /// Containers become ready after this long, not after the cluster's delay and their probes'.
    pub ready_after: Option<Duration>,
    /// Containers end after this long with this code.
    pub exit: Option<(Duration, i32)>,
    /// Containers do not stop before their grace period is over.
    pub ignore_term: bool,
}

/// A plan that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a part of a plan")]
pub struct PlanError(String);

impl Plan {
    /// Every container ends as soon as it runs.
    #[must_use]
    pub fn crash_loop() -> Self {
        Self { never_ready: true, exit: Some((Duration::ZERO, 1)), ..Self::default() }
    }

    /// Containers run and never become ready.
    #[must_use]
    pub fn never_ready() -> Self {
        Self { never_ready: true, ..Self::default() }
    }

    /// Nothing ever runs.
    #[must_use]
    pub fn image_pull_error() -> Self {
        Self { image_pull_error: true, ..Self::default() }
    }

    /// Containers end well after this long.
    #[must_use]
    pub fn complete_after(time: Duration) -> Self {
        Self { exit: Some((time, 0)), ..Self::default() }
    }

    /// Containers end badly after this long.
    #[must_use]
    pub fn fail_after(time: Duration) -> Self {
        Self { exit: Some((time, 1)), ..Self::default() }
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let mut plan = Self::default();
        let mut code = None;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || PlanError(part.to_owned());
            match part.split_once('=').unwrap_or((part, "")) {
                ("crash-loop", "") => {
                    plan = Self { ignore_term: plan.ignore_term, ..Self::crash_loop() };
                }
                ("never-ready", "") => plan.never_ready = true,
                ("image-pull-error", "") => plan.image_pull_error = true,
                ("ignore-term", "") => plan.ignore_term = true,
                ("ready-after", time) => plan.ready_after = Some(duration(time).ok_or_else(wrong)?),
                ("complete-after", time) => {
                    plan.exit = Some((duration(time).ok_or_else(wrong)?, 0));
                }
                ("fail-after", time) => plan.exit = Some((duration(time).ok_or_else(wrong)?, 1)),
                ("exit-code", number) => code = Some(number.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        if let (Some(code), Some((_, exit @ 1..))) = (code, &mut plan.exit) {
            *exit = code;
        }
        Ok(plan)
    }
}

/// The annotation that says this.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.image_pull_error {
            parts.push("image-pull-error".to_owned());
        }
        if self.never_ready {
            parts.push("never-ready".to_owned());
        }
        if let Some(time) = self.ready_after {
            parts.push(format!("ready-after={}ms", time.as_millis()));
        }
        match self.exit {
            Some((time, 0)) => parts.push(format!("complete-after={}ms", time.as_millis())),
            Some((time, code)) => {
                parts.push(format!("fail-after={}ms,exit-code={code}", time.as_millis()));
            }
            None => {}
        }
        if self.ignore_term {
            parts.push("ignore-term".to_owned());
        }
        f.write_str(&parts.join(","))
    }
}

fn duration(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(millis)?))
}

/// Plans for pods that carry none themselves.
#[derive(Clone, Default)]
pub struct Plans(Option<Arc<Choose>>);

type Choose = dyn Fn(&Pod) -> Option<Plan> + Send + Sync;

impl Plans {
    /// Asks `choose` how each pod fares that does not say so itself.
    pub fn new(choose: impl Fn(&Pod) -> Option<Plan> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(choose)))
    }

    /// How `pod` fares. An annotation that does not parse is logged and changes nothing.
    pub(super) fn of(&self, pod: &Pod) -> Plan {
        let annotations = pod.metadata.annotations.as_ref();
        let chosen = || self.0.as_ref().and_then(|choose| choose(pod)).unwrap_or_default();
        let Some(text) = annotations.and_then(|all| all.get(PLAN_ANNOTATION)) else {
            return chosen();
        };
        text.parse().unwrap_or_else(|error: PlanError| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            tracing::warn!(pod = name, %error, "annotation {PLAN_ANNOTATION} is ignored");
            chosen()
        })
    }
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "custom" } else { "none" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_what_its_text_says() {
        let plan: Plan = "fail-after=5s, exit-code=3,ignore-term".parse().unwrap();
        assert_eq!(plan.exit, Some((Duration::from_secs(5), 3)));
        assert!(plan.ignore_term);
        assert_eq!("crash-loop".parse(), Ok(Plan::crash_loop()));
        assert_eq!("".parse(), Ok(Plan::default()));
        for wrong in ["crash", "fail-after", "fail-after=5", "fail-after=s", "exit-code=x"] {
            assert_eq!(wrong.parse::<Plan>(), Err(PlanError(wrong.to_owned())));
        }
    }

    #[test]
    fn a_plan_reads_back_what_it_prints() {
        let plans = [Plan::crash_loop(), Plan::image_pull_error(), Plan::default()];
        for plan in plans.into_iter().chain([Plan::complete_after(Duration::from_millis(1500))]) {
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
    }
}
