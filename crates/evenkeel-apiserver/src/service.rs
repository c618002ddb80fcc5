//! Addresses and ports that services get.
//!
//! What is taken is kept in memory and rebuilt from the stored services when a server opens a
//! data directory. A write holds what it takes as a [`Reservation`], which gives everything back
//! unless the write is committed.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_schema::field;
use serde_json::{Value, json};

use crate::storage::Record;

/// Hands out cluster IPs from one IPv4 range, and node ports.
pub(crate) struct Allocator {
    base: u32,
    size: u32,
    taken: Taken,
}

#[derive(Clone, Default)]
struct Taken(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<u16>,
    next_address: u32,
    next_port: u16,
}

/// What a write has taken, until it is committed or fails.
pub(crate) struct Reservation {
    taken: Taken,
    address: Option<u32>,
    ports: Vec<u16>,
}

const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
/// Ports below this are handed out last: they are for those who ask for a certain one.
const PICKED_PORTS: u16 = 30_086;

impl Taken {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// The write is committed: what it took stays taken.
    pub(crate) fn keep(mut self) {
        self.address = None;
        self.ports.clear();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.address.is_none() && self.ports.is_empty() {
            return;
        }
        let mut state = self.taken.lock();
        if let Some(address) = self.address {
            state.addresses.remove(&address);
        }
        for port in &self.ports {
            state.ports.remove(port);
        }
    }
}

impl Allocator {
    /// `range` as in `10.0.0.0/24`.
    pub(crate) fn new(range: &str) -> Result<Self, String> {
        let bad = || format!("{range:?} is not an IPv4 range such as 10.0.0.0/24");
        // Dual-stack ranges list two; services of this server are single-stack.
        let first = range.split(',').next().unwrap_or("");
        let (address, bits) = first.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let bits: u32 = bits.parse().map_err(|_| bad())?;
        if !(8..=30).contains(&bits) {
            return Err(bad());
        }
        let size = 1_u32 << (32 - bits);
        let base = u32::from(address) & !(size - 1);
        Ok(Self { base, size, taken: Taken::default() })
    }

