//! Bounds on what nodes and tenants write, and the parsers that enforce them.
//!
//! Everything that reaches a file, an environment variable or an object name passes one of these first. A value that does
//! not is treated as absent; it is never cut short or repaired.

use std::net::IpAddr;

/// Nodes of one IMEX domain unless the administrator says otherwise.
pub const DEFAULT_MAX_NODES: u32 = 18;
/// The most nodes of one IMEX domain that the administrator may allow: also the bound in the CRD. The rule that compares
/// all rows with each other must stay within the API server's cost limit for one rule, which 512 rows exceed.
pub const MAX_NODES: u32 = 256;
/// The most entries of `status.nodes` that are written: about 270 bytes each, well below the size limit of an object.
pub const MAX_STATUS_NODES: usize = 4_096;
/// The most cliques that the status of one domain lists.
pub const MAX_STATUS_CLIQUES: usize = 256;
/// Channels of an IMEX domain that the GPU driver creates by default.
pub const DEFAULT_CHANNELS: u32 = 2_048;
/// The longest clique ID: the limit of string attributes of devices.
pub const MAX_CLIQUE_ID: usize = 64;
/// The longest opaque parameters that are decoded.
pub const MAX_PARAMETERS_BYTES: usize = 10 * 1024;

/// Nodes of one IMEX domain for a configured value: at least one, at most [`MAX_NODES`].
pub fn max_nodes(configured: i64) -> u32 {
    u32::try_from(configured).unwrap_or(0).clamp(1, MAX_NODES)
}

/// Whether a text can be a UID: what the API server writes, and safe in a path, a label and a name.
pub fn is_uid(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether a text can be the name of a node: a DNS subdomain.
pub fn is_node_name(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// Whether a text can be a clique ID: safe as a label value and in an object name.
pub fn is_clique_id(text: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    (1..=63.min(MAX_CLIQUE_ID)).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.')
        && !text.contains("..")
        && ends(text.bytes().next())
        && ends(text.bytes().last())
}

/// An address at which a peer can be reached: not unspecified, not loopback of ours, not multicast.
pub fn peer_address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let unusable = address.is_unspecified() || address.is_multicast() || is_placeholder(&address);
    (!unusable).then_some(address)
}

fn is_placeholder(address: &IpAddr) -> bool {
    address.to_string() == super::dns::UNUSED_ADDRESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_sizes_are_bounded() {
        assert_eq!(max_nodes(18), 18);
        assert_eq!(max_nodes(0), 1);
        assert_eq!(max_nodes(-7), 1);
        assert_eq!(max_nodes(i64::MAX), 1);
        assert_eq!(max_nodes(100_000), MAX_NODES);
    }

    #[test]
    fn texts_that_leave_their_field_are_refused() {
        for bad in ["", "../..", "a/b", "a\nb", "-a", "a b", &"a".repeat(64)] {
            assert!(!is_uid(bad), "{bad:?}");
            assert!(!is_clique_id(bad), "{bad:?}");
        }
        assert!(is_uid("0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b11"));
        assert!(is_clique_id("7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d.32766"));
        assert!(is_node_name("gb200-rack-1.example.com"));
        for bad in ["", "a..b", "A", "a_b", "a b\t1.2.3.4", "-a", &"a".repeat(254)] {
            assert!(!is_node_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn addresses_that_no_peer_can_have_are_refused() {
        for good in ["10.0.0.1", "fd00::1", "127.1.2.3"] {
            assert!(peer_address(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "0.0.0.0",
            "::",
            "127.0.0.2",
            "224.0.0.1",
            "10.0.0.1\tevil",
            "10.0.0.01",
            "host",
        ] {
            assert!(peer_address(bad).is_none(), "{bad}");
        }
    }
}
