//! The dashboard in a real Chromium: every page on an embedded cluster, and a large cluster on a real kube-apiserver.
//!
//! With COPPICE_SCREENSHOTS=DIRECTORY the pages are also written there as pictures (`make screenshots`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use browser::{Browser, LARGE, SMALL};
use coppice_harness::control_plane::{ControlPlane, Options};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program that prints the address of a dashboard.
struct Program {
    _child: Child,
    address: String,
}

impl Program {
    async fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_coppice"))
            .args(arguments)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reading = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, address)) = line.split_once("Dashboard: ") {
                    return address.to_owned();
                }
            }
            panic!("no address was printed");
        };
        let address = tokio::time::timeout(PATIENCE, reading).await.expect("an address");
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { _child: child, address }
    }

    /// Scheme, host and port.
    fn origin(&self) -> &str {
        self.address.split("/?").next().unwrap()
    }

    fn page(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }
}

async fn client(kubeconfig: &Path) -> Client {
    coppice_harness::client::from_kubeconfig_file(kubeconfig).await.unwrap()
}

async fn apply(client: &Client, file: &str) {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for document in documents {
        let object: DynamicObject = serde_json::from_value(document).unwrap();
        let types = object.types.clone().unwrap();
        let (group, version) = types.api_version.split_once('/').unwrap();
        let kind = kube::core::GroupVersionKind::gvk(group, version, &types.kind);
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match types.kind.as_str() {
            "PodCliqueSet" => Api::namespaced_with(client.clone(), "default", &resource),
            _ => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

/// Text that must be shown as text.
const HOSTILE: &str = "<script>window.hacked=1</script><img src=x onerror=\"window.hacked=1\">&amp;\"'><b>bold</b>";

/// Everything that must hold of any page: nothing failed, nothing came from elsewhere, text is legible.
async fn sound(browser: &Browser, program: &Program) {
    let title = browser.run("return location.pathname + location.search").await;
    assert_eq!(browser.console().await, Vec::<String>::new(), "{title}");
    let names = browser
        .run("return performance.getEntriesByType('resource').map(entry => entry.name)")
        .await;
    for name in names.as_array().unwrap() {
        assert!(
            name.as_str().unwrap().starts_with(program.origin()),
            "{title} loaded {name}"
        );
    }
    assert_eq!(browser.run("return window.hacked === undefined").await, true, "{title}");
    for dark in [false, true] {
        browser.dark(dark).await;
        let faint = browser.run(CONTRAST).await;
        assert_eq!(faint, json!([]), "{title}, dark: {dark}");
    }
    browser.dark(false).await;
    let unnamed = browser
        .run("return [...document.querySelectorAll('a, button, input:not([type=hidden]), textarea')].filter(e => !(e.innerText.trim() || e.ariaLabel || e.labels?.length)).map(e => e.outerHTML)")
        .await;
    assert_eq!(unnamed, json!([]), "{title}: controls without a name");
    let wide = browser
        .run("return document.documentElement.scrollWidth <= innerWidth")
        .await;
    assert_eq!(wide, true, "{title} is wider than the window");
}

/// Text with a contrast below 4.5 against what is behind it.
const CONTRAST: &str = r"
    const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length < 4 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const faint = [];
    for (const element of document.querySelectorAll('body *')) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.nodeValue.trim());
        if (!own || element.getClientRects().length === 0) continue;
        const [one, other] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
        const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (ratio < 4.5) faint.push(`${element.outerHTML.slice(0, 120)} ${ratio.toFixed(2)}`);
    }
    return faint.slice(0, 5);";

/// Writes pictures of a page, where they are wanted.
async fn picture(browser: &Browser, name: &str) {
    let Some(directory) = std::env::var_os("COPPICE_SCREENSHOTS") else {
        return;
    };
    for (size, word) in [(LARGE, ""), (SMALL, "-small")] {
        browser.size(size).await;
        for (dark, scheme) in [(false, "light"), (true, "dark")] {
            browser.dark(dark).await;
            let file = format!("dashboard-{name}-{scheme}{word}.png");
            browser.screenshot(&Path::new(&directory).join(file)).await;
        }
    }
    browser.size(LARGE).await;
    browser.dark(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_shows_the_cluster_and_follows_it() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let program = Program::start(&[
        "up",
        "--dashboard",
        "127.0.0.1:0",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ])
    .await;
    let client = client(&kubeconfig).await;
    let browser = Browser::start().await;

    // Without the token there is nothing to see.
    browser.open(&program.page("/sets")).await;
    browser
        .until("document.body.innerText.includes('token of this run')")
        .await;
    browser.console().await;
    browser.open(&program.address).await;
    browser.until("document.title.startsWith('Cluster')").await;
    assert_eq!(
        browser.run("return location.search + document.cookie").await,
        "",
        "the token is hidden"
    );

    // The map follows the cluster without being loaded again.
    browser.until("document.querySelectorAll('.node').length === 36").await;
    browser.run("window.mark = 'kept'").await;
    apply(&client, "examples/topology.yaml").await;
    apply(&client, "examples/disaggregated.yaml").await;
    browser
        .until("document.querySelectorAll('.node .g[class*=\" c\"]').length === 48")
        .await;
    browser
        .until("document.querySelector('.node[title*=\"(gang llm-0-\"]')")
        .await;
    assert_eq!(browser.run("return window.mark").await, "kept");
    sound(&browser, &program).await;
    picture(&browser, "map").await;
    browser
        .run("[...document.querySelectorAll('.switch a')].find(a => a.innerText === 'Free').click()")
        .await;
    browser
        .until("location.search === '?colour=free' && document.querySelectorAll('.node .g.used').length === 48")
        .await;
    sound(&browser, &program).await;

    // With the keyboard alone: past the bar, into the page.
    browser.open(&program.page("/")).await;
    browser.press('\u{e004}').await;
    assert_eq!(browser.run("return document.activeElement.className").await, "skip");
    browser.press('\u{e007}').await;
    browser.until("location.hash === '#main'").await;
    browser.press('\u{e004}').await;
    assert_eq!(
        browser
            .run("return document.querySelector('main').contains(document.activeElement)")
            .await,
        true
    );
    browser.run("document.querySelector('.node').focus()").await;
    browser.press('\u{e007}').await;
    browser
        .until("location.pathname.startsWith('/nodes/') && document.querySelector('dl.labels')")
        .await;
    sound(&browser, &program).await;

    pending(&browser, &program, &client).await;
    set(&browser, &program, &client).await;

    browser.open(&program.page("/timeline")).await;
    browser
        .until(
            "document.querySelectorAll('.of-placed').length > 0 && document.querySelectorAll('.of-rollout').length > 0",
        )
        .await;
    sound(&browser, &program).await;
    picture(&browser, "timeline").await;

    plan(&browser, &program).await;
    browser.end().await;
}

/// Gangs that cannot be placed, why, and what would help; trying it changes nothing.
async fn pending(browser: &Browser, program: &Program, client: &Client) {
    let kind = kube::core::GroupVersionKind::gvk("grove.io", "v1alpha1", "PodCliqueScalingGroup");
    let groups: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    browser.open(&program.page("/pending")).await;
    browser.until("document.querySelector('.empty')").await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 8}}));
    groups
        .patch("llm-0-decode", &PatchParams::default(), &patch)
        .await
        .unwrap();
    browser.until("document.querySelectorAll('tbody tr').length === 2 && document.body.innerText.includes('InsufficientResources')").await;
    browser
        .until("document.body.innerText.includes('replica 0, decode copy 7')")
        .await;
    sound(browser, program).await;
    picture(browser, "pending").await;

    browser.run("document.querySelector('tbody a.strong').click()").await;
    browser.until("document.querySelector('.remedies button')").await;
    browser
        .until("document.body.innerText.includes('has room for 2 of 4 pods')")
        .await;
    sound(browser, program).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let before = groups.get("llm-0-decode").await.unwrap().metadata.generation;
    browser.run("[...document.querySelectorAll('.remedies li')].find(li => li.innerText.includes('add 2 nodes')).querySelector('button').click()").await;
    browser
        .until("document.querySelector('.tried.fits') && document.body.innerText.includes('-copy-1')")
        .await;
    sound(browser, program).await;
    picture(browser, "gang").await;
    assert_eq!(
        nodes.list(&kube::api::ListParams::default()).await.unwrap().items.len(),
        36
    );
    assert_eq!(groups.get("llm-0-decode").await.unwrap().metadata.generation, before);
    // A remedy that is not there any more is not tried.
    browser.run("location.search = '?assume=000000000000'").await;
    browser
        .until("document.body.innerText.includes('not among those that help now')")
        .await;
}

