//! One program of a control plane as a child process: started with its output in a log file, probed until it is ready,
//! killed and reaped on drop. A program that ends before it is ready is an error that carries the end of its log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use super::ControlPlaneError;
use super::guard::Guard;

/// How long a program may take to become ready. Generous: a loaded machine is slow, and a program that fails ends
/// the wait at once by exiting.
pub(super) const READINESS_LIMIT: Duration = Duration::from_secs(180);

const LOG_TAIL_LINES: usize = 25;
const LOG_TAIL_BYTES: u64 = 16 * 1024;

/// A running child process.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
    guard: Guard,
}

impl Program {
    /// Starts the program with standard output and error appended to a file in `directory`.
    pub(super) fn spawn(
        name: &'static str,
        path: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        directory: &Path,
        guard: &Guard,
    ) -> Result<Self, ControlPlaneError> {
        let log = directory.join(format!("{name}.log"));
        let open = || File::options().create(true).append(true).open(&log);
        let files = |source| ControlPlaneError::Files {
            path: log.clone(),
            source,
        };
        let child = Command::new(path)
            .args(arguments)
            .envs(environment.iter().cloned())
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(open().map_err(files)?)
            .stderr(open().map_err(files)?)
            // A group of its own: an interrupt at the terminal reaches the test first, and the guard ends the rest.
            .process_group(0)
            .spawn()
            .map_err(|source| ControlPlaneError::Spawn {
                program: path.display().to_string(),
                source,
            })?;
        guard.watch(child.id());
        Ok(Self {
            name,
            child,
            log,
            guard: guard.clone(),
        })
    }

    /// The id of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `probe` succeeds. Ends early, with the end of the log, when the program exits.
    pub(super) async fn wait_ready<Probe, Answer>(&mut self, mut probe: Probe) -> Result<(), ControlPlaneError>
    where
        Probe: FnMut() -> Answer,
        Answer: Future<Output = Result<(), String>>,
    {
        let deadline = Instant::now() + READINESS_LIMIT;
        let mut pause = Duration::from_millis(20);
        loop {
            let answer = tokio::time::timeout(Duration::from_secs(5), probe()).await;
            let reason = match answer {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(reason)) => reason,
                Err(_) => "no answer within 5 s".to_owned(),
            };
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(ControlPlaneError::Exited {
                    program: self.name,
                    status: status.to_string(),
                    log: self.log_tail(),
                });
            }
            if Instant::now() >= deadline {
                return Err(ControlPlaneError::NotReady {
                    program: self.name,
                    limit: READINESS_LIMIT,
                    reason,
                    log: self.log_tail(),
                });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }

    /// Kills the program and waits until it is gone, so that its port is free again.
    pub(super) fn kill(&mut self) {
        // Both fail only when the child has already been reaped, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.guard.forget(self.child.id());
    }

    /// The last lines of the log.
    pub(super) fn log_tail(&self) -> String {
        log_tail(&self.log).unwrap_or_else(|error| format!("(log {} is not readable: {error})", self.log.display()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

fn log_tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, directory: &Path) -> Program {
        let arguments = ["-c".to_owned(), script.to_owned()];
        let guard = Guard::start(directory).unwrap();
        Program::spawn("shell", Path::new("/bin/sh"), &arguments, &[], directory, &guard).unwrap()
    }

    #[tokio::test]
    async fn a_program_that_exits_before_it_is_ready_shows_the_end_of_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let script = "for line in $(seq 1 40); do echo line $line; done; echo cannot listen >&2; exit 3";
        let mut program = shell(script, directory.path());
        let message = program
            .wait_ready(|| async { Err("refused".to_owned()) })
            .await
            .unwrap_err()
            .to_string();
        assert!(message.contains("shell"), "{message}");
        assert!(message.contains("exit status: 3"), "{message}");
        assert!(message.contains("cannot listen"), "{message}");
        assert!(!message.contains("line 2\n"), "only the end of the log: {message}");
    }

    #[tokio::test]
    async fn dropping_a_program_ends_its_process() {
        let directory = tempfile::tempdir().unwrap();
        let program = shell("exec sleep 600", directory.path());
        let process = PathBuf::from(format!("/proc/{}", program.child.id()));
        assert!(process.exists());
        drop(program);
        assert!(!process.exists());
    }
}
