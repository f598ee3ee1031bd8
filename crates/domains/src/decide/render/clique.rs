//! The ComputeDomainClique object around its rows.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::api::{Clique, DaemonRow, names};

/// The DaemonSet that owns a clique, so that both go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// UID of the domain.
    pub domain_uid: String,
    /// The clique.
    pub clique_id: String,
    /// The DaemonSet's namespace, where the clique is.
    pub namespace: String,
    /// The DaemonSet's name.
    pub daemon_set: String,
    /// The DaemonSet's UID.
    pub daemon_set_uid: String,
}

/// The object to store: the stored one, or a new one, with these rows. Other owners stay; ours is added once.
pub fn clique_object(ownership: &Ownership, stored: Option<&Clique>, rows: Vec<DaemonRow>) -> Clique {
    let mut clique = stored.cloned().unwrap_or_default();
    clique.daemons = rows;
    let metadata = &mut clique.metadata;
    metadata.name = Some(names::clique(&ownership.domain_uid, &ownership.clique_id));
    metadata.namespace = Some(ownership.namespace.clone());
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(names::DOMAIN_LABEL.to_owned(), ownership.domain_uid.clone());
    labels.insert(names::CLIQUE_LABEL.to_owned(), ownership.clique_id.clone());
    let owners = metadata.owner_references.get_or_insert_default();
    if !owners.iter().any(|owner| owner.uid == ownership.daemon_set_uid) {
        owners.push(OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "DaemonSet".to_owned(),
            name: ownership.daemon_set.clone(),
            uid: ownership.daemon_set_uid.clone(),
            ..OwnerReference::default()
        });
    }
    clique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_is_added_once_and_others_stay() {
        let ownership = Ownership {
            domain_uid: "d".into(),
            clique_id: "u.1".into(),
            namespace: "driver".into(),
            daemon_set: "computedomain-daemon-d".into(),
            daemon_set_uid: "s".into(),
        };
        let created = clique_object(&ownership, None, Vec::new());
        assert_eq!(created.metadata.name.as_deref(), Some("d.u.1"));
        assert_eq!(clique_object(&ownership, Some(&created), Vec::new()), created);
        let mut theirs = created.clone();
        theirs.metadata.owner_references = Some(vec![OwnerReference {
            uid: "pod".into(),
            ..OwnerReference::default()
        }]);
        let adopted = clique_object(&ownership, Some(&theirs), Vec::new());
        let owners: Vec<_> = adopted
            .metadata
            .owner_references
            .unwrap()
            .into_iter()
            .map(|owner| owner.uid)
            .collect();
        assert_eq!(owners, ["pod", "s"]);
    }
}