    /// The address of the API server itself.
    pub(crate) fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    /// Gives a service what its type needs, keeping what `old` has.
    pub(crate) fn allocate(
        &self,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Reservation, Vec<field::Error>> {
        let mut reservation =
            Reservation { taken: self.taken.clone(), address: None, ports: Vec::new() };
        let spec = &mut service["spec"];
        let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
        if kind == "ExternalName" {
            return Ok(reservation);
        }
        check_families(spec)?;
        let old_ip = old.and_then(|old| old["spec"]["clusterIP"].as_str()).unwrap_or("");
        let wished = spec["clusterIP"].as_str().unwrap_or("");
        let address = match wished {
            "None" => "None".to_owned(),
            "" if !old_ip.is_empty() => old_ip.to_owned(),
            given if !given.is_empty() && given == old_ip => old_ip.to_owned(),
            given => {
                let address = if given.is_empty() { self.pick() } else { self.take(given) }?;
                reservation.address = Some(u32::from(address));
                address.to_string()
            }
        };
        if kind != "ClusterIP" {
            take_ports(&mut reservation, spec, old)?;
        }
        if kind == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local" {
            take_health_port(&mut reservation, spec, old)?;
        }
        if is_selectorless(spec) && spec["ipFamilyPolicy"].is_null() && spec["ipFamilies"].is_null()
        {
            // Who manages endpoints on their own may give them addresses of either family.
            spec["ipFamilyPolicy"] = "RequireDualStack".into();
            spec["ipFamilies"] = json!(["IPv4", "IPv6"]);
        }
        spec["clusterIP"] = address.clone().into();
        spec["clusterIPs"] = json!([address]);
        if spec["ipFamilies"].as_array().is_none_or(Vec::is_empty) {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if spec["ipFamilyPolicy"].as_str().is_none_or(str::is_empty) {
            spec["ipFamilyPolicy"] = "SingleStack".into();
        }
        Ok(reservation)
    }

    fn pick(&self) -> Result<Ipv4Addr, Vec<field::Error>> {
        let mut state = self.taken.lock();
        // The first address is the network's, the last the broadcast's.
        let usable = self.size - 2;
        for _ in 0..usable {
            let offset = 1 + state.next_address % usable;
            state.next_address = (state.next_address + 1) % usable;
            let address = self.base + offset;
            if state.addresses.insert(address) {
                return Ok(Ipv4Addr::from(address));
            }
        }
        let detail = "failed to allocate IP: range is full";
        Err(vec![field::Error::invalid("spec.clusterIPs", "", detail)])
    }

    fn take(&self, wished: &str) -> Result<Ipv4Addr, Vec<field::Error>> {
        let refuse = |why: &str| {
            let detail = format!("failed to allocate IP {wished}: {why}");
            Err(vec![field::Error::invalid("spec.clusterIPs", json!([wished]), detail)])
        };
        let Ok(address) = wished.parse::<Ipv4Addr>() else {
            if wished.parse::<std::net::Ipv6Addr>().is_ok() {
                return refuse("not an IPv4 address");
            }
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            return Err(vec![field::Error::invalid("spec.clusterIPs[0]", wished, detail)]);
        };
        let number = u32::from(address);
        if number <= self.base || number >= self.base + self.size - 1 {
            return refuse(&format!(
                "the provided IP ({wished}) is not in the valid range. The range of valid IPs is \
                 {}/{}",
                Ipv4Addr::from(self.base),
                32 - self.size.trailing_zeros()
            ));
        }
        if !self.taken.lock().addresses.insert(number) {
            return refuse("provided IP is already allocated");
        }
        Ok(address)
    }

    /// Takes back what a service had and, if it lives on, has no longer.
    pub(crate) fn release(&self, before: &Value, now: Option<&Record>) {
        let now = now.and_then(|record| serde_json::from_slice::<Value>(&record.body).ok());
        let (had_address, had_ports) = uses(before);
        let (address, ports) = now.as_ref().map(uses).unwrap_or_default();
        let mut state = self.taken.lock();
        if let Some(had) = had_address.filter(|had| address != Some(*had)) {
            state.addresses.remove(&had);
        }
        for port in had_ports.difference(&ports) {
            state.ports.remove(port);
        }
    }

    /// Marks what a stored service has as taken.
    pub(crate) fn restore(&self, record: &Record) {
        let Ok(service) = serde_json::from_slice::<Value>(&record.body) else { return };
        let (address, ports) = uses(&service);
        let mut state = self.taken.lock();
        state.addresses.extend(address);
        state.ports.extend(ports);
    }
}

/// The address and node ports a service has.
fn uses(service: &Value) -> (Option<u32>, BTreeSet<u16>) {
    let spec = &service["spec"];
    let address = spec["clusterIP"].as_str().and_then(|text| text.parse::<Ipv4Addr>().ok());
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| &port["nodePort"]).chain([&spec["healthCheckNodePort"]]);
    let ports = ports.filter_map(|port| u16::try_from(port.as_u64()?).ok());
    (address.map(u32::from), ports.filter(|port| *port > 0).collect())
}

fn take_ports(
    reservation: &mut Reservation,
    spec: &mut Value,
    old: Option<&Value>,
) -> Result<(), Vec<field::Error>> {
    let (_, had) = old.map(uses).unwrap_or_default();
    // Load balancers may be told to do without.
    let picks = spec["type"] != "LoadBalancer" || spec["allocateLoadBalancerNodePorts"] != false;
    let Some(ports) = spec["ports"].as_array_mut() else { return Ok(()) };
    for (at, port) in ports.iter_mut().enumerate() {
        let refuse = |given: u64, detail: &str| {
            let path = format!("spec.ports[{at}].nodePort");
            Err(vec![field::Error::invalid(path, given, detail)])
        };
        let given = port["nodePort"].as_u64().unwrap_or(0);
        if given == 0 && !picks {
            continue;
        }
        let mut state = reservation.taken.lock();
        if given == 0 {
            // In turn, so that a port that was given back is not met again at once.
            let start = state.next_port.max(PICKED_PORTS);
            let mut ports = (start..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..start);
            let Some(free) = ports.find(|port| !state.ports.contains(port)) else {
                return refuse(0, "failed to allocate a nodePort: range is full");
            };
            state.ports.insert(free);
            state.next_port = if free == *NODE_PORTS.end() { 0 } else { free + 1 };
            drop(state);
            reservation.ports.push(free);
            port["nodePort"] = free.into();
            continue;
        }
        let number = u16::try_from(given).unwrap_or(0);
        if !NODE_PORTS.contains(&number) {
            return refuse(
                given,
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            );
        }
        if had.contains(&number) {
            continue;
        }
        if !state.ports.insert(number) {
            return refuse(given, "provided port is already allocated");
        }
        drop(state);
        reservation.ports.push(number);
    }
    Ok(())
}

