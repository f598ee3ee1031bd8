//! A small world: one stored clique with compare-and-swap, nodes, daemon pods, and two controllers with caches of their
//! own. It checks every revision as it is stored.

use std::collections::{BTreeMap, BTreeSet};

use coppice_domains::api::{Clique, DaemonRow, Readiness};
use coppice_domains::decide::daemon::assignment::{Myself, Progress, self_insert};
use coppice_domains::decide::rows::{
    Action, CheckResult, CliqueFacts, CliqueWriter, DomainFacts, NodeFacts, NodeMembership, Outcome, PodFacts, Timing,
    group,
};
use jiff::{SignedDuration, Timestamp};

pub(crate) const CLIQUE: &str = "u.1";
const DOMAIN: &str = "d";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    None,
    LostBefore,
    LostAfter,
    CrashBefore,
    CrashAfter,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Label(usize),
    Unlabel(usize),
    DeleteNode(usize),
    StartPod(usize),
    StartForeignPod(usize),
    Ready(usize, bool),
    DeletePod(usize),
    /// A daemon of another driver writes its row, from a current or an old read.
    ForeignWrite(usize, bool),
    /// Our daemon inserts itself.
    SelfInsert(usize, bool),
    /// A controller's caches become current.
    Sync(usize),
    Begin(usize),
    Finish(usize, Trouble),
    /// A controller reads, waits and writes, with whatever its caches hold.
    Turn(usize),
    Check(usize),
    Crash(usize),
    Advance(i64),
}

#[derive(Clone, Debug, Default)]
struct Truth {
    nodes: BTreeMap<String, NodeFacts>,
    pods: BTreeMap<String, PodFacts>,
}

struct Controller {
    writer: CliqueWriter,
    /// What its caches hold.
    seen: Truth,
    deleted_pods: BTreeSet<String>,
    pending: Option<Action>,
    checks: Vec<coppice_domains::decide::rows::Check>,
}

impl Controller {
    fn new(max: u32, seen: Truth) -> Self {
        Self {
            writer: CliqueWriter::new(CLIQUE, max, Timing::default()),
            seen,
            deleted_pods: BTreeSet::new(),
            pending: None,
            checks: Vec::new(),
        }
    }
}

pub(crate) struct World {
    max: u32,
    names: Vec<String>,
    truth: Truth,
    /// What a controller that starts now may be shown: the world some time ago.
    old: Truth,
    stored: Option<Clique>,
    /// The object as a slow reader has it.
    stale: Option<Clique>,
    version: u64,
    peak: usize,
    now: Timestamp,
    controllers: Vec<Controller>,
    pods_made: u32,
    pub(crate) writes: usize,
    pub(crate) conflicts: usize,
}

impl World {
    pub(crate) fn new(nodes: usize, max: u32) -> Self {
        let names: Vec<String> = (0..nodes).map(|number| format!("node-{number:02}")).collect();
        let facts = NodeFacts {
            domain_uid: None,
            clique_id: Some(CLIQUE.into()),
        };
        let truth = Truth {
            nodes: names.iter().map(|name| (name.clone(), facts.clone())).collect(),
            pods: BTreeMap::new(),
        };
        Self {
            max,
            names,
            old: truth.clone(),
            controllers: (0..2).map(|_| Controller::new(max, truth.clone())).collect(),
            truth,
            stored: None,
            stale: None,
            version: 0,
            peak: 0,
            now: Timestamp::from_second(1_000_000).unwrap(),
            pods_made: 0,
            writes: 0,
            conflicts: 0,
        }
    }