/// A set with what tenants may write.
async fn set(browser: &Browser, program: &Program, client: &Client) {
    browser.open(&program.page("/sets")).await;
    browser
        .until("document.body.innerText.includes('gangs cannot be placed')")
        .await;
    sound(browser, program).await;
    picture(browser, "sets").await;
    let kind = kube::core::GroupVersionKind::gvk("grove.io", "v1alpha1", "PodCliqueSet");
    let sets: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    let uid = sets.get("llm").await.unwrap().uid().unwrap();
    let event: Event = serde_json::from_value(json!({"metadata": {"generateName": "x-", "namespace": "default"},
        "type": "Warning", "reason": HOSTILE, "message": HOSTILE,
        "involvedObject": {"kind": "PodCliqueSet", "name": "llm", "namespace": "default", "uid": uid}}))
    .unwrap();
    browser.run("document.querySelector('tbody a.strong').click()").await;
    browser.until("document.querySelector('.replica[open] .tree')").await;
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    events.create(&PostParams::default(), &event).await.unwrap();
    browser
        .until("document.querySelector('main').innerText.includes('<script>window.hacked=1</script>')")
        .await;
    sound(browser, program).await;
    events
        .delete_collection(&kube::api::DeleteParams::default(), &kube::api::ListParams::default())
        .await
        .unwrap();
    browser
        .until("!document.querySelector('main').innerText.includes('window.hacked')")
        .await;
    picture(browser, "set").await;
}

