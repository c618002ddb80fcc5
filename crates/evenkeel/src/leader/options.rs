//! The options of leader election.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_types::names::{Reasons, dns1123_label, dns1123_subdomain};

use crate::clock::MonotonicClock;
use crate::random::Random;

/// The namespace of the pod that this process runs in.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// How much longer than the retry period a candidate waits at most, as in client-go.
const JITTER_FACTOR: f64 = 1.2;

/// The options of leader election.
///
/// The defaults are those of client-go and controller-runtime, except that the lease is released when
/// the manager stops.
///
/// ```no_run
/// use evenkeel::leader::LeaderElection;
/// use evenkeel::prelude::*;
///
/// # async fn example() -> Result<()> {
/// let manager = Manager::builder("greeter")
///     .leader_election(LeaderElection::new().id("greeter.example.com").namespace("greeters"))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct LeaderElection {
    pub(crate) id: Option<String>,
    pub(crate) namespace: Option<String>,
    identity: Option<String>,
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
    labels: BTreeMap<String, String>,
    release_on_stop: bool,
    reelect: bool,
    clock: Option<MonotonicClock>,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            id: None,
            namespace: None,
            identity: None,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            labels: BTreeMap::new(),
            release_on_stop: true,
            reelect: false,
            clock: None,
        }
    }
}

impl LeaderElection {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the Lease; the name of the manager unless set.
    pub fn id(mut self, name: &str) -> Self {
        self.id = Some(name.to_owned());
        self
    }

    /// Sets the namespace of the Lease. Unless set, it is the namespace of the pod, else that of the
    /// kubeconfig context, else `default`.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Sets the name of this process in the Lease, which must be unique among the replicas; the host
    /// name and a random UUID unless set.
    pub fn identity(mut self, identity: &str) -> Self {
        self.identity = Some(identity.to_owned());
        self
    }

    /// Sets how long the others wait after the last renewal before they take over; 15 seconds unless
    /// set. A whole number of seconds.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// Sets how long after the last renewal the leader gives up; 10 seconds unless set.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.renew_deadline = deadline;
        self
    }

    /// Sets the interval of renewals and of attempts to acquire the lease; 2 seconds unless set.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.retry_period = period;
        self
    }

    /// Adds a label of the Lease. Labels that others have set are kept.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets whether the lease is released when the manager has stopped gracefully; true unless set. It
    /// is not released if work had to be cancelled at the end of the grace period.
    ///
    /// The program must not write to the cluster after `run` has returned.
    pub fn release_on_stop(mut self, release: bool) -> Self {
        self.release_on_stop = release;
        self
    }

    /// Sets whether the process becomes a standby again when it has lost the lease, instead of
    /// returning an error; false unless set.
    ///
    /// Controllers are restarted, and reconcile every object. Other leader-bound runnables must be
    /// added with [`spawn_each_term`](crate::Manager::spawn_each_term).
    pub fn reelect(mut self, reelect: bool) -> Self {
        self.reelect = reelect;
        self
    }

    /// Sets the clock of timeouts and deadlines, for tests.
    pub fn clock(mut self, clock: MonotonicClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Checks the options, as client-go does.
    ///
    /// # Errors
    /// When they are invalid.
    pub fn validate(&self) -> Result<(), InvalidLeaderElection> {
        let Self { lease_duration, renew_deadline, retry_period, .. } = self;
        let invalid = |problem: String| Err(InvalidLeaderElection(problem));
        let durations = [
            ("lease duration", lease_duration),
            ("renew deadline", renew_deadline),
            ("retry period", retry_period),
        ];
        if let Some((name, _)) = durations.iter().find(|(_, duration)| duration.is_zero()) {
            return invalid(format!("the {name} must be greater than zero"));
        }
        if lease_duration <= renew_deadline {
            return invalid(format!(
                "the lease duration ({lease_duration:?}) must be greater than the renew deadline \
                 ({renew_deadline:?})"
            ));
        }
        if *renew_deadline <= retry_period.saturating_mul(6) / 5 {
            return invalid(format!(
                "the renew deadline ({renew_deadline:?}) must be greater than {JITTER_FACTOR} times \
                 the retry period ({retry_period:?})"
            ));
        }
        // The Lease has whole seconds: the others would wait for less.
        if lease_duration.subsec_nanos() != 0 || i32::try_from(lease_duration.as_secs()).is_err() {
            return invalid(format!(
                "the lease duration ({lease_duration:?}) must be a whole number of seconds"
            ));
        }
        if self.identity.as_deref() == Some("") {
            return invalid("the identity must not be empty".to_owned());
        }
        if let Some(namespace) = &self.namespace {
            valid("namespace", namespace, &dns1123_label(namespace))?;
        }
        match &self.id {
            Some(id) => check_name(id),
            None => Ok(()),
        }
    }
}

/// Checks the name of a Lease.
pub(super) fn check_name(name: &str) -> Result<(), InvalidLeaderElection> {
    valid("name of a Lease", name, &dns1123_subdomain(name))
}

