//! Columns of Services, Endpoints, Ingresses and other networking kinds.

use std::collections::BTreeSet;

use serde_json::Value;

use super::text::{
    NONE, UNKNOWN, age, annotation, count, filled_or, int, join, join_some, labels, list, name,
    selector_cell, set_or, str,
};
use super::{AGE, Column, NAME, Printer};

/// Maximum number of addresses, ports and hosts in a cell. The rest is only counted.
const MAX_SHOWN: usize = 3;

pub(super) const SERVICE: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Type", "How the service is exposed."),
        Column::text("Cluster-IP", "Address inside the cluster."),
        Column::text("External-IP", "Addresses outside the cluster."),
        Column::text("Port(s)", "Ports, node ports and protocols."),
        AGE,
        Column::text("Selector", "Labels of the pods behind the service.").wide(),
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        cells![
            name(object),
            str(&spec["type"]),
            set_or(&spec["clusterIPs"][0], NONE),
            external_ip(object),
            service_ports(&spec["ports"]),
            age(object, now),
            labels(&spec["selector"]),
        ]
    },
};

pub(super) const ENDPOINTS: Printer = Printer {
    columns: &[NAME, Column::text("Endpoints", "Addresses and ports that are ready."), AGE],
    cells: |object, now| cells![name(object), endpoints(&object["subsets"]), age(object, now)],
};

pub(super) const ENDPOINT_SLICE: Printer = Printer {
    columns: &[
        NAME,
        Column::text("AddressType", "Family of the addresses."),
        Column::text("Ports", "Ports of every endpoint."),
        Column::text("Endpoints", "Addresses of the endpoints."),
        AGE,
    ],
    cells: |object, now| {
        let ports: Vec<_> = list(&object["ports"])
            .iter()
            .map(|port| match port["port"].as_i64() {
                Some(number) => number.to_string(),
                None => set_or(&port["name"], "*").to_owned(),
            })
            .collect();
        let addresses = list(&object["endpoints"])
            .iter()
            .flat_map(|endpoint| list(&endpoint["addresses"]))
            .map(str);
        cells![
            name(object),
            str(&object["addressType"]),
            join_some(ports.iter().map(String::as_str), MAX_SHOWN),
            join_some(addresses, MAX_SHOWN),
            age(object, now),
        ]
    },
};

pub(super) const INGRESS: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Class", "Ingress class that serves it."),
        Column::text("Hosts", "Host names it answers to."),
        Column::text("Address", "Addresses of the load balancer."),
        Column::text("Ports", "Ports it listens on."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        cells![
            name(object),
            set_or(&spec["ingressClassName"], NONE),
            hosts(list(&spec["rules"])),
            load_balancer(&object["status"]),
            if count(&spec["tls"]) == 0 { "80" } else { "80, 443" },
            age(object, now),
        ]
    },
};

pub(super) const INGRESS_CLASS: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Controller", "Controller that serves the class."),
        Column::text("Parameters", "Object with further settings."),
        AGE,
    ],
    cells: |object, now| {
        let is_default =
            annotation(object, "ingressclass.kubernetes.io/is-default-class") == Some("true");
        let name = name(object);
        let name = if is_default { format!("{name} (default)") } else { name.to_owned() };
        let parameters = match &object["spec"]["parameters"] {
            Value::Null => NONE.to_owned(),
            reference => {
                let (kind, name) = (str(&reference["kind"]), str(&reference["name"]));
                match reference["apiGroup"].as_str() {
                    Some(group) => format!("{kind}.{group}/{name}"),
                    None => format!("{kind}/{name}"),
                }
            }
        };
        cells![name, str(&object["spec"]["controller"]), parameters, age(object, now)]
    },
};

pub(super) const NETWORK_POLICY: Printer = Printer {
    columns: &[NAME, Column::text("Pod-Selector", "Labels of the pods it applies to."), AGE],
    cells: |object, now| {
        cells![name(object), selector_cell(&object["spec"]["podSelector"]), age(object, now)]
    },
};

