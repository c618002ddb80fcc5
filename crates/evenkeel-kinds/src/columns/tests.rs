//! Table output compared with responses of kube-apiserver 1.36.
//!
//! For each object created there, `golden.json` has the object, the time of the table request in
//! seconds, and the cells and column definitions of the response.

use serde_json::{Value, json};

use super::*;
use crate::convert::storage_gvk;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden.json")).unwrap()
}

fn gvk_of(row: &Value) -> Gvk<'_> {
    Gvk::from_api_version(str(&row["apiVersion"]), str(&row["kind"]))
}

/// Returns the object of a row in its storage version, from which tables are printed.
fn stored<'a>(golden: &'a Value, of: &'a Value) -> (Gvk<'a>, &'a Value) {
    let stored = storage_gvk(gvk_of(of));
    let row = golden["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| gvk_of(row) == stored && name(&row["object"]) == name(&of["object"]));
    (stored, &row.unwrap()["object"])
}

#[test]
fn cells_equal_those_of_kubernetes() {
    let golden = golden();
    let rows = golden["rows"].as_array().unwrap();
    assert!(rows.len() > 250);
    for expected in rows {
        let (gvk, object) = stored(&golden, expected);
        let cells = Value::from(row(gvk, object, int(&expected["now"])));
        assert_eq!(cells, expected["cells"], "{gvk} {}", name(object));
    }
}

#[test]
fn other_versions_print_like_the_storage_version() {
    let golden = golden();
    for expected in golden["rows"].as_array().unwrap() {
        let (gvk, object) = (gvk_of(expected), &expected["object"]);
        // A v1 autoscaler does not keep the position of CPU utilization among the metrics.
        if gvk.version == "v1" && ["h-all", "h-two"].contains(&name(object)) {
            continue;
        }
        let cells = Value::from(row(gvk, object, int(&expected["now"])));
        assert_eq!(cells, expected["cells"], "{gvk} {}", name(object));
    }
}

#[test]
fn columns_equal_those_of_kubernetes() {
    let golden = golden();
    let expected = golden["definitions"].as_object().unwrap();
    assert!(expected.len() > 80);
    for (kind, expected) in expected {
        let (api_version, kind) = kind.rsplit_once('/').unwrap();
        let columns = definitions(Gvk::from_api_version(api_version, kind));
        let columns: Vec<_> = columns
            .iter()
            .map(|column| json!([column.name, column.value_type, column.format, column.priority]))
            .collect();
        assert_eq!(Value::from(columns), *expected, "{api_version} {kind}");
    }
}

#[test]
fn row_conditions_equal_those_of_kubernetes() {
    let golden = golden();
    let mut completed = 0;
    for expected in golden["rows"].as_array().unwrap() {
        let conditions: Vec<_> = row_conditions(gvk_of(expected), &expected["object"])
            .map(RowCondition::to_json)
            .into_iter()
            .collect();
        assert_eq!(conditions, text::list(&expected["conditions"]), "{expected}");
        completed += conditions.len();
    }
    assert!(completed > 0);
}

#[test]
fn date_columns_of_custom_resources_equal_those_of_kubernetes() {
    let golden = golden();
    for expected in golden["custom"].as_array().unwrap() {
        let now = int(&expected["now"]);
        let dates = ["a", "b", "c", "d", "e", "f", "g"];
        let dates = dates.map(|field| date(str(&expected["object"][field]), now));
        assert_eq!(dates[..], expected["cells"].as_array().unwrap()[1..]);
    }
}

#[test]
fn every_row_has_a_cell_per_column_except_ip_addresses() {
    let golden = golden();
    for expected in golden["rows"].as_array().unwrap() {
        let gvk = gvk_of(expected);
        let surplus = usize::from(gvk.kind == "IPAddress");
        let cells = row(gvk, &Value::Null, 0);
        assert_eq!(cells.len(), definitions(gvk).len() + surplus, "{gvk}");
    }
}

#[test]
fn columns_have_descriptions() {
    for kind in golden()["definitions"].as_object().unwrap().keys() {
        let (api_version, kind) = kind.rsplit_once('/').unwrap();
        for column in definitions(Gvk::from_api_version(api_version, kind)) {
            assert!(column.description.ends_with('.'), "{kind} {}", column.name);
            assert_eq!(column.to_json()["type"], column.value_type);
        }
    }
}

#[test]
fn flow_schemas_are_listed_by_precedence_then_name() {
    let schema = |name: &str, precedence: i64| json!({ "metadata": { "name": name }, "spec": { "matchingPrecedence": precedence } });
    let mut schemas =
        [schema("a", 9000), schema("c", 1), schema("b", 1), schema("d", 200), json!({})];
    let gvk = Gvk::new("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema");
    schemas.sort_by(row_order(gvk).unwrap());
    assert_eq!(schemas.each_ref().map(name), ["", "b", "c", "d", "a"]);
    assert!(row_order(Gvk::new("", "v1", "Pod")).is_none());
}

#[test]
fn custom_kinds_print_name_and_creation_time() {
    let gvk = Gvk::new("example.com", "v1", "Pod");
    let object =
        json!({ "metadata": { "name": "a", "creationTimestamp": "2026-01-01T00:00:00Z" } });
    assert_eq!(row(gvk, &object, 0), ["a", "2026-01-01T00:00:00Z"]);
    assert_eq!(row(gvk, &json!({}), 0), ["", "0001-01-01T00:00:00Z"]);
    assert_eq!(definitions(gvk)[1].value_type, "date");
}

#[test]
fn durations_have_two_significant_figures() {
    // Generated with the duration package of apimachinery 0.36.
    let durations = [
        (-9000000000, "<invalid>"),
        (-60, "<invalid>"),
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (1, "1s"),
        (59, "59s"),
        (60, "60s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (601, "10m"),
        (659, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (10859, "3h"),
        (10860, "3h1m"),
        (28799, "7h59m"),
        (28800, "8h"),
        (86399, "23h"),
        (172799, "47h"),
        (172800, "2d"),
        (176399, "2d"),
        (176400, "2d1h"),
        (691199, "7d23h"),
        (691200, "8d"),
        (63071999, "729d"),
        (63072000, "2y"),
        (63158399, "2y"),
        (63158400, "2y1d"),
        (252287999, "7y364d"),
        (252288000, "8y"),
        (9000000000, "285y"),
    ];
    for (seconds, expected) in durations {
        assert_eq!(human_duration(seconds), expected, "{seconds}");
    }
    assert_eq!(human_duration(i64::MAX), "292y");
    assert_eq!(human_duration(i64::MIN), "<invalid>");
}

#[test]
fn invalid_selectors_are_printed_as_invalid() {
    let selector = json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": [] }] });
    let object = json!({ "spec": { "selector": selector, "podSelector": selector } });
    let last = |group, kind| row(Gvk::new(group, "v1", kind), &object, 0).pop();
    assert_eq!(last("apps", "Deployment"), Some("<invalid>".into()));
    assert_eq!(last("apps", "ReplicaSet"), Some("<error>".into()));
}
