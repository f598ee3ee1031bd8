//! The routes, without sockets.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use coppice_runtime::cache::Cache;
use kube::Client;
use serde_json::json;
use tower::ServiceExt;

use super::*;
use crate::webhooks::{Guard, Policy};
use crate::world::World;

/// Fails on every request: nothing here may depend on the API server.
fn no_cluster() -> Client {
    let service = tower::service_fn(|_: Request<kube::client::Body>| async {
        Err::<axum::http::Response<Body>, _>(std::io::Error::other("no cluster"))
    });
    Client::new(service, "default")
}

fn admission(guard: Option<Guard>) -> Admission {
    let policy = Policy {
        guard,
        ..Policy::default()
    };
    Admission::new(policy, World::new(Cache::default()), no_cluster())
}

async fn ask(router: Router, endpoint: Endpoint, body: Vec<u8>) -> (u16, String) {
    let request = Request::post(endpoint.path()).body(Body::from(body)).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn malformed_and_too_large_reviews_are_refused_clearly() {
    let metrics = Metrics::new("test");
    let router = router(&admission(None), &metrics);
    let (code, text) = ask(router.clone(), Endpoint::ValidatePodCliqueSet, b"{".to_vec()).await;
    assert_eq!(code, 400);
    assert!(text.contains("not JSON"), "{text}");
    let (code, text) = ask(router.clone(), Endpoint::ValidatePodCliqueSet, b"{}".to_vec()).await;
    assert_eq!(code, 400);
    assert!(text.contains("AdmissionReview"), "{text}");
    let large = vec![b' '; LARGEST_REVIEW + 1];
    let (code, _) = ask(router.clone(), Endpoint::ValidatePodCliqueSet, large).await;
    assert_eq!(code, 413);
    let (code, _) = ask(router, Endpoint::Authorize, b"{}".to_vec()).await;
    assert_eq!(code, 404, "the guard is off");
    assert!(metrics.render().contains("result=\"malformed\""));
}

#[tokio::test]
async fn a_failed_lookup_refuses_with_the_reason() {
    let guard = Guard {
        operator: "operator".into(),
        exempt: Vec::new(),
    };
    let router = router(&admission(Some(guard)), &Metrics::default());
    let old = json!({"metadata": {"name": "a", "labels": {"app.kubernetes.io/part-of": "web"}}});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Service"}, "namespace": "n", "operation": "DELETE",
        "oldObject": old}});
    let (code, text) = ask(router, Endpoint::Authorize, review.to_string().into_bytes()).await;
    assert_eq!(code, 200);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["response"]["allowed"], false);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.contains("cannot look up PodCliqueSet n/web"), "{message}");
}
