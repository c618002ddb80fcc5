//! Addresses and ports that services get.
//!
//! Allocation is kept in memory and rebuilt from the stored services when a server opens a data
//! directory, so it cannot disagree with them for long.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use evenkeel_schema::field;
use serde_json::{Value, json};

use crate::storage::Record;

/// Hands out cluster IPs from one IPv4 range, and node ports.
pub(crate) struct Allocator {
    base: u32,
    size: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<u16>,
    next_address: u32,
}

const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

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
        Ok(Self { base, size, state: Mutex::default() })
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
    ) -> Result<(), Vec<field::Error>> {
        let spec = &mut service["spec"];
        let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
        if kind == "ExternalName" {
            return Ok(());
        }
        let old_ip = old.and_then(|old| old["spec"]["clusterIP"].as_str()).unwrap_or("").to_owned();
        let wished = spec["clusterIP"].as_str().unwrap_or("").to_owned();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let address = match wished.as_str() {
            "None" => "None".to_owned(),
            "" if !old_ip.is_empty() => old_ip,
            "" => self.pick(&mut state).ok_or_else(|| {
                vec![field::Error::invalid(
                    "spec.clusterIPs",
                    "",
                    "failed to allocate IP: range is full",
                )]
            })?,
            given if given == old_ip => old_ip,
            given => self.take(&mut state, given)?,
        };
        if kind != "ClusterIP" {
            take_ports(&mut state, spec, old)?;
        }
        drop(state);
        spec["clusterIP"] = address.clone().into();
        spec["clusterIPs"] = json!([address]);
        if spec["ipFamilies"].as_array().is_none_or(Vec::is_empty) {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if spec["ipFamilyPolicy"].as_str().is_none_or(str::is_empty) {
            spec["ipFamilyPolicy"] = "SingleStack".into();
        }
        Ok(())
    }

    fn pick(&self, state: &mut State) -> Option<String> {
        // The first address is the API server's, the last the broadcast's.
        let usable = self.size - 2;
        for _ in 0..usable {
            let offset = 1 + state.next_address % usable;
            state.next_address = (state.next_address + 1) % usable;
            let address = self.base + offset;
            if state.addresses.insert(address) {
                return Some(Ipv4Addr::from(address).to_string());
            }
        }
        None
    }

    fn take(&self, state: &mut State, wished: &str) -> Result<String, Vec<field::Error>> {
        let refuse = |detail: String| {
            vec![field::Error::invalid("spec.clusterIPs", json!([wished]), detail)]
        };
        let Ok(address) = wished.parse::<Ipv4Addr>() else {
            return Err(refuse(format!("failed to allocate IP {wished}: not an IPv4 address")));
        };
        let number = u32::from(address);
        if number <= self.base || number >= self.base + self.size - 1 {
            return Err(refuse(format!(
                "failed to allocate IP {wished}: the provided IP ({wished}) is not in the valid \
                 range. The range of valid IPs is {}/{}",
                Ipv4Addr::from(self.base),
                32 - self.size.trailing_zeros()
            )));
        }
        if !state.addresses.insert(number) {
            return Err(refuse(format!(
                "failed to allocate IP {wished}: provided IP is already allocated"
            )));
        }
        Ok(wished.to_owned())
    }

    /// Takes back what a service had.
    pub(crate) fn release(&self, record: &Record) {
        let Ok(service) = serde_json::from_slice::<Value>(&record.body) else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(address)) = service["spec"]["clusterIP"].as_str().map(str::parse::<Ipv4Addr>)
        {
            state.addresses.remove(&u32::from(address));
        }
        for port in node_ports(&service["spec"]) {
            state.ports.remove(&port);
        }
    }

    /// Marks what a stored service has as taken.
    pub(crate) fn restore(&self, record: &Record) {
        let Ok(service) = serde_json::from_slice::<Value>(&record.body) else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(address)) = service["spec"]["clusterIP"].as_str().map(str::parse::<Ipv4Addr>)
        {
            state.addresses.insert(u32::from(address));
        }
        state.ports.extend(node_ports(&service["spec"]));
    }
}

fn node_ports(spec: &Value) -> impl Iterator<Item = u16> {
    let ports = spec["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| u16::try_from(port["nodePort"].as_u64()?).ok()).filter(|port| *port > 0)
}

fn take_ports(
    state: &mut State,
    spec: &mut Value,
    old: Option<&Value>,
) -> Result<(), Vec<field::Error>> {
    let had: BTreeSet<u16> = old.map(|old| node_ports(&old["spec"]).collect()).unwrap_or_default();
    let Some(ports) = spec["ports"].as_array_mut() else { return Ok(()) };
    for (at, port) in ports.iter_mut().enumerate() {
        let given = port["nodePort"].as_u64().unwrap_or(0);
        if given == 0 {
            let free = NODE_PORTS.clone().find(|port| !state.ports.contains(port));
            let Some(free) = free else {
                let path = format!("spec.ports[{at}].nodePort");
                let detail = "failed to allocate a nodePort: range is full";
                return Err(vec![field::Error::invalid(path, 0, detail)]);
            };
            state.ports.insert(free);
            port["nodePort"] = free.into();
            continue;
        }
        let path = format!("spec.ports[{at}].nodePort");
        let number = u16::try_from(given).unwrap_or(0);
        if !NODE_PORTS.contains(&number) {
            let detail =
                "provided port is not in the valid range. The range of valid ports is 30000-32767";
            return Err(vec![field::Error::invalid(path, given, detail)]);
        }
        if !had.contains(&number) && !state.ports.insert(number) {
            return Err(vec![field::Error::invalid(
                path,
                given,
                "provided port is already allocated",
            )]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_until_the_range_is_full() {
        let allocator = Allocator::new("10.0.0.0/30").unwrap();
        let mut service = || {
            let mut service = json!({"spec": {"type": "ClusterIP"}});
            allocator.allocate(&mut service, None).map(|()| service["spec"]["clusterIP"].clone())
        };
        assert_eq!(service().unwrap(), "10.0.0.1");
        assert_eq!(service().unwrap(), "10.0.0.2");
        assert!(service().is_err());
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for range in ["", "10.0.0.0", "10.0.0.0/31", "x/24", "fd00::/108"] {
            assert!(Allocator::new(range).is_err(), "{range}");
        }
    }
}
