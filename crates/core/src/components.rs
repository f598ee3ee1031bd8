//! The components of a set: its standalone cliques and its scaling groups, which coherent updates move in units.
//!
//! The templates of a component have one identity, its revision: that of its pod template, or that of the templates of all
//! cliques of a group. It names neither sizes nor the rest of the set, so a component that is not edited keeps it.

use coppice_api::canonical::{CliqueOrder, GenerationIdentity, TemplateIdentity};

use crate::context::SetContext;
use crate::objects::TemplateSource;
use crate::revisions::StoredRevision;

/// A standalone clique or a scaling group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentFacts {
    /// Its name in the template.
    pub name: String,
    /// The position of its scaling group; none for a standalone clique.
    pub group: Option<usize>,
    /// The positions of its cliques.
    pub cliques: Vec<usize>,
    /// The revision that the set's templates give it.
    pub wanted: String,
}

/// A template from which pods of a clique are made.
#[derive(Clone, Debug)]
pub struct CliqueSource<'a> {
    /// The template.
    pub template: TemplateSource<'a>,
    /// Its identity, as a label.
    pub hash: String,
    /// Whether it is the set's template of today.
    pub is_of_set: bool,
}

/// The components of a set: standalone cliques, then scaling groups, in the order of the template.
pub fn components(context: &SetContext<'_>) -> Vec<ComponentFacts> {
    let facts = &context.facts;
    let identity = |position: usize| Some(context.identities[position]);
    let standalone = (0..facts.cliques.len()).filter(|position| facts.cliques[*position].group.is_none());
    let standalone = standalone.map(|position| ComponentFacts {
        name: facts.cliques[position].template.name.clone(),
        group: None,
        cliques: vec![position],
        wanted: String::new(),
    });
    let groups = facts.groups.iter().enumerate().map(|(group, of_group)| ComponentFacts {
        name: of_group.config.name.clone(),
        group: Some(group),
        cliques: of_group.cliques.clone(),
        wanted: String::new(),
    });
    let mut all: Vec<ComponentFacts> = standalone.chain(groups).collect();
    for component in &mut all {
        component.wanted = revision(context, component, identity).unwrap_or_default();
    }
    all
}

/// The revision of a component by the identities of its cliques; none when one is missing.
fn revision(
    context: &SetContext<'_>,
    component: &ComponentFacts,
    identity: impl Fn(usize) -> Option<TemplateIdentity>,
) -> Option<String> {
    if component.group.is_none() {
        return component
            .cliques
            .first()
            .and_then(|position| identity(*position))
            .map(|found| found.label());
    }
    let name = |position: usize| context.facts.cliques[position].template.name.as_str();
    let cliques = component.cliques.iter();
    let named: Option<Vec<_>> = cliques
        .map(|&position| Some((name(position), identity(position)?)))
        .collect();
    Some(GenerationIdentity::of(&named?, CliqueOrder::Free).label())
}

/// The revision that a component had in a stored revision of the set.
pub fn revision_in(context: &SetContext<'_>, component: &ComponentFacts, stored: &StoredRevision) -> Option<String> {
    let name = |position: usize| context.facts.cliques[position].template.name.as_str();
    revision(context, component, |position| stored.identity(name(position)))
}

/// The template of a clique of a component at a revision; none when it is not stored.
pub fn source<'a>(
    context: &'a SetContext<'_>,
    component: &ComponentFacts,
    wanted: &str,
    position: usize,
) -> Option<CliqueSource<'a>> {
    if component.wanted == wanted {
        return Some(CliqueSource {
            template: TemplateSource::of_set(&context.facts, position),
            hash: context.identities[position].label(),
            is_of_set: true,
        });
    }
    let mut stored = context.revisions.iter();
    let stored = stored.find(|stored| revision_in(context, component, stored).as_deref() == Some(wanted))?;
    let name = &context.facts.cliques[position].template.name;
    let template = stored.template(name)?;
    Some(CliqueSource {
        template: TemplateSource {
            labels: &template.labels,
            annotations: &template.annotations,
            spec: &template.spec,
        },
        hash: stored.identity(name)?.label(),
        is_of_set: false,
    })
}

/// Whether a pod of a clique may be adopted by a unit at a revision: its label does not name another template that is
/// known. One with another template left its unit when the unit was moved.
pub fn may_adopt(
    context: &SetContext<'_>,
    component: &ComponentFacts,
    wanted: &str,
    position: usize,
    label: &str,
) -> bool {
    let expected = source(context, component, wanted, position);
    !context.coherent() || !is_known(context, position, label) || expected.is_none_or(|expected| expected.hash == label)
}

/// Whether a label names the template of a clique in the set or in a stored revision.
pub fn is_known(context: &SetContext<'_>, position: usize, label: &str) -> bool {
    let name = &context.facts.cliques[position].template.name;
    let mut stored = context.revisions.iter();
    context.identities[position].matches_label(label)
        || stored.any(|stored| {
            let identity = stored.identity(name);
            identity.is_some_and(|identity| identity.matches_label(label))
        })
}

/// The revision that the pods of a unit have, by the identities that their labels name for each clique; none when they
/// name no revision that is known, or not the same one.
pub fn revision_of_labels(
    context: &SetContext<'_>,
    component: &ComponentFacts,
    has: impl Fn(usize, TemplateIdentity) -> bool,
) -> Option<String> {
    let all = |identity: &dyn Fn(usize) -> Option<TemplateIdentity>| {
        let mut cliques = component.cliques.iter();
        cliques.all(|&position| identity(position).is_some_and(|identity| has(position, identity)))
    };
    if all(&|position| Some(context.identities[position])) {
        return Some(component.wanted.clone());
    }
    let name = |position: usize| context.facts.cliques[position].template.name.as_str();
    let mut stored = context.revisions.iter();
    let found = stored.find(|stored| all(&|position| stored.identity(name(position))))?;
    revision_in(context, component, found)
}
