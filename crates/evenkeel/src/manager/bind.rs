//! The address that a server of the manager binds.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// An address as the flags of controller-runtime accept it: `:8081`, `127.0.0.1:8081`,
/// `localhost:8081`, or `0` for no server. Port 0 takes any free port.
///
/// ```
/// use evenkeel::manager::BindAddress;
///
/// assert_eq!(":8081".parse::<BindAddress>()?.to_string(), "[::]:8081");
/// assert_eq!("0".parse(), Ok(BindAddress::Off));
/// assert!("8081".parse::<BindAddress>().is_err());
/// # Ok::<_, evenkeel::manager::BindAddressError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// No server.
    Off,
    /// This address.
    At(SocketAddr),
}

/// An invalid address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address: use a port as in :8080, an IP address and a port, or 0 for none")]
pub struct BindAddressError(String);

impl BindAddress {
    /// Returns the address, unless the server is off.
    #[must_use]
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

impl FromStr for BindAddress {
    type Err = BindAddressError;

    fn from_str(text: &str) -> Result<Self, BindAddressError> {
        if text.is_empty() || text == "0" {
            return Ok(Self::Off);
        }
        let error = || BindAddressError(text.to_owned());
        let address = match text.rsplit_once(':') {
            // All addresses, of IPv4 as well, as in Go.
            Some(("", port)) => (IpAddr::from(Ipv6Addr::UNSPECIFIED), port),
            Some(("localhost", port)) => (IpAddr::from([127, 0, 0, 1]), port),
            _ => return text.parse().map(Self::At).map_err(|_| error()),
        };
        let port = address.1.parse().map_err(|_| error())?;
        Ok(Self::At(SocketAddr::new(address.0, port)))
    }
}

impl<A: Into<SocketAddr>> From<A> for BindAddress {
    fn from(address: A) -> Self {
        Self::At(address.into())
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::At(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_go_are_accepted() {
        let cases = [
            ("", "0"),
            ("0", "0"),
            (":8443", "[::]:8443"),
            ("[::1]:80", "[::1]:80"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("localhost:8080", "127.0.0.1:8080"),
        ];
        for (text, address) in cases {
            assert_eq!(text.parse::<BindAddress>().unwrap().to_string(), address);
        }
        for text in ["8080", ":", ":http", ":70000", "example.com:80", "1.2.3.4"] {
            assert!(text.parse::<BindAddress>().is_err(), "{text}");
        }
    }
}
