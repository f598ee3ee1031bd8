//! What the planner is shown of a replica: its units, by the labels of their pods, and which gangs were scheduled.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::canonical::TemplateIdentity;
use coppice_api::names::{Epoch, labels, parsing::parse_index};
use coppice_api::types::{PodClique, PodGangRole};
use jiff::Timestamp;

use crate::components::{ComponentFacts, is_known, may_adopt, revision_of_labels, source};
use crate::context::SetContext;
use crate::gang_map::entry_of_gang;
use crate::snapshot::{PodFacts, ReplicaSnapshot};
use crate::state::means_the_set;
use crate::update::coherent::{LiveUnit, Map, Observed, Revision, Role, Share, Units};

/// What is known of a clique that exists: its component, and its copy in a scaling group.
#[derive(Clone, Copy)]
struct Home<'a> {
    component: usize,
    copy: Option<u32>,
    /// The position of the clique in the template.
    position: usize,
    clique: &'a PodClique,
    /// Its name for its template when that is a foreign one, which means what the set's template means.
    adopted: Option<&'a str>,
}

/// The pods of one unit.
type PodsOfUnit<'a> = Vec<(Home<'a>, &'a PodFacts)>;

pub(super) fn observe(
    context: &SetContext<'_>,
    snapshot: &ReplicaSnapshot,
    components: &[ComponentFacts],
    map: Option<&Map>,
) -> Observed {
    let homes = homes(context, snapshot, components);
    let gangs = Gangs::new(context, snapshot, components, map);
    // Pods of one clique in one epoch; a copy is all cliques that it has there.
    let mut units: BTreeMap<(usize, Option<u32>, Epoch), (Role, PodsOfUnit<'_>)> = BTreeMap::new();
    for pod in snapshot.pods.values().filter(|pod| pod.ended.is_none()) {
        let Some(home) = homes.get(pod.clique.as_str()) else {
            continue;
        };
        if home.clique.metadata.uid.as_deref() != Some(&pod.owner_uid) {
            continue;
        }
        let (epoch, role) = gangs.of_pod(context, components, pod, *home);
        let of_unit = units
            .entry((home.component, home.copy, epoch))
            .or_insert((role, Vec::new()));
        of_unit.1.push((*home, pod));
    }
    let reader = Reader {
        context,
        components,
        map,
    };
    let mut found: Vec<(Timestamp, String, LiveUnit)> = Vec::new();
    for ((component, copy, epoch), (role, pods)) in units {
        let wanted = Wanted {
            component,
            copy,
            epoch,
            role,
        };
        if copy.is_some() {
            let live: Vec<_> = pods.iter().filter(|(_, pod)| !pod.deleting).copied().collect();
            let terminating = live.is_empty();
            let of_unit = if terminating { &pods } else { &live };
            let created = of_unit
                .iter()
                .map(|(_, pod)| pod.created)
                .min()
                .unwrap_or(Timestamp::MIN);
            found.push((created, String::new(), reader.copy(wanted, of_unit, terminating)));
        } else {
            for (home, pod) in pods {
                found.push((pod.created, pod.name.clone(), reader.pod(wanted, home, pod)));
            }
        }
    }
    found.sort_by(|left, right| (left.0, &left.1).cmp(&(right.0, &right.1)));
    Observed {
        units: found.into_iter().map(|(_, _, unit)| unit).collect(),
        scheduled: gangs.scheduled(snapshot, map),
    }
}

#[derive(Clone, Copy)]
struct Wanted {
    component: usize,
    copy: Option<u32>,
    epoch: Epoch,
    role: Role,
}

struct Reader<'a> {
    context: &'a SetContext<'a>,
    components: &'a [ComponentFacts],
    map: Option<&'a Map>,
}

