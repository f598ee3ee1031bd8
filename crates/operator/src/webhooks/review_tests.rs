//! Reviews in and out, without a server.

use coppice_api::admission::Schedulers;
use serde_json::json;

use super::*;

fn set() -> Value {
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": "web", "namespace": "n"},
        "spec": {"replicas": 1, "template": {"cliques": [
            {"name": "a", "spec": {"roleName": "a", "replicas": 2, "podSpec": {"containers": [{"name": "c", "image": "i"}]}}},
        ]}},
    })
}

fn review(kind: &str, operation: &str, object: &Value, old: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "kind": {"group": "grove.io", "version": "v1alpha1", "kind": kind}, "name": "web", "namespace": "n",
        "operation": operation, "userInfo": {"username": "alice"}, "object": object, "oldObject": old,
    }})
}

fn request(operation: &str, object: &Value, old: &Value) -> Request {
    Request::read(&review("PodCliqueSet", operation, object, old)).unwrap()
}

fn defaulted(object: &Value) -> Value {
    let answer = default_set(&request("CREATE", object, &Value::Null)).unwrap();
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &answer.patch.unwrap_or_default()).unwrap();
    patched
}

#[test]
fn defaults_come_as_a_patch_that_is_empty_the_second_time() {
    let mut object = set();
    object["spec"]["later"] = json!({"unknown": [1]});
    let once = defaulted(&object);
    assert_eq!(once["spec"]["template"]["terminationDelay"], "4h");
    assert_eq!(once["spec"]["template"]["cliques"][0]["spec"]["minAvailable"], 1);
    assert_eq!(once["spec"]["later"], object["spec"]["later"], "unknown fields stay");
    let again = default_set(&request("CREATE", &once, &Value::Null)).unwrap();
    assert_eq!(again, Answer::default(), "nothing is left to fill in");
    let wire = default_set(&request("CREATE", &object, &Value::Null))
        .unwrap()
        .to_review("u-1");
    assert_eq!(wire["response"]["patchType"], "JSONPatch");
    assert_eq!(
        (&wire["response"]["uid"], &wire["response"]["allowed"]),
        (&json!("u-1"), &json!(true))
    );
}

#[test]
fn a_missing_namespace_is_that_of_the_request() {
    let mut object = set();
    object["metadata"].as_object_mut().unwrap().remove("namespace");
    let without = default_set(&request("CREATE", &object, &Value::Null)).unwrap();
    let with = default_set(&request("CREATE", &set(), &Value::Null)).unwrap();
    assert!(
        with.patch.as_ref().is_some_and(|patch| !patch.0.is_empty()),
        "there are defaults to fill in"
    );
    assert_eq!(
        without.patch, with.patch,
        "the API server sets the namespace, the webhook does not"
    );
}

#[test]
fn refusals_name_the_field_and_what_it_is_about() {
    let mut object = defaulted(&set());
    object["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = json!(3);
    let answer = validate_set(&request("CREATE", &object, &Value::Null), &Context::default()).unwrap();
    let wire = answer.to_review("u-1");
    let status = &wire["response"]["status"];
    assert_eq!(
        (&wire["response"]["allowed"], &status["code"]),
        (&json!(false), &json!(422))
    );
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("PodCliqueSet.grove.io \"web\" is invalid: spec.template.cliques[0].spec.minAvailable"),
        "{message}"
    );
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "spec.template.cliques[0].spec.minAvailable"
    );
}

#[test]
fn deletions_are_never_in_the_way() {
    let mut broken = set();
    broken["spec"]["template"]["cliques"] = json!([]);
    let answer = validate_set(&request("CREATE", &broken, &Value::Null), &Context::default()).unwrap();
    assert!(answer.refusal.is_some());
    let answer = validate_set(&request("DELETE", &Value::Null, &broken), &Context::default()).unwrap();
    assert_eq!(answer, Answer::default());
    let mut going = broken.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    // Even one that no longer has the shape of a set can lose its finalizers.
    going["spec"] = json!({"template": "?"});
    let request = request("UPDATE", &going, &broken);
    assert_eq!(validate_set(&request, &Context::default()).unwrap(), Answer::default());
    assert_eq!(default_set(&request).unwrap(), Answer::default());
}

#[test]
fn what_has_no_shape_is_refused_by_validation_and_passed_by_defaulting() {
    let mut object = set();
    object["spec"]["template"]["cliques"] = json!("none");
    let request = request("CREATE", &object, &Value::Null);
    assert_eq!(default_set(&request).unwrap(), Answer::default());
    let refusal = validate_set(&request, &Context::default()).unwrap().refusal.unwrap();
    assert_eq!(refusal["code"], 422);
}

