//! Every state of the Secret, and a whole rotation.

use super::super::issue::{LIFETIME, issue};
use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn start() -> Timestamp {
    at("2026-01-01T00:00:00Z")
}

fn names() -> BTreeSet<String> {
    BTreeSet::from(["grove-operator.grove.svc".to_owned(), "127.0.0.1".to_owned()])
}

fn fresh(now: Timestamp) -> Stored {
    Stored::of(&issue(&names(), now).unwrap()).unwrap()
}

fn secret(data: BTreeMap<String, ByteString>) -> Secret {
    let mut secret = Secret {
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(data),
        ..Secret::default()
    };
    secret.metadata.labels = Some(labels());
    secret
}

fn observed<'a>(secret: Option<&'a Secret>, bundles: &'a [Vec<u8>], names: &'a BTreeSet<String>) -> Observed<'a> {
    Observed {
        secret,
        held: None,
        bundles,
        published_since: None,
        names,
    }
}

fn action(secret: &Secret, bundles: &[Vec<u8>], now: Timestamp) -> Action {
    plan_certificates(&observed(Some(secret), bundles, &names()), now)
        .unwrap()
        .action
}

#[test]
fn an_absent_or_empty_secret_is_filled() {
    let names = names();
    let plan = plan_certificates(&observed(None, &[], &names), start()).unwrap();
    assert_eq!((plan.action, plan.stored), (Action::Issue, None));
    let mut empty = secret(BTreeMap::from([("tls.crt".into(), ByteString::default())]));
    assert_eq!(action(&empty, &[], start()), Action::Issue);
    empty.metadata.labels = None;
    empty.data = None;
    assert_eq!(
        action(&empty, &[], start()),
        Action::Issue,
        "whoever made it, there is nothing to lose"
    );
}

#[test]
fn a_good_certificate_is_kept_until_two_thirds_of_its_life() {
    let stored = fresh(start());
    let names = names();
    assert_eq!(stored.current.names, names, "addresses stand beside names");
    let secret = secret(stored.data());
    let plan = plan_certificates(&observed(Some(&secret), &[], &names), start()).unwrap();
    assert_eq!(plan.action, Action::Keep);
    assert_eq!(plan.stored, Some(stored));
    let wake = plan.wake.unwrap();
    assert!(
        wake > start() + LIFETIME / 2 && wake < start() + LIFETIME * 3 / 4,
        "{wake}"
    );
    assert_eq!(action(&secret, &[], wake - SignedDuration::from_secs(1)), Action::Keep);
    assert_eq!(action(&secret, &[], wake), Action::Stage);
    assert_eq!(action(&secret, &[], start() + LIFETIME), Action::Issue, "expired");
}

#[test]
fn a_rotation_never_serves_what_is_not_trusted() {
    let names = names();
    let old = fresh(start());
    let now = start() + LIFETIME * 3 / 4;
    let staged = old.staged(&issue(&names, now).unwrap(), now).unwrap();
    assert_eq!(staged.current, old.current);
    assert_eq!(staged.authorities.len(), 2);
    let kept = secret(staged.data());
    let old_bundle = vec![old.bundle().into_bytes(); 2];
    let plan = plan_certificates(&observed(Some(&kept), &old_bundle, &names), now).unwrap();
    assert_eq!((plan.action, plan.published_since), (Action::Keep, None));
    assert_eq!(
        plan.wake,
        Some(old.current.not_after),
        "the bundles are watched; only expiry forces it"
    );
    let half = vec![old.bundle().into_bytes(), staged.bundle().into_bytes()];
    assert_eq!(
        action(&kept, &half, now),
        Action::Keep,
        "one webhook does not trust it yet"
    );
    let all = vec![staged.bundle().into_bytes(); 2];
    let mut seen = observed(Some(&kept), &all, &names);
    let plan = plan_certificates(&seen, now).unwrap();
    assert_eq!(
        (plan.action, plan.published_since, plan.wake),
        (Action::Keep, Some(now), Some(now + OVERLAP))
    );
    seen.published_since = plan.published_since;
    let nearly = now + OVERLAP - SignedDuration::from_secs(1);
    assert_eq!(plan_certificates(&seen, nearly).unwrap().action, Action::Keep);
    assert_eq!(plan_certificates(&seen, now + OVERLAP).unwrap().action, Action::Promote);

    let promoted = staged.promoted();
    assert_eq!(Some(&promoted.current), staged.next.as_ref());
    assert_eq!(
        promoted.authorities.len(),
        2,
        "connections to a slower replica still verify"
    );
    assert_eq!(action(&secret(promoted.data()), &all, now + OVERLAP), Action::Keep);
    let later = now + LIFETIME * 3 / 4;
    let next = promoted.staged(&issue(&names, later).unwrap(), later).unwrap();
    assert_eq!(
        next.authorities.len(),
        2,
        "the first authority has expired and is dropped"
    );
}

