//! Label sets and reading names back.

use std::collections::BTreeMap;

use coppice_api::names::epochs::reads_like_a_gang;
use coppice_api::names::label_sets::*;
use coppice_api::names::parsing::{IdentityError, parse_hostname, parse_index, parse_replica, parse_scaling_group};
use coppice_api::names::{CliqueIdentity, Epoch, ReplicaName, environment, labels};
use proptest::prelude::*;

fn map(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

const BASE: [(&str, &str); 2] = [
    ("app.kubernetes.io/managed-by", "grove-operator"),
    ("app.kubernetes.io/part-of", "web"),
];

fn with_base(pairs: &[(&str, &str)]) -> Labels {
    let mut all = map(&BASE);
    all.extend(map(pairs));
    all
}

#[test]
fn a_standalone_clique_and_its_pod() {
    let user = map(&[
        ("app", "x"),
        ("app.kubernetes.io/part-of", "stolen"),
        ("grove.io/podgang", "stolen"),
    ]);
    let replica = ReplicaName::new("web", 1);
    let clique = standalone_clique_labels(&user, replica, "router", "hash");
    let expected = with_base(&[
        ("app", "x"),
        ("app.kubernetes.io/component", "pcs-podclique"),
        ("app.kubernetes.io/name", "web-1-router"),
        ("grove.io/podcliqueset-replica-index", "1"),
        ("grove.io/pod-template-hash", "hash"),
    ]);
    assert_eq!(clique, expected);
    let pod = pod_labels(&clique, replica, "web-1-router", "web-1-100001", 4);
    let mut expected = expected;
    expected.extend(map(&[
        ("grove.io/podgang", "web-1-100001"),
        ("grove.io/podclique", "web-1-router"),
        ("grove.io/podclique-pod-index", "4"),
    ]));
    assert_eq!(pod, expected);
}

#[test]
fn a_member_clique_names_its_gang_and_no_other() {
    let group = ReplicaName::new("web", 0).scaling_group("decode");
    let member = Member {
        group,
        index: 1,
        clique: "leader",
        gang: "web-0-100002-decode-1",
    };
    let user = map(&[("grove.io/base-podgang", "stolen"), ("grove.io/podgang", "stolen")]);
    let expected = with_base(&[
        ("app.kubernetes.io/component", "pcsg-podclique"),
        ("app.kubernetes.io/name", "web-0-decode-1-leader"),
        ("grove.io/podcliqueset-replica-index", "0"),
        ("grove.io/podcliquescalinggroup", "web-0-decode"),
        ("grove.io/podcliquescalinggroup-replica-index", "1"),
        ("grove.io/podgang", "web-0-100002-decode-1"),
        ("grove.io/pod-template-hash", "h"),
    ]);
    assert_eq!(member_clique_labels(&user, member, "h"), expected);
}

/// The parts of a gang's name: set, replica, epoch, and for the gang of a copy its group and index.
type GangParts = (String, u32, Epoch, Option<(String, u32)>);

fn gang_name((set, replica, epoch, copy): &GangParts) -> String {
    let replica = ReplicaName::new(set, *replica);
    match copy {
        None => replica.anchor_gang_name(*epoch),
        Some((group, copy)) => replica.scaling_group(group).copy_gang_name(*epoch, *copy),
    }
}

/// Names made of few pieces, so that many of them can be cut in more than one place.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "0", "7", "100001", "100002", "99999"])
}

fn confusing_name() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 1..6).prop_map(|pieces| pieces.join("-"))
}

fn gang_parts() -> impl Strategy<Value = GangParts> {
    let index = prop::sample::select(vec![0u32, 7, 99_999]);
    let epoch = prop::sample::select(vec![Epoch::FIRST, Epoch::FIRST.next()]);
    let group = confusing_name().prop_filter("admission refuses it", |group| !reads_like_a_gang(group));
    let copy = prop::option::of((group, index.clone()));
    (confusing_name(), index, epoch, copy)
}