fn valid(what: &str, value: &str, reasons: &Reasons) -> Result<(), InvalidLeaderElection> {
    match reasons.first() {
        None => Ok(()),
        Some(reason) => {
            Err(InvalidLeaderElection(format!("{value:?} is not a valid {what}: {reason}")))
        }
    }
}

/// Options of leader election are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidLeaderElection(pub(super) String);

/// What the elections of one manager have in common.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) namespace: String,
    pub(super) identity: Arc<str>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) timing: Timing,
    pub(super) release_on_stop: bool,
    pub(super) reelect: bool,
    pub(super) clock: MonotonicClock,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) lease_duration: Duration,
    pub(super) renew_deadline: Duration,
    pub(super) retry_period: Duration,
}

impl Timing {
    /// Returns the timeout of a request: a hanging one leaves time for another, as in
    /// controller-runtime.
    pub(super) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// Returns the wait before the next attempt to acquire a lease.
    pub(super) fn jittered(&self, random: &mut Random) -> Duration {
        let jitter = self.retry_period.mul_f64(JITTER_FACTOR);
        self.retry_period + random.range(Duration::ZERO, jitter)
    }
}

impl Settings {
    /// Completes the options. `context` is the namespace of the kubeconfig context.
    pub(super) fn new(
        options: &LeaderElection,
        context: &str,
        virtual_time: bool,
        random: &mut Random,
    ) -> Self {
        let pod = || std::fs::read_to_string(POD_NAMESPACE).ok().map(|text| text.trim().to_owned());
        let context = if context.is_empty() { "default" } else { context };
        let namespace = options.namespace.clone().or_else(pod).filter(|name| !name.is_empty());
        let identity = options.identity.clone();
        let clock = options.clock.clone().unwrap_or_else(|| match virtual_time {
            true => MonotonicClock::tokio(),
            false => MonotonicClock::system(),
        });
        Self {
            namespace: namespace.unwrap_or_else(|| context.to_owned()),
            identity: identity.unwrap_or_else(|| generated_identity(random)).into(),
            labels: options.labels.clone(),
            timing: Timing {
                lease_duration: options.lease_duration,
                renew_deadline: options.renew_deadline,
                retry_period: options.retry_period,
            },
            release_on_stop: options.release_on_stop,
            reelect: options.reelect,
            clock,
        }
    }
}

/// Returns the host name and a random UUID, as controller-runtime does.
fn generated_identity(random: &mut Random) -> String {
    let (high, low) = (random.next(), random.next());
    let version = (high & !0xf000) | 0x4000;
    let variant = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{}_{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        host_name(),
        version >> 32,
        (version >> 16) & 0xffff,
        version & 0xffff,
        variant >> 48,
        variant & 0xffff_ffff_ffff
    )
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "localhost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn durations_that_client_go_rejects_are_rejected() {
        let check = |lease: Duration, deadline: Duration, retry: Duration| {
            let options = LeaderElection::new().lease_duration(lease).renew_deadline(deadline);
            options.retry_period(retry).validate().map_err(|error| error.to_string())
        };
        assert_eq!(check(secs(15), secs(10), secs(2)), Ok(()));
        assert_eq!(check(secs(3), secs(2), secs(1)), Ok(()));
        for (lease, deadline, retry, problem) in [
            (secs(10), secs(10), secs(2), "greater than the renew deadline (10s)"),
            (secs(15), secs(12), secs(10), "1.2 times the retry period (10s)"),
            (secs(0), secs(10), secs(2), "the lease duration must be greater than zero"),
            (secs(15), secs(0), secs(2), "the renew deadline must be greater than zero"),
            (secs(15), secs(10), secs(0), "the retry period must be greater than zero"),
            (
                Duration::from_millis(1500),
                secs(1),
                secs(0) + secs(1) / 2,
                "whole number of seconds",
            ),
        ] {
            let error = check(lease, deadline, retry).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn names_that_the_api_server_rejects_are_rejected() {
        for name in ["a", "0", "operator.example.com", "a-b"] {
            assert_eq!(LeaderElection::new().id(name).validate(), Ok(()), "{name}");
        }
        let long = "a".repeat(254);
        for name in ["", "A", "a_b", "-a", "a-", "a..b", "a/b", ".", &long] {
            assert!(LeaderElection::new().id(name).validate().is_err(), "{name}");
        }
        assert!(LeaderElection::new().namespace("a.b").validate().is_err());
        assert!(LeaderElection::new().identity("").validate().is_err());
    }

    #[tokio::test]
    async fn the_identity_is_the_host_name_and_a_uuid() {
        let mut random = Random::new(1);
        let mut settings = || Settings::new(&LeaderElection::new(), "team", true, &mut random);
        let (one, other) = (settings(), settings());
        assert_ne!(one.identity, other.identity);
        let (host, uuid) = one.identity.rsplit_once('_').unwrap();
        assert_eq!(host, host_name());
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "4", "{uuid}");
        assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"), "{uuid}");
        let set = LeaderElection::new().identity("me").namespace("ours");
        let set = Settings::new(&set, "team", true, &mut random);
        assert_eq!((&*set.identity, &*set.namespace), ("me", "ours"));
    }
}
