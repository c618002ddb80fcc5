//! Allocates cluster IPs and node ports of Services.
//!
//! Allocations are in memory and rebuilt from the stored Services when a server opens a data
//! directory. A write holds its allocations as a [`Reservation`], which releases them unless the
//! write is committed.

mod families;

mod ports;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use evenkeel_kinds::validate::parse_ip;
use evenkeel_schema::{field, names};
use evenkeel_types::go::Quoted;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::context;
use crate::object::Metadata as _;
use crate::status::{GroupResource, Status};
use crate::storage::Record;

/// An allocator of cluster IPs from one IPv4 range, and of node ports.
pub(crate) struct Allocator {
    base: u32,
    size: u32,
    allocations: Allocations,
}

#[derive(Clone, Default)]
struct Allocations(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<u16>,
    next_address: u32,
    next_port: u16,
}

/// The allocations of a write, until it is committed or fails.
pub(crate) struct Reservation {
    allocations: Allocations,
    address: Option<u32>,
    ports: Vec<u16>,
}

/// Why an allocation failed.
#[derive(Debug)]
pub(crate) enum AllocateError {
    /// The request is invalid.
    Invalid(Vec<field::Error>),
    /// The allocation failed; upstream wraps only some of these errors.
    Failed(Status),
}

impl From<field::Error> for AllocateError {
    fn from(error: field::Error) -> Self {
        Self::Invalid(vec![error])
    }
}

impl Allocations {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Releases the allocations of `before` that `now` does not have.
    fn release(&self, before: &Value, now: Option<&Record>) {
        let now = now.and_then(|record| serde_json::from_slice::<Value>(&record.body).ok());
        let (had_address, had_ports) = allocated_to(before);
        let (address, ports) = now.as_ref().map(allocated_to).unwrap_or_default();
        let mut state = self.lock();
        if let Some(had) = had_address.filter(|had| address != Some(*had)) {
            state.addresses.remove(&had);
        }
        for port in had_ports.difference(&ports) {
            state.ports.remove(port);
        }
    }
}

impl Reservation {
    fn keep(&mut self) {
        self.address = None;
        self.ports.clear();
    }
}

impl context::Reservation for Reservation {
    /// Keeps the allocations, and releases those of `old` that the stored Service does not have.
    fn commit(mut self: Box<Self>, old: Option<&Value>, stored: &Record) {
        self.keep();
        if let Some(old) = old {
            self.allocations.release(old, Some(stored));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.address.is_none() && self.ports.is_empty() {
            return;
        }
        let mut state = self.allocations.lock();
        if let Some(address) = self.address {
            state.addresses.remove(&address);
        }
        for port in &self.ports {
            state.ports.remove(port);
        }
    }
}

impl Allocator {
    /// Parses a range such as `10.0.0.0/24`.
    pub(crate) fn new(range: &str) -> Result<Self, String> {
        let bad = || format!("{range:?} is not an IPv4 range such as 10.0.0.0/24");
        // Dual-stack ranges list two; Services of this server are single-stack.
        let first = range.split(',').next().unwrap_or("");
        let (address, bits) = first.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let bits: u32 = bits.parse().map_err(|_| bad())?;
        if !(8..=30).contains(&bits) {
            return Err(bad());
        }
        let size = 1_u32 << (32 - bits);
        let base = u32::from(address) & !(size - 1);
        Ok(Self { base, size, allocations: Allocations::default() })
    }

