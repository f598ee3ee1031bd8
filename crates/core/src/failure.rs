//! What a command is about, and what is known of one that the API server refused.

use jiff::Timestamp;

use crate::command::{Command, Kind, Target};
use crate::reasons::Reason;

/// What a command does to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// Its status is changed.
    Status,
    /// Our scheduling gate is taken off it.
    Ungate,
    /// It is deleted.
    Delete,
}

impl Verb {
    /// How errors name it.
    fn word(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Status => "UpdateStatus",
            Self::Ungate => "RemoveSchedulingGate",
            Self::Delete => "Delete",
        }
    }
}

/// What a command is about: the same for a command and for its next attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The kind of the object.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// What is done to it.
    pub verb: Verb,
}

impl Subject {
    /// The subject of a command; none for an event.
    pub fn of(command: &Command) -> Option<Self> {
        let of_target = |target: &Target, verb| {
            Some(Self {
                kind: target.kind,
                name: target.name.clone(),
                verb,
            })
        };
        match command {
            Command::Create(object) => Some(Self {
                kind: object.kind,
                name: object.metadata.name.clone(),
                verb: Verb::Create,
            }),
            Command::Merge { target, .. } => of_target(target, Verb::Update),
            Command::Status { target, .. } => of_target(target, Verb::Status),
            Command::RemoveGate { target, .. } => of_target(target, Verb::Ungate),
            Command::Delete { target } => of_target(target, Verb::Delete),
            Command::Confirm { .. } | Command::Event { .. } => None,
        }
    }

    /// The code under which a status records that it was refused.
    pub fn code(&self) -> String {
        let object = self.kind.code();
        match self.verb {
            Verb::Create => format!("ERR_CREATE_{object}"),
            Verb::Update => format!("ERR_UPDATE_{object}"),
            Verb::Status => format!("ERR_UPDATE_{object}_STATUS"),
            Verb::Ungate => "ERR_REMOVE_POD_SCHEDULING_GATE".to_owned(),
            Verb::Delete => format!("ERR_DELETE_{object}"),
        }
    }

    /// The reason of the event that reports a success, on an owner of this kind; none where no event is recorded.
    pub(crate) fn success(&self, owner: Kind) -> Option<Reason> {
        Some(match (self.kind, self.verb) {
            (Kind::PodClique, Verb::Create) if owner == Kind::PodCliqueScalingGroup => {
                Reason::PodCliqueCreateSuccessful
            }
            (Kind::PodClique, Verb::Create | Verb::Update) => Reason::PodCliqueCreateOrUpdateSuccessful,
            (Kind::PodClique, Verb::Delete) => Reason::PodCliqueDeleteSuccessful,
            (Kind::PodCliqueScalingGroup, Verb::Create) => Reason::PodCliqueScalingGroupCreateSuccessful,
            (Kind::PodCliqueScalingGroup, Verb::Delete) => Reason::PodCliqueScalingGroupDeleteSuccessful,
            (Kind::PodGang, Verb::Create | Verb::Update) => Reason::PodGangCreateOrUpdateSuccessful,
            (Kind::PodGang, Verb::Delete) => Reason::PodGangDeleteSuccessful,
            (Kind::ComputeDomain, Verb::Create) => Reason::ComputeDomainCreateSuccessful,
            (Kind::ComputeDomain, Verb::Delete) => Reason::ComputeDomainDeleteSuccessful,
            (Kind::Pod, Verb::Create) => Reason::PodCreateSuccessful,
            (Kind::Pod, Verb::Delete) => Reason::PodDeleteSuccessful,
            _ => return None,
        })
    }

    /// The reason of the event that tells of a refusal, on an owner of this kind.
    fn failure(&self, owner: Kind) -> Reason {
        match (self.kind, self.verb) {
            (Kind::PodClique, Verb::Create) if owner == Kind::PodCliqueScalingGroup => Reason::PodCliqueCreateFailed,
            (Kind::PodClique, Verb::Create | Verb::Update) => Reason::PodCliqueCreateOrUpdateFailed,
            (Kind::PodClique, Verb::Delete) => Reason::PodCliqueDeleteFailed,
            (Kind::PodCliqueScalingGroup, Verb::Create | Verb::Update) => {
                Reason::PodCliqueScalingGroupCreateOrUpdateFailed
            }
            (Kind::PodCliqueScalingGroup, Verb::Delete) => Reason::PodCliqueScalingGroupDeleteFailed,
            (Kind::PodGang, Verb::Create | Verb::Update) => Reason::PodGangCreateOrUpdateFailed,
            (Kind::KaiPodGroup, Verb::Create | Verb::Update) => Reason::KAIBackendMappingFailed,
            (Kind::PodGang, Verb::Delete) => Reason::PodGangDeleteFailed,
            (Kind::ComputeDomain, Verb::Create) => Reason::ComputeDomainCreateFailed,
            (Kind::ComputeDomain, Verb::Delete) => Reason::ComputeDomainDeleteFailed,
            (Kind::Pod, Verb::Create) => Reason::PodCreateFailed,
            (Kind::Pod, Verb::Delete) => Reason::PodDeleteFailed,
            _ => Reason::WriteRefused,
        }
    }
}

/// A write that the API server refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What was to be done.
    pub subject: Subject,
    /// The object that tells of it.
    pub owner: Target,
    /// Why, in the words of the API server.
    pub cause: String,
    /// When it was refused first for this cause.
    pub since: Timestamp,
}

impl Failure {
    /// The event that tells of it.
    pub fn event(&self) -> Command {
        Command::Event {
            target: self.owner.clone(),
            warning: true,
            reason: self.subject.failure(self.owner.kind),
            message: self.description(),
        }
    }

    pub(crate) fn description(&self) -> String {
        let Subject { kind, name, verb } = &self.subject;
        format!(
            "[Operation: {}, Code: {}] message: {} {name}, cause: {}",
            verb.word(),
            self.subject.code(),
            kind.as_str(),
            self.cause
        )
    }
}