pub(super) const SERVICE_CIDR: Printer = Printer {
    columns: &[NAME, Column::text("CIDRs", "Ranges that cluster addresses come from."), AGE],
    cells: |object, now| {
        let cidrs = join(list(&object["spec"]["cidrs"]).iter().map(str), ",");
        cells![name(object), cidrs, age(object, now)]
    },
};

/// The age has a cell but no column.
pub(super) const IP_ADDRESS: Printer = Printer {
    columns: &[NAME, Column::text("ParentRef", "Object that holds the address.")],
    cells: |object, now| {
        let parent = match &object["spec"]["parentRef"] {
            Value::Null => NONE.to_owned(),
            reference => parent(reference),
        };
        cells![name(object), parent, age(object, now)]
    },
};

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let external_ips = join(list(&spec["externalIPs"]).iter().map(str), ",");
    match str(&spec["type"]) {
        "ClusterIP" | "NodePort" if external_ips.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => external_ips,
        "LoadBalancer" => {
            let ingress = load_balancer(&service["status"]);
            match (ingress.is_empty(), external_ips.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (true, false) => external_ips,
                (false, true) => ingress,
                (false, false) => format!("{ingress},{external_ips}"),
            }
        }
        "ExternalName" => str(&spec["externalName"]).to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

fn service_ports(ports: &Value) -> String {
    let ports: Vec<_> = list(ports)
        .iter()
        .map(|port| {
            let (number, protocol) = (int(&port["port"]), str(&port["protocol"]));
            match int(&port["nodePort"]) {
                node_port @ 1.. => format!("{number}:{node_port}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}

/// Prints the IPs, or host names where there is no IP, sorted and without duplicates.
fn load_balancer(status: &Value) -> String {
    let points: BTreeSet<_> = list(&status["loadBalancer"]["ingress"])
        .iter()
        .map(|ingress| filled_or(&ingress["ip"], str(&ingress["hostname"])))
        .filter(|point| !point.is_empty())
        .collect();
    join(points.into_iter(), ",")
}

fn endpoints(subsets: &Value) -> String {
    let subsets = list(subsets);
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut shown = Vec::with_capacity(MAX_SHOWN);
    let mut total = 0;
    for subset in subsets {
        let (ports, addresses) = (list(&subset["ports"]), list(&subset["addresses"]));
        // Endpoints of headless services may have no ports.
        total += addresses.len() * ports.len().max(1);
        let missing = MAX_SHOWN - shown.len();
        let ips = addresses.iter().map(|address| str(&address["ip"]));
        if ports.is_empty() {
            shown.extend(ips.take(missing).map(str::to_owned));
        } else {
            let port_numbers = ports.iter().map(|port| int(&port["port"]));
            let pairs = port_numbers.flat_map(|port| ips.clone().map(move |ip| (ip, port)));
            shown.extend(pairs.take(missing).map(|(ip, port)| host_port(ip, port)));
        }
    }
    let shown_list = shown.join(",");
    match total - shown.len() {
        0 => shown_list,
        more => format!("{shown_list} + {more} more..."),
    }
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

/// Prints the hosts of an Ingress. Rules without a host are not printed but are counted.
fn hosts(rules: &[Value]) -> String {
    let mut shown = Vec::with_capacity(MAX_SHOWN);
    let mut more = false;
    for rule in rules {
        more |= shown.len() == MAX_SHOWN;
        let host = str(&rule["host"]);
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match shown.join(",") {
        none if none.is_empty() => "*".to_owned(),
        hosts if more => format!("{hosts} + {} more...", rules.len() - MAX_SHOWN),
        hosts => hosts,
    }
}

fn parent(reference: &Value) -> String {
    let mut text = str(&reference["resource"]).to_lowercase();
    let group = str(&reference["group"]);
    if !group.is_empty() {
        text = format!("{text}.{}", group.to_lowercase());
    }
    match (str(&reference["namespace"]), str(&reference["name"])) {
        ("", name) => format!("{text}/{name}"),
        (namespace, name) => format!("{text}/{namespace}/{name}"),
    }
}
