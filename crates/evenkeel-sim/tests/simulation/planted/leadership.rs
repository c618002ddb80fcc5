//! Work of the leader that continues without the lease.

use evenkeel::prelude::*;
use evenkeel_sim::{BugClass, Simulation};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PatchParams};

use super::{Planted, owned, size};
use crate::operators::{App, simulate_with};

pub(super) const PLANTED: &[Planted] = &[Planted {
    name: "lost-lease-is-only-logged",
    rows: &[37],
    after: "kthena #1793",
    class: BugClass::Leadership,
    prevented_by: "`Manager::spawn` and `Manager::leader_client()`: nothing is sent without the lease",
    simulation: lost_lease_is_only_logged,
}];

/// The time between two parts.
const PAUSE: Duration = Duration::from_secs(6);

/// The work starts with the term and never ends: the end of the term is only logged. Parts are rolled
/// out one after the other, by a client that every replica has.
pub(crate) fn lost_lease_is_only_logged() -> Simulation {
    simulate_with("lost-lease-is-only-logged", |manager| {
        let client = manager.client().kube().clone();
        let elections = manager.leader_elections();
        manager.spawn_without_leader_election("roll-out", move |stop| async move {
            while elections.first().is_some_and(|election| !election.is_leader()) {
                if stop.is_requested() {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            loop {
                // An error is one more reason to continue.
                if roll_out(&client).await.is_ok_and(|rolling| !rolling) && stop.is_requested() {
                    return Ok(());
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    })
}

/// Applies the first part that differs; returns whether there is one.
async fn roll_out(client: &kube::Client) -> Result<bool, kube::Error> {
    let apps = Api::<App>::namespaced(client.clone(), "default");
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    for app in apps.list(&ListParams::default()).await? {
        for number in (0..).take(size(&app)) {
            let wanted = owned(&app, number);
            let name = wanted.name_any();
            if maps.get_opt(&name).await?.is_none_or(|found| found.data != wanted.data) {
                let params = PatchParams::apply("roll-out").force();
                maps.patch(&name, &params, &Patch::Apply(&wanted)).await?;
                return Ok(true);
            }
        }
    }
    Ok(false)
}
