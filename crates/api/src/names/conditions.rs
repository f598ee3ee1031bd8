//! Types and reasons of conditions that other operators of this API read and write too.

/// On sets, cliques and scaling groups: whether an update is in progress.
pub const UPDATE_IN_PROGRESS: &str = "UpdateInProgress";
/// Reason of [`UPDATE_IN_PROGRESS`] False: everything has the current template.
pub const NO_ACTIVE_UPDATE: &str = "NoActiveUpdate";
/// Reason of [`UPDATE_IN_PROGRESS`] True: something does not have the current template yet.
pub const PROGRESSING: &str = "Progressing";
/// Reason of [`UPDATE_IN_PROGRESS`] Unknown: nothing was updated for longer than `progressDeadline`.
pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

/// On sets: another operator is moving gangs from their old names to names with an epoch. Removed when that is done, never
/// False; Coppice moves gangs without it.
pub const POD_GANG_MIGRATION_IN_PROGRESS: &str = "PodGangMigrationInProgress";
/// Reason of [`POD_GANG_MIGRATION_IN_PROGRESS`] True.
pub const LEGACY_POD_GANGS_PENDING_MIGRATION: &str = "LegacyPodGangsPendingMigration";
