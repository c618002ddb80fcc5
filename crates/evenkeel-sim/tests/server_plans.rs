//! The plans of the simulation and those of a server (`evenkeel cluster start --faults`) have the
//! same words.

use evenkeel_apiserver::faults;
use serde_json::json;

#[test]
fn places_and_effects_are_the_same() {
    for effect in [
        json!("loseResponse"),
        json!({"reject": 503}),
        json!("cut"),
        json!("reset"),
        json!("expire"),
        json!("endEmpty"),
        json!("gap"),
        json!({"lag": 3}),
        json!("freeze"),
    ] {
        let at = json!({"verb": "event", "resource": "deployments.apps", "nth": 2});
        let fault = json!({"at": at, "effect": effect});
        let simulated: evenkeel_sim::Fault = serde_json::from_value(fault.clone()).unwrap();
        let served: faults::Fault = serde_json::from_value(fault.clone()).unwrap();
        assert_eq!(serde_json::to_value(&simulated).unwrap(), fault);
        assert_eq!(serde_json::to_value(&served).unwrap(), fault);
        assert_eq!(simulated.at.to_string(), served.at.to_string());
    }
}