#[test]
fn an_expired_certificate_does_not_wait_for_trust() {
    let names = names();
    let old = fresh(start());
    let now = start() + LIFETIME * 3 / 4;
    let staged = secret(old.staged(&issue(&names, now).unwrap(), now).unwrap().data());
    let bundles = [staged.data.as_ref().unwrap()["ca.crt"].0.clone()];
    let end = old.current.not_after - SignedDuration::from_secs(30);
    let mut seen = observed(Some(&staged), &bundles, &names);
    seen.published_since = Some(end);
    assert_eq!(plan_certificates(&seen, end).unwrap().wake, Some(old.current.not_after));
    let untrusted = [old.bundle().into_bytes()];
    assert_eq!(action(&staged, &untrusted, end), Action::Keep);
    assert_eq!(action(&staged, &untrusted, old.current.not_after), Action::Promote);
}

#[test]
fn clocks_may_differ_by_a_day() {
    let secret = secret(fresh(start()).data());
    let behind = start() - SignedDuration::from_hours(20);
    assert_eq!(
        action(&secret, &[], behind),
        Action::Keep,
        "its maker's clock is ahead of ours"
    );
    assert_eq!(
        action(&secret, &[], start() - SignedDuration::from_hours(48)),
        Action::Issue
    );
}

#[test]
fn a_new_name_is_staged_when_the_old_ones_are_in_use() {
    let stored = fresh(start());
    let secret = secret(stored.data());
    let mut names = names();
    names.insert("other.grove.svc".to_owned());
    let unused = plan_certificates(&observed(Some(&secret), &[Vec::new()], &names), start()).unwrap();
    assert_eq!(unused.action, Action::Issue);
    assert!(unused.why.contains("other.grove.svc"), "{}", unused.why);
    let used = [stored.bundle().into_bytes()];
    assert_eq!(
        plan_certificates(&observed(Some(&secret), &used, &names), start())
            .unwrap()
            .action,
        Action::Stage
    );
}

#[test]
fn broken_content_is_replaced_or_restored() {
    let stored = fresh(start());
    let other = fresh(start() + SignedDuration::from_secs(1));
    let mut cases: Vec<(&str, BTreeMap<String, ByteString>)> = Vec::new();
    let with = |key: &str, value: &[u8]| {
        let mut data = stored.data();
        data.insert(key.to_owned(), ByteString(value.to_vec()));
        data
    };
    cases.push(("no PEM", with("tls.crt", b"nonsense")));
    cases.push(("no key", with("tls.key", b"")));
    cases.push(("another's key", with("tls.key", other.current.key.as_bytes())));
    cases.push(("another authority", with("ca.crt", other.bundle().as_bytes())));
    cases.push(("no authority", with("ca.crt", b"")));
    let der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    cases.push(("no certificate", with("tls.crt", der.as_bytes())));
    let names = names();
    for (what, data) in cases {
        let secret = secret(data);
        assert_eq!(action(&secret, &[], start()), Action::Issue, "{what}");
        let mut seen = observed(Some(&secret), &[], &names);
        seen.held = Some(&stored);
        assert_eq!(
            plan_certificates(&seen, start()).unwrap().action,
            Action::Restore,
            "{what}"
        );
    }
    let wiped = Observed {
        held: Some(&stored),
        ..observed(None, &[], &names)
    };
    assert_eq!(plan_certificates(&wiped, start()).unwrap().action, Action::Restore);
    assert_eq!(
        plan_certificates(&wiped, start() + LIFETIME).unwrap().action,
        Action::Issue,
        "it has expired too"
    );
    let mut broken_next = stored.data();
    broken_next.insert("next-tls.crt".to_owned(), ByteString(b"?".to_vec()));
    assert_eq!(action(&secret(broken_next), &[], start()), Action::Keep);
}

#[test]
fn what_belongs_to_others_is_left_alone() {
    let names = names();
    let refused = |change: &dyn Fn(&mut Secret)| {
        let mut foreign = secret(fresh(start()).data());
        change(&mut foreign);
        plan_certificates(&observed(Some(&foreign), &[], &names), start())
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&|secret| secret.metadata.labels = None).contains("app.kubernetes.io/part-of: grove"));
    assert!(refused(&|secret| secret.type_ = Some("Opaque".into())).contains("Opaque"));
    let text = refused(&|secret| {
        let pair = ("cert-manager.io/certificate-name".to_owned(), "x".to_owned());
        secret.metadata.annotations = Some(BTreeMap::from([pair]));
    });
    assert!(
        text.contains("cert-manager") && text.contains("certProvisionMode"),
        "{text}"
    );
}

#[test]
fn keys_are_never_shown() {
    let stored = fresh(start());
    let text = format!("{stored:?}");
    assert!(
        !text.contains("PRIVATE") && !text.contains(&stored.current.key),
        "{text}"
    );
}
