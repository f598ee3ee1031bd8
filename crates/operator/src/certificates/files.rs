//! Certificates that others make: read from a directory, and again whenever something in it changes.
//!
//! The directory is usually a mounted Secret, which a kubelet replaces as a whole by exchanging a link. Files that cannot
//! be used leave what is served as it is. Never writes.

use std::path::{Path, PathBuf};

use notify::{EventKind, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Served;
use super::material::{Material, MaterialError};

/// Why a directory gives no certificate.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The directory cannot be watched.
    #[error(
        "cannot watch {directory}: {source}; mount the certificate there, or correct server.webhooks.serverCertDir"
    )]
    Watch {
        /// The directory.
        directory: String,
        /// Why.
        source: notify::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// The files cannot be used.
    #[error("the certificate in {directory} cannot be used: {source}")]
    Use {
        /// The directory.
        directory: String,
        /// Why.
        source: MaterialError,
    },
}

/// Reads `tls.crt` and `tls.key` of a directory.
///
/// # Errors
/// When they cannot be used.
pub async fn read(directory: &Path) -> Result<Material, FilesError> {
    let file = async |name: &str| {
        let path = directory.join(name);
        tokio::fs::read(&path).await.map_err(|source| FilesError::Read {
            file: path.display().to_string(),
            source,
        })
    };
    let (certificate, key) = (file("tls.crt").await?, file("tls.key").await?);
    Material::read(&certificate, &key).map_err(|source| FilesError::Use {
        directory: directory.display().to_string(),
        source,
    })
}

/// Loads the certificate of a directory into `served`, now and after every change, until `stop` is cancelled.
///
/// # Errors
/// When the directory cannot be watched. What is wrong with its files is logged instead, because it may be mended.
pub async fn follow(directory: PathBuf, served: Served, stop: CancellationToken) -> Result<(), FilesError> {
    let failed = |source| FilesError::Watch {
        directory: directory.display().to_string(),
        source,
    };
    let (changed, mut changes) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Our own reading is an event too.
        if !matches!(
            event,
            Ok(notify::Event {
                kind: EventKind::Access(_),
                ..
            })
        ) {
            // Full means that a reading is due anyway.
            let _ = changed.try_send(());
        }
    })
    .map_err(failed)?;
    watcher.watch(&directory, RecursiveMode::NonRecursive).map_err(failed)?;
    let mut last: Option<Material> = None;
    loop {
        match read(&directory).await {
            Ok(material) if last.as_ref() != Some(&material) => {
                info!(directory = %directory.display(), expires = %material.not_after, "the webhook certificate was loaded");
                served.replace(&material);
                last = Some(material);
            }
            Ok(_) => {}
            Err(problem) => warn!(%problem, "the webhook certificate stays as it is"),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            change = changes.recv() => if change.is_none() { return Ok(()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::certificates::issue::issue;

    fn put(directory: &Path, name: &str) -> Vec<u8> {
        let issued = issue(&BTreeSet::from([name.to_owned()]), jiff::Timestamp::now()).unwrap();
        std::fs::create_dir(directory).unwrap();
        std::fs::write(directory.join("tls.crt"), &issued.certificate).unwrap();
        std::fs::write(directory.join("tls.key"), &issued.key).unwrap();
        let material = Material::read(issued.certificate.as_bytes(), issued.key.as_bytes()).unwrap();
        material.certified.cert[0].to_vec()
    }

    /// As a kubelet does it: the files are links into `..data`, which is a link that is exchanged at once.
    #[tokio::test]
    async fn a_mounted_secret_that_is_exchanged_is_loaded() {
        let mount = tempfile::tempdir().unwrap();
        let path = mount.path().to_owned();
        let first = put(&path.join("..one"), "one.example");
        symlink("..one", path.join("..data")).unwrap();
        for file in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(file), path.join(file)).unwrap();
        }
        let (served, stop) = (Served::default(), CancellationToken::new());
        let mut seen = served.subscribe();
        let following = tokio::spawn(follow(path.clone(), served.clone(), stop.clone()));
        seen.wait_for(|loaded| *loaded == 1).await.unwrap();
        assert_eq!(served.leaf(), Some(first));
        let second = put(&path.join("..two"), "two.example");
        symlink("..two", path.join("..next")).unwrap();
        std::fs::rename(path.join("..next"), path.join("..data")).unwrap();
        seen.wait_for(|loaded| *loaded == 2).await.unwrap();
        assert_eq!(served.leaf(), Some(second));
        stop.cancel();
        following.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_is_not_there_is_named() {
        let error = follow("/nowhere".into(), Served::default(), CancellationToken::new())
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("/nowhere") && error.to_string().contains("serverCertDir"),
            "{error}"
        );
    }
}