/// Every way to read a text as the name of a gang, of any set.
fn readings(text: &str) -> Vec<GangParts> {
    let parts: Vec<&str> = text.split('-').collect();
    let mut found = Vec::new();
    for at in 1..parts.len().saturating_sub(1) {
        let (Some(replica), Some(epoch)) = (parse_index(parts[at]), Epoch::parse(parts[at + 1])) else {
            continue;
        };
        if replica > 99_999 || epoch < Epoch::FIRST {
            continue;
        }
        let set = parts[..at].join("-");
        match &parts[at + 2..] {
            [] => found.push((set, replica, epoch, None)),
            [group @ .., last] if !group.is_empty() => {
                let group = group.join("-");
                if let Some(copy) = parse_index(last).filter(|copy| *copy <= 99_999 && !reads_like_a_gang(&group)) {
                    found.push((set, replica, epoch, Some((group, copy))));
                }
            }
            _ => {}
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn no_two_sets_have_a_gang_name_in_common(parts in gang_parts()) {
        prop_assert_eq!(readings(&gang_name(&parts)), vec![parts]);
    }
}

#[test]
fn a_gang_mirrors_the_set_without_our_keys() {
    let set = map(&[
        ("team", "a"),
        ("grove.io/x", "no"),
        ("app.kubernetes.io/part-of", "theirs"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
    ]);
    let expected = with_base(&[
        ("team", "a"),
        ("app.kubernetes.io/component", "podgang"),
        ("grove.io/scheduler-name", "kai-scheduler"),
        ("grove.io/podcliqueset-replica-index", "2"),
        ("grove.io/epoch", "100001"),
        ("grove.io/podgang-role", "Anchor"),
        ("grove.io/podcliqueset-generation-hash", "h"),
    ]);
    let entry = GangEntry {
        epoch: Epoch::FIRST,
        role: "Anchor",
        generation_hash: "h",
    };
    let replica = ReplicaName::new("web", 2);
    assert_eq!(pod_gang_labels(&set, replica, "kai-scheduler", entry), expected);
}

#[test]
fn the_other_objects() {
    let replica = ReplicaName::new("web", 2);
    let component = "app.kubernetes.io/component";
    let name = "app.kubernetes.io/name";
    let index = "grove.io/podcliqueset-replica-index";
    let cases: Vec<(Labels, Labels)> = vec![
        (
            scaling_group_labels(replica.scaling_group("g")),
            with_base(&[
                (component, "pcs-podcliquescalinggroup"),
                (name, "web-2-g"),
                (index, "2"),
            ]),
        ),
        (
            gang_map_labels(replica),
            with_base(&[(component, "pcs-podgangmap"), (index, "2")]),
        ),
        (
            headless_service_labels(replica),
            with_base(&[(component, "pcs-headless-service"), (name, "web-2"), (index, "2")]),
        ),
        (
            service_account_labels("web"),
            with_base(&[(component, "pod-service-account"), (name, "web")]),
        ),
        (
            role_labels("web"),
            with_base(&[(component, "pod-role"), (name, "grove.io-pcs-web")]),
        ),
        (
            role_binding_labels("web"),
            with_base(&[(component, "pod-role-binding"), (name, "grove.io-pcs-web")]),
        ),
        (
            token_secret_labels("web"),
            with_base(&[(component, "pod-sa-token-secret"), (name, "web-ic-sat")]),
        ),
        (
            autoscaler_labels("web", "web-0-a"),
            with_base(&[(component, "pcs-hpa"), (name, "web-0-a")]),
        ),
        (
            claim_labels(ClaimOwner::Set("web"), None),
            with_base(&[(component, "resource-claim")]),
        ),
        (
            claim_labels(ClaimOwner::Set("web"), Some(1)),
            with_base(&[(component, "resource-claim"), (index, "1")]),
        ),
        (
            claim_labels(ClaimOwner::ScalingGroup("web", "web-0-g"), Some(1)),
            with_base(&[
                (component, "resource-claim"),
                ("grove.io/podcliquescalinggroup", "web-0-g"),
                ("grove.io/podcliquescalinggroup-replica-index", "1"),
            ]),
        ),
        (
            claim_labels(ClaimOwner::Clique("web", "web-0-c"), Some(5)),
            with_base(&[
                (component, "resource-claim"),
                ("grove.io/podclique", "web-0-c"),
                ("grove.io/podclique-pod-index", "5"),
            ]),
        ),
        (
            compute_domain_labels(replica, "nv"),
            with_base(&[
                (component, "pcs-computedomain"),
                (name, "web-2-nv"),
                (index, "2"),
                ("grove.io/mnnvl-group", "nv"),
            ]),
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn names_are_read_by_reconstruction_only() {
    assert_eq!(parse_replica("web", "web-3"), Some(ReplicaName::new("web", 3)));
    for other in [
        "web",
        "web-",
        "web-03",
        "web-+3",
        "web-3-a",
        "webb-3",
        "x-web-3",
        "web-99999999999",
    ] {
        assert_eq!(parse_replica("web", other), None, "{other}");
    }
    let replica = ReplicaName::new("web", 0);
    assert_eq!(
        parse_scaling_group(replica, "web-0-a-b").map(|group| group.group),
        Some("a-b")
    );
    assert_eq!(parse_scaling_group(replica, "web-00-a"), None);
    assert_eq!(parse_scaling_group(replica, "web-0-"), None);
    assert_eq!(parse_hostname("web-0-a", "web-0-a-7"), Some(7));
    assert_eq!(parse_hostname("web-0-a", "web-0-a-b-7"), None);
    assert_eq!(parse_index("0"), Some(0));
    assert_eq!(parse_index("-1"), None);
}

#[test]
fn a_suffix_is_not_mistaken_for_the_clique() {
    let read = |name: &str| {
        let found = standalone_clique_labels(&Labels::new(), ReplicaName::new("web", 0), name, "h");
        CliqueIdentity::read(&format!("web-0-{name}"), &found)
            .expect("ours")
            .clique
    };
    assert_eq!(read("worker"), "worker");
    assert_eq!(read("gpu-worker"), "gpu-worker");
    assert_eq!(read("0-worker"), "0-worker");
}

#[test]
fn labels_that_contradict_the_name_are_errors() {
    let good = standalone_clique_labels(&Labels::new(), ReplicaName::new("web", 0), "a", "h");
    let without = |key: &str| {
        let mut labels: BTreeMap<_, _> = good.clone();
        labels.remove(key);
        labels
    };
    let read = |labels: &Labels| CliqueIdentity::read("web-0-a", labels);
    assert!(read(&good).is_ok());
    assert_eq!(
        read(&without(labels::PART_OF)),
        Err(IdentityError::Missing(labels::PART_OF))
    );
    assert_eq!(
        read(&without(labels::SET_REPLICA_INDEX)),
        Err(IdentityError::Missing(labels::SET_REPLICA_INDEX))
    );
    let mut other = good.clone();
    other.insert(labels::SET_REPLICA_INDEX.to_owned(), "1".to_owned());
    assert!(matches!(read(&other), Err(IdentityError::Contradiction { .. })));
    other.insert(labels::SET_REPLICA_INDEX.to_owned(), "one".to_owned());
    assert!(matches!(read(&other), Err(IdentityError::NotAnIndex { .. })));
    let mut other = good;
    other.insert(labels::SCALING_GROUP.to_owned(), "other-0-g".to_owned());
    other.insert(labels::SCALING_GROUP_REPLICA_INDEX.to_owned(), "0".to_owned());
    assert!(matches!(read(&other), Err(IdentityError::Contradiction { .. })));
}

#[test]
fn reserved_variables_are_known() {
    assert!(environment::is_reserved("GROVE_PCSG_INDEX") && environment::is_reserved("GROVE_PCS_NAME"));
    assert!(!environment::is_reserved("GROVE_MINE"));
    assert_eq!(environment::waiter_argument("web-0-a", 2), "--podcliques=web-0-a:2");
}

proptest! {
    #[test]
    fn every_built_name_is_read_back(
        set in "[a-z0-9-]{1,8}", group in "[a-z0-9-]{1,8}", clique in "[a-z0-9-]{1,8}", i in 0u32..40, j in 0u32..40,
    ) {
        let replica = ReplicaName::new(&set, i);
        prop_assert_eq!(parse_replica(&set, &replica.to_string()), Some(replica));
        let of_group = replica.scaling_group(&group);
        let name = of_group.to_string();
        prop_assert_eq!(parse_scaling_group(replica, &name), Some(of_group));
        let member = Member { group: of_group, index: j, clique: &clique, gang: "g" };
        let read = CliqueIdentity::read(&of_group.clique_name(j, &clique), &member_clique_labels(&Labels::new(), member, "h"));
        let expected = CliqueIdentity {
            set: set.clone(), replica: i, scaling_group: Some((group.clone(), j)), clique: clique.clone(),
        };
        prop_assert_eq!(read, Ok(expected));
    }

    #[test]
    fn durations_never_panic_and_read_back(text in "[-+]?[0-9.hmsnuµ]{0,20}") {
        use coppice_api::duration::Duration;
        if let Ok(duration) = text.parse::<Duration>() {
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