/// Load balancers that keep traffic on a node ask it there whether it has any pods.
fn take_health_port(
    reservation: &mut Reservation,
    spec: &mut Value,
    old: Option<&Value>,
) -> Result<(), Vec<field::Error>> {
    let (_, had) = old.map(uses).unwrap_or_default();
    let given = spec["healthCheckNodePort"].as_u64().unwrap_or(0);
    let wished = u16::try_from(given).ok().filter(|port| *port > 0);
    if wished.is_some_and(|port| had.contains(&port)) {
        return Ok(());
    }
    let refuse = |why: &str| {
        let detail = format!("failed to allocate requested HealthCheck NodePort {given}: {why}");
        Err(vec![field::Error::invalid("spec.healthCheckNodePort", given, detail)])
    };
    if given > 0 && !wished.is_some_and(|port| NODE_PORTS.contains(&port)) {
        return refuse(
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        );
    }
    let mut state = reservation.taken.lock();
    let free = wished.or_else(|| NODE_PORTS.clone().rev().find(|port| !state.ports.contains(port)));
    let Some(port) = free.filter(|port| state.ports.insert(*port)) else {
        return refuse("provided port is already allocated");
    };
    drop(state);
    reservation.ports.push(port);
    spec["healthCheckNodePort"] = port.into();
    Ok(())
}

/// A headless service whose endpoints somebody else manages.
fn is_selectorless(spec: &Value) -> bool {
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    spec["clusterIP"] == "None" && !selects
}

/// The server gives out addresses of one family only.
fn check_families(spec: &Value) -> Result<(), Vec<field::Error>> {
    if is_selectorless(spec) {
        return Ok(());
    }
    let policy = &spec["ipFamilyPolicy"];
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        return Err(vec![field::Error::invalid("spec.ipFamilyPolicy", policy.clone(), detail)]);
    }
    let families = spec["ipFamilies"].as_array().into_iter().flatten();
    let foreign = families.enumerate().filter(|(_, family)| *family == "IPv6");
    let errors: Vec<field::Error> = foreign
        .map(|(at, family)| {
            let path = format!("spec.ipFamilies[{at}]");
            field::Error::invalid(path, family.clone(), "not configured on this cluster")
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Value {
        json!({"spec": {"type": "ClusterIP"}})
    }

    #[test]
    fn addresses_are_unique_until_the_range_is_full() {
        let allocator = Allocator::new("10.0.0.0/30").unwrap();
        let take = || {
            let mut service = service();
            let reservation = allocator.allocate(&mut service, None)?;
            reservation.keep();
            Ok::<_, Vec<field::Error>>(service["spec"]["clusterIP"].clone())
        };
        assert_eq!(take().unwrap(), "10.0.0.1");
        assert_eq!(take().unwrap(), "10.0.0.2");
        assert!(take().is_err());
    }

    #[test]
    fn what_a_failed_write_took_is_free_again() {
        let allocator = Allocator::new("10.0.0.0/30").unwrap();
        for _ in 0..9 {
            let mut service = json!({"spec": {
                "type": "NodePort", "clusterIP": "10.0.0.2", "ports": [{"nodePort": 30001}],
            }});
            drop(allocator.allocate(&mut service, None).unwrap());
        }
    }

    #[test]
    fn local_load_balancers_get_a_port_for_health_checks() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let mut service = json!({"spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}],
        }});
        allocator.allocate(&mut service, None).unwrap().keep();
        assert!(service["spec"]["healthCheckNodePort"].as_u64().is_some_and(|port| port > 0));
        assert!(service["spec"]["ports"][0]["nodePort"].is_null());
    }

    #[test]
    fn only_services_without_selector_may_ask_for_two_families() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let mut dual = json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}});
        assert!(allocator.allocate(&mut dual, None).is_err());
        dual["spec"]["clusterIP"] = "None".into();
        assert!(allocator.allocate(&mut dual, None).is_ok());
    }

    #[test]
    fn a_service_that_changes_its_type_gives_its_ports_back() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let mut service = json!({"spec": {"type": "NodePort", "ports": [{"nodePort": 30001}]}});
        allocator.allocate(&mut service, None).unwrap().keep();
        allocator.release(&service, None);
        allocator.allocate(&mut service, None).unwrap().keep();
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for range in ["", "10.0.0.0", "10.0.0.0/31", "x/24", "fd00::/108"] {
            assert!(Allocator::new(range).is_err(), "{range}");
        }
    }
}
