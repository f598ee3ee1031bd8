//! Where the programs of a control plane are found. Owns the reading of `KUBEBUILDER_ASSETS` and of the programs'
//! versions. It assumes nothing about how the programs got there, and never falls back to whatever happens to be on
//! the `PATH`: another version there would change what a test proves.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ControlPlaneError;

/// The environment variable that names the directory of the programs.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// A directory with `etcd`, `kube-apiserver` and perhaps more programs of a control plane.
#[derive(Debug, Clone)]
pub struct Assets {
    directory: PathBuf,
}

/// The versions the programs report about themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// As printed by `kube-apiserver --version`, without the leading word.
    pub kube_apiserver: String,
    /// As printed by `etcd --version`, without the leading words.
    pub etcd: String,
}

impl Assets {
    /// The directory named by `KUBEBUILDER_ASSETS`.
    pub fn from_environment() -> Result<Self, ControlPlaneError> {
        match std::env::var_os(ASSETS_VARIABLE) {
            Some(directory) if !directory.is_empty() => Ok(Self::in_directory(directory)),
            _ => Err(ControlPlaneError::NoAssets),
        }
    }

    /// The programs in the given directory.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// The path of one program; an error that says what to do when it is not there.
    pub fn program(&self, name: &'static str) -> Result<PathBuf, ControlPlaneError> {
        let path = self.directory.join(name);
        if path.is_file() {
            Ok(path)
        } else {
            Err(ControlPlaneError::MissingProgram {
                program: name,
                directory: self.directory.clone(),
            })
        }
    }

    /// Asks the programs for their versions.
    pub fn versions(&self) -> Result<Versions, ControlPlaneError> {
        let kubernetes = first_line(&self.program("kube-apiserver")?)?;
        let etcd = first_line(&self.program("etcd")?)?;
        Ok(Versions {
            kube_apiserver: kubernetes.trim_start_matches("Kubernetes ").to_owned(),
            etcd: etcd.trim_start_matches("etcd Version: ").to_owned(),
        })
    }
}

fn first_line(program: &Path) -> Result<String, ControlPlaneError> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .map_err(|source| ControlPlaneError::Spawn {
            program: program.display().to_string(),
            source,
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or("unknown").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_together_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let message = Assets::in_directory(directory.path())
            .program("kube-apiserver")
            .unwrap_err()
            .to_string();
        assert!(message.contains("kube-apiserver"), "{message}");
        assert!(message.contains(&directory.path().display().to_string()), "{message}");
        assert!(message.contains("hack/build-control-plane.sh"), "{message}");
    }
}
