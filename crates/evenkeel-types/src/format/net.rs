//! Network formats, parsed with Go's lenient rules for stored addresses.

/// Accepts an IPv4 address whose octets may have leading zeros, or an IPv6 address.
pub(super) fn parse_ip_sloppy(text: &str) -> bool {
    match text.find(['.', ':']) {
        Some(at) if text.as_bytes()[at] == b'.' => is_ipv4_sloppy(text),
        Some(_) => is_ipv6_sloppy(text),
        None => false,
    }
}

pub(super) fn parse_cidr_sloppy(text: &str) -> bool {
    let Some((address, mask)) = text.split_once('/') else { return false };
    let bits = if is_ipv4_sloppy(address) {
        32
    } else if is_ipv6_sloppy(address) {
        128
    } else {
        return false;
    };
    decimal(mask).is_some_and(|n| n <= bits)
}

fn is_ipv4_sloppy(text: &str) -> bool {
    let octets: Vec<&str> = text.split('.').collect();
    octets.len() == 4 && octets.iter().all(|octet| decimal(octet).is_some_and(|n| n <= 255))
}

/// Parses decimal digits. Leading zeros are allowed, overflow is not.
fn decimal(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn is_ipv6_sloppy(text: &str) -> bool {
    // Only a trailing IPv4 part is parsed more leniently than by the standard library.
    match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => {
            is_ipv4_sloppy(tail) && format!("{head}:0.0.0.0").parse::<std::net::Ipv6Addr>().is_ok()
        }
        _ => text.parse::<std::net::Ipv6Addr>().is_ok(),
    }
}

/// Accepts 6, 8 or 20 octets separated by `:` or `-`, or in groups of four digits separated by `.`.
pub(super) fn is_mac(text: &str) -> bool {
    let (separator, width) = match text.as_bytes().get(2) {
        Some(b':') => (':', 2),
        Some(b'-') => ('-', 2),
        _ => ('.', 4),
    };
    let groups: Vec<&str> = text.split(separator).collect();
    matches!(groups.len() * width / 2, 6 | 8 | 20)
        && groups
            .iter()
            .all(|group| group.len() == width && group.bytes().all(|b| b.is_ascii_hexdigit()))
}
