//! The last line of defence against orphans. Rust code that is killed runs no destructors, so a small shell process
//! is told the process ids of all programs through its standard input. The kernel closes that pipe when the test
//! process ends in whatever way; if that happens before the guard was dismissed, it kills what is left and removes the
//! data directory. An ordinary drop ends the programs first and then dismisses the guard.
//!
//! Limit: a guard that is itself killed together with the test process (for example by killing every process of the
//! user at once) cannot help.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::ControlPlaneError;

// `$1` is the data directory. A line `+PID` adds a process, `-PID` takes it back, `.` dismisses the guard.
const SCRIPT: &str = r#"
pids=" "
while read -r line; do
  case $line in
    +*) pids="$pids${line#+} " ;;
    -*) before=${pids%% ${line#-} *}; after=${pids#* ${line#-} }; pids="$before $after" ;;
    .) exit 0 ;;
  esac
done
for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
rm -rf -- "$1"
"#;

/// A handle to the guard of one control plane; the last clone dismisses it on drop.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    shell: Arc<Shell>,
}

#[derive(Debug)]
struct Shell {
    child: Mutex<Child>,
    input: Mutex<ChildStdin>,
}

impl Guard {
    /// Starts the guard for the given data directory.
    pub(super) fn start(directory: &Path) -> Result<Self, ControlPlaneError> {
        let spawn = |source| ControlPlaneError::Spawn {
            program: "/bin/sh".to_owned(),
            source,
        };
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "control-plane-guard"])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(spawn)?;
        let input = child.stdin.take().expect("standard input was asked for as a pipe");
        Ok(Self {
            shell: Arc::new(Shell {
                child: Mutex::new(child),
                input: Mutex::new(input),
            }),
        })
    }

    /// From now on the process dies with the test process.
    pub(super) fn watch(&self, process: u32) {
        self.shell.tell(&format!("+{process}\n"));
    }

    /// The process has been reaped; its id may belong to somebody else from now on.
    pub(super) fn forget(&self, process: u32) {
        self.shell.tell(&format!("-{process}\n"));
    }
}

impl Shell {
    fn tell(&self, line: &str) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        // A guard that is gone cannot be told anything; the programs still end on drop.
        let _ = input.write_all(line.as_bytes());
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.tell(".\n");
        let _ = self.child.get_mut().unwrap_or_else(PoisonError::into_inner).wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lines: &str) -> (tempfile::TempDir, Child, Child, Child) {
        let directory = tempfile::tempdir().unwrap();
        let sleeper = || Command::new("sleep").arg("600").spawn().unwrap();
        let (first, second) = (sleeper(), sleeper());
        let mut guard = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "guard"])
            .arg(directory.path().join("data"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        std::fs::create_dir(directory.path().join("data")).unwrap();
        let text = lines
            .replace('A', &first.id().to_string())
            .replace('B', &second.id().to_string());
        guard.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        guard.wait().unwrap();
        (directory, guard, first, second)
    }

    #[test]
    fn a_closed_pipe_ends_what_is_still_watched_and_removes_the_data() {
        let (directory, _guard, mut first, mut second) = run("+A\n+B\n-A\n");
        assert!(!second.wait().unwrap().success(), "the second was still watched");
        assert!(first.try_wait().unwrap().is_none(), "the first was forgotten");
        assert!(!directory.path().join("data").exists());
        first.kill().unwrap();
        first.wait().unwrap();
    }

    #[test]
    fn a_dismissed_guard_touches_nothing() {
        let (directory, _guard, mut first, mut second) = run("+A\n+B\n.\n");
        assert!(directory.path().join("data").exists());
        for child in [&mut first, &mut second] {
            assert!(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
