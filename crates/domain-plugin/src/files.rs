//! Files that are replaced whole, and the lock that one process per node holds.
//!
//! A reader sees the old content or the new one, and after a crash the disk has one of them: content is written beside,
//! synced, renamed, and the directory is synced. Nothing here waits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Replaces a file, or creates it.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // One process writes here, one write at a time: the name cannot be taken.
    let beside = directory.join(format!(".{name}.new"));
    let mut file = File::create(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(directory)?.sync_all()
}

/// Removes a file that may not be there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The content of a file of bounded size; none when it is not there.
pub(crate) fn read(path: &Path, most: usize) -> io::Result<Option<String>> {
    use std::io::Read as _;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    // One more than is allowed, so that the reader of the content finds it too large.
    let most = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Held as long as the plugin runs.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Why the lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "{path} is locked: another ComputeDomain kubelet plugin runs on this node; remove it (or the kubelet plugin of \
         NVIDIA's driver) before this one starts"
    )]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened or locked.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Lock {
    /// Takes the lock, which the kernel releases with the process.
    pub(crate) fn take(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::File {
            path: path.to_owned(),
            source,
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::Taken { path: path.to_owned() }),
            Err(error) => Err(failed(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        for content in ["one", "another"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(read(&path, 100).unwrap().as_deref(), Some(content));
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(read(&path, 3).unwrap().as_deref(), Some("anot"));
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(read(&path, 100).unwrap(), None);
    }

    #[test]
    fn one_process_has_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pu.lock");
        let first = Lock::take(&path).unwrap();
        assert!(matches!(Lock::take(&path), Err(LockError::Taken { .. })));
        drop(first);
        Lock::take(&path).unwrap();
    }
}
