//! The content of the files that `nvidia-imex` reads: hosts file, node file, configuration.
//!
//! The node file is static: one name for each possible index. The hosts file maps every one of those names: to the daemon
//! that has the index, else to an address that refuses at once, since a name that is missing would be searched for in DNS
//! without end. Contents are functions of the rows; a file whose content is unchanged is not written.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::api::dns::{DomainNames, PREFIX, UNUSED_ADDRESS};
use crate::api::{DaemonRow, limits, names};

const SEPARATOR: &str = "# Compute Domain Daemon mappings";

/// Which daemon is reachable where: addresses by index.
pub type Peers = BTreeMap<u32, IpAddr>;

/// The peers that rows name. Rows of other cliques, without an address, or with an index that two rows have are left out.
pub fn peers(rows: &[DaemonRow], clique_id: &str, max: u32) -> Peers {
    let mut peers = Peers::new();
    let mut twice = BTreeSet::new();
    for row in rows.iter().filter(|row| row.clique_id == clique_id) {
        let address = limits::peer_address(&row.ip_address);
        if let (Some(index), Some(address)) = (row.bounded_index(max), address)
            && peers.insert(index, address).is_some()
        {
            twice.insert(index);
        }
    }
    peers.retain(|index, _| !twice.contains(index));
    peers
}

/// The own daemon is reachable where it is, whatever the rows say so far.
pub fn with_myself(mut peers: Peers, index: u32, address: IpAddr) -> Peers {
    peers.retain(|_, other| *other != address);
    peers.insert(index, address);
    peers
}

/// The node file: a name for each index.
pub fn node_file(domain: &DomainNames, max: u32) -> String {
    (0..max).map(|index| domain.name(index) + "\n").collect()
}

/// The node file where names are not used (gate `IMEXDaemonsWithDNSNames` off): addresses by index.
pub fn address_file(peers: &Peers) -> String {
    peers.values().map(|address| format!("{address}\n")).collect()
}

/// The hosts file: other lines as they are, then a mapping for each name of the domain.
pub fn hosts_file(current: &str, domain: &DomainNames, peers: &Peers, max: u32) -> String {
    let foreign = |line: &&str| !line.contains(PREFIX) && line.trim() != SEPARATOR;
    let mut kept: Vec<&str> = current.lines().filter(foreign).collect();
    while kept.last().is_some_and(|line| line.trim().is_empty()) {
        kept.pop();
    }
    let mut content = String::new();
    for line in kept {
        content.push_str(line);
        content.push('\n');
    }
    content.push_str(SEPARATOR);
    content.push('\n');
    for index in 0..max {
        let address = peers
            .get(&index)
            .map_or_else(|| UNUSED_ADDRESS.to_owned(), ToString::to_string);
        content.push_str(&format!("{address}\t{}\n", domain.name(index)));
    }
    content
}

/// `nvidia-imex`'s configuration, from the template that the kubelet plugin provides.
///
/// Placeholders are those of the driver's template: `{{ .Name }}`, with any spaces.
pub fn imex_config(template: &str, address: IpAddr) -> Result<String, UnknownPlaceholder> {
    let mut content = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (placeholder, behind) = after
            .split_once("}}")
            .ok_or_else(|| UnknownPlaceholder(shortened(after)))?;
        content.push_str(before);
        match placeholder.trim() {
            ".IMEXCmdBindInterfaceIP" => content.push_str(&address.to_string()),
            ".IMEXDaemonNodesConfigPath" => content.push_str(names::IMEX_NODES),
            other => return Err(UnknownPlaceholder(shortened(other))),
        }
        rest = behind;
    }
    content.push_str(rest);
    Ok(content)
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

