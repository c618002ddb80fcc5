//! The operator under simulated faults.

use std::path::PathBuf;

use appservice::dns::Zone;
use appservice::operator::{AppService, AppServices};

const WEB: &str = "{apiVersion: apps.example.com/v1, kind: AppService, metadata: {name: web}, \
                   spec: {replicas: 2, image: 'shop:1'}}";

#[test]
fn operator_survives_faults() {
    let zone = Zone::new(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("faults")).unwrap();
    evenkeel_sim::operator("appservice", move |manager| {
        AppServices { zone: zone.clone() }.register(manager)
    })
    .install::<AppService>()
    .sample(WEB)
    .check();
}
