//! A program that lives beside a control plane and may be restarted on its own: the operator under test. It is told where
//! the control plane is through `KUBECONFIG`, and nothing is assumed about when it is ready; scenarios see that for
//! themselves.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ControlPlaneError;
use super::guard::Guard;
use super::program::Program;

/// A running program beside a control plane. It is killed on drop; drop it before the control plane.
#[derive(Debug)]
pub struct Companion {
    name: &'static str,
    path: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: PathBuf,
    guard: Guard,
    program: Mutex<Program>,
}

impl Companion {
    pub(super) fn start(
        name: &'static str,
        path: &Path,
        arguments: &[String],
        kubeconfig: &Path,
        directory: &Path,
        guard: &Guard,
    ) -> Result<Self, ControlPlaneError> {
        let environment = vec![("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
        let program = Program::spawn(name, path, arguments, &environment, directory, guard)?;
        Ok(Self {
            name,
            path: path.to_owned(),
            arguments: arguments.to_owned(),
            environment,
            directory: directory.to_owned(),
            guard: guard.clone(),
            program: Mutex::new(program),
        })
    }

    /// Kills the program as a crash would and starts it again.
    pub fn restart(&self) -> Result<(), ControlPlaneError> {
        let mut program = self.program();
        program.kill();
        let Self {
            name,
            path,
            arguments,
            environment,
            directory,
            guard,
            ..
        } = self;
        *program = Program::spawn(name, path, arguments, environment, directory, guard)?;
        Ok(())
    }

    /// The last lines it wrote, over all restarts.
    pub fn log_tail(&self) -> String {
        self.program().log_tail()
    }

    fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