impl Reader<'_> {
    fn pod(&self, unit: Wanted, home: Home<'_>, pod: &PodFacts) -> LiveUnit {
        let revision = self.revision(unit, &[(home, pod)]);
        LiveUnit {
            component: unit.component,
            copy: None,
            epoch: unit.epoch,
            role: unit.role,
            revision,
            scheduled: pod.scheduled,
            ready_since: since(pod).filter(|_| !pod.deleting),
            terminating: pod.deleting,
        }
    }

    /// A copy serves when every clique of it has its minimum ready.
    fn copy(&self, unit: Wanted, pods: &[(Home<'_>, &PodFacts)], terminating: bool) -> LiveUnit {
        let component = &self.components[unit.component];
        let mut scheduled = true;
        let mut ready_since = Some(Timestamp::MIN);
        for &position in &component.cliques {
            let own: Vec<_> = pods.iter().filter(|(home, _)| home.position == position).collect();
            let size = own.first().map(|(home, _)| home.clique.spec.replicas);
            let size = size.map(|size| u32::try_from(size).unwrap_or(0));
            let of_set = &self.context.facts.cliques[position];
            // Without a pod its size is not known here; the template's is what it has unless it was scaled.
            let minimum = of_set.min_available.min(size.unwrap_or(of_set.replicas)) as usize;
            scheduled &= own.iter().filter(|(_, pod)| pod.scheduled).count() >= minimum;
            let mut ready: Vec<Timestamp> = own.iter().filter_map(|(_, pod)| since(pod)).collect();
            ready.sort();
            let enough = if minimum == 0 {
                Some(Timestamp::MIN)
            } else {
                ready.get(minimum - 1).copied()
            };
            ready_since = ready_since.zip(enough).map(|(all, own)| all.max(own));
        }
        LiveUnit {
            component: unit.component,
            copy: unit.copy,
            epoch: unit.epoch,
            role: unit.role,
            revision: self.revision(unit, pods),
            scheduled,
            ready_since: ready_since.filter(|_| !terminating),
            terminating,
        }
    }

    /// The revision that pods have by their labels. One that no stored revision knows has what the map says: its name was
    /// given by another operator.
    fn revision(&self, unit: Wanted, pods: &[(Home<'_>, &PodFacts)]) -> Revision {
        let component = &self.components[unit.component];
        let has = |position: usize, identity: TemplateIdentity| {
            let mut own = pods.iter().filter(|(home, _)| home.position == position);
            own.all(|(home, pod)| identity.matches_label(&pod.template_hash) || self.is_adopted(*home, pod, identity))
        };
        if let Some(found) = revision_of_labels(self.context, component, has) {
            return Revision::new(&found);
        }
        let entry = self
            .map
            .and_then(|map| map.entries.iter().find(|entry| entry.epoch == unit.epoch));
        let share = entry.and_then(|entry| entry.shares.get(&unit.component));
        let fits = |share: &&Share| {
            let mut all = pods.iter();
            all.all(|(home, pod)| {
                let expected = source(self.context, component, share.revision.as_str(), home.position);
                !self.is_known(*home, pod) || expected.is_some_and(|expected| expected.hash == pod.template_hash)
            })
        };
        match share.filter(fits) {
            Some(share) => share.revision.clone(),
            // Pods of several revisions are no unit of any.
            None if pods.iter().any(|(home, pod)| self.is_known(*home, pod)) => Revision::new("mixed"),
            None => Revision::new(pods.first().map_or("", |(_, pod)| pod.template_hash.as_str())),
        }
    }

    /// Whether a pod has a foreign name for the template of the set: that of its clique, which means the same.
    fn is_adopted(&self, home: Home<'_>, pod: &PodFacts, identity: TemplateIdentity) -> bool {
        home.adopted == Some(pod.template_hash.as_str()) && identity == self.context.identities[home.position]
    }

    fn is_known(&self, home: Home<'_>, pod: &PodFacts) -> bool {
        home.adopted == Some(pod.template_hash.as_str()) || is_known(self.context, home.position, &pod.template_hash)
    }
}

fn since(pod: &PodFacts) -> Option<Timestamp> {
    pod.ready.then_some(pod.ready_since.unwrap_or(pod.created))
}

/// The cliques that exist, by name.
fn homes<'a>(
    context: &SetContext<'_>,
    snapshot: &'a ReplicaSnapshot,
    components: &[ComponentFacts],
) -> BTreeMap<&'a str, Home<'a>> {
    let facts = &context.facts;
    let name = facts.replica(snapshot.index);
    let mut homes = BTreeMap::new();
    let mut add = |(key, clique): (&'a String, &'a std::sync::Arc<PodClique>), component, copy, position| {
        let all = clique.metadata.labels.as_ref();
        let label = all
            .and_then(|all| all.get(labels::POD_TEMPLATE_HASH))
            .map(String::as_str);
        let foreign = label.filter(|label| !is_known(context, position, label));
        let home = Home {
            component,
            copy,
            position,
            clique,
            adopted: foreign.filter(|_| means_the_set(context, position, clique)),
        };
        homes.insert(key.as_str(), home);
    };
    for (component, of_set) in components.iter().enumerate() {
        let Some(group) = of_set.group else {
            let position = of_set.cliques[0];
            let object = name.clique_name(&facts.cliques[position].template.name);
            if let Some(found) = snapshot.cliques.get_key_value(&object) {
                add(found, component, None, position);
            }
            continue;
        };
        let scaling_group = name.scaling_group(&facts.groups[group].config.name);
        let object = scaling_group.to_string();
        for (key, clique) in &snapshot.cliques {
            let label = |key: &str| clique.metadata.labels.as_ref().and_then(|all| all.get(key));
            let copy = label(labels::SCALING_GROUP_REPLICA_INDEX).and_then(|text| parse_index(text));
            let Some(copy) = copy.filter(|_| label(labels::SCALING_GROUP) == Some(&object)) else {
                continue;
            };
            let own =
                |position: &&usize| scaling_group.clique_name(copy, &facts.cliques[**position].template.name) == *key;
            if let Some(&position) = of_set.cliques.iter().find(own) {
                add((key, clique), component, Some(copy), position);
            }
        }
    }
    homes
}

/// The gangs of a replica by name.
struct Gangs {
    known: BTreeMap<String, (Epoch, Role)>,
    /// For each component the epoch that adopts pods of gangs that are not known; for copies by index.
    adopting: BTreeMap<(usize, Option<u32>), (Epoch, Role, Revision)>,
    minimum: Vec<u32>,
    /// The gangs of each entry.
    of_entries: BTreeMap<Epoch, BTreeSet<String>>,
}

impl Gangs {
    fn new(
        context: &SetContext<'_>,
        snapshot: &ReplicaSnapshot,
        components: &[ComponentFacts],
        map: Option<&Map>,
    ) -> Self {
        let facts = &context.facts;
        let name = facts.replica(snapshot.index);
        let mut known: BTreeMap<String, (Epoch, Role)> = BTreeMap::new();
        for (name, gang) in &snapshot.gangs {
            known.extend(
                entry_of_gang(gang).and_then(|(epoch, written)| Some((name.clone(), (epoch, role(&written)?)))),
            );
        }
        let mut adopting = BTreeMap::new();
        let mut of_entries: BTreeMap<Epoch, BTreeSet<String>> = BTreeMap::new();
        for entry in map.iter().flat_map(|map| &map.entries) {
            let place = (entry.epoch, entry.role);
            let adopted = |share: &Share| (entry.epoch, entry.role, share.revision.clone());
            let of_entry = of_entries.entry(entry.epoch).or_default();
            if entry.role.is_one_gang() {
                of_entry.insert(name.anchor_gang_name(entry.epoch));
            }
            for (&component, share) in &entry.shares {
                match (&share.units, components[component].group) {
                    (Units::Copies(copies), Some(group)) => {
                        let scaling_group = name.scaling_group(&facts.groups[group].config.name);
                        for &copy in copies {
                            adopting.insert((component, Some(copy)), adopted(share));
                            if !entry.role.is_one_gang() {
                                of_entry.insert(scaling_group.copy_gang_name(entry.epoch, copy));
                            }
                        }
                    }
                    // Entries come in ascending order, so the newest stays.
                    _ => drop(adopting.insert((component, None), adopted(share))),
                }
            }
            known.extend(of_entry.iter().map(|gang| (gang.clone(), place)));
        }
        let minimum = components.iter().map(|component| {
            let group = component.group.map(|group| facts.groups[group].min_available);
            group.unwrap_or(u32::MAX)
        });
        Self {
            known,
            adopting,
            minimum: minimum.collect(),
            of_entries,
        }
    }

    /// The epoch that a pod was created for. One that names no known gang comes from another operator, or from a version
    /// without maps: it belongs where the map has its unit, or where a deployment would. With another template than its
    /// unit it is what is left of a unit that was moved, and belongs nowhere.
    fn of_pod(
        &self,
        context: &SetContext<'_>,
        components: &[ComponentFacts],
        pod: &PodFacts,
        home: Home<'_>,
    ) -> (Epoch, Role) {
        if let Some(known) = self.known.get(&pod.membership.gang) {
            return *known;
        }
        if let Some((epoch, role, revision)) = self.adopting.get(&(home.component, home.copy)) {
            let component = &components[home.component];
            if may_adopt(context, component, revision.as_str(), home.position, &pod.template_hash) {
                return (*epoch, *role);
            }
            return (Epoch::parse("0").unwrap_or(Epoch::FIRST), *role);
        }
        match home.copy {
            Some(copy) if copy >= self.minimum[home.component] => (Epoch::FIRST.next(), Role::Tail),
            _ => (Epoch::FIRST, Role::Anchor),
        }
    }

    /// The epochs whose gangs were all scheduled.
    fn scheduled(&self, snapshot: &ReplicaSnapshot, map: Option<&Map>) -> BTreeSet<Epoch> {
        let was_scheduled = |name: &String| {
            let gang = snapshot.gangs.get(name).and_then(|gang| gang.status.as_ref());
            gang.is_some_and(|status| status.last_scheduled.is_some())
        };
        let entries = map.into_iter().flat_map(|map| &map.entries);
        entries
            .map(|entry| entry.epoch)
            .filter(|epoch| {
                self.of_entries
                    .get(epoch)
                    .is_some_and(|gangs| gangs.iter().all(was_scheduled))
            })
            .collect()
    }
}

fn role(written: &PodGangRole) -> Option<Role> {
    match written {
        PodGangRole::Anchor => Some(Role::Anchor),
        PodGangRole::Tail => Some(Role::Tail),
        PodGangRole::ScaleOut => Some(Role::ScaleOut),
        PodGangRole::Bridge => Some(Role::Bridge),
        PodGangRole::Other(_) => None,
    }
}
