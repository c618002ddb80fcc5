//! `ip`, `isIP`, `cidr` and `isCIDR`, and properties of addresses and networks.

use std::any::Any;
use std::net::IpAddr;

use evenkeel_types::go;
use evenkeel_types::netip::{Addr, Prefix};

use super::{operand, receiver, text};
use crate::{Error, Function, Opaque, Overload, Type, Value};

/// An address as a value.
#[derive(Debug)]
struct Ip(IpAddr);

/// A network as a value.
#[derive(Debug)]
struct Cidr(Prefix);

pub(super) fn ip_type() -> Type {
    Type::opaque("net.IP")
}

pub(super) fn cidr_type() -> Type {
    Type::opaque("net.CIDR")
}

impl Opaque for Ip {
    fn type_(&self) -> Type {
        ip_type()
    }

    fn equals(&self, other: &Value<'_>) -> Option<bool> {
        other.downcast::<Self>().map(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// In bytes.
    fn size(&self) -> Option<u64> {
        Some(if self.0.is_ipv4() { 4 } else { 16 })
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

impl Opaque for Cidr {
    fn type_(&self) -> Type {
        cidr_type()
    }

    fn equals(&self, other: &Value<'_>) -> Option<bool> {
        other.downcast::<Self>().map(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// Of the prefix, in bytes.
    fn size(&self) -> Option<u64> {
        Some(u64::from(self.0.bits).div_ceil(8))
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

pub(super) fn functions() -> Vec<Function> {
    let property = |name, id, has: fn(IpAddr) -> bool| {
        Function::new(name).overload(Overload::member(id, [ip_type()], Type::Bool, move |values| {
            Ok(Value::Bool(has(receiver::<Ip>(values)?.0)))
        }))
    };
    vec![
        Function::new("ip")
            .overload(Overload::global("string_to_ip", [Type::String], ip_type(), |values| {
                Ok(Value::opaque(Ip(parse_ip(argument(values, 0)?)?)))
            }))
            .overload(Overload::member("cidr_ip", [cidr_type()], ip_type(), |values| {
                Ok(Value::opaque(Ip(receiver::<Cidr>(values)?.0.ip)))
            })),
        Function::new("isIP").overload(Overload::global(
            "is_ip",
            [Type::String],
            Type::Bool,
            |values| Ok(Value::Bool(parse_ip(argument(values, 0)?).is_ok())),
        )),
        Function::new("ip.isCanonical").overload(Overload::global(
            "ip_is_canonical",
            [Type::String],
            Type::Bool,
            |values| {
                let text = argument(values, 0)?;
                Ok(Value::Bool(parse_ip(text)?.to_string() == text))
            },
        )),
        Function::new("family").overload(Overload::member(
            "ip_family",
            [ip_type()],
            Type::Int,
            |values| Ok(Value::Int(if receiver::<Ip>(values)?.0.is_ipv4() { 4 } else { 6 })),
        )),
        property("isUnspecified", "ip_is_unspecified", |ip| ip.is_unspecified()),
        property("isLoopback", "ip_is_loopback", |ip| ip.is_loopback()),
        property("isLinkLocalMulticast", "ip_is_link_local_multicast", is_link_local_multicast),
        property("isLinkLocalUnicast", "ip_is_link_local_unicast", is_link_local_unicast),
        property("isGlobalUnicast", "ip_is_global_unicast", is_global_unicast),
        Function::new("string")
            .overload(Overload::global("ip_to_string", [ip_type()], Type::String, |values| {
                Ok(Value::from(receiver::<Ip>(values)?.0.to_string()))
            }))
            .overload(Overload::global("cidr_to_string", [cidr_type()], Type::String, |values| {
                Ok(Value::from(receiver::<Cidr>(values)?.0.to_string()))
            })),
        Function::new("cidr").overload(Overload::global(
            "string_to_cidr",
            [Type::String],
            cidr_type(),
            |values| Ok(Value::opaque(Cidr(parse_cidr(argument(values, 0)?)?))),
        )),
        Function::new("isCIDR").overload(Overload::global(
            "is_cidr",
            [Type::String],
            Type::Bool,
            |values| Ok(Value::Bool(parse_cidr(argument(values, 0)?).is_ok())),
        )),
        Function::new("containsIP")
            .overload(Overload::member(
                "cidr_contains_ip_string",
                [cidr_type(), Type::String],
                Type::Bool,
                |values| {
                    // Upstream hides the reason why the address is malformed.
                    let ip = parse_ip(argument(values, 1)?);
                    contains_ip(values, ip.map_err(|_| Error::no_such_overload())?)
                },
            ))
            .overload(Overload::member(
                "cidr_contains_ip_ip",
                [cidr_type(), ip_type()],
                Type::Bool,
                |values| contains_ip(values, operand::<Ip>(values)?.0),
            )),
        Function::new("containsCIDR")
            .overload(Overload::member(
                "cidr_contains_cidr_string",
                [cidr_type(), Type::String],
                Type::Bool,
                |values| contains_cidr(values, &parse_cidr(argument(values, 1)?)?),
            ))
            .overload(Overload::member(
                "cidr_contains_cidr",
                [cidr_type(), cidr_type()],
                Type::Bool,
                |values| contains_cidr(values, &operand::<Cidr>(values)?.0),
            )),
        Function::new("prefixLength").overload(Overload::member(
            "cidr_prefix_length",
            [cidr_type()],
            Type::Int,
            |values| Ok(Value::Int(i64::from(receiver::<Cidr>(values)?.0.bits))),
        )),
        Function::new("masked").overload(Overload::member(
            "cidr_masked",
            [cidr_type()],
            cidr_type(),
            |values| Ok(Value::opaque(Cidr(receiver::<Cidr>(values)?.0.masked()))),
        )),
    ]
}

fn argument<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v str, Error> {
    text(values.get(at).ok_or_else(Error::no_such_overload)?)
}

fn parse_ip(text: &str) -> Result<IpAddr, Error> {
    let quoted = go::Quoted(text);
    let address = Addr::parse(text).map_err(|reason| {
        Error::new(format!(
            "IP Address {quoted} parse error during conversion from string: {reason}"
        ))
    })?;
    if !address.zone.is_empty() {
        return Err(Error::new(format!("IP address {quoted} with zone value is not allowed")));
    }
    refuse_mapped(address.ip, text).map_err(Error::new)?;
    Ok(address.ip)
}

fn parse_cidr(text: &str) -> Result<Prefix, Error> {
    const FAILED: &str = "network address parse error during conversion from string";
    let prefix = Prefix::parse(text).map_err(|reason| format!("{FAILED}: {reason}"));
    let prefix = prefix.and_then(|prefix| refuse_mapped(prefix.ip, text).map(|()| prefix));
    prefix.map_err(|reason| Error::new(format!("{FAILED}: {reason}")))
}

fn refuse_mapped(ip: IpAddr, text: &str) -> Result<(), String> {
    match ip {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {} is not allowed", go::Quoted(text)))
        }
        _ => Ok(()),
    }
}

fn contains_ip<'a>(values: &[Value<'_>], ip: IpAddr) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(receiver::<Cidr>(values)?.0.contains(ip)))
}

fn contains_cidr<'a>(values: &[Value<'_>], other: &Prefix) -> Result<Value<'a>, Error> {
    let prefix = &receiver::<Cidr>(values)?.0;
    Ok(Value::Bool(prefix.overlaps(other) && prefix.bits <= other.bits))
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_global_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !broadcast
        && !ip.is_unspecified()
        && !ip.is_loopback()
        && !ip.is_multicast()
        && !is_link_local_unicast(ip)
}
