//! Handovers under faults: no request after the local deadline, no commit of a former leader.
//!
//! `cargo xtask campaign handovers 1..1001` runs ten handovers per seed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use evenkeel::leader::LeaderElection;
use evenkeel::manager::RunError;
use tokio::time::{Instant, sleep};

use crate::replicas::{Network, Replica, Work};

const HANDOVERS: usize = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Returns the seeds of this run: a few, unless the environment sets them.
pub(crate) fn seeds(default: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_SEEDS") else { return default };
    let parsed = text.split_once("..").map(|(from, to)| (from.parse(), to.parse()));
    let Some((Ok(from), Ok(to))) = parsed else {
        panic!("EVENKEEL_SEEDS is not a range FROM..TO: {text}")
    };
    from..to
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Pause,
    PartitionFromLease,
    SlowRenewals,
    GracefulStop,
}

const FAULTS: [Fault; 5] = [
    Fault::Kill,
    Fault::Pause,
    Fault::PartitionFromLease,
    Fault::SlowRenewals,
    Fault::GracefulStop,
];

/// Three candidates whose messages take a while.
struct Handovers {
    network: Network,
    options: LeaderElection,
    renew_deadline: Duration,
    /// The longest time of a message, in each direction.
    delay: Duration,
    lease_delay: Duration,
    /// How fast the clock of one replica runs.
    rate: f64,
    replicas: Vec<Replica>,
    incarnations: usize,
}

impl Handovers {
    async fn new(seed: u64) -> Self {
        let network = Network::new(seed).await;
        // Half of the seeds have clocks of different rates, whose ratio the lease duration allows.
        let skewed = network.random(2) == 1;
        let (rate, lease) = if skewed { (1.5, 20.0) } else { (1.0, 15.0) };
        let renew_deadline = 10.0;
        let margin = Duration::from_secs_f64(lease / rate - renew_deadline);
        // Messages are fast, or nearly as slow as the margin.
        let (delay, lease_delay) = match network.random(2) {
            0 => (SECOND / 100, SECOND / 100),
            _ => (margin.mul_f64(0.95), SECOND),
        };
        let renew_deadline = Duration::from_secs_f64(renew_deadline);
        let options = LeaderElection::new()
            .lease_duration(Duration::from_secs_f64(lease))
            .renew_deadline(renew_deadline);
        let (replicas, incarnations) = (Vec::new(), 0);
        let mut handovers = Self {
            network,
            options,
            renew_deadline,
            delay,
            lease_delay,
            rate,
            replicas,
            incarnations,
        };
        for _ in 0..3 {
            let replica = handovers.replica();
            handovers.replicas.push(replica);
        }
        handovers
    }

    /// Starts a process.
    fn replica(&mut self) -> Replica {
        self.incarnations += 1;
        let millis = |network: &Network, limit| Duration::from_millis(network.random(limit));
        let work = Work {
            interval: Duration::from_millis(100) + millis(&self.network, 900),
            drain: millis(&self.network, 4000),
        };
        let identity = format!("replica-{}", self.incarnations);
        let mut replica =
            Replica::new(&self.network, &identity, self.options.clone(), self.renew_deadline, work);
        // Each third process has the fast clock, or the slow one: the ratio is the same.
        if self.network.random(3) == 0 {
            replica.set_rate(self.rate);
        }
        let (delay, lease_delay) = (self.delay, self.lease_delay);
        replica.link.set(|state| (state.delay, state.lease_delay) = (delay, lease_delay));
        replica.start();
        replica
    }

    /// Waits until a replica leads and has written; restarts processes that have ended, as Kubernetes
    /// does.
    async fn leader(&mut self) -> Result<usize, String> {
        for _ in 0..6000 {
            for index in 0..self.replicas.len() {
                if self.replicas[index].has_ended() {
                    self.replicas[index] = self.replica();
                }
            }
            let commits = self.network.commits();
            let leads = |it: &Replica| it.identity == commits.writer && it.is_leader();
            if commits.writer == commits.holder
                && let Some(position) = self.replicas.iter().position(leads)
            {
                return Ok(position);
            }
            sleep(SECOND / 10).await;
        }
        Err(format!("no leader: {:?}", self.network.commits()))
    }

