//! Grove's engine of coherent updates, modelled from its description, beside ours on the same workloads.
//!
//! The model knows what the comparison needs: which units a batch takes, what is available meanwhile, and which gangs are
//! left. Its gate passes when gangs are scheduled; its budget counts available units.

use std::collections::BTreeMap;
use std::fmt::Write;

use coppice_core::update::coherent::{Component, ComponentKind, Phase};

use crate::driver::{self, Trace, effective, gangs};
use crate::examples;
use crate::model::World;

/// What one engine did.
#[derive(Debug, PartialEq)]
struct Row {
    batches: usize,
    lowest: Vec<u32>,
    effective: u32,
    moved_twice: usize,
    anchors: usize,
    others: usize,
    finished: bool,
}

/// One component of the model: the version of each of its units, in the order in which they are taken.
#[derive(Clone)]
struct Side {
    versions: Vec<u32>,
    moves: Vec<u32>,
}

struct Upstream {
    components: Vec<Component>,
    scope: Vec<usize>,
    sides: Vec<Side>,
    broken: Option<u32>,
    row: Row,
}

impl Upstream {
    fn new(world: &World, scope: &[usize], broken: Option<u32>) -> Self {
        let components = world.target(0).components;
        let sides = components
            .iter()
            .map(|component| Side {
                versions: vec![1; component.desired as usize],
                moves: vec![0; component.desired as usize],
            })
            .collect();
        let lowest = components.iter().map(|component| component.desired).collect();
        Self {
            components,
            scope: scope.to_vec(),
            sides,
            broken,
            row: Row {
                batches: 0,
                lowest,
                effective: 100,
                moved_twice: 0,
                anchors: 0,
                others: 0,
                finished: false,
            },
        }
    }

    fn available(&self, component: usize) -> u32 {
        let works = |version: &&u32| Some(**version) != self.broken;
        u32::try_from(self.sides[component].versions.iter().filter(works).count()).unwrap()
    }

    /// Takes the oldest units first; false when the budget of some component does not admit it.
    fn batch(&mut self, version: u32, take: &BTreeMap<usize, u32>) -> bool {
        for (&component, count) in take {
            let wanted = &self.components[component];
            let missing = wanted.desired - self.available(component);
            if *count > 0 && missing + count > wanted.max_unavailable {
                return false;
            }
        }
        for (&component, count) in take {
            for _ in 0..*count {
                let side = &mut self.sides[component];
                let oldest = side
                    .versions
                    .iter()
                    .filter(|other| **other != version && **other > 0)
                    .min()
                    .copied();
                let position = side.versions.iter().position(|other| Some(*other) == oldest);
                let Some(position) = position else { break };
                side.versions[position] = 0;
            }
        }
        self.row.batches += 1;
        self.note();
        for side in &mut self.sides {
            for (unit, moves) in side
                .versions
                .iter_mut()
                .zip(&mut side.moves)
                .filter(|(unit, _)| **unit == 0)
            {
                *unit = version;
                *moves += 1;
            }
        }
        self.note();
        true
    }

    fn note(&mut self) {
        let newest = self
            .sides
            .iter()
            .flat_map(|side| &side.versions)
            .max()
            .copied()
            .unwrap_or(1);
        let mut sides: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (component, side) in self.sides.iter().enumerate() {
            let mut available = 0;
            for version in side
                .versions
                .iter()
                .filter(|version| **version > 0 && Some(**version) != self.broken)
            {
                available += 1;
                let name = if *version == newest { "new" } else { "old" };
                sides.entry(name).or_insert_with(|| vec![0; self.components.len()])[component] += 1;
            }
            self.row.lowest[component] = self.row.lowest[component].min(available);
        }
        let now = effective(&sides, &self.components, &self.scope);
        self.row.effective = self.row.effective.min(now);
    }

    /// One update from its beginning: steps with an anchor and tails each, then what is left over.
    fn update(&mut self, version: u32) {
        let of = |component: usize| &self.components[component];
        let steps = self
            .scope
            .iter()
            .map(|&component| of(component).desired / of(component).minimum);
        let steps = steps.min().unwrap_or(0);
        let size = |component: usize| {
            let component = of(component);
            component.minimum + (component.desired - steps * component.minimum) / steps
        };
        let sizes: BTreeMap<usize, u32> = self
            .scope
            .iter()
            .map(|&component| (component, size(component)))
            .collect();
        for step in 0..=steps {
            let mut left: BTreeMap<usize, u32> = if step < steps {
                let anchor = self
                    .scope
                    .iter()
                    .map(|&component| (component, self.components[component].minimum));
                let anchor: BTreeMap<usize, u32> = anchor.collect();
                if !self.batch(version, &anchor) {
                    return;
                }
                self.row.anchors += 1;
                sizes
                    .iter()
                    .map(|(component, size)| (*component, size - anchor[component]))
                    .collect()
            } else {
                let rest = |(component, size): (&usize, &u32)| self.components[*component].desired - steps * size;
                sizes
                    .iter()
                    .map(|(component, size)| (*component, rest((component, size))))
                    .collect()
            };
            while left.values().any(|count| *count > 0) {
                let take = left
                    .iter()
                    .map(|(component, count)| (*component, (*count).min(self.components[*component].max_unavailable)));
                let take: BTreeMap<usize, u32> = take.collect();
                if !self.batch(version, &take) {
                    return;
                }
                for (component, count) in take {
                    *left.entry(component).or_default() -= count;
                }
            }
        }
        self.row.finished = true;
    }

