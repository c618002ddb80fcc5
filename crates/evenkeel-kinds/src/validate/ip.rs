//! Validates IP addresses and CIDRs with two levels of strictness.
//!
//! *Legacy* fields used to accept addresses such as `010.002.003.004`. They now reject leading
//! zeros and IPv4-mapped IPv6 addresses, except for values that are already stored. Newer fields
//! require the canonical form.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::report::{Errors, Path};
use crate::names::Reasons;

/// Parses an address leniently: IPv4 octets may have leading zeros, and an IPv4-mapped IPv6 address
/// is returned as IPv4.
pub fn parse(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let v6 = text.parse::<Ipv6Addr>().ok().or_else(|| {
            let (head, tail) = text.rsplit_once(':')?;
            let v4 = parse_v4(tail)?;
            format!("{head}:{v4}").parse().ok()
        })?;
        Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
    } else {
        parse_v4(text).map(IpAddr::V4)
    }
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let significant = part.trim_start_matches('0');
        *octet = if significant.is_empty() { 0 } else { significant.parse().ok()? };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

pub(crate) fn is_v6(text: &str) -> bool {
    matches!(parse(text), Some(IpAddr::V6(_)))
}

/// Returns whether the addresses include both IP families.
pub(crate) fn is_dual_stack<'a>(addresses: impl Iterator<Item = &'a str>) -> bool {
    let (mut v4, mut v6) = (false, false);
    for address in addresses {
        match parse(address) {
            Some(IpAddr::V4(_)) => v4 = true,
            Some(IpAddr::V6(_)) => v6 = true,
            None => {}
        }
    }
    v4 && v6
}

fn strict_reasons(text: &str) -> Result<IpAddr, Reasons> {
    let Some(ip) = parse(text) else {
        return Err(vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".into()]);
    };
    match text.parse::<IpAddr>() {
        Err(_) => Err(vec!["must not have leading 0s".into()]),
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Err(vec!["must not be an IPv4-mapped IPv6 address".into()])
        }
        Ok(_) => Ok(ip),
    }
}

/// Returns why a string is not an address in canonical form.
pub(crate) fn canonical_reasons(text: &str) -> Reasons {
    match strict_reasons(text) {
        Err(reasons) => reasons,
        Ok(ip) if ip.to_string() != text => {
            vec![format!("must be in canonical form (\"{ip}\")").into()]
        }
        Ok(_) => Reasons::new(),
    }
}

/// Values of a legacy field in the stored object, which are accepted unchanged.
pub(crate) type StoredValues<'a> = HashSet<&'a str>;

/// Validates an address in a legacy field.
pub(crate) fn legacy(
    errs: &mut Errors,
    path: Path<'_>,
    text: &str,
    stored: &StoredValues<'_>,
) -> bool {
    if stored.contains(text) {
        return true;
    }
    match strict_reasons(text) {
        Ok(_) => true,
        Err(reasons) => {
            errs.reasons(path, text, reasons);
            false
        }
    }
}

/// Checks that an address is valid for endpoints: not unspecified, loopback or link-local.
pub(crate) fn endpoint(errs: &mut Errors, path: Path<'_>, text: &str) {
    let Some(ip) = parse(text) else {
        errs.invalid(path, text, "must be a valid IP address");
        return;
    };
    if ip.is_unspecified() {
        errs.invalid(path, text, format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        errs.invalid(path, text, detail);
    }
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.octets();
            (v6.is_unicast_link_local(), first == 0xff && second & 0x0f == 0x02)
        }
    };
    if link_local {
        let detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errs.invalid(path, text, detail);
    }
    if link_local_multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errs.invalid(path, text, detail);
    }
}

