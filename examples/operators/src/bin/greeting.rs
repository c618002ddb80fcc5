//! The operator of the README: creates a ConfigMap for each `Greeting`.
//!
//! `cargo run -p operators --bin greeting -- --kubeconfig FILE`

use evenkeel::prelude::*;
use k8s_openapi::api::core::v1::ConfigMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
struct GreetingSpec {
    name: String,
}

struct Greetings;

impl Reconciler for Greetings {
    type Object = Greeting;

    async fn reconcile(&self, cx: &Context<Greeting>) -> Result<Action> {
        let Some(greeting) = cx.object() else { return Ok(Action::done()) };
        let mut map = ConfigMap::default();
        map.metadata.name = Some(greeting.name_any());
        map.data = Some([("text".to_owned(), format!("Hello, {}!", greeting.spec.name))].into());
        cx.apply_owned(map).force().await?;
        Ok(Action::done())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = Manager::builder("greeter")
        .version(env!("CARGO_PKG_VERSION"))
        .crd::<Greeting>()
        .connect_with_args()
        .await?;
    manager.controller(Greetings).owns::<ConfigMap>().register()?;
    Ok(manager.run().await?)
}

#[cfg(test)]
mod tests {
    use evenkeel_test::TestCluster;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn greeting_creates_a_config_map() {
        let mut cluster = TestCluster::builder().virtual_time(1).start().await;
        cluster.install::<Greeting>().await.unwrap();
        let manager = cluster.manager("greeter");
        manager.controller(Greetings).owns::<ConfigMap>().register().unwrap();
        cluster.run(&manager);

        let greeting = cluster.parse::<Greeting>("metadata: {name: ada}\nspec: {name: Ada}");
        cluster.client().create(&greeting).await.unwrap();
        let map = cluster.eventually::<ConfigMap>(&Key::of(&greeting), |_| true).await;
        assert_eq!(map.data.as_ref().unwrap()["text"], "Hello, Ada!");
        cluster.stop().await;
    }

    #[test]
    fn greeter_survives_faults() {
        let ada = "{apiVersion: example.com/v1, kind: Greeting, metadata: {name: ada}, spec: {name: Ada}}";
        evenkeel_sim::operator("greeter", |it| {
            it.controller(Greetings).owns::<ConfigMap>().register()
        })
        .install::<Greeting>()
        .sample(ada)
        .expect(|greeting: &Greeting, _| {
            [json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": greeting.name_any()},
                "data": {"text": format!("Hello, {}!", greeting.spec.name)}})]
        })
        .check();
    }
}
