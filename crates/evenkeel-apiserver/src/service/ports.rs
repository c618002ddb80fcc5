//! Node ports: those of a service's ports, and the one its health is asked at.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use evenkeel_schema::field;
use serde_json::Value;

use super::{Refused, Reservation};
use crate::status::Status;

const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Ports below this are handed out last: they are for those who ask for a certain one.
const PICKED_PORTS: u16 = 30_086;

const OUT_OF_RANGE: &str =
    "provided port is not in the valid range. The range of valid ports is 30000-32767";
const ALLOCATED: &str = "provided port is already allocated";

/// Takes the ports that `service` needs and `old` has not.
pub(super) fn take(
    reservation: &mut Reservation,
    service: &mut Value,
    old: Option<&Value>,
    dry_run: bool,
) -> Result<(), Refused> {
    let spec = &mut service["spec"];
    let mut ports = Ports { reservation, dry: dry_run.then(BTreeSet::new) };
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        match old {
            None => ports.of_new(spec)?,
            Some(old) => ports.of_update(spec, &old["spec"])?,
        }
    }
    let asked_before = old.is_some_and(|old| needs_health_check(&old["spec"]));
    if needs_health_check(spec) && !asked_before {
        ports.for_health(spec)?;
    }
    Ok(())
}

/// Load balancers that keep traffic on a node ask it there whether it has any pods.
fn needs_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Load balancers may be told to do without ports of their own.
fn picks(spec: &Value) -> bool {
    spec["type"] != "LoadBalancer" || spec["allocateLoadBalancerNodePorts"] != false
}

fn number(port: &Value, field: &str) -> i64 {
    port[field].as_i64().unwrap_or(0)
}

struct Ports<'a> {
    reservation: &'a mut Reservation,
    /// What a dry run pretends to have taken.
    dry: Option<BTreeSet<i64>>,
}

impl Ports<'_> {
    /// Ports of the same number, say for TCP and UDP, share a node port.
    fn of_new(&mut self, spec: &mut Value) -> Result<(), Refused> {
        let picks = picks(spec);
        let Some(ports) = spec["ports"].as_array_mut() else { return Ok(()) };
        let mut given: BTreeMap<i64, i64> = BTreeMap::new();
        for at in 0..ports.len() {
            let (port, wished) = (number(&ports[at], "port"), number(&ports[at], "nodePort"));
            if wished == 0 && !picks {
                continue;
            }
            match given.get(&port) {
                None => {
                    let mut same = ports.iter().filter(|other| number(other, "port") == port);
                    let asked = same.find_map(|other| match number(other, "nodePort") {
                        0 => None,
                        asked => Some(asked),
                    });
                    let taken = match asked {
                        Some(asked) => self.take_at(at, asked).map(|()| asked)?,
                        None => self.pick()?,
                    };
                    given.insert(port, taken);
                    ports[at]["nodePort"] = taken.into();
                }
                Some(shared) if wished == 0 => ports[at]["nodePort"] = (*shared).into(),
                Some(shared) if wished != *shared => self.take_at(at, wished)?,
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn of_update(&mut self, spec: &mut Value, old: &Value) -> Result<(), Refused> {
        let picks = picks(spec);
        let before = old["ports"].as_array().into_iter().flatten();
        let had: HashSet<i64> = before.map(|port| number(port, "nodePort")).collect();
        let Some(ports) = spec["ports"].as_array_mut() else { return Ok(()) };
        let (mut seen, mut numbers) = (HashSet::new(), HashSet::new());
        for (at, port) in ports.iter_mut().enumerate() {
            let mut wished = number(port, "nodePort");
            if wished == 0 && !picks {
                continue;
            }
            if wished == 0 {
                wished = self.pick()?;
                port["nodePort"] = wished.into();
            } else if !had.contains(&wished) && !numbers.contains(&wished) {
                self.take_at(at, wished)?;
            }
            let entry = (port["protocol"].as_str().unwrap_or("").to_owned(), wished);
            numbers.insert(wished);
            if seen.contains(&entry) {
                let message = format!("duplicate nodePort: {{{} {}}}", entry.0, entry.1);
                return Err(Refused::Failed(Status::without_reason(500, message)));
            }
            seen.insert(entry);
        }
        Ok(())
    }

    fn for_health(&mut self, spec: &mut Value) -> Result<(), Refused> {
        let wished = number(spec, "healthCheckNodePort");
        if wished == 0 {
            spec["healthCheckNodePort"] = self.pick()?.into();
            return Ok(());
        }
        self.take(wished).map_err(|why| {
            Refused::Failed(Status::internal(format_args!(
                "failed to allocate requested HealthCheck NodePort {wished}: {why}"
            )))
        })
    }

    fn take_at(&mut self, at: usize, wished: i64) -> Result<(), Refused> {
        self.take(wished).map_err(|why| {
            field::Error::invalid(format!("spec.ports[{at}].nodePort"), wished, why).into()
        })
    }

    fn take(&mut self, wished: i64) -> Result<(), &'static str> {
        let number = u16::try_from(wished).ok().filter(|port| NODE_PORTS.contains(port));
        let mut state = self.reservation.taken.lock();
        if let Some(pretended) = &mut self.dry {
            let taken = number.is_some_and(|number| state.ports.contains(&number));
            if taken || pretended.contains(&wished) {
                return Err(ALLOCATED);
            }
            pretended.insert(wished);
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

    /// Any free port: in turn, so that one that was given back is not met again at once.
    fn pick(&mut self) -> Result<i64, Refused> {
        if let Some(pretended) = &mut self.dry {
            let next = 1 + pretended.last().copied().unwrap_or(32_768);
            pretended.insert(next);
            return Ok(next);
        }
        let mut state = self.reservation.taken.lock();
        let start = state.next_port.max(PICKED_PORTS);
        let mut ports = (start..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..start);
        let Some(free) = ports.find(|port| !state.ports.contains(port)) else {
            let why = "failed to allocate a nodePort: range is full";
            return Err(Refused::Failed(Status::internal(why)));
        };
        state.ports.insert(free);
        state.next_port = if free == *NODE_PORTS.end() { 0 } else { free + 1 };
        drop(state);
        self.reservation.ports.push(free);
        Ok(free.into())
    }
}