/// A CIDR: address and prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// The address with the bits after the prefix cleared.
    network: IpAddr,
    pub(crate) prefix: u8,
    /// Whether no bits were set after the prefix.
    exact: bool,
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let prefix: u8 = prefix.parse().ok()?;
        let (ip, prefix) = match (parse(address)?, address.contains(':')) {
            (IpAddr::V4(v4), true) => (IpAddr::V4(v4), prefix.checked_sub(96)?),
            (ip, _) => (ip, prefix),
        };
        let network = match ip {
            IpAddr::V4(v4) if prefix <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V4((u32::from(v4) & mask).into())
            }
            IpAddr::V6(v6) if prefix <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V6((u128::from(v6) & mask).into())
            }
            _ => return None,
        };
        Some(Self { network, prefix, exact: network == ip })
    }

    pub(crate) fn is_v6(self) -> bool {
        self.network.is_ipv6()
    }

    /// Returns whether `other` is inside and smaller.
    pub(crate) fn strictly_contains(self, other: Self) -> bool {
        let inside = match (self.network, other.network) {
            (IpAddr::V4(outer), IpAddr::V4(inner)) => {
                let shift = 32 - u32::from(self.prefix);
                u32::from(outer).checked_shr(shift) == u32::from(inner).checked_shr(shift)
            }
            (IpAddr::V6(outer), IpAddr::V6(inner)) => {
                let shift = 128 - u32::from(self.prefix);
                u128::from(outer).checked_shr(shift) == u128::from(inner).checked_shr(shift)
            }
            _ => false,
        };
        inside && self.prefix < other.prefix
    }
}

fn strict_cidr(text: &str) -> Result<Cidr, &'static str> {
    let Some(cidr) = Cidr::parse(text) else {
        return Err("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
    let padded = prefix.len() > 1 && prefix.starts_with('0');
    match address.parse::<IpAddr>() {
        Ok(_) if padded => Err("must not have leading 0s in IP or prefix length"),
        Err(_) => Err("must not have leading 0s in IP or prefix length"),
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Err("must not have an IPv4-mapped IPv6 address")
        }
        Ok(_) if !cidr.exact => Err("must not have bits set beyond the prefix length"),
        Ok(_) => Ok(cidr),
    }
}

/// Validates a CIDR in a legacy field.
pub(crate) fn legacy_cidr(
    errs: &mut Errors,
    path: Path<'_>,
    text: &str,
    stored: &StoredValues<'_>,
) {
    if stored.contains(text) {
        return;
    }
    if let Err(reason) = strict_cidr(text) {
        errs.invalid(path, text, reason);
    }
}

/// Validates a CIDR in canonical form.
pub(crate) fn canonical_cidr(errs: &mut Errors, path: Path<'_>, text: &str) {
    match strict_cidr(text) {
        Err(reason) => errs.invalid(path, text, reason),
        Ok(cidr) => {
            let canonical = format!("{}/{}", cidr.network, cidr.prefix);
            if canonical != text {
                let detail = format!("must be in canonical form (\"{canonical}\")");
                errs.invalid(path, text, detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cidr, canonical_reasons, parse, strict_cidr, strict_reasons};

    #[test]
    fn lenient_parsing_accepts_padded_octets_and_mapped_addresses() {
        assert_eq!(parse("010.002.003.004").map(|ip| ip.to_string()).as_deref(), Some("10.2.3.4"));
        assert_eq!(parse("::ffff:1.2.3.4").map(|ip| ip.to_string()).as_deref(), Some("1.2.3.4"));
        for bad in ["", "1.2.3", "1.2.3.256", "1.2.3.4.5", "fe80::1%eth0", "x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn strict_parsing_reports_sloppy_addresses() {
        let reason = |text| strict_reasons(text).map(|_| ()).map_err(|r| r[0].to_string());
        assert_eq!(reason("10.1.2.3"), Ok(()));
        assert_eq!(reason("010.1.2.3"), Err("must not have leading 0s".to_owned()));
        let mapped = Err("must not be an IPv4-mapped IPv6 address".to_owned());
        assert_eq!(reason("::ffff:1.2.3.4"), mapped);
        assert_eq!(
            canonical_reasons("2001:DB8::1"),
            ["must be in canonical form (\"2001:db8::1\")"]
        );
    }

    #[test]
    fn cidrs_are_exact_and_contain_smaller_ones() {
        assert!(strict_cidr("10.0.0.0/8").is_ok());
        assert_eq!(
            strict_cidr("10.0.0.1/8"),
            Err("must not have bits set beyond the prefix length")
        );
        assert!(strict_cidr("10.0.0.0/33").is_err());
        let of = |text| Cidr::parse(text).expect("valid CIDR");
        assert!(of("0.0.0.0/0").strictly_contains(of("10.0.0.0/8")));
        assert!(!of("10.0.0.0/8").strictly_contains(of("10.0.0.0/8")));
        assert!(!of("10.0.0.0/8").strictly_contains(of("11.0.0.0/16")));
    }
}
