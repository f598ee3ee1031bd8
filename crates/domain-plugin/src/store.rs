//! The checkpoint in memory and on disk, and the files of claims.
//!
//! Owns both directories. Every method writes through before it returns and none of them waits for anything else, so that
//! a request that is given up leaves memory and disk equal.

use std::io;
use std::path::{Path, PathBuf};

use coppice_domains::api::limits;
use coppice_domains::decide::plugin::cdi;
use coppice_domains::decide::plugin::checkpoint::{Checkpoint, CheckpointError, FILE, MAX_BYTES};
use coppice_domains::decide::plugin::driver_files::IMEX_CONFIG_TEMPLATE;
use coppice_domains::decide::plugin::import::import;
use serde_json::Value;
use tracing::{info, warn};

use crate::files;

/// The checkpoint of NVIDIA's driver in the same directory.
const FOREIGN: &str = "checkpoint.json";
const DOMAINS: &str = "domains";

/// Why the state of the node cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError + '_ {
    |source| StoreError::File {
        path: path.to_owned(),
        source,
    }
}

/// What is prepared on this node.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    cdi: PathBuf,
    checkpoint: Checkpoint,
}

impl Store {
    /// Reads the checkpoint, once also that of NVIDIA's driver.
    pub(crate) fn open(directory: &Path, cdi: &Path, boot_id: &str) -> Result<Self, StoreError> {
        for directory in [directory, cdi] {
            std::fs::create_dir_all(directory).map_err(file_error(directory))?;
        }
        let path = directory.join(FILE);
        let stored = files::read(&path, MAX_BYTES).map_err(file_error(&path))?;
        let mut store = Self {
            directory: directory.to_owned(),
            cdi: cdi.to_owned(),
            checkpoint: Checkpoint::empty(boot_id),
        };
        match stored {
            Some(text) => store.checkpoint = Checkpoint::decode(&text, boot_id)?,
            None => {
                let imported = store.imported(boot_id)?;
                store.replace(imported)?;
            }
        }
        Ok(store)
    }

    fn imported(&self, boot_id: &str) -> Result<Checkpoint, StoreError> {
        let path = self.directory.join(FOREIGN);
        let Some(text) = files::read(&path, MAX_BYTES).map_err(file_error(&path))? else {
            return Ok(Checkpoint::empty(boot_id));
        };
        match import(&text, boot_id) {
            Ok(imported) => {
                for (claim, problem) in &imported.skipped {
                    warn!(claim, problem, "an entry of NVIDIA's checkpoint was not taken over");
                }
                info!(
                    claims = imported.checkpoint.claims.len(),
                    "took over NVIDIA's checkpoint"
                );
                Ok(imported.checkpoint)
            }
            Err(problem) => Err(CheckpointError::Damaged(format!("{FOREIGN}: {problem}")).into()),
        }
    }

    pub(crate) fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    pub(crate) fn replace(&mut self, next: Checkpoint) -> Result<(), StoreError> {
        let path = self.directory.join(FILE);
        files::replace(&path, next.encode().as_bytes()).map_err(file_error(&path))?;
        self.checkpoint = next;
        Ok(())
    }

    pub(crate) fn write_cdi(&self, file: &str, document: &Value) -> Result<(), StoreError> {
        let path = self.cdi.join(file);
        files::replace(&path, document.to_string().as_bytes()).map_err(file_error(&path))
    }

    /// The files that belong to a claim.
    pub(crate) fn cdi_files(&self, claim_uid: &str) -> Vec<String> {
        let names = cdi::file_names(claim_uid);
        names.into_iter().filter(|name| self.cdi.join(name).exists()).collect()
    }

    pub(crate) fn remove_cdi(&self, names: &[String]) -> Result<(), StoreError> {
        for name in names {
            let path = self.cdi.join(name);
            files::remove(&path).map_err(file_error(&path))?;
        }
        Ok(())
    }

    /// The directory that is shared with the daemon of a domain.
    pub(crate) fn domain_directory(&self, domain_uid: &str) -> PathBuf {
        self.directory.join(DOMAINS).join(domain_uid)
    }

    pub(crate) fn write_daemon_files(&self, domain_uid: &str) -> Result<(), StoreError> {
        let directory = self.domain_directory(domain_uid);
        std::fs::create_dir_all(&directory).map_err(file_error(&directory))?;
        let path = directory.join("imexd.cfg.tmpl");
        files::replace(&path, IMEX_CONFIG_TEMPLATE.as_bytes()).map_err(file_error(&path))
    }

    /// UIDs of domains that have a directory here.
    pub(crate) fn domains(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.join(DOMAINS));
        let names = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| limits::is_uid(name)).collect()
    }

    pub(crate) fn remove_domain(&self, domain_uid: &str) -> Result<(), StoreError> {
        let directory = self.domain_directory(domain_uid);
        std::fs::remove_dir_all(&directory).map_err(file_error(&directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_there_after_a_restart_and_not_after_a_reboot() {
        let directory = tempfile::tempdir().unwrap();
        let open = |boot| Store::open(&directory.path().join("p"), &directory.path().join("cdi"), boot);
        let mut store = open("b").unwrap();
        let text = r#"{"state": "PrepareStarted", "name": "c", "namespace": "n", "fingerprint": "f", "domainUID": "d",
                       "device": "channel-0", "pool": "p", "request": "channel"}"#;
        let entry = serde_json::from_str(text).unwrap();
        store.replace(store.checkpoint().with("c-1", entry)).unwrap();
        assert_eq!(open("b").unwrap().checkpoint().claims.len(), 1);
        assert!(open("another").unwrap().checkpoint().claims.is_empty());
        std::fs::write(directory.path().join("p").join(FILE), "{").unwrap();
        let error = open("b").unwrap_err().to_string();
        assert!(
            error.contains("damaged") && error.contains("reboot the node"),
            "{error}"
        );
    }

    #[test]
    fn a_checkpoint_of_the_driver_that_cannot_be_read_is_not_ignored() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FOREIGN), "{").unwrap();
        assert!(Store::open(directory.path(), &directory.path().join("cdi"), "b").is_err());
    }
}
