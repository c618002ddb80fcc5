//! IP addresses and prefixes, parsed as Go's `net/netip` does, with its error messages.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::go;

/// An address with an optional zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Addr {
    /// The address.
    pub ip: IpAddr,
    /// The zone of an IPv6 address; empty if it has none.
    pub zone: Box<str>,
}

/// An address and the length of its network prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address.
    pub ip: IpAddr,
    /// The length of the prefix in bits.
    pub bits: u8,
}

impl Addr {
    /// Parses an address (`netip.ParseAddr`). The error is Go's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let failed = |mistake: Mistake<'_>| match mistake.1 {
            "" => format!("ParseAddr({}): {}", go::quote(text), mistake.0),
            at => format!("ParseAddr({}): {} (at {})", go::quote(text), mistake.0, go::quote(at)),
        };
        match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
            Some(b'.') => {
                let ip = IpAddr::V4(parse_v4(text).map_err(failed)?);
                Ok(Self { ip, zone: Box::default() })
            }
            Some(b':') => parse_v6(text).map_err(failed),
            Some(_) => Err(failed(("missing IPv6 address", ""))),
            None => Err(failed(("unable to parse IP", ""))),
        }
    }

    /// Whether it is an IPv4 address.
    pub fn is_v4(&self) -> bool {
        self.ip.is_ipv4()
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Go prints only mapped addresses with dots; Rust does the same since 1.79.
        write!(f, "{}", self.ip)?;
        if !self.zone.is_empty() {
            write!(f, "%{}", self.zone)?;
        }
        Ok(())
    }
}

impl Prefix {
    /// Parses a prefix (`netip.ParsePrefix`). The error is Go's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let failed = |what: &str| format!("netip.ParsePrefix({}): {what}", go::quote(text));
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| failed("no '/'"))?;
        let address = Addr::parse(address).map_err(|error| failed(&error))?;
        if !address.zone.is_empty() {
            return Err(failed("IPv6 zones cannot be present in a prefix"));
        }
        let malformed = || failed(&format!("bad bits after slash: {}", go::quote(bits)));
        let canonical = bits.len() == 1 || !bits.starts_with('0');
        if bits.is_empty() || !canonical || !bits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(malformed());
        }
        let length: i64 = bits.parse().map_err(|_| malformed())?;
        let longest = if address.is_v4() { 32 } else { 128 };
        match u8::try_from(length) {
            Ok(bits) if bits <= longest => Ok(Self { ip: address.ip, bits }),
            _ => Err(failed("prefix length out of range")),
        }
    }

    /// The prefix with the bits after it set to zero.
    #[must_use]
    pub fn masked(self) -> Self {
        Self { ip: mask(self.ip, self.bits), bits: self.bits }
    }

    /// Whether the address is in the network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4() && mask(self.ip, self.bits) == mask(ip, self.bits)
    }

    /// Whether the networks have addresses in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let bits = self.bits.min(other.bits);
        self.ip.is_ipv4() == other.ip.is_ipv4() && mask(self.ip, bits) == mask(other.ip, bits)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

fn mask(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}

/// What is wrong, and the rest of the text where it is.
type Mistake<'a> = (&'static str, &'a str);

fn parse_v4(text: &str) -> Result<Ipv4Addr, Mistake<'_>> {
    let bytes = text.as_bytes();
    let mut octets = [0u8; 4];
    let (mut position, mut value, mut digits) = (0, 0u16, 0);
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u16::from(b - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            b'.' => {
                if at == 0 || at + 1 == bytes.len() || bytes[at - 1] == b'.' {
                    return Err(("IPv4 field must have at least one digit", &text[at..]));
                }
                if position == 3 {
                    return Err(("IPv4 address too long", ""));
                }
                octets[position] = value as u8;
                position += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(("unexpected character", &text[at..])),
        }
    }
    if position < 3 {
        return Err(("IPv4 address too short", ""));
    }
    octets[3] = value as u8;
    Ok(Ipv4Addr::from(octets))
}

fn parse_v6(text: &str) -> Result<Addr, Mistake<'_>> {
    let (mut rest, zone) = match text.split_once('%') {
        Some((_, "")) => return Err(("zone must be a non-empty string", "")),
        Some((address, zone)) => (address, zone),
        None => (text, ""),
    };
    let mut groups = [0u16; 8];
    let mut count = 0;
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        (ellipsis, rest) = (Some(0), after);
    }
    while count < 8 && !(rest.is_empty() && ellipsis == Some(count)) {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Err(("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            return Err(("each colon-separated field must have at least one digit", rest));
        }
        if rest[digits..].starts_with('.') {
            if ellipsis.is_none() && count != 6 {
                let what = "embedded IPv4 address must replace the final 2 fields of the address";
                return Err((what, rest));
            }
            if count > 6 {
                let what = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Err((what, rest));
            }
            let [a, b, c, d] = parse_v4(rest)?.octets();
            groups[count] = u16::from_be_bytes([a, b]);
            groups[count + 1] = u16::from_be_bytes([c, d]);
            (count, rest) = (count + 2, "");
            break;
        }
        groups[count] = u16::from_str_radix(&rest[..digits], 16).unwrap_or_default();
        count += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(("multiple :: in address", rest));
            }
            ellipsis = Some(count);
            rest = after;
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    match ellipsis {
        None if count < 8 => return Err(("address string too short", "")),
        None => {}
        Some(_) if count == 8 => {
            return Err(("the :: must expand to at least one field of zeros", ""));
        }
        Some(at) => {
            groups[at..count].reverse();
            groups[at..].reverse();
            // The groups after the ellipsis are now at the end, in order; the gap is zero.
        }
    }
    Ok(Addr { ip: IpAddr::V6(Ipv6Addr::from(groups)), zone: zone.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_printed_in_canonical_form() {
        for (text, canonical) in [
            ("1.2.3.4", "1.2.3.4"),
            ("2001:DB8::ABCD", "2001:db8::abcd"),
            ("::", "::"),
            ("1::", "1::"),
            ("::1.2.3.4", "::102:304"),
            ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
            ("1:2::7:8", "1:2::7:8"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("fe80::1%eth0", "fe80::1%eth0"),
        ] {
            assert_eq!(Addr::parse(text).unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn errors_are_those_of_go() {
        let error = |text: &str| Addr::parse(text).expect_err(text);
        assert_eq!(error("x"), "ParseAddr(\"x\"): unable to parse IP");
        assert_eq!(error("1.2.3.256"), "ParseAddr(\"1.2.3.256\"): IPv4 field has value >255");
        assert_eq!(error("1::2::3"), "ParseAddr(\"1::2::3\"): multiple :: in address (at \":3\")");
        let error = |text: &str| Prefix::parse(text).expect_err(text);
        assert_eq!(
            error("1.2.3.4/33"),
            "netip.ParsePrefix(\"1.2.3.4/33\"): prefix length out of range"
        );
    }

    #[test]
    fn prefixes_contain_their_addresses() {
        let prefix = Prefix::parse("10.1.2.3/8").unwrap();
        assert_eq!(prefix.masked().to_string(), "10.0.0.0/8");
        assert!(prefix.contains("10.200.0.1".parse().unwrap()));
        assert!(!prefix.contains("::1".parse().unwrap()));
        assert!(Prefix::parse("::/0").unwrap().overlaps(&Prefix::parse("1::/16").unwrap()));
    }
}
