//! Node ports: those of a Service's ports, and its health check node port.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use evenkeel_schema::field;
use serde_json::Value;

use super::{AllocateError, Reservation};
use crate::status::Status;

const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Ports below this are allocated last, as they are for static assignment.
const DYNAMIC_PORTS_START: u16 = 30_086;

const OUT_OF_RANGE: &str =
    "provided port is not in the valid range. The range of valid ports is 30000-32767";
const ALLOCATED: &str = "provided port is already allocated";

/// Allocates the ports that `service` needs and `old` does not have.
pub(super) fn allocate(
    reservation: &mut Reservation,
    service: &mut Value,
    old: Option<&Value>,
    dry_run: bool,
) -> Result<(), AllocateError> {
    let spec = &mut service["spec"];
    let mut ports = Ports { reservation, dry_run_ports: dry_run.then(BTreeSet::new) };
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        match old {
            None => ports.on_create(spec)?,
            Some(old) => ports.on_update(spec, &old["spec"])?,
        }
    }
    let needed_before = old.is_some_and(|old| needs_health_check(&old["spec"]));
    if needs_health_check(spec) && !needed_before {
        ports.allocate_health_check(spec)?;
    }
    Ok(())
}

/// Returns whether a load balancer checks on each node whether it has endpoints.
fn needs_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Returns whether node ports are allocated; load balancers may disable it.
fn allocates_node_ports(spec: &Value) -> bool {
    spec["type"] != "LoadBalancer" || spec["allocateLoadBalancerNodePorts"] != false
}

fn number(port: &Value, field: &str) -> i64 {
    port[field].as_i64().unwrap_or(0)
}

struct Ports<'a> {
    reservation: &'a mut Reservation,
    /// The ports a dry run would have allocated.
    dry_run_ports: Option<BTreeSet<i64>>,
}

impl Ports<'_> {
    /// Allocates the node ports of a new Service, like upstream's `initNodePorts`. Ports of the same
    /// number, for example TCP and UDP, share one.
    fn on_create(&mut self, spec: &mut Value) -> Result<(), AllocateError> {
        let allocates = allocates_node_ports(spec);
        let Some(ports) = spec["ports"].as_array_mut() else { return Ok(()) };
        let mut given: BTreeMap<i64, i64> = BTreeMap::new();
        for at in 0..ports.len() {
            let (port, requested) = (number(&ports[at], "port"), number(&ports[at], "nodePort"));
            if requested == 0 && !allocates {
                continue;
            }
            match given.get(&port) {
                None => {
                    let mut same = ports.iter().filter(|other| number(other, "port") == port);
                    let requested = same.find_map(|other| match number(other, "nodePort") {
                        0 => None,
                        requested => Some(requested),
                    });
                    let taken = match requested {
                        Some(requested) => {
                            self.allocate_for_port(at, requested).map(|()| requested)?
                        }
                        None => self.allocate_next()?,
                    };
                    given.insert(port, taken);
                    ports[at]["nodePort"] = taken.into();
                }
                Some(shared) if requested == 0 => ports[at]["nodePort"] = (*shared).into(),
                Some(shared) if requested != *shared => self.allocate_for_port(at, requested)?,
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Allocates the node ports that an update adds, like upstream's `updateNodePorts`.
    fn on_update(&mut self, spec: &mut Value, old: &Value) -> Result<(), AllocateError> {
        let allocates = allocates_node_ports(spec);
        let before = old["ports"].as_array().into_iter().flatten();
        let had: HashSet<i64> = before.map(|port| number(port, "nodePort")).collect();
        let Some(ports) = spec["ports"].as_array_mut() else { return Ok(()) };
        let (mut seen, mut numbers) = (HashSet::new(), HashSet::new());
        for (at, port) in ports.iter_mut().enumerate() {
            let mut requested = number(port, "nodePort");
            if requested == 0 && !allocates {
                continue;
            }
            if requested == 0 {
                requested = self.allocate_next()?;
                port["nodePort"] = requested.into();
            } else if !had.contains(&requested) && !numbers.contains(&requested) {
                self.allocate_for_port(at, requested)?;
            }
            let entry = (port["protocol"].as_str().unwrap_or("").to_owned(), requested);
            numbers.insert(requested);
            if seen.contains(&entry) {
                let message = format!("duplicate nodePort: {{{} {}}}", entry.0, entry.1);
                return Err(AllocateError::Failed(Status::without_reason(500, message)));
            }
            seen.insert(entry);
        }
        Ok(())
    }

    fn allocate_health_check(&mut self, spec: &mut Value) -> Result<(), AllocateError> {
        let requested = number(spec, "healthCheckNodePort");
        if requested == 0 {
            spec["healthCheckNodePort"] = self.allocate_next()?.into();
            return Ok(());
        }
        self.allocate_requested(requested).map_err(|why| {
            AllocateError::Failed(Status::internal(format_args!(
                "failed to allocate requested HealthCheck NodePort {requested}: {why}"
            )))
        })
    }

    fn allocate_for_port(&mut self, at: usize, requested: i64) -> Result<(), AllocateError> {
        self.allocate_requested(requested).map_err(|why| {
            field::Error::invalid(format!("spec.ports[{at}].nodePort"), requested, why).into()
        })
    }

    fn allocate_requested(&mut self, requested: i64) -> Result<(), &'static str> {
        let number = u16::try_from(requested).ok().filter(|port| NODE_PORTS.contains(port));
        let mut state = self.reservation.allocations.lock();
        if let Some(dry_run_ports) = &mut self.dry_run_ports {
            let taken = number.is_some_and(|number| state.ports.contains(&number));
            if taken || dry_run_ports.contains(&requested) {
                return Err(ALLOCATED);
            }
            dry_run_ports.insert(requested);
            return Ok(());
        }
        let number = number.ok_or(OUT_OF_RANGE)?;
        if !state.ports.insert(number) {
            return Err(ALLOCATED);
        }
        drop(state);
        self.reservation.ports.push(number);
        Ok(())
    }

    /// Allocates the next free port. Round-robin, so that a released port is not reused
    /// immediately.
    fn allocate_next(&mut self) -> Result<i64, AllocateError> {
        if let Some(dry_run_ports) = &mut self.dry_run_ports {
            let next = 1 + dry_run_ports.last().copied().unwrap_or(32_768);
            dry_run_ports.insert(next);
            return Ok(next);
        }
        let mut state = self.reservation.allocations.lock();
        let start = state.next_port.max(DYNAMIC_PORTS_START);
        let mut ports = (start..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..start);
        let Some(free) = ports.find(|port| !state.ports.contains(port)) else {
            let why = "failed to allocate a nodePort: range is full";
            return Err(AllocateError::Failed(Status::internal(why)));
        };
        state.ports.insert(free);
        state.next_port = if free == *NODE_PORTS.end() { 0 } else { free + 1 };
        drop(state);
        self.reservation.ports.push(free);
        Ok(free.into())
    }
}
