//! A real Chromium, driven through chromedriver.
//!
//! Owns both processes and the few commands of the WebDriver protocol that the tests need. Written here because the crates
//! for it bring a second HTTP stack or a licence that this project does not take.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A size of the window.
pub(crate) const LARGE: (u32, u32) = (1440, 900);
/// That of a small screen.
pub(crate) const SMALL: (u32, u32) = (820, 1100);

/// A browser with one window.
pub(crate) struct Browser {
    _driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one.
    pub(crate) async fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("chromedriver cannot be started ({error}): apt-get install -y chromium chromium-driver")
            });
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next_line().await.unwrap().expect("chromedriver says its port");
            let port = line
                .rsplit("on port ")
                .next()
                .filter(|_| line.contains("started successfully"));
            if let Some(port) = port.and_then(|port| port.trim_end_matches('.').parse().ok()) {
                break port;
            }
        };
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let mut browser = Self {
            _driver: driver,
            port,
            session: String::new(),
        };
        // Tests run as root in containers, where the sandbox of Chromium cannot be set up.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 90_000, "pageLoad": 90_000}}}});
        let session = browser.call("POST", "/session", Some(&capabilities)).await;
        browser.session = format!("/session/{}", session["sessionId"].as_str().expect("a session"));
        browser.size(LARGE).await;
        browser
    }

    async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let asking = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            let body = body.map(Value::to_string).unwrap_or_default();
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            // The connection stays open: the head says how long the body is.
            let mut stream = BufReader::new(stream);
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await? == 0 || line == "\r\n" {
                    break;
                }
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            std::io::Result::Ok((head, body))
        };
        let answered = tokio::time::timeout(PATIENCE, asking).await;
        let (head, body) = answered.expect("chromedriver answers").unwrap();
        let body = String::from_utf8(body).expect("text");
        assert!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {body}");
        let mut answer: Value = serde_json::from_str(&body).expect("JSON");
        answer["value"].take()
    }

    async fn command(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.call(method, &format!("{}{path}", self.session), body).await
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.command("POST", "/goog/cdp/execute", Some(&body)).await;
    }

    /// Makes the window so large.
    pub(crate) async fn size(&self, (width, height): (u32, u32)) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Prefers a dark or a light scheme.
    pub(crate) async fn dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.devtools("Emulation.setEmulatedMedia", media).await;
    }

    /// Opens an address.
    pub(crate) async fn open(&self, address: &str) {
        self.command("POST", "/url", Some(&json!({"url": address}))).await;
    }

    /// Runs a script, which may return something.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", Some(&json!({"script": script, "args": []})))
            .await
    }

    /// Waits until an expression is true; it is looked at whenever the document changes.
    pub(crate) async fn until(&self, expression: &str) {
        let script = format!(
            "const done = arguments[arguments.length - 1];
             const holds = () => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }};
             if (holds()) return done(true);
             const watch = new MutationObserver(() => {{ if (holds()) {{ watch.disconnect(); done(true); }} }});
             watch.observe(document, {{subtree: true, childList: true, attributes: true, characterData: true}});
             addEventListener('load', () => {{ if (holds()) done(true); }});"
        );
        let body = json!({"script": script, "args": []});
        let path = format!("{}/execute/async", self.session);
        let waiting = self.call("POST", &path, Some(&body));
        let held = tokio::time::timeout(PATIENCE, waiting).await;
        if held.is_err() {
            let text = self.run("return document.body.innerText").await;
            panic!("never true: {expression}\n{}", text.as_str().unwrap_or_default());
        }
    }

    /// Presses a key.
    pub(crate) async fn press(&self, key: char) {
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": [
            {"type": "keyDown", "value": key.to_string()}, {"type": "keyUp", "value": key.to_string()}]}]});
        self.command("POST", "/actions", Some(&actions)).await;
    }

    /// What the console of the browser has said since this was last asked.
    pub(crate) async fn console(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", Some(&json!({"type": "browser"}))).await;
        let entries = log.as_array().into_iter().flatten();
        entries
            .filter_map(|entry| entry["message"].as_str().map(str::to_owned))
            .collect()
    }

    /// Writes what is seen as a PNG.
    pub(crate) async fn screenshot(&self, file: &Path) {
        use base64::Engine as _;
        let picture = self.command("GET", "/screenshot", None).await;
        let bytes = base64::engine::general_purpose::STANDARD.decode(picture.as_str().expect("base64"));
        std::fs::write(file, bytes.expect("base64")).unwrap();
    }

    /// Ends it.
    pub(crate) async fn end(self) {
        self.command("DELETE", "", None).await;
    }
}