    /// Lets the leader fail; returns how long it took until another replica wrote.
    async fn hand_over(&mut self, fault: Fault) -> Result<Duration, String> {
        let network = self.network.clone();
        let position = self.leader().await?;
        let mut leader = self.replicas.remove(position);
        // At any moment between two renewals and two writes.
        sleep(Duration::from_millis(network.random(4000))).await;
        let former = leader.identity.clone();
        let begun = Instant::now();
        let successor = async {
            let others = |commits: &crate::replicas::Commits| {
                commits.writer != former && commits.holder == commits.writer
            };
            network.until("the handover", others).await;
            begun.elapsed()
        };
        let fail = async {
            match fault {
                Fault::Kill => leader.kill().await,
                Fault::Pause => {
                    // Beyond the deadline, and sometimes beyond the takeover.
                    leader.pause(Duration::from_millis(10_000 + network.random(30_000))).await;
                    lost(leader.ended().await)?;
                }
                Fault::PartitionFromLease => {
                    leader.link.set(|state| state.lease_cut = true);
                    lost(leader.ended().await)?;
                }
                Fault::SlowRenewals => {
                    // Slower than the timeout, so all are lost or late.
                    leader.link.set(|state| state.lease_delay = 60 * SECOND);
                    let ended = leader.ended().await;
                    lost(ended)?;
                }
                Fault::GracefulStop => match leader.stop().await {
                    Ok(()) => {}
                    // It was lost while the work was ending, which slow messages cause.
                    ended => lost(ended)?,
                },
            }
            Ok::<(), String>(())
        };
        let (failed, took) = futures_util::future::join(fail, successor).await;
        failed?;
        let violations = leader.link.violations();
        if !violations.is_empty() {
            return Err(format!("{former} sent after its deadline: {violations:?}"));
        }
        let foreign = network.commits().foreign;
        if !foreign.is_empty() {
            return Err(format!("commits of a former leader: {foreign:?}"));
        }
        let restarted = self.replica();
        self.replicas.push(restarted);
        Ok(took)
    }
}

fn lost(ended: Result<(), RunError>) -> Result<(), String> {
    match ended {
        Err(RunError::LeaderElectionLost(_)) => Ok(()),
        other => Err(format!("ended with {other:?}")),
    }
}

async fn run(seed: u64, longest: &mut BTreeMap<Fault, Duration>) -> Result<(), String> {
    let mut handovers = Handovers::new(seed).await;
    for _ in 0..HANDOVERS {
        let index = usize::try_from(handovers.network.random(FAULTS.len() as u64)).unwrap();
        let fault = FAULTS[index];
        let took = handovers.hand_over(fault).await.map_err(|it| format!("{fault:?}: {it}"))?;
        // With fast messages and equal clocks, the times of the documentation hold.
        if handovers.delay < SECOND && handovers.rate == 1.0 {
            let limit = match fault {
                // The drain of the work, up to four seconds, is not part of the handover.
                Fault::GracefulStop => 5 * SECOND,
                // A renewal that arrives late extends the lease once more.
                Fault::SlowRenewals => 40 * SECOND,
                Fault::Kill | Fault::Pause | Fault::PartitionFromLease => 20 * SECOND,
            };
            if took > limit {
                return Err(format!("{fault:?}: the handover took {took:?}"));
            }
            let slowest = longest.entry(fault).or_default();
            *slowest = took.max(*slowest);
        }
    }
    for replica in &handovers.replicas {
        let violations = replica.link.violations();
        if !violations.is_empty() {
            return Err(format!("{} sent after its deadline: {violations:?}", replica.identity));
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn former_leaders_send_and_commit_nothing() {
    let mut longest = BTreeMap::new();
    let (seeds, mut count) = (seeds(1..5), 0);
    for seed in seeds {
        if let Err(error) = run(seed, &mut longest).await {
            panic!("seed {seed}: {error}");
        }
        count += HANDOVERS;
    }
    println!("{count} handovers; the longest with fast messages: {longest:?}");
}