/// The template comes from a plugin of another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the IMEX configuration template has an unknown placeholder {0:?}; update the kubelet plugin and the daemon together"
)]
pub struct UnknownPlaceholder(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    fn row(node: &str, index: i64, address: &str) -> DaemonRow {
        DaemonRow {
            node_name: node.into(),
            ip_address: address.into(),
            clique_id: "u.1".into(),
            index: Some(index),
            ..DaemonRow::default()
        }
    }

    const KUBELET: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.7\tpod-name\n";

    #[test]
    fn files_map_every_name_of_the_domain() {
        let domain = DomainNames::new("");
        let peers = peers(
            &[row("a", 0, "10.0.0.1"), row("b", 2, "fd00::2"), row("c", 1, "")],
            "u.1",
            3,
        );
        assert_eq!(
            node_file(&domain, 3),
            "compute-domain-daemon-65bb57b6b5-0000\ncompute-domain-daemon-65bb57b6b5-0001\n\
             compute-domain-daemon-65bb57b6b5-0002\n"
        );
        let expected = format!(
            "{KUBELET}# Compute Domain Daemon mappings\n10.0.0.1\tcompute-domain-daemon-65bb57b6b5-0000\n\
             127.0.0.2\tcompute-domain-daemon-65bb57b6b5-0001\nfd00::2\tcompute-domain-daemon-65bb57b6b5-0002\n"
        );
        assert_eq!(hosts_file(KUBELET, &domain, &peers, 3), expected);
        assert_eq!(address_file(&peers), "10.0.0.1\nfd00::2\n");
    }

    /// §9.15: rewriting does not make the file grow; lines of earlier versions and domains go.
    #[test]
    fn rewriting_is_idempotent_and_removes_old_mappings() {
        let domain = DomainNames::new("x");
        let old = format!("{KUBELET}\n\n{SEPARATOR}\n10.9.9.9\tcompute-domain-daemon-0003\n\n{SEPARATOR}\n");
        let once = hosts_file(&old, &domain, &Peers::new(), 18);
        assert_eq!(hosts_file(&once, &domain, &Peers::new(), 18), once);
        assert!(once.starts_with(KUBELET) && !once.contains("10.9.9.9"));
        assert_eq!(once.matches(SEPARATOR).count(), 1);
    }

    /// §9.5: what is compared is the content, so an index that changed with the same addresses is a change.
    #[test]
    fn equal_addresses_with_other_indices_are_another_content() {
        let domain = DomainNames::new("x");
        let content = |rows: &[DaemonRow]| hosts_file("", &domain, &peers(rows, "u.1", 4), 4);
        let before = content(&[row("a", 0, "10.0.0.1"), row("b", 1, "10.0.0.2")]);
        let after = content(&[row("a", 1, "10.0.0.1"), row("b", 0, "10.0.0.2")]);
        assert_ne!(before, after);
    }

    #[test]
    fn hostile_rows_do_not_reach_the_files() {
        let rows = [
            row("a", 0, "10.0.0.1 evil\n6.6.6.6\tlocalhost"),
            row("b", -1, "10.0.0.2"),
            row("c", 99, "10.0.0.3"),
            row("d", 1, "10.0.0.4"),
            row("e", 1, "10.0.0.5"),
            DaemonRow {
                clique_id: "other".into(),
                ..row("f", 2, "10.0.0.6")
            },
        ];
        assert_eq!(peers(&rows, "u.1", 18), Peers::new());
        let own = "10.0.0.9".parse().unwrap();
        let mine = with_myself([(5, own)].into(), 3, own);
        assert_eq!(mine, [(3, own)].into());
    }

    #[test]
    fn the_configuration_has_no_placeholder_left() {
        let template = "IMEX_NODE_CONFIG_FILE={{ .IMEXDaemonNodesConfigPath }}\nIP={{.IMEXCmdBindInterfaceIP}}\nX=1\n";
        let config = imex_config(template, "10.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(config, "IMEX_NODE_CONFIG_FILE=/imexd/nodes.cfg\nIP=10.0.0.1\nX=1\n");
        assert!(imex_config("{{ .Later }}", "10.0.0.1".parse().unwrap()).is_err());
        assert!(imex_config("{{ .Never", "10.0.0.1".parse().unwrap()).is_err());
    }
}