/// A pasted manifest.
async fn plan(browser: &Browser, program: &Program) {
    browser.open(&program.page("/plan")).await;
    let manifest = std::fs::read_to_string(root().join("examples/disaggregated.yaml")).unwrap();
    let manifest = manifest.replace("router:1.0", "router:1.1");
    let paste = format!(
        "document.querySelector('textarea').value = {}; document.querySelector('form.plan button').click()",
        json!(manifest)
    );
    browser.run(&paste).await;
    browser
        .until("document.querySelector('.verdict') && document.body.innerText.includes('replaces 2 of')")
        .await;
    browser
        .until("document.querySelectorAll('ol.steps li').length === 2")
        .await;
    sound(browser, program).await;
    picture(browser, "plan").await;
    let paste = format!(
        "document.querySelector('textarea').value = {}; document.querySelector('form.plan button').click()",
        json!(format!("a: [{HOSTILE}"))
    );
    browser.run(&paste).await;
    browser
        .until("document.querySelector('.notice.warn')?.innerText.includes('is not valid YAML')")
        .await;
    sound(browser, program).await;
}

/// What a client without a browser's good manners gets.
#[tokio::test(flavor = "multi_thread")]
async fn other_sites_and_programs_are_kept_out() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let program = Program::start(&[
        "up",
        "--nodes",
        "1",
        "--dashboard",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ])
    .await;
    let host = program.origin().trim_start_matches("http://").to_owned();
    let ask = async |head: &str| {
        let mut stream = TcpStream::connect(&host).await.unwrap();
        stream
            .write_all(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let token = program.address.rsplit("token=").next().unwrap();
    let cookie = format!("cookie: coppice-dashboard-{}={token}", host.rsplit(':').next().unwrap());
    for (head, code) in [
        (format!("GET / HTTP/1.1\r\nhost: {host}"), 401),
        (format!("GET / HTTP/1.1\r\nhost: {host}\r\n{cookie}"), 200),
        (format!("GET /live?page=/ HTTP/1.1\r\nhost: {host}"), 401),
        (format!("GET /assets/style.css HTTP/1.1\r\nhost: {host}"), 401),
        (format!("GET / HTTP/1.1\r\nhost: rebound.example\r\n{cookie}"), 421),
        (
            format!("GET / HTTP/1.1\r\nhost: {host}\r\n{cookie}\r\norigin: http://evil.example"),
            403,
        ),
        (
            format!("POST /plan HTTP/1.1\r\nhost: {host}\r\n{cookie}\r\ncontent-length: 0"),
            403,
        ),
        (format!("DELETE / HTTP/1.1\r\nhost: {host}\r\n{cookie}"), 405),
        (format!("GET /nothing HTTP/1.1\r\nhost: {host}\r\n{cookie}"), 404),
    ] {
        let answer = ask(&head).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{head}\n{answer}");
        assert!(
            answer.contains("content-security-policy: default-src 'none'; script-src 'self'"),
            "{answer}"
        );
        assert!(!answer.contains(token), "{head}");
    }
}

/// A cluster of 5,000 nodes on a real kube-apiserver: a page is bounded, and leads to every node.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_5000_nodes_is_a_page() {
    let control_plane = ControlPlane::start(&Options::default()).await.unwrap();
    let client = control_plane.client();
    coppice_crds::install(client.clone(), &coppice_crds::InstallOptions::default(), |_| {})
        .await
        .unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let created = stream::iter(0..5_000).map(|number| {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": format!("node-{number:05}"), "labels": {
                "topology.kubernetes.io/zone": format!("zone-{}", number / 2_500),
                "topology.kubernetes.io/rack": format!("rack-{}", number / 18)}},
            "status": {"allocatable": {"nvidia.com/gpu": "4", "pods": "110"}, "capacity": {"nvidia.com/gpu": "4", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": ""}]}}))
        .unwrap();
        let nodes = nodes.clone();
        async move { nodes.create(&PostParams::default(), &node).await.map(drop) }
    });
    let results: Vec<Result<(), kube::Error>> = created.buffer_unordered(40).collect().await;
    for result in results {
        result.unwrap();
    }
    let kubeconfig = control_plane.kubeconfig().to_str().unwrap().to_owned();
    let program = Program::start(&["dashboard", "--kubeconfig", &kubeconfig]).await;
    let browser = Browser::start().await;
    browser.open(&program.address).await;
    browser
        .until("document.querySelector('.figures')?.innerText.includes('20000')")
        .await;
    let elements = browser.run("return document.querySelectorAll('*').length").await;
    assert!(elements.as_u64().unwrap() < 6_000, "{elements} elements");
    let tiles = browser.run("return document.querySelectorAll('.tile').length").await;
    assert!((278..=600).contains(&tiles.as_u64().unwrap()), "{tiles} tiles");
    sound(&browser, &program).await;
    picture(&browser, "large").await;
    browser
        .run("[...document.querySelectorAll('.tile')].find(tile => tile.innerText.includes('rack-100')).click()")
        .await;
    browser.until("document.querySelectorAll('.node').length === 18").await;
    sound(&browser, &program).await;
    for path in ["/pending", "/sets", "/timeline", "/plan"] {
        browser.open(&program.page(path)).await;
        browser
            .until("document.querySelector('h1') && !document.querySelector('p[role=status]')")
            .await;
        sound(&browser, &program).await;
    }
    browser.end().await;
}