    pub(crate) fn rows(&self) -> &[DaemonRow] {
        self.stored.as_ref().map_or(&[], |clique| clique.daemons.as_slice())
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Label(node) => {
                let name = self.names[*node].clone();
                let facts = self.truth.nodes.entry(name).or_default();
                facts.clique_id = Some(CLIQUE.into());
                facts.domain_uid = Some(DOMAIN.into());
            }
            Event::Unlabel(node) => {
                if let Some(facts) = self.truth.nodes.get_mut(&self.names[*node]) {
                    facts.domain_uid = None;
                }
            }
            Event::DeleteNode(node) => {
                self.truth.nodes.remove(&self.names[*node]);
                let name = self.names[*node].clone();
                self.truth.pods.retain(|_, pod| pod.node != name);
            }
            Event::StartPod(node) => self.start_pod(*node, false),
            Event::StartForeignPod(node) => self.start_pod(*node, true),
            Event::Ready(node, ready) => {
                let name = self.names[*node].clone();
                for pod in self.truth.pods.values_mut().filter(|pod| pod.node == name) {
                    pod.ready = *ready;
                }
            }
            Event::DeletePod(node) => {
                let name = self.names[*node].clone();
                self.truth.pods.retain(|_, pod| pod.node != name);
            }
            Event::ForeignWrite(node, stale) => self.foreign_write(*node, *stale),
            Event::SelfInsert(node, stale) => self.self_insert(*node, *stale),
            Event::Sync(controller) => self.sync(*controller),
            Event::Begin(controller) => self.begin(*controller),
            Event::Finish(controller, trouble) => self.finish(*controller, *trouble),
            Event::Turn(controller) => {
                for _ in 0..2 {
                    self.begin(*controller);
                    self.finish(*controller, Trouble::None);
                    self.now += SignedDuration::from_millis(2_100);
                }
                self.begin(*controller);
            }
            Event::Check(controller) => self.check(*controller),
            Event::Crash(controller) => self.crash(*controller),
            Event::Advance(millis) => {
                self.now += SignedDuration::from_millis(*millis);
                self.old = self.truth.clone();
                self.stale.clone_from(&self.stored);
            }
        }
    }

    /// The DaemonSet starts a pod only on a labelled node, and only one at a time.
    fn start_pod(&mut self, node: usize, writes_own_row: bool) {
        let name = self.names[node].clone();
        let labelled = self
            .truth
            .nodes
            .get(&name)
            .is_some_and(|facts| facts.domain_uid.is_some());
        if !labelled || self.truth.pods.values().any(|pod| pod.node == name) {
            return;
        }
        self.pods_made += 1;
        let uid = format!("pod-{}", self.pods_made);
        let [high, low] = u16::try_from(self.pods_made % 60_000).unwrap().to_be_bytes();
        let pod = PodFacts {
            uid: uid.clone(),
            node: name,
            created: self.now,
            address: format!("10.1.{high}.{low}"),
            ready: false,
            ended: false,
            writes_own_row,
            reported_clique: None,
        };
        self.truth.pods.insert(uid, pod);
    }

    fn pod_on(&self, node: usize, foreign: bool) -> Option<PodFacts> {
        let mut pods = self.truth.pods.values();
        pods.find(|pod| pod.node == self.names[node] && pod.writes_own_row == foreign)
            .cloned()
    }

    /// Plain optimistic concurrency, as the driver's own daemons write: fields they do not know are dropped.
    fn foreign_write(&mut self, node: usize, stale: bool) {
        let Some(pod) = self.pod_on(node, true) else { return };
        let read = if stale { self.stale.clone() } else { self.stored.clone() };
        let version = read
            .as_ref()
            .and_then(|clique| clique.metadata.resource_version.clone());
        let mut rows = read.map(|clique| clique.daemons).unwrap_or_default();
        for row in &mut rows {
            row.pod_uid = None;
        }
        match rows.iter_mut().find(|row| row.node_name == pod.node) {
            Some(row) if row.ip_address == pod.address => return,
            Some(row) => row.ip_address.clone_from(&pod.address),
            None => {
                let used: BTreeSet<i64> = rows.iter().filter_map(|row| row.index).collect();
                let index = (0..).find(|index| !used.contains(index)).unwrap();
                if index >= i64::from(self.max) {
                    return;
                }
                rows.push(DaemonRow {
                    node_name: pod.node,
                    ip_address: pod.address,
                    clique_id: CLIQUE.into(),
                    index: Some(index),
                    ..DaemonRow::default()
                });
            }
        }
        let _ = self.store(version.as_deref(), rows);
    }

    fn self_insert(&mut self, node: usize, stale: bool) {
        let Some(pod) = self.pod_on(node, false) else { return };
        let me = Myself {
            node: pod.node,
            pod_uid: pod.uid,
            address: pod.address,
            clique_id: CLIQUE.into(),
        };
        let read = if stale { self.stale.clone() } else { self.stored.clone() };
        let version = read
            .as_ref()
            .and_then(|clique| clique.metadata.resource_version.clone());
        let rows = read.map(|clique| clique.daemons);
        let waited = SignedDuration::from_secs(30);
        if let Some(Ok(rows)) = self_insert(&me, Progress::default(), rows.as_deref(), waited, self.max) {
            let _ = self.store(version.as_deref(), rows);
        }
    }

    pub(crate) fn delete_object(&mut self) {
        self.stored = None;
        self.version += 1;
    }

    /// Compare-and-swap, and the properties that must hold at every revision.
    fn store(&mut self, version: Option<&str>, rows: Vec<DaemonRow>) -> Outcome {
        let current = self
            .stored
            .as_ref()
            .and_then(|clique| clique.metadata.resource_version.as_deref());
        if current != version {
            self.conflicts += 1;
            return Outcome::Conflict;
        }
        self.verify(&rows);
        self.version += 1;
        let mut clique = Clique {
            daemons: rows,
            ..Clique::default()
        };
        clique.metadata.resource_version = Some(self.version.to_string());
        self.stored = Some(clique.clone());
        Outcome::Stored(Box::new(clique))
    }

    fn verify(&mut self, rows: &[DaemonRow]) {
        let unique: BTreeSet<_> = rows.iter().map(|row| row.index.unwrap()).collect();
        assert_eq!(unique.len(), rows.len(), "indices are unique: {rows:?}");
        assert!(
            unique.iter().all(|index| (0..i64::from(self.max)).contains(index)),
            "within bounds"
        );
        self.peak = self.peak.max(rows.len());
        assert!(
            unique.iter().all(|index| usize::try_from(*index).unwrap() < self.peak),
            "below the largest membership"
        );
        for old in self.rows() {
            let new = rows.iter().find(|new| new.node_name == old.node_name);
            assert!(
                new.is_none_or(|new| new.index == old.index),
                "an index never moves: {old:?}"
            );
            let owner = self
                .truth
                .pods
                .values()
                .find(|pod| pod.node == old.node_name && pod.address == old.ip_address);
            if self.truth.nodes.contains_key(&old.node_name) && owner.is_some() {
                let address = new.map(|new| new.ip_address.as_str());
                assert_eq!(
                    address,
                    Some(old.ip_address.as_str()),
                    "a living daemon keeps its row: {old:?}"
                );
            }
        }
    }

    fn sync(&mut self, number: usize) {
        let controller = &mut self.controllers[number];
        for uid in controller
            .seen
            .pods
            .keys()
            .filter(|uid| !self.truth.pods.contains_key(*uid))
        {
            controller.deleted_pods.insert(uid.clone());
        }
        controller.seen = self.truth.clone();
        match &self.stored {
            Some(clique) => controller.writer.observed(clique),
            None => controller.writer.observed_absent(),
        }
    }

    fn facts(&self, number: usize) -> CliqueFacts {
        let controller = &self.controllers[number];
        let domain = DomainFacts {
            uid: DOMAIN.into(),
            deleting: false,
            nodes: controller.seen.nodes.clone(),
            pods: controller.seen.pods.values().cloned().collect(),
            deleted_pods: controller.deleted_pods.clone(),
            rows: [(CLIQUE.to_owned(), controller.writer.rows().to_vec())].into(),
        };
        group(&domain).remove(CLIQUE).unwrap_or_default()
    }

    fn begin(&mut self, number: usize) {
        if self.controllers[number].pending.is_some() {
            return;
        }
        let facts = self.facts(number);
        let controller = &mut self.controllers[number];
        let (action, plan) = controller.writer.next(&facts, self.now);
        controller.checks = plan.checks;
        if controller.writer.is_in_flight() {
            controller.pending = Some(action);
        }
    }

    fn finish(&mut self, number: usize, trouble: Trouble) {
        let Some(action) = self.controllers[number].pending.take() else {
            return;
        };
        if matches!(trouble, Trouble::LostBefore) {
            return self.controllers[number].writer.finished(Outcome::Lost);
        }
        if matches!(trouble, Trouble::CrashBefore) {
            return self.crash(number);
        }
        let outcome = match action {
            Action::Read => match &self.stored {
                Some(clique) => Outcome::Stored(Box::new(clique.clone())),
                None => Outcome::NotFound,
            },
            Action::Create(rows) => {
                self.writes += 1;
                self.store(None, rows)
            }
            Action::Replace { resource_version, rows } => {
                self.writes += 1;
                self.store(Some(&resource_version), rows)
            }
            Action::WaitUntil(_) | Action::Rest => unreachable!("nothing is in flight"),
        };
        match trouble {
            Trouble::LostAfter => self.controllers[number].writer.finished(Outcome::Lost),
            Trouble::CrashAfter => self.crash(number),
            _ => self.controllers[number].writer.finished(outcome),
        }
    }

    /// Live reads: they see the world as it is.
    fn check(&mut self, number: usize) {
        for check in std::mem::take(&mut self.controllers[number].checks) {
            let membership = match self.truth.nodes.get(&check.node) {
                None => NodeMembership::Unknown,
                Some(facts) if facts.domain_uid.as_deref() == Some(DOMAIN) => NodeMembership::Member,
                Some(_) => NodeMembership::Left,
            };
            let pods = self.truth.pods.values().filter(|pod| pod.node == check.node);
            let pods = pods.map(|pod| (pod.uid.clone(), pod.address.clone())).collect();
            let result = CheckResult {
                check,
                membership,
                pods,
            };
            self.controllers[number].writer.checked(result, self.now);
        }
    }

    /// The next process of this controller starts with what an old API server shows it, and remembers nothing.
    fn crash(&mut self, number: usize) {
        self.controllers[number] = Controller::new(self.max, self.old.clone());
    }

    fn work(&mut self) -> bool {
        let before = (self.version, self.writes);
        for number in 0..self.controllers.len() {
            self.finish(number, Trouble::None);
            self.sync(number);
            self.begin(number);
            self.check(number);
            self.finish(number, Trouble::None);
        }
        for node in 0..self.names.len() {
            self.foreign_write(node, false);
        }
        (self.version, self.writes) != before
    }

    /// Nothing happens any more: the rows become what they should be, and then nothing is written.
    pub(crate) fn settle(&mut self) {
        // The DaemonSet removes pods from nodes that are not labelled.
        let nodes = self.truth.nodes.clone();
        let labelled = |name: &str| nodes.get(name).is_some_and(|facts| facts.domain_uid.is_some());
        self.truth.pods.retain(|_, pod| labelled(&pod.node));
        let mut idle = 0;
        for _ in 0..100 {
            idle = if self.work() { 0 } else { idle + 1 };
            if idle == 4 {
                break;
            }
            self.now += SignedDuration::from_millis(2_100);
        }
        // Ten minutes, in steps longer than any wait.
        for round in 0..20 {
            self.now += SignedDuration::from_secs(31);
            assert!(!self.work(), "a write in the quiet round {round}: {:?}", self.rows());
        }
        let members: BTreeSet<&String> = nodes.keys().filter(|name| labelled(name)).collect();
        let rows: BTreeSet<&String> = self.rows().iter().map(|row| &row.node_name).collect();
        assert!(rows.is_subset(&members), "rows of nodes that left: {rows:?}");
        assert_eq!(
            rows.len(),
            members.len().min(self.max as usize),
            "one row for each member"
        );
        for row in self.rows() {
            let pod = self.truth.pods.values().find(|pod| pod.node == row.node_name);
            let address = pod.map_or("", |pod| pod.address.as_str());
            assert_eq!(row.ip_address, address, "{row:?}");
            let managed = pod.filter(|pod| !pod.writes_own_row);
            assert!(
                managed.is_none_or(|pod| row.status == Readiness::from(pod.ready)),
                "{row:?}"
            );
        }
    }
}
