//! What a domain that is not ready waits for. Pure.
//!
//! Follows the way of a domain: controller, template, pods, claims, labels, daemons, `nvidia-imex`. A pod or node is named
//! with the first thing that is missing on its way; what comes after it could not have happened yet.

use std::collections::BTreeMap;

use coppice_domains::api::names;
use coppice_domains::decide::plugin::devices::published_clique;
use serde_json::Value;

use super::{DomainObjects, DomainReport, NodeLine, Wait};

/// Reports on a domain; none when it does not exist.
pub(super) fn report(objects: &DomainObjects, namespace: &str, name: &str) -> Option<DomainReport> {
    let domain = objects.domains.iter().find(|domain| is(domain, namespace, name))?;
    let uid = meta(domain, "uid");
    let view = View {
        objects,
        domain,
        namespace,
        uid,
    };
    let state = domain["status"]["status"].as_str().unwrap_or("NotReady");
    let mut conditions = domain["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    let mut waits = Waits::default();
    let settled = state == "Ready" && view.is_deleting().is_none();
    if !settled || view.workload().any(|pod| !is_running(pod)) {
        view.find(&mut waits);
    }
    Some(DomainReport {
        domain: format!("{namespace}/{name}"),
        uid: uid.to_owned(),
        state: state.to_owned(),
        message: ready.and_then(|ready| {
            let words = ready["message"].as_str()?;
            Some(format!("{}: {words}", ready["reason"].as_str().unwrap_or_default()))
        }),
        nodes: view.nodes(),
        waits: waits.0.into_values().flatten().collect(),
    })
}

/// Waits by how early they come, then in the order in which they were found; equal ones are one with several subjects.
#[derive(Default)]
struct Waits(BTreeMap<u8, Vec<Wait>>);

impl Waits {
    fn add(&mut self, step: u8, cause: impl Into<String>, subject: &str, help: impl Into<String>) {
        let (cause, help) = (cause.into(), help.into());
        let list = self.0.entry(step).or_default();
        let subject = (!subject.is_empty()).then(|| subject.to_owned());
        match list.iter_mut().find(|wait| wait.cause == cause && wait.help == help) {
            Some(wait) => wait
                .subjects
                .extend(subject.filter(|subject| !wait.subjects.contains(subject))),
            None => list.push(Wait {
                cause,
                subjects: subject.into_iter().collect(),
                help,
            }),
        }
    }
}

const DELETING: u8 = 0;
const CONTROLLER: u8 = 1;
const PODS: u8 = 2;
const CLAIMS: u8 = 3;
const NODES: u8 = 4;
const DAEMONS: u8 = 5;
const SIZE: u8 = 6;

struct View<'a> {
    objects: &'a DomainObjects,
    domain: &'a Value,
    namespace: &'a str,
    uid: &'a str,
}

fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn is(object: &Value, namespace: &str, name: &str) -> bool {
    meta(object, "namespace") == namespace && meta(object, "name") == name
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

fn id(object: &Value) -> String {
    format!("{}/{}", meta(object, "namespace"), meta(object, "name"))
}

fn is_running(pod: &Value) -> bool {
    ["Running", "Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default())
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == kind)
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl<'a> View<'a> {
    fn template(&self) -> &'a str {
        let channel = &self.domain["spec"]["channel"];
        channel["resourceClaimTemplate"]["name"].as_str().unwrap_or_default()
    }

    fn is_deleting(&self) -> Option<&'a str> {
        self.domain["metadata"]["deletionTimestamp"].as_str()
    }

    fn workload(&self) -> impl Iterator<Item = &'a Value> {
        let (namespace, template) = (self.namespace, self.template());
        self.objects.pods.iter().filter(move |pod| {
            let mut claims = list(&pod["spec"]["resourceClaims"]);
            meta(pod, "namespace") == namespace && claims.any(|claim| claim["resourceClaimTemplateName"] == template)
        })
    }

    fn daemons(&self) -> impl Iterator<Item = &'a Value> {
        let uid = self.uid;
        self.objects
            .pods
            .iter()
            .filter(move |pod| label(pod, names::DOMAIN_LABEL) == Some(uid))
    }

    fn rows(&self) -> impl Iterator<Item = &'a Value> {
        let uid = self.uid;
        let ours = move |clique: &&Value| {
            label(clique, names::DOMAIN_LABEL) == Some(uid)
                || meta(clique, "name").split_once('.').is_some_and(|(of, _)| of == uid)
        };
        self.objects
            .cliques
            .iter()
            .filter(ours)
            .flat_map(|clique| list(&clique["daemons"]))
    }

    /// The clique of a node as its plugin publishes it, else as it is labelled; none when neither says anything.
    fn clique(&self, node: &str) -> Option<String> {
        let published = self
            .slice(node)
            .and_then(|slice| published_clique(&slice["spec"]["devices"]));
        published.or_else(|| {
            let mut nodes = self.objects.nodes.iter();
            let node = nodes.find(|found| meta(found, "name") == node)?;
            label(node, names::GPU_CLIQUE_LABEL).map(str::to_owned)
        })
    }

    fn slice(&self, node: &str) -> Option<&'a Value> {
        let mut slices = self.objects.slices.iter();
        slices.find(|slice| slice["spec"]["driver"] == names::DRIVER && slice["spec"]["nodeName"] == node)
    }

    fn labelled(&self) -> impl Iterator<Item = &'a Value> {
        let uid = self.uid;
        self.objects
            .nodes
            .iter()
            .filter(move |node| label(node, names::DOMAIN_LABEL) == Some(uid))
    }

    fn nodes(&self) -> Vec<NodeLine> {
        let mut lines: BTreeMap<&str, NodeLine> = BTreeMap::new();
        for node in self.labelled() {
            let name = meta(node, "name");
            let line = NodeLine {
                node: name.to_owned(),
                clique: self.clique(name).unwrap_or_default(),
                index: None,
                ready: false,
            };
            lines.insert(name, line);
        }
        for row in self.rows() {
            let name = row["nodeName"].as_str().unwrap_or_default();
            let line = NodeLine {
                node: name.to_owned(),
                clique: row["cliqueID"].as_str().unwrap_or_default().to_owned(),
                index: row["index"].as_i64(),
                ready: row["status"] == "Ready",
            };
            lines.insert(name, line);
        }
        for line in lines.values_mut().filter(|line| line.clique.is_empty()) {
            line.ready = self.daemon_on(&line.node).is_some_and(is_ready);
        }
        lines.into_values().collect()
    }

    fn daemon_on(&self, node: &str) -> Option<&'a Value> {
        self.daemons().find(|pod| pod["spec"]["nodeName"] == node)
    }

    fn find(&self, waits: &mut Waits) {
        if self.is_deleting().is_some() {
            let help = "pods that still use it lose NVLink across nodes; the finalizer goes when its objects are gone";
            waits.add(DELETING, "the ComputeDomain is being deleted", "", help);
        }
        self.controller(waits);
        let mut pods = self.workload().peekable();
        if pods.peek().is_none() {
            let template = self.template();
            let cause = format!("no pod has a claim from ResourceClaimTemplate {template}");
            let help = "a domain forms on the nodes of the pods that claim it: add the template to spec.resourceClaims of the pods";
            waits.add(PODS, cause, "", help);
        }
        for pod in pods.filter(|pod| !is_running(pod)) {
            self.pod(pod, waits);
        }
        for node in self.labelled() {
            self.node(meta(node, "name"), waits);
        }
        let wanted = self.domain["spec"]["numNodes"].as_u64().unwrap_or_default();
        let joined = u64::try_from(self.nodes().len()).unwrap_or(u64::MAX);
        if joined < wanted {
            let cause = format!("{joined} of numNodes={wanted} nodes have joined");
            let help = "the other pods of the workload are not on nodes yet; numNodes: 0 does not wait for a number";
            waits.add(SIZE, cause, "", help);
        }
    }

    fn controller(&self, waits: &mut Waits) {
        let taken_up = list(&self.domain["metadata"]["finalizers"]).any(|finalizer| finalizer == names::FINALIZER);
        if !taken_up {
            let help = "is compute-domain-controller running? kubectl get deployments -A -l app.kubernetes.io/component=compute-domain-controller";
            waits.add(CONTROLLER, "no controller has taken the ComputeDomain up", "", help);
            return;
        }
        let name = self.template();
        let template = self
            .objects
            .templates
            .iter()
            .find(|template| is(template, self.namespace, name));
        match template {
            Some(template) if label(template, names::DOMAIN_LABEL) != Some(self.uid) => waits.add(
                CONTROLLER,
                format!("ResourceClaimTemplate {name} belongs to something else"),
                "",
                "delete it, or create the domain with another spec.channel.resourceClaimTemplate.name",
            ),
            Some(_) => {}
            None => waits.add(
                CONTROLLER,
                format!("ResourceClaimTemplate {name} does not exist yet"),
                "",
                "see the conditions of the domain: the API server may have refused it (quota, admission)",
            ),
        }
    }

    /// A pod that does not run.
    fn pod(&self, pod: &Value, waits: &mut Waits) {
        let name = id(pod);
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            let gated = list(&pod["spec"]["schedulingGates"]).next().is_some();
            let message = condition(pod, "PodScheduled").and_then(|condition| condition["message"].as_str());
            let cause = match message.filter(|message| !message.is_empty()) {
                _ if gated => "pods are held by scheduling gates".to_owned(),
                Some(message) => format!("pods are not scheduled: {message}"),
                None => "pods are not scheduled yet".to_owned(),
            };
            waits.add(PODS, cause, &name, "coppice explain pod/NAME says what would help");
            return;
        }
        if self.slice(node).is_none() {
            let help = "is the kubelet plugin running there? kubectl get pods -A -o wide -l app.kubernetes.io/component=compute-domain-kubelet-plugin";
            waits.add(
                CLAIMS,
                "nodes publish no devices of compute-domain.nvidia.com",
                node,
                help,
            );
            return;
        }
        let template = self.template();
        let entry = list(&pod["spec"]["resourceClaims"]).find(|claim| claim["resourceClaimTemplateName"] == template);
        let entry = entry.map(|entry| &entry["name"]);
        let status = list(&pod["status"]["resourceClaimStatuses"]).find(|status| Some(&status["name"]) == entry);
        let claim_name = status.and_then(|status| status["resourceClaimName"].as_str());
        let claim = claim_name.and_then(|name| {
            let mut claims = self.objects.claims.iter();
            claims.find(|claim| is(claim, self.namespace, name))
        });
        let Some(claim) = claim else {
            let help = "the kube-controller-manager makes claims from templates; is DynamicResourceAllocation enabled?";
            waits.add(CLAIMS, "pods have no ResourceClaim yet", &name, help);
            return;
        };
        if claim["status"]["allocation"].is_null() {
            let holder = self.holder(node);
            let cause = match &holder {
                Some(holder) => {
                    format!("claims are not allocated: channel-0 of node {node} is held by ResourceClaim {holder}")
                }
                None => "claims are not allocated".to_owned(),
            };
            let help = match holder {
                Some(_) => "a node serves one domain at a time: the other pod must end, or this one go to another node",
                None => "is a scheduler with DRA running for the pod's schedulerName?",
            };
            waits.add(CLAIMS, cause, &id(claim), help);
            return;
        }
        let found = self.objects.nodes.iter().find(|found| meta(found, "name") == node);
        match found.and_then(|found| label(found, names::DOMAIN_LABEL)) {
            Some(uid) if uid == self.uid => {}
            Some(other) => {
                let mut domains = self.objects.domains.iter();
                let domain = domains.find(|domain| meta(domain, "uid") == other);
                let domain = domain.map_or_else(|| format!("with UID {other}, which is gone"), id);
                waits.add(
                    NODES,
                    format!("nodes still serve ComputeDomain {domain}"),
                    node,
                    "the label goes with the other domain's last pod on the node",
                );
            }
            None => {
                let cause = self
                    .said_of(pod)
                    .unwrap_or_else(|| "the kubelet plugin has not labelled nodes yet".to_owned());
                waits.add(NODES, cause, node, "see the log of the kubelet plugin on the node");
            }
        }
    }

    /// The claim that has channel 0 of a node.
    fn holder(&self, node: &str) -> Option<String> {
        let holds = |claim: &&Value| {
            list(&claim["status"]["allocation"]["devices"]["results"]).any(|result| {
                result["driver"] == names::DRIVER && result["pool"] == node && result["device"] == names::CHANNEL_DEVICE
            })
        };
        self.objects.claims.iter().find(holds).map(id)
    }

    /// A node that has joined and whose daemon is not ready.
    fn node(&self, node: &str, waits: &mut Waits) {
        let Some(clique) = self.clique(node) else {
            let help = "is the kubelet plugin running there, and does it publish the attribute cliqueID?";
            waits.add(NODES, "the NVLink clique of nodes is not known", node, help);
            return;
        };
        let row = self.rows().find(|row| row["nodeName"] == node);
        let max = self.max_nodes();
        let members = self.rows().filter(|row| row["cliqueID"] == clique.as_str()).count();
        if row.is_none() && !clique.is_empty() && members >= max {
            let cause = format!("clique {clique} already has {members} of {max} nodes (maxNodesPerIMEXDomain)");
            waits.add(NODES, cause, node, "place the workload on fewer nodes of this clique");
            return;
        }
        let Some(daemon) = self.daemon_on(node) else {
            let set = names::daemon_set(self.uid);
            let exists = self.objects.daemon_sets.iter().any(|found| meta(found, "name") == set);
            let cause = if exists {
                format!("DaemonSet {set} has no pod on nodes")
            } else {
                format!("DaemonSet {set} does not exist")
            };
            waits.add(
                DAEMONS,
                cause,
                node,
                "kubectl describe daemonset shows what keeps its pods away",
            );
            return;
        };
        if is_ready(daemon) {
            return;
        }
        if clique.is_empty() {
            let help = "a node without a fabric needs its daemon pod to run, nothing else";
            waits.add(
                DAEMONS,
                "daemons on nodes without NVLink fabric are not ready",
                node,
                help,
            );
            return;
        }
        if row.is_none() {
            let help = "the compute-domain controller reserves a row for each labelled node: see its log";
            waits.add(DAEMONS, "nodes have no index yet", node, help);
            return;
        }
        let (cause, help) = self.daemon_problem(daemon);
        waits.add(DAEMONS, cause, node, help);
    }

    fn max_nodes(&self) -> usize {
        let set = names::daemon_set(self.uid);
        let set = self.objects.daemon_sets.iter().find(|found| meta(found, "name") == set);
        let variable = set.and_then(|set| {
            let containers = list(&set["spec"]["template"]["spec"]["containers"]);
            let mut variables = containers.flat_map(|container| list(&container["env"]));
            let variable = variables.find(|variable| variable["name"] == "MAX_NODES_PER_IMEX_DOMAIN")?;
            variable["value"].as_str()?.parse().ok()
        });
        variable.unwrap_or(usize::try_from(coppice_domains::api::limits::DEFAULT_MAX_NODES).unwrap_or(usize::MAX))
    }

    fn daemon_problem(&self, daemon: &Value) -> (String, String) {
        let pod = id(daemon);
        let log = format!("kubectl logs -n {} {}", meta(daemon, "namespace"), meta(daemon, "name"));
        let said = self.said_of(daemon).unwrap_or_default();
        if said.contains("NV_ERR_IN_USE") {
            let cause = "a service of the host holds the GPU driver (NV_ERR_IN_USE)".to_owned();
            return (
                cause,
                "on the nodes: systemctl disable --now nvidia-imex.service".to_owned(),
            );
        }
        if said.contains("keeps exiting") {
            return ("nvidia-imex keeps exiting".to_owned(), log);
        }
        let statuses = list(&daemon["status"]["containerStatuses"]);
        let mut waiting = statuses.map(|status| &status["state"]["waiting"]);
        if let Some(waiting) = waiting.find(|waiting| waiting["reason"].is_string()) {
            let reason = waiting["reason"].as_str().unwrap_or_default();
            let words = waiting["message"]
                .as_str()
                .map(|words| format!(": {words}"))
                .unwrap_or_default();
            return (
                format!("daemon pods do not run ({reason}{words})"),
                format!(
                    "kubectl describe pod -n {} {}",
                    meta(daemon, "namespace"),
                    meta(daemon, "name")
                ),
            );
        }
        if daemon["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
            return (
                "daemon pods are not scheduled".to_owned(),
                format!("kubectl describe pod {pod}"),
            );
        }
        let cause = if said.is_empty() {
            "daemons are not ready".to_owned()
        } else {
            said
        };
        (cause, log)
    }

    /// The newest warning about a pod.
    fn said_of(&self, pod: &Value) -> Option<String> {
        let about = |event: &&Value| {
            event["type"] == "Warning"
                && event["involvedObject"]["uid"] == pod["metadata"]["uid"]
                && event["involvedObject"]["kind"] == "Pod"
        };
        let time = |event: &Value| {
            let fields = [
                &event["series"]["lastObservedTime"],
                &event["lastTimestamp"],
                &event["eventTime"],
            ];
            let found = fields.into_iter().find_map(Value::as_str);
            found.unwrap_or_else(|| meta(event, "creationTimestamp")).to_owned()
        };
        let newest = self
            .objects
            .events
            .iter()
            .filter(about)
            .max_by_key(|event| time(event))?;
        let words = newest["message"].as_str()?;
        let words = words.strip_prefix("Readiness probe failed: ").unwrap_or(words);
        Some(words.chars().take(400).collect())
    }
}
