use std::{convert::Infallible, time::Duration};

use futures::{AsyncBufReadExt, AsyncReadExt};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::layers::{Call, Ending, Fault};

#[derive(Clone, Default)]
struct Server {
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    fn client(&self, options: &Options) -> Client {
        let seen = self.seen.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let agent = request.headers()["user-agent"].to_str().unwrap().to_owned();
            seen.lock().push((request.uri().path().to_owned(), agent));
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, Infallible>(Response::new(Full::from("{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n")))
            }
        });
        client_of_service(service, "default", options)
    }
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

fn with_faults(hook: impl Fn(&Call) -> Fault + Send + Sync + 'static) -> Options {
    Options {
        faults: Some(Arc::new(hook)),
        ..Options::default()
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_and_introduce_themselves() {
    let (server, options) = (
        Server::default(),
        Options {
            user_agent: Some("tester\n1".into()),
            ..Options::default()
        },
    );
    server
        .client(&options)
        .request_text(get("/api/v1/namespaces/n/pods/a"))
        .await
        .unwrap();
    assert_eq!(
        *server.seen.lock(),
        [("/api/v1/namespaces/n/pods/a".to_owned(), "tester1".to_owned())]
    );
    let text = options.metrics.render();
    assert!(
        text.contains("client_requests_total{verb=\"get\",resource=\"pods\",code=\"200\"} 1"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_are_bounded_but_watches_are_not() {
    let options = Options {
        limits: Limits {
            in_flight: 2,
            rate: None,
        },
        ..Options::default()
    };
    let client = Server::default().client(&options);
    let timed = async |path: &'static str| {
        let begun = Instant::now();
        let call = || client.request_text(get(path));
        futures::future::join_all((0..4).map(|_| call())).await;
        begun.elapsed().as_secs()
    };
    assert_eq!(timed("/api/v1/pods").await, 2);
    assert_eq!(timed("/api/v1/pods?watch=true").await, 1);
}

#[tokio::test(start_paused = true)]
async fn calls_per_second_are_bounded() {
    let options = Options {
        limits: Limits {
            in_flight: 100,
            rate: Some((2.0, 2)),
        },
        ..Options::default()
    };
    let client = Server::default().client(&options);
    let begun = Instant::now();
    futures::future::join_all((0..6).map(|_| client.request_text(get("/api/v1/pods")))).await;
    assert_eq!(
        begun.elapsed(),
        Duration::from_secs(3),
        "two at once, four at two per second, one second of work"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_fails_before_or_after_its_effect() {
    let server = Server::default();
    let client = server.client(&with_faults(|call| match call.number {
        1 => Fault::FailBefore,
        2 => Fault::LoseResponse,
        3 => Fault::Delay(Duration::from_secs(9), Box::new(Fault::FailBefore)),
        _ => Fault::Pass,
    }));
    assert!(client.request_text(get("/api/v1/pods")).await.is_err());
    assert_eq!(server.seen.lock().len(), 0);
    assert!(client.request_text(get("/api/v1/pods")).await.is_err());
    assert_eq!(server.seen.lock().len(), 1);
    let begun = Instant::now();
    assert!(client.request_text(get("/api/v1/pods")).await.is_err());
    assert_eq!((server.seen.lock().len(), begun.elapsed()), (1, Duration::from_secs(9)));
    assert!(client.request_text(get("/api/v1/pods")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_is_answered_with_a_status() {
    let client = Server::default().client(&with_faults(|_| Fault::Status {
        code: 429,
        reason: "TooManyRequests".into(),
        message: "slow down".into(),
        retry_after: Some(3),
    }));
    match client.request_text(get("/api/v1/pods")).await {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, status.details.unwrap().retry_after_seconds), (429, 3));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_cut_between_two_lines() {
    for (ending, lines, error) in [
        (Ending::Close, 2, false),
        (Ending::Expired, 3, false),
        (Ending::Reset, 2, true),
    ] {
        let client = Server::default().client(&with_faults(move |_| Fault::CutBody { after_lines: 2, ending }));
        let mut body = Box::pin(client.request_stream(get("/api/v1/pods?watch=true")).await.unwrap());
        let mut text = String::new();
        let result = body.read_to_string(&mut text).await;
        assert_eq!(result.is_err(), error, "{ending:?}");
        if !error {
            assert_eq!(text.lines().count(), lines, "{ending:?}: {text}");
        }
        assert!(!text.contains("{\"a\":3}"));
        drop(body.lines());
    }
}

#[tokio::test]
async fn a_client_of_a_configuration_does_not_retry() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let calls = Arc::new(Mutex::new(0));
    let server = tokio::spawn({
        let calls = calls.clone();
        async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 4096];
                while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    *calls.lock() += 1;
                    socket
                        .write_all(b"HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 0\r\n\r\n")
                        .await
                        .unwrap();
                }
            }
        }
    });
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let client = client(config, &Options::default()).unwrap();
    assert!(client.request_text(get("/api/v1/pods")).await.is_err());
    assert_eq!(*calls.lock(), 1);
    server.abort();
}