    /// Returns the range, in canonical form.
    pub(crate) fn cidr(&self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.base), self.size.leading_zeros() + 1)
    }

    /// Returns the cluster IP of the API server itself.
    pub(crate) fn apiserver_address(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    /// Allocates what the type of a Service needs, keeping the allocations of `old`. In a dry run
    /// nothing is allocated and the values are placeholders.
    pub(crate) fn allocate(
        &self,
        service: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Reservation, AllocateError> {
        let mut reservation =
            Reservation { allocations: self.allocations.clone(), address: None, ports: Vec::new() };
        if service["spec"]["type"] != "ExternalName" && !families::are_unchanged(service, old) {
            families::set_families(service, old)?;
            let had_none = old.is_none_or(|old| old["spec"]["type"] == "ExternalName");
            if had_none && service["spec"]["clusterIPs"][0] != "None" {
                self.allocate_address(&mut reservation, service, dry_run)?;
            }
        }
        ports::allocate(&mut reservation, service, old, dry_run)?;
        Ok(reservation)
    }

    /// Allocates the cluster IP. There is one IP family, and so one address.
    fn allocate_address(
        &self,
        reservation: &mut Reservation,
        service: &mut Value,
        dry_run: bool,
    ) -> Result<(), AllocateError> {
        let requested = service["spec"]["clusterIP"].as_str().unwrap_or("").to_owned();
        let address = match requested.as_str() {
            // A dry run does not search for a free address.
            "" if dry_run => Ipv4Addr::from(self.base),
            "" => self.allocate_next(service)?,
            requested => self.allocate_requested(service, requested, dry_run)?,
        };
        if !dry_run {
            reservation.address = Some(u32::from(address));
        }
        let text = if requested.is_empty() { address.to_string() } else { requested };
        service["spec"]["clusterIPs"] = json!([text]);
        service["spec"]["clusterIP"] = text.into();
        Ok(())
    }

    fn allocate_next(&self, service: &Value) -> Result<Ipv4Addr, AllocateError> {
        let mut state = self.allocations.lock();
        // The first address is the network's, the last one is the broadcast address.
        let usable = self.size - 2;
        for _ in 0..usable {
            let offset = 1 + state.next_address % usable;
            state.next_address = (state.next_address + 1) % usable;
            let address = Ipv4Addr::from(self.base + offset);
            if state.addresses.contains(&u32::from(address)) {
                continue;
            }
            if let Some(why) = parent_ref_error(service, address) {
                let detail = format!("failed to allocate IP: {why}");
                return Err(field::Error::invalid("spec.clusterIPs", json!([""]), detail).into());
            }
            state.addresses.insert(u32::from(address));
            return Ok(address);
        }
        Err(AllocateError::Failed(Status::internal(format_args!(
            "failed to allocate a serviceIP for Service {:?}: range is full",
            service.meta_str("name")
        ))))
    }

    fn allocate_requested(
        &self,
        service: &Value,
        requested: &str,
        dry_run: bool,
    ) -> Result<Ipv4Addr, AllocateError> {
        let refuse = |why: &str| {
            let detail = format!("failed to allocate IP {requested}: {why}");
            Err(field::Error::invalid("spec.clusterIPs", json!([requested]), detail).into())
        };
        let Some(address) = parse_address(requested) else {
            let why = format!("failed to parse service IP {}", Quoted(requested));
            return Err(AllocateError::Failed(Status::internal(why)));
        };
        let number = u32::from(address);
        let outside = number <= self.base || number >= self.base + self.size - 1;
        if outside && !dry_run {
            return refuse("the provided network does not match the current range");
        }
        if outside {
            return refuse(&format!(
                "the provided IP ({address}) is not in the valid range. The range of valid \
                 IPs is {}/{}",
                Ipv4Addr::from(self.base),
                32 - self.size.trailing_zeros()
            ));
        }
        if dry_run {
            return Ok(address);
        }
        if let Some(why) = parent_ref_error(service, address) {
            return refuse(&why);
        }
        if !self.allocations.lock().addresses.insert(number) {
            return refuse("provided IP is already allocated");
        }
        Ok(address)
    }

    /// Releases the allocations of a deleted Service.
    pub(crate) fn release(&self, deleted: &Value) {
        self.allocations.release(deleted, None);
    }

    /// Restores the allocations of a stored Service.
    pub(crate) fn restore(&self, record: &Record) {
        let Ok(service) = serde_json::from_slice::<Value>(&record.body) else { return };
        let (address, ports) = allocated_to(&service);
        let mut state = self.allocations.lock();
        state.addresses.extend(address);
        state.ports.extend(ports);
    }
}

/// Parses an IPv4 address. A stored one may have leading zeros.
fn parse_address(text: &str) -> Option<Ipv4Addr> {
    match parse_ip(text)? {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// Returns the cluster IP and node ports of a Service.
fn allocated_to(service: &Value) -> (Option<u32>, BTreeSet<u16>) {
    let spec = &service["spec"];
    // The cluster IP of an ExternalName Service is not allocated.
    let address = spec["clusterIP"].as_str().filter(|_| spec["type"] != "ExternalName");
    let address = address.and_then(parse_address);
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| &port["nodePort"]).chain([&spec["healthCheckNodePort"]]);
    let ports = ports.filter_map(|port| u16::try_from(port.as_u64()?).ok());
    (address.map(u32::from), ports.filter(|port| *port > 0).collect())
}

/// Returns the error of the IPAddress object that upstream creates for an address. An invalid name
/// of the Service is reported there first.
fn parent_ref_error(service: &Value, address: Ipv4Addr) -> Option<String> {
    const PATH: &str = "spec.parentRef.name";
    let name = service.meta_str("name");
    let errors: Vec<field::Error> = if name.is_empty() {
        vec![field::Error::required(PATH, "")]
    } else {
        let reasons = names::path_segment(name, false);
        reasons.into_iter().map(|why| field::Error::invalid(PATH, name, why)).collect()
    };
    if errors.is_empty() {
        return None;
    }
    let named = GroupResource { group: "networking.k8s.io", resource: "IPAddress" };
    Some(Status::invalid(named, &address.to_string(), &errors).message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: &Value) -> Value {
        json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec})
    }

    fn keep(mut reservation: Reservation) {
        reservation.keep();
    }

    #[test]
    fn addresses_are_unique_until_the_range_is_full() {
        let allocator = Allocator::new("10.0.0.0/30").unwrap();
        let take = || {
            let mut service = service(&json!({"type": "ClusterIP"}));
            let reservation = allocator.allocate(&mut service, None, false)?;
            keep(reservation);
            Ok::<_, AllocateError>(service["spec"]["clusterIP"].clone())
        };
        assert_eq!(take().unwrap(), "10.0.0.1");
        assert_eq!(take().unwrap(), "10.0.0.2");
        assert!(take().is_err());
    }

    #[test]
    fn dropped_reservation_releases_its_allocations() {
        let allocator = Allocator::new("10.0.0.0/30").unwrap();
        for _ in 0..9 {
            let mut service = service(&json!({
                "type": "NodePort", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"],
                "ports": [{"nodePort": 30001}],
            }));
            drop(allocator.allocate(&mut service, None, false).unwrap());
        }
    }

    #[test]
    fn dry_run_allocates_nothing() {
        let allocator = Allocator::new("10.0.0.0/30").unwrap();
        for _ in 0..9 {
            let mut service =
                service(&json!({"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}));
            keep(allocator.allocate(&mut service, None, true).unwrap());
            assert_eq!(service["spec"]["clusterIP"], "10.0.0.0");
            assert_eq!(service["spec"]["ports"][0]["nodePort"], 32769);
            assert_eq!(service["spec"]["ports"][1]["nodePort"], 32770);
        }
    }

    #[test]
    fn missing_name_is_reported_by_the_address_allocation() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let mut nameless = json!({"spec": {"type": "ClusterIP"}});
        let Err(AllocateError::Invalid(errors)) = allocator.allocate(&mut nameless, None, false)
        else {
            panic!("a service without a name got an address");
        };
        let text = errors[0].to_string();
        assert!(text.ends_with("is invalid: spec.parentRef.name: Required value"), "{text}");
    }

    #[test]
    fn local_load_balancers_get_a_health_check_node_port() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let mut service = service(&json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}],
        }));
        keep(allocator.allocate(&mut service, None, false).unwrap());
        assert!(service["spec"]["healthCheckNodePort"].as_u64().is_some_and(|port| port > 0));
        assert!(service["spec"]["ports"][0]["nodePort"].is_null());
    }

    #[test]
    fn only_selectorless_services_may_be_dual_stack() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let mut dual = service(&json!({"ipFamilyPolicy": "RequireDualStack"}));
        assert!(allocator.allocate(&mut dual, None, false).is_err());
        dual["spec"]["clusterIP"] = "None".into();
        dual["spec"]["clusterIPs"] = json!(["None"]);
        assert!(allocator.allocate(&mut dual, None, false).is_ok());
        assert_eq!(dual["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    }

    #[test]
    fn update_with_a_duplicate_node_port_is_refused() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let old = service(&json!({"type": "NodePort", "ports": [{"nodePort": 30001}]}));
        let port = json!({"nodePort": 30001, "protocol": "TCP"});
        let mut new = service(&json!({"type": "NodePort", "ports": [port, port]}));
        let Err(AllocateError::Failed(status)) = allocator.allocate(&mut new, Some(&old), false)
        else {
            panic!("a node port was given twice");
        };
        assert_eq!(status.message(), "duplicate nodePort: {TCP 30001}");
    }

    #[test]
    fn released_node_ports_can_be_allocated_again() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let requested = service(&json!({"type": "NodePort", "ports": [{"nodePort": 30001}]}));
        for _ in 0..2 {
            let mut service = requested.clone();
            keep(allocator.allocate(&mut service, None, false).unwrap());
            allocator.release(&service);
        }
    }

    #[test]
    fn invalid_ranges_are_refused() {
        for range in ["", "10.0.0.0", "10.0.0.0/31", "x/24", "fd00::/108"] {
            assert!(Allocator::new(range).is_err(), "{range}");
        }
    }

    #[test]
    fn external_names_neither_take_nor_release_addresses() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let spec = |kind: &str| {
            service(&json!({"type": kind, "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}))
        };
        keep(allocator.allocate(&mut spec("ClusterIP"), None, false).unwrap());
        allocator.release(&spec("ExternalName"));
        let again = allocator.allocate(&mut spec("ClusterIP"), None, false);
        let taken = again.map(keep).unwrap_err();
        assert!(format!("{taken:?}").contains("already allocated"), "{taken:?}");
    }

    #[test]
    fn stored_addresses_that_are_not_canonical_are_allocated_as_they_are() {
        let allocator = Allocator::new("10.0.0.0/24").unwrap();
        let spec = |kind: &str, address: &str| {
            service(&json!({"type": kind, "clusterIP": address, "clusterIPs": [address]}))
        };
        let mut new = spec("ClusterIP", "10.0.0.09");
        let old = spec("ExternalName", "10.0.0.09");
        keep(allocator.allocate(&mut new, Some(&old), false).unwrap());
        assert_eq!(new["spec"]["clusterIP"], "10.0.0.09");
        let mut other = spec("ClusterIP", "10.0.0.9");
        assert!(allocator.allocate(&mut other, None, false).map(keep).is_err(), "it is taken");

        let mut new = spec("ClusterIP", "x");
        let refused = allocator.allocate(&mut new, Some(&spec("ExternalName", "x")), false);
        let Err(AllocateError::Invalid(errors)) = refused.map(keep) else { panic!("accepted") };
        let expected = r#"spec.clusterIPs[0]: Invalid value: ["x"]: unknown is not configured on this cluster"#;
        assert_eq!(errors[0].to_string(), expected);
    }
}
