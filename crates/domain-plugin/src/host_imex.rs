//! Whether the host's own `nvidia-imex` is ready (mode `hostManaged`).
//!
//! It announces nothing: its query tool is asked over the socket that the administrator has configured.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::settings::Settings;

const TIMEOUT: Duration = Duration::from_secs(5);
const TOOL: &str = "nvidia-imex-ctl";

/// Why it is not; none when it is.
pub(crate) async fn not_ready(settings: &Settings) -> Option<String> {
    let root = &settings.driver_root;
    let mut command = if root == Path::new("/") {
        Command::new(TOOL)
    } else {
        let mut command = Command::new("chroot");
        command.arg(root).arg(TOOL);
        command
    };
    let socket = &settings.host_socket;
    command
        .arg("-q")
        .arg(format!("--u={socket}"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let hint = format!(
        "the host's configuration of nvidia-imex needs IMEX_CMD_ENABLED=1 and IMEX_CMD_UNIX_DOMAIN_PATH={socket}"
    );
    match tokio::time::timeout(TIMEOUT, command.output()).await {
        Err(_elapsed) => Some(format!("{TOOL} does not answer; {hint}")),
        Ok(Err(error)) => Some(format!("cannot run {TOOL} below {}: {error}", root.display())),
        Ok(Ok(output)) => {
            let said = String::from_utf8_lossy(&output.stdout);
            // Exactly: another state may contain the word.
            if output.status.success() && said.trim() == "READY" {
                return None;
            }
            let complaint = String::from_utf8_lossy(&output.stderr);
            let words: String = [said.trim(), complaint.trim()]
                .join(" ")
                .trim()
                .chars()
                .take(200)
                .collect();
            Some(format!("{TOOL} says {words:?}; {hint}"))
        }
    }
}
