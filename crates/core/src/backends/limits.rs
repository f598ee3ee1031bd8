//! What a back-end cannot express of a gang.

/// A part of a gang that the object of a scheduler does not say, or says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The scheduler needs a queue, and the set names none.
    QueueMissing {
        /// Where to name it.
        key: &'static str,
    },
    /// The cliques of the set name different queues.
    QueuesDiffer {
        /// The queues.
        queues: Vec<String>,
    },
    /// The stored object keeps the queue that it was created with.
    QueueKept {
        /// The queue of the object.
        stored: String,
        /// The queue of the set.
        wanted: String,
    },
    /// The topology that the constraints refer to is not known.
    TopologyUnknown,
    /// The scheduler knows no topology constraints.
    Topology {
        /// What asks for them.
        of: Vec<String>,
    },
    /// The scheduler packs the whole gang only, not a part of it.
    PackingOfParts {
        /// The parts.
        of: Vec<String>,
    },
    /// The scheduler knows no preferred packing.
    PreferredPacking {
        /// What asks for it.
        of: Vec<String>,
    },
    /// The scheduler knows one minimum for the whole gang, and pods above the minimum of their clique count towards it.
    MinimumOfCliques {
        /// The cliques with more pods than their minimum.
        of: Vec<String>,
    },
    /// The object cannot be changed, and says something else than the gang.
    Immutable {
        /// The field.
        field: &'static str,
    },
    /// The API server does not store the field.
    FieldDropped {
        /// The field.
        field: &'static str,
        /// The feature gate that it needs.
        gate: &'static str,
    },
    /// The API server does not have the kind.
    NotServed {
        /// Its version.
        version: &'static str,
    },
    /// There is an object of that name that belongs to something else.
    OwnedByOther,
    /// Two parts of the gang would have the same name.
    NameTwice {
        /// The name.
        name: String,
    },
}

impl Limit {
    /// The limit in words.
    pub fn message(&self) -> String {
        match self {
            Self::QueueMissing { key } => {
                format!("the scheduler needs a queue: set the label {key} on the PodCliqueSet")
            }
            Self::QueuesDiffer { queues } => {
                format!("the cliques name different queues ({}); a gang has one", listed(queues))
            }
            Self::QueueKept { stored, wanted } => format!(
                "the PodGroup stays in queue {stored:?}, and the PodCliqueSet names {wanted:?}: delete the PodGroup to move it"
            ),
            Self::TopologyUnknown => "the ClusterTopologyBinding of the topology constraints does not exist".to_owned(),
            Self::Topology { of } => format!(
                "the scheduler does not support topology constraints; those of {} are not enforced",
                listed(of)
            ),
            Self::PackingOfParts { of } => format!(
                "the scheduler packs whole gangs only; the topology constraints of {} are not enforced",
                listed(of)
            ),
            Self::PreferredPacking { of } => format!(
                "the scheduler has no preferred packing; pack.preferred of {} has no effect",
                listed(of)
            ),
            Self::MinimumOfCliques { of } => format!(
                "the scheduler counts all pods of the gang together: pods of {} above minAvailable may start in place of \
                 others that are needed",
                listed(of)
            ),
            Self::Immutable { field } => {
                format!("{field} of the PodGroup cannot change; it keeps its value until the gang has no pods")
            }
            Self::FieldDropped { field, gate } => {
                format!("the API server did not store {field} of the PodGroup: enable the feature gate {gate}")
            }
            Self::NotServed { version } => format!(
                "the API server has no PodGroups of {version}: install the scheduler, then restart the operator"
            ),
            Self::OwnedByOther => {
                "a PodGroup of the gang's name belongs to something else: delete or rename it".to_owned()
            }
            Self::NameTwice { name } => {
                format!(
                    "a clique and a copy of a scaling group are both named {name:?}; the scheduler needs unique names"
                )
            }
        }
    }
}

/// Names that a message lists at most.
const MOST_NAMES: usize = 3;

fn listed(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>();
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
