//! Selectors, as strings with their keys in sorted order and as label maps.

use std::collections::BTreeMap;

use super::label_sets::managed_labels;
use super::labels;

/// Selects everything that belongs to a set: `status.hpaPodSelector` of a PodCliqueSet.
pub fn set_selector(set: &str) -> String {
    render(&managed_labels(set))
}

/// Selects the pods of a clique: `status.hpaPodSelector` of a standalone PodClique.
pub fn clique_selector(set: &str, clique: &str) -> String {
    let mut selected = managed_labels(set);
    selected.insert(labels::POD_CLIQUE.to_owned(), clique.to_owned());
    render(&selected)
}

/// Selects the pods of a scaling group: `status.selector` of a PodCliqueScalingGroup.
pub fn scaling_group_selector(set: &str, scaling_group: &str) -> String {
    let mut selected = managed_labels(set);
    selected.insert(labels::SCALING_GROUP.to_owned(), scaling_group.to_owned());
    render(&selected)
}

/// What the headless service of a copy selects.
pub fn headless_service_selector(set: &str, replica: u32) -> BTreeMap<String, String> {
    let mut selected = managed_labels(set);
    selected.insert(labels::SET_REPLICA_INDEX.to_owned(), replica.to_string());
    selected
}

/// Selects everything that we manage, for watches.
pub fn managed_selector() -> String {
    format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE)
}

/// The string form of an equality selector, keys sorted.
pub fn render(selected: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = selected.iter().map(|(key, value)| format!("{key}={value}")).collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_sorted_by_key() {
        assert_eq!(
            set_selector("web"),
            "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=web"
        );
        assert_eq!(
            clique_selector("web", "web-0-a"),
            "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=web,grove.io/podclique=web-0-a"
        );
        assert_eq!(
            scaling_group_selector("web", "web-0-g"),
            "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=web,\
             grove.io/podcliquescalinggroup=web-0-g"
        );
        assert_eq!(managed_selector(), "app.kubernetes.io/managed-by=grove-operator");
        assert_eq!(
            render(&headless_service_selector("web", 3)),
            "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=web,\
             grove.io/podcliqueset-replica-index=3"
        );
    }
}