    fn finish(mut self) -> Row {
        let groups = |component: &usize| self.components[*component].kind == ComponentKind::Group;
        let anchors = u32::try_from(self.row.anchors).unwrap();
        let in_scope: u32 = self
            .scope
            .iter()
            .filter(|component| groups(component))
            .map(|&component| self.components[component].desired - anchors * self.components[component].minimum)
            .sum();
        let untouched = (0..self.components.len()).filter(|component| !self.scope.contains(component));
        let untouched: Vec<usize> = untouched.collect();
        let old: u32 = untouched
            .iter()
            .filter(|component| groups(component))
            .map(|&component| self.components[component].desired - self.components[component].minimum)
            .sum();
        self.row.anchors += usize::from(!untouched.is_empty());
        self.row.others = (in_scope + old) as usize;
        let moves = self.sides.iter().flat_map(|side| &side.moves);
        self.row.moved_twice = moves.filter(|moves| **moves > 1).count();
        self.row
    }
}

/// Ours: the same edit, driven as the examples are.
fn ours(mut world: World, scope: &[usize], broken: bool) -> Row {
    let mut trace = Trace::default();
    let edit = |world: &mut World, version: u32| {
        for component in scope {
            world.versions[*component] = version;
        }
    };
    let units: u32 = world.replicas[0].desired.iter().sum();
    if broken {
        world.broken = scope.iter().map(|component| (*component, 2)).collect();
    }
    edit(&mut world, 2);
    let mut phase = driver::settle(&mut world, 0, &mut trace);
    if broken {
        edit(&mut world, 3);
        phase = driver::settle(&mut world, 0, &mut trace);
    }
    let (anchors, others) = gangs(world.replicas[0].map.as_ref().unwrap());
    let scope_units: u32 = scope
        .iter()
        .map(|component| world.replicas[0].desired[*component])
        .sum();
    assert!(scope_units <= units);
    Row {
        batches: trace.batches.len(),
        lowest: trace.lowest,
        effective: trace.effective,
        moved_twice: world.replaced.len().saturating_sub(scope_units as usize),
        anchors,
        others,
        finished: phase == Phase::Idle,
    }
}

fn theirs(world: &World, scope: &[usize], broken: bool) -> Row {
    let mut upstream = Upstream::new(world, scope, broken.then_some(2));
    upstream.update(2);
    if broken {
        upstream.update(3);
    }
    upstream.finish()
}

/// What the page says between these lines is written by the test.
const BEGIN: &str = "<!-- comparison: begin -->\n";
const END: &str = "<!-- comparison: end -->\n";

/// A name, a world, the components that change, and whether the first change never gets ready.
type Workload = (&'static str, fn() -> World, &'static [usize], bool);

#[test]
fn ours_is_never_worse_and_the_page_shows_it() {
    let workloads: [Workload; 4] = [
        (
            "Example 1: all change",
            examples::frontend_prefill_decode,
            &[0, 1, 2],
            false,
        ),
        (
            "Example 2: only decode changes",
            examples::frontend_prefill_decode,
            &[2],
            false,
        ),
        (
            "Example 4: broken release, then a fix",
            examples::frontend_prefill_decode,
            &[0, 1, 2],
            true,
        ),
        ("Example 7: 10/100/80 units", examples::at_size, &[0, 1, 2], false),
    ];
    let mut table = String::from(
        "| workload | engine | batches | lowest F/P/D | lowest effective capacity | moved twice | anchors | other gangs |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (name, world, scope, broken) in workloads {
        let upstream = theirs(&world(), scope, broken);
        let coppice = ours(world(), scope, broken);
        for (engine, row) in [("Grove", &upstream), ("Coppice", &coppice)] {
            let lowest: Vec<String> = row.lowest.iter().map(ToString::to_string).collect();
            let batches = if row.finished {
                row.batches.to_string()
            } else {
                format!("{}, then blocked", row.batches)
            };
            let gangs = |count: usize| {
                if row.finished {
                    count.to_string()
                } else {
                    "–".to_owned()
                }
            };
            writeln!(
                table,
                "| {name} | {engine} | {batches} | {} | {} %{} | {} | {} | {} |",
                lowest.join("/"),
                row.effective,
                if row.finished { "" } else { ", and stays there" },
                row.moved_twice,
                gangs(row.anchors),
                gangs(row.others),
            )
            .unwrap();
        }
        assert!(coppice.finished, "{name}");
        assert!(
            coppice
                .lowest
                .iter()
                .zip(&upstream.lowest)
                .all(|(ours, theirs)| ours >= theirs),
            "{name}"
        );
        // An update that is blocked stays where it is: only one that comes to its end can be compared all the way.
        if upstream.finished {
            assert!(
                coppice.effective >= upstream.effective,
                "{name}: {coppice:?} {upstream:?}"
            );
            assert!(coppice.batches <= upstream.batches, "{name}: {coppice:?} {upstream:?}");
            assert!(
                coppice.moved_twice <= upstream.moved_twice,
                "{name}: {coppice:?} {upstream:?}"
            );
            assert!(coppice.anchors <= upstream.anchors, "{name}: {coppice:?} {upstream:?}");
        }
    }
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/updates.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let expected = format!("{head}{BEGIN}{table}{END}{tail}");
    if std::env::var_os("COPPICE_BLESS").is_some() {
        std::fs::write(&file, &expected).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        stored, expected,
        "docs/updates.md is out of date: run the tests with COPPICE_BLESS=1 to write it"
    );
}
