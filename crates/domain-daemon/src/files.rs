//! Writing the files of `nvidia-imex`: readers see the old content or the new one, and an unchanged file is not written.
//!
//! The hosts file of a pod is a bind mount, which cannot be replaced by a rename. It is then overwritten from its beginning
//! and cut to its new length last, so that the lines of others, which come first and do not change, are there at every
//! moment. Never truncates a file before its new content is there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Replaces the content of a file. Returns whether it had another one.
pub(crate) fn replace(path: &Path, content: &str) -> io::Result<bool> {
    match fs::read(path) {
        Ok(current) if current == content.as_bytes() => return Ok(false),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    match by_rename(path, content) {
        Ok(()) => Ok(true),
        // A mount point, or a directory that is not ours to write.
        Err(error) if path.exists() && is_mount_trouble(&error) => {
            in_place(path, content)?;
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

fn is_mount_trouble(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ResourceBusy
            | ErrorKind::CrossesDevices
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
    )
}

fn by_rename(path: &Path, content: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(directory)?;
    file.write_all(content.as_bytes())?;
    if let Ok(metadata) = fs::metadata(path) {
        file.as_file().set_permissions(metadata.permissions())?;
    } else {
        use std::os::unix::fs::PermissionsExt as _;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

fn in_place(path: &Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(content.as_bytes())?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_changed_file_is_replaced_by_another_and_an_unchanged_one_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        assert!(replace(&path, "a\n").unwrap());
        let first = fs::metadata(&path).unwrap().ino();
        assert!(!replace(&path, "a\n").unwrap());
        assert_eq!(fs::metadata(&path).unwrap().ino(), first);
        let old = File::open(&path).unwrap();
        assert!(replace(&path, "b\n").unwrap());
        assert_ne!(fs::metadata(&path).unwrap().ino(), first, "replaced, not rewritten");
        assert_eq!(
            io::read_to_string(old).unwrap(),
            "a\n",
            "a reader keeps the old content whole"
        );
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn a_file_that_cannot_be_replaced_keeps_its_first_lines_while_it_is_rewritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        fs::write(&path, "127.0.0.1 localhost\nlong line that goes\n").unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        in_place(&path, "127.0.0.1 localhost\nshort\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "127.0.0.1 localhost\nshort\n");
        assert_eq!(fs::metadata(&path).unwrap().ino(), before);
    }
}