#[test]
fn warnings_are_passed_on() {
    let mut object = defaulted(&set());
    object["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["restartPolicy"] = json!("Never");
    let answer = validate_set(&request("CREATE", &object, &Value::Null), &Context::default()).unwrap();
    assert!(answer.refusal.is_none());
    let wire = answer.to_review("u");
    assert!(
        wire["response"]["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|warning| warning.as_str().unwrap().contains("restartPolicy")),
        "{wire}"
    );
}

#[test]
fn a_scheduler_without_gangs_is_warned_of_whether_it_is_named_or_the_default() {
    let warned = |scheduler: Option<&str>, schedulers: Schedulers| {
        let mut object = defaulted(&set());
        let clique = &mut object["spec"]["template"]["cliques"][0]["spec"];
        (clique["replicas"], clique["minAvailable"]) = (json!(2), json!(2));
        clique["podSpec"]["schedulerName"] = json!(scheduler.unwrap_or_default());
        let context = Context {
            schedulers,
            ..Context::default()
        };
        let answer = validate_set(&request("CREATE", &object, &Value::Null), &context).unwrap();
        assert_eq!(answer.refusal, None);
        let warnings = answer.to_review("u")["response"]["warnings"].clone();
        warnings.to_string().contains("only a part of a gang may start")
    };
    assert!(warned(
        Some("default-scheduler"),
        Schedulers::named(["coppice", "default-scheduler"])
    ));
    assert!(warned(None, Schedulers::named(["default-scheduler", "coppice"])));
    assert!(!warned(
        Some("coppice"),
        Schedulers::named(["default-scheduler", "coppice"])
    ));
    assert!(!warned(None, Schedulers::named(["coppice", "default-scheduler"])));
}

#[test]
fn bindings_are_judged() {
    let binding = json!({"metadata": {"name": "t"}, "spec": {"levels": [
        {"domain": "rack", "key": "a"}, {"domain": "rack", "key": "b"}]}});
    let request = Request::read(&review("ClusterTopologyBinding", "CREATE", &binding, &Value::Null)).unwrap();
    let refusal = validate_binding(&request, &Context::default())
        .unwrap()
        .refusal
        .unwrap();
    assert!(
        refusal["message"].as_str().unwrap().contains("spec.levels[1].domain"),
        "{refusal}"
    );
    assert!(validate_set(&request, &Context::default()).is_err(), "of another kind");
}

#[test]
fn managed_objects_are_guarded_by_the_labels_they_had() {
    let managed = json!({"metadata": {"name": "web-0-a", "labels": {"app.kubernetes.io/part-of": "web"}}});
    let stripped = json!({"metadata": {"name": "web-0-a"}});
    let request = Request::read(&review("PodClique", "UPDATE", &stripped, &managed)).unwrap();
    assert_eq!(request.guarding_set().unwrap().as_deref(), Some("web"));
    let exempt = ["system:admin".to_owned()];
    let trusted = Trusted {
        operator: "operator",
        exempt: &exempt,
    };
    let refusal = authorize(&request, Owner::Found(None), trusted)
        .unwrap()
        .refusal
        .unwrap();
    assert_eq!(refusal["code"], 403);
    assert!(authorize(&request, Owner::Missing, trusted).unwrap().refusal.is_none());
    let mut allowed = Request::read(&review("PodClique", "UPDATE", &stripped, &managed)).unwrap();
    allowed.user_info.username = "system:admin".into();
    assert_eq!(
        authorize(&allowed, Owner::Found(None), trusted).unwrap(),
        Answer::default()
    );
    let unreadable = Request::read(&review("PodClique", "DELETE", &Value::Null, &Value::Null)).unwrap();
    assert!(authorize(&unreadable, Owner::Found(None), trusted).is_err());
}

#[test]
fn what_is_no_review_is_said_so() {
    let error = |value: &Value| Request::read(value).unwrap_err().to_string();
    assert!(
        error(&json!({"kind": "Pod"}))
            .contains("expected an AdmissionReview of admission.k8s.io/v1, got Pod of no version")
    );
    let mut old = review("PodCliqueSet", "CREATE", &set(), &Value::Null);
    old["apiVersion"] = json!("admission.k8s.io/v1beta1");
    assert!(error(&old).contains("v1beta1"));
    assert!(error(&json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"})).contains("no request"));
    let mut strange = review("PodCliqueSet", "EAT", &set(), &Value::Null);
    let request = Request::read(&strange).unwrap();
    assert!(default_set(&request).unwrap_err().to_string().contains("EAT"));
    strange["request"]["uid"] = json!(7);
    assert!(
        error(&strange).contains("uid") || error(&strange).contains("string"),
        "{}",
        error(&strange)
    );
}

fn resized(kind: &str, sub_resource: &str, object: &Value, old: &Value) -> Result<Resize, Malformed> {
    let mut review = review(kind, "UPDATE", object, old);
    review["request"]["subResource"] = json!(sub_resource);
    if kind == "Scale" {
        review["request"]["kind"] = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    }
    Request::read(&review).unwrap().resize("PodClique")
}

#[test]
fn a_size_is_read_from_the_object_and_from_its_scale() {
    let clique = |replicas: i32| json!({"metadata": {}, "spec": {"replicas": replicas, "minAvailable": 3}});
    let scale = |replicas: i32| json!({"metadata": {}, "spec": {"replicas": replicas}});
    let expected = |from, to, min_available| Resize {
        from,
        to,
        min_available,
    };
    assert_eq!(
        resized("PodClique", "", &clique(2), &clique(4)),
        Ok(expected(4, 2, Some(3)))
    );
    assert_eq!(
        resized("Scale", "scale", &scale(2), &scale(4)),
        Ok(expected(4, 2, None))
    );
    let idle = json!({"metadata": {}, "spec": {}});
    assert_eq!(resized("Scale", "scale", &idle, &scale(4)), Ok(expected(4, 0, None)));
    assert!(resized("Pod", "", &clique(2), &clique(4)).is_err());
    let mut leaving = clique(-1);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let leaving = resized("PodClique", "", &leaving, &clique(4)).unwrap();
    assert!(leaving.is_none(), "what is being deleted is not judged");
}

#[test]
fn a_size_below_the_minimum_is_answered_with_a_warning() {
    let request = request("UPDATE", &set(), &set());
    let resize = |to| Resize {
        from: 4,
        to,
        min_available: Some(3),
    };
    let answer = judge_size(&request, "PodClique", resize(2)).unwrap();
    assert_eq!(answer.refusal, None);
    assert!(
        answer.warnings[0].contains("below minAvailable, which is 3"),
        "{:?}",
        answer.warnings
    );
    let refused = judge_size(&request, "PodClique", resize(-1)).unwrap();
    assert_eq!(refused.refusal.unwrap()["code"], 422);
}
