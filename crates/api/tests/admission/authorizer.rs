//! The guard of managed objects: every branch of its decision.

use std::collections::BTreeMap;

use coppice_api::admission::authorizer::{Decision, Operation, Owner, Request, Trusted};

const OPERATOR: &str = "system:serviceaccount:grove-system:grove-operator";

struct Guard {
    labels: BTreeMap<String, String>,
    exempt: Vec<String>,
}

impl Guard {
    fn new() -> Self {
        let labels = [
            ("app.kubernetes.io/part-of", "web"),
            ("app.kubernetes.io/managed-by", "grove-operator"),
        ];
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let exempt = vec!["system:serviceaccount:kube-system:generic-garbage-collector".to_owned()];
        Self { labels, exempt }
    }

    fn request<'a>(&'a self, operation: Operation, kind: &'a str, user: &'a str) -> Request<'a> {
        Request {
            operation,
            kind,
            subresource: "",
            name: "web-0-a",
            user,
            labels: Some(&self.labels),
        }
    }

    fn decide(&self, request: &Request<'_>, owner: Owner<'_>) -> Decision {
        request.decide(
            owner,
            Trusted {
                operator: OPERATOR,
                exempt: &self.exempt,
            },
        )
    }
}

const ALLOWED: Decision = Decision::Allow(None);

fn is_denied(decision: &Decision) -> bool {
    matches!(decision, Decision::Deny(_))
}

#[test]
fn connections_and_subresources_are_not_guarded() {
    let guard = Guard::new();
    let connect = guard.request(Operation::Connect, "Pod", "somebody");
    assert_eq!(connect.owner(), None);
    assert_eq!(guard.decide(&connect, Owner::Found(None)), ALLOWED);
    let scale = Request {
        subresource: "scale",
        ..guard.request(Operation::Update, "PodClique", "somebody")
    };
    assert_eq!(scale.owner(), None);
    assert_eq!(guard.decide(&scale, Owner::Found(None)), ALLOWED);
}

#[test]
fn an_object_without_a_set_is_free_with_a_warning() {
    let guard = Guard::new();
    let empty = BTreeMap::new();
    for labels in [None, Some(&empty)] {
        let request = Request {
            labels,
            ..guard.request(Operation::Update, "Service", "somebody")
        };
        assert_eq!(request.owner(), None);
        let decision = guard.decide(&request, Owner::None);
        assert!(matches!(decision, Decision::Allow(Some(warning)) if warning.contains("no label")));
    }
    let request = guard.request(Operation::Update, "Service", "somebody");
    assert_eq!(request.owner(), Some("web"));
    let decision = guard.decide(&request, Owner::Missing);
    assert!(matches!(decision, Decision::Allow(Some(warning)) if warning.contains("does not exist")));
}

#[test]
fn the_annotation_lifts_the_protection_by_its_exact_value() {
    let guard = Guard::new();
    let request = guard.request(Operation::Update, "PodClique", "somebody");
    for (value, allowed) in [("true", true), ("True", false), ("false", false), ("", false)] {
        let key = "grove.io/disable-managed-resource-protection".to_owned();
        let annotations = BTreeMap::from([(key, value.to_owned())]);
        let decision = guard.decide(&request, Owner::Found(Some(&annotations)));
        assert_eq!(decision == ALLOWED, allowed, "{value:?}");
    }
}

#[test]
fn only_the_operator_and_exempt_users_write() {
    let guard = Guard::new();
    for operation in [Operation::Create, Operation::Update, Operation::Delete] {
        for kind in [
            "PodClique",
            "PodCliqueScalingGroup",
            "PodGang",
            "Service",
            "SomethingNew",
        ] {
            let decide = |user| guard.decide(&guard.request(operation, kind, user), Owner::Found(None));
            assert_eq!(decide(OPERATOR), ALLOWED);
            assert_eq!(
                decide("system:serviceaccount:kube-system:generic-garbage-collector"),
                ALLOWED
            );
            assert!(is_denied(&decide("somebody")), "{operation:?} {kind}");
            assert!(is_denied(&decide("")), "{operation:?} {kind}");
        }
    }
}

#[test]
fn anybody_may_delete_a_pod_and_nobody_else_may_change_it() {
    let guard = Guard::new();
    let decide = |operation| guard.decide(&guard.request(operation, "Pod", "somebody"), Owner::Found(None));
    assert_eq!(decide(Operation::Delete), ALLOWED);
    assert!(is_denied(&decide(Operation::Update)) && is_denied(&decide(Operation::Create)));
}

#[test]
fn a_denial_says_what_to_do() {
    let guard = Guard::new();
    let request = guard.request(Operation::Update, "PodClique", "somebody");
    let Decision::Deny(text) = guard.decide(&request, Owner::Found(None)) else {
        panic!("not denied")
    };
    for piece in [
        "PodClique \"web-0-a\"",
        "PodCliqueSet \"web\"",
        "\"somebody\"",
        "disable-managed-resource-protection",
    ] {
        assert!(text.contains(piece), "{text}");
    }
}
