//! The use of tokens in Secrets: a label of the Secret with the day of its last use, and a ConfigMap
//! with the day since when uses are recorded. The cluster deletes tokens that are not used.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::context::{Core, RequestContext};
use crate::object::Metadata as _;
use crate::pipeline;
use crate::registry::resource::Part;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::Key;
use crate::tokens::{LAST_USED, UsedSecret};

/// The name of the ConfigMap, in the namespace `kube-system`.
const SINCE: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Creates the ConfigMap if there is none, and corrects it if it contains no day.
pub(crate) async fn begin(core: &Arc<Core>) -> Result<(), Status> {
    let Some(resource) = core.builtin("", "configmaps") else { return Ok(()) };
    let today = core.clock_rng.now().strftime("%Y-%m-%d").to_string();
    let key = Key::new("kube-system", SINCE);
    let Some(record) = resource.table.get(&key) else {
        let cx = RequestContext::internal(
            core,
            &resource,
            Verb::Create,
            &Key::new("kube-system", ""),
            None,
        );
        let map = json!({"metadata": {"name": SINCE}, "data": {"since": today}});
        pipeline::create_internal(&cx, &map).await?;
        return Ok(());
    };
    let stored: Value = serde_json::from_slice(&record.body).map_err(Status::internal)?;
    let since = stored["data"]["since"].as_str().unwrap_or_default();
    if since.parse::<jiff::civil::Date>().is_ok() {
        return Ok(());
    }
    let cx = RequestContext::internal(core, &resource, Verb::Update, &key, None);
    pipeline::update_internal(&cx, Part::Main, |map| map["data"]["since"] = json!(today)).await?;
    Ok(())
}

/// Labels the Secrets whose tokens were used for the first time today.
pub(crate) async fn record(core: &Arc<Core>) {
    for UsedSecret { namespace, name, uid, today } in
        core.authenticator.service_accounts.take_used()
    {
        let Some(resource) = core.builtin("", "secrets") else { return };
        let key = Key::new(&namespace, &name);
        let cx = RequestContext::internal(core, &resource, Verb::Update, &key, None);
        let labelled = pipeline::update_internal(&cx, Part::Main, |secret| {
            if secret.meta_str("uid") == uid {
                secret["metadata"]["labels"][LAST_USED] = json!(today);
            }
        });
        // The request is valid, whether this is recorded or not.
        if let Err(status) = labelled.await {
            let error = status.message();
            tracing::warn!(%namespace, %name, error, "cannot record the use of a token");
        }
    }
}
