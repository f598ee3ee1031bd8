use super::*;
use crate::view::tests::view;

fn pod(change: impl Fn(&mut Value)) -> Pod {
    let mut object = json!({
        "metadata": {"namespace": "n", "name": "web", "uid": "p", "resourceVersion": "1"},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
    });
    change(&mut object);
    view(&Reduced::new(Pod::from_object), object)
}

fn template(name: &str) -> Option<Arc<Value>> {
    let spec = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": []}}});
    (name == "t").then(|| Arc::new(spec))
}

fn claim(pod: &Pod) -> Arc<Claim> {
    let meta = Meta {
        key: claim_key(pod, "gpu"),
        ..Meta::default()
    };
    Arc::new(Claim {
        meta,
        deleting: false,
        pod: Some(pod.meta.uid.clone()),
        wanted: Value::Null,
        allocation: None,
        reserved_for: Vec::new(),
    })
}

fn consumer(uid: &str) -> Consumer {
    Consumer {
        resource: "pods".to_owned(),
        name: "web".to_owned(),
        uid: uid.to_owned(),
        ..Consumer::default()
    }
}

#[test]
fn a_claim_is_made_from_the_template_and_then_named_in_the_status() {
    let pod = pod(|_| {});
    let made = needs(&pod, |_| None, template);
    let [claim_object] = made.create.as_slice() else {
        panic!("{made:?}")
    };
    assert_eq!(made.statuses, None, "the claim does not exist yet");
    assert_eq!(claim_object["metadata"]["annotations"][POD_CLAIM_NAME], "gpu");
    assert_eq!(claim_object["metadata"]["labels"]["a"], "b");
    assert_eq!(claim_object["metadata"]["ownerReferences"][0]["uid"], "p");
    assert_eq!(claim_object["spec"], json!({"devices": {"requests": []}}));
    let exists = needs(&pod, |_| Some(claim(&pod)), template);
    assert!(exists.create.is_empty());
    let name = exists.statuses.unwrap()[0].resource_claim_name.clone().unwrap();
    assert!(name.starts_with("web-gpu-"));
    let missing = needs(&pod, |_| None, |_| None);
    assert_eq!(missing, Needs::default(), "it waits for the template");
}

#[test]
fn nothing_is_made_for_pods_that_end_and_nothing_is_written_twice() {
    let key = claim_key(&pod(|_| {}), "gpu");
    let settled = pod(|object| {
        let status = json!({"name": "gpu", "resourceClaimName": &*key.name});
        object["status"] = json!({"resourceClaimStatuses": [status]});
    });
    assert_eq!(needs(&settled, |_| Some(claim(&settled)), template), Needs::default());
    let ended = pod(|object| object["status"] = json!({"phase": "Failed"}));
    assert_eq!(needs(&ended, |_| None, template), Needs::default());
    let leaving = pod(|object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(needs(&leaving, |_| None, template), Needs::default());
    let foreign = Claim {
        pod: None,
        ..Arc::unwrap_or_clone(claim(&settled))
    };
    let foreign = Arc::new(foreign);
    assert_eq!(
        needs(&settled, |_| Some(foreign.clone()), template).create.len(),
        1,
        "the claim of someone else is not used"
    );
}

#[test]
fn allocated_claims_are_reserved_for_pods_that_were_bound_by_others() {
    let bound = pod(|object| object["spec"]["nodeName"] = json!("a"));
    let allocated = Arc::new(Claim {
        allocation: Some(Arc::default()),
        ..Arc::unwrap_or_clone(claim(&bound))
    });
    assert_eq!(needs(&bound, |_| Some(allocated.clone()), template).reserve.len(), 1);
    let reserved = Arc::new(Claim {
        reserved_for: vec![consumer("p")],
        ..Arc::unwrap_or_clone(allocated)
    });
    assert!(needs(&bound, |_| Some(reserved.clone()), template).reserve.is_empty());
}

#[test]
fn reservations_end_with_their_pods() {
    let live = Arc::new(pod(|_| {}));
    let mut claim = Arc::unwrap_or_clone(claim(&live));
    claim.reserved_for = vec![consumer("p"), consumer("older")];
    let find = |name: &str| (name == "web").then(|| live.clone());
    assert_eq!(tidy(&claim, None, find), Tidying::Release(vec![consumer("p")]));
    claim.reserved_for.truncate(1);
    assert_eq!(tidy(&claim, None, find), Tidying::Nothing);
    assert_eq!(tidy(&claim, None, |_| None), Tidying::Release(Vec::new()));
    let leaving = |bound: bool| {
        let pod = pod(|object| {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            object["spec"]["nodeName"] = json!(if bound { "a" } else { "" });
        });
        Arc::new(pod)
    };
    assert_eq!(
        tidy(&claim, None, |_| Some(leaving(true))),
        Tidying::Nothing,
        "it still runs"
    );
    assert_eq!(
        tidy(&claim, None, |_| Some(leaving(false))),
        Tidying::Release(Vec::new())
    );
    let ended = Arc::new(pod(|object| object["status"] = json!({"phase": "Succeeded"})));
    assert_eq!(
        tidy(&claim, Some(&ended), |_| Some(ended.clone())),
        Tidying::Release(Vec::new())
    );
    claim.reserved_for.clear();
    assert_eq!(tidy(&claim, Some(&ended), |_| Some(ended.clone())), Tidying::Delete);
}
