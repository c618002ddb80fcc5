//! Webhooks of an operator under test: registered, run, and called without further setup.

use evenkeel::prelude::*;
use evenkeel::webhook::{AdmissionRequest, Conversion, Invalid, Validator, Warnings};
use evenkeel_test::{TestCluster, assert_round_trips};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The current version.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
struct WidgetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

/// A version without tags.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1beta1", kind = "Widget", root = "OldWidget")]
#[kube(namespaced)]
struct OldWidgetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
}

const TAGS: &str = "example.com/tags";

impl TryFrom<OldWidget> for Widget {
    type Error = serde_json::Error;

    fn try_from(mut old: OldWidget) -> Result<Self, serde_json::Error> {
        let tags = old.metadata.annotations.as_mut().and_then(|all| all.remove(TAGS));
        let tags = tags.map(|tags| serde_json::from_str(&tags)).transpose()?.unwrap_or_default();
        let spec = WidgetSpec { size: old.spec.width, tags };
        Ok(Self { metadata: old.metadata, spec })
    }
}

impl TryFrom<Widget> for OldWidget {
    type Error = serde_json::Error;

    fn try_from(mut new: Widget) -> Result<Self, serde_json::Error> {
        if !new.spec.tags.is_empty() {
            let tags = serde_json::to_string(&new.spec.tags)?;
            new.metadata.annotations.get_or_insert_default().insert(TAGS.to_owned(), tags);
        }
        let spec = OldWidgetSpec { width: new.spec.size };
        Ok(Self { metadata: new.metadata, spec })
    }
}

fn conversion() -> Conversion<Widget> {
    Conversion::hub::<Widget>().spoke::<OldWidget>()
}

fn default_size(widget: &mut Widget, _: &AdmissionRequest) -> Result<()> {
    widget.spec.size.get_or_insert(3);
    Ok(())
}

/// Sizes are positive, and never shrink.
struct Sizes;

impl Validator<Widget> for Sizes {
    async fn validate_create(&self, new: &Widget, _: &AdmissionRequest) -> Result<Warnings> {
        let mut invalid = Invalid::of::<Widget>(&new.name_any());
        if new.spec.size == Some(0) {
            invalid.value("spec.size", &0, "must be positive");
        }
        invalid.into_result()?;
        Ok(Warnings::new())
    }

    async fn validate_update(
        &self,
        old: &Widget,
        new: &Widget,
        request: &AdmissionRequest,
    ) -> Result<Warnings> {
        if new.spec.size < old.spec.size {
            return Err("a widget cannot shrink".into());
        }
        self.validate_create(new, request).await
    }
}

#[tokio::test]
async fn objects_are_defaulted_and_validated() {
    let mut cluster = TestCluster::builder().virtual_time(1).api_only().start().await;
    cluster.install::<Widget>().await.unwrap();
    let manager = cluster.manager("widgets");
    manager.webhook::<Widget>().defaulter(default_size).validator(Sizes).register().unwrap();
    cluster.run(&manager);
    manager.wait_until_synced().await.unwrap(); // for back ends other than the embedded one

    let widget = cluster.parse::<Widget>("metadata: {name: a}\nspec: {}");
    let created = cluster.client().create(&widget).await.unwrap();
    assert_eq!(created.spec.size, Some(3));
    let zero = cluster.parse::<Widget>("metadata: {name: b}\nspec: {size: 0}");
    let invalid = cluster.client().create(&zero).await.unwrap_err();
    assert!(invalid.is_invalid(), "{invalid}");
    let mut smaller = Widget::clone(&created);
    smaller.spec.size = Some(2);
    let denied = cluster.client().update(&smaller).await.unwrap_err();
    assert!(denied.is_forbidden(), "{denied}");
    assert!(evenkeel::chain(&denied).contains("a widget cannot shrink"), "{denied}");
    cluster.stop().await;
}

#[tokio::test]
async fn objects_are_converted() {
    let mut cluster = TestCluster::builder().virtual_time(1).api_only().start().await;
    cluster.client().install_crd_from(&conversion().crd().unwrap()).await.unwrap();
    let manager = cluster.manager("widgets");
    manager.conversion(conversion()).unwrap();
    cluster.run(&manager);
    manager.wait_until_synced().await.unwrap();

    let old = cluster.parse::<OldWidget>("metadata: {name: a}\nspec: {width: 2}");
    cluster.client().create(&old).await.unwrap();
    let new = cluster.client().live().get::<Widget>(&Key::of(&old)).await.unwrap().unwrap();
    assert_eq!(new.spec.size, Some(2));
    cluster.stop().await;
}

#[test]
fn every_version_survives_a_round_trip() {
    assert_round_trips(&conversion(), 0..50);
}

#[test]
#[should_panic(expected = "example.com/v1 → example.com/v2 → example.com/v1")]
fn a_lossy_conversion_fails() {
    #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
    #[kube(group = "example.com", version = "v2", kind = "Widget", root = "NewWidget")]
    #[kube(namespaced)]
    struct NewWidgetSpec {}

    impl From<NewWidget> for Widget {
        fn from(new: NewWidget) -> Self {
            Self { metadata: new.metadata, spec: WidgetSpec { size: None, tags: Vec::new() } }
        }
    }

    impl From<Widget> for NewWidget {
        fn from(widget: Widget) -> Self {
            Self { metadata: widget.metadata, spec: NewWidgetSpec {} }
        }
    }

    assert_round_trips(&Conversion::hub::<Widget>().spoke::<NewWidget>(), 0..50);
}
