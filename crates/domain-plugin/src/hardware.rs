//! What the node's hardware and kernel say: the NVLink fabric of each GPU, the driver's version, device numbers, the boot.
//!
//! Owns the interface, and the real implementation over `nvidia-smi -q -x`, `/proc/devices` and the driver's capability
//! files. Each source can be replaced by a file, which is how nodes without GPUs are tested. It decides nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;

use coppice_domains::decide::plugin::fabric::GpuFabric;
use coppice_domains::decide::plugin::proc_files::{CharDevice, capability, major};
use tokio::process::Command;

use crate::smi;

/// How long `nvidia-smi` may take: it initializes the driver when nothing else has.
const SMI_TIMEOUT: Duration = Duration::from_secs(60);
const CHANNELS: &str = "nvidia-caps-imex-channels";
const CAPABILITIES: &str = "nvidia-caps";
const MANAGEMENT: &str = "driver/nvidia/capabilities/fabric-imex-mgmt";

/// What a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// The fabric of each GPU.
    pub fabric: Vec<GpuFabric>,
    /// The version of the GPU driver.
    pub driver_version: String,
    /// Major number of channels; none when the driver has none.
    pub channels_major: Option<u32>,
    /// How many channels the driver has; none when it does not say.
    pub channels: Option<u32>,
    /// The management device of the fabric.
    pub management: Option<CharDevice>,
}

/// Why the hardware cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HardwareError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `nvidia-smi` cannot be run.
    #[error(
        "cannot run nvidia-smi below the driver root {root}: {problem}; is the GPU driver installed on this node, and is \
         nvidiaDriverRoot where it is?"
    )]
    Smi {
        /// The driver root.
        root: PathBuf,
        /// Why.
        problem: String,
    },
    /// Its output is not what it should be.
    #[error("nvidia-smi -q -x: {0}")]
    Output(#[from] smi::SmiError),
}

/// Reads a node's hardware.
pub trait Probe: Send + Sync + 'static {
    /// Reads it.
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<Hardware, HardwareError>> + Send + '_>>;
}

/// The real hardware, or files in its place.
#[derive(Clone, Debug)]
pub struct NodeProbe {
    /// Where the root of the GPU driver is seen from here.
    pub driver_root: PathBuf,
    /// A file with the output of `nvidia-smi -q -x`, in place of running it.
    pub smi_output: Option<PathBuf>,
    /// A file in place of `/proc/devices`.
    pub proc_devices: Option<PathBuf>,
    /// A directory in place of `/proc`.
    pub proc: PathBuf,
}

impl Default for NodeProbe {
    fn default() -> Self {
        Self {
            driver_root: "/".into(),
            smi_output: None,
            proc_devices: None,
            proc: "/proc".into(),
        }
    }
}

fn read(path: &Path) -> Result<String, HardwareError> {
    std::fs::read_to_string(path).map_err(|source| HardwareError::File {
        path: path.to_owned(),
        source,
    })
}

impl NodeProbe {
    async fn smi(&self) -> Result<String, HardwareError> {
        if let Some(path) = &self.smi_output {
            return read(path);
        }
        let failed = |problem: String| HardwareError::Smi {
            root: self.driver_root.clone(),
            problem,
        };
        // With the libraries of the driver root, which need not be those of this image.
        let mut command = if self.driver_root == Path::new("/") {
            Command::new("nvidia-smi")
        } else {
            let mut command = Command::new("chroot");
            command.arg(&self.driver_root).arg("nvidia-smi");
            command
        };
        command.args(["-q", "-x"]).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(SMI_TIMEOUT, command.output())
            .await
            .map_err(|_| failed(format!("no answer after {} s", SMI_TIMEOUT.as_secs())))?
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let words: String = String::from_utf8_lossy(&output.stderr).chars().take(200).collect();
            return Err(failed(format!("{}: {}", output.status, words.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn hardware(&self) -> Result<Hardware, HardwareError> {
        let gpus = smi::parse(&self.smi().await?)?;
        let path = self.proc_devices.clone().unwrap_or_else(|| self.proc.join("devices"));
        let devices = read(&path)?;
        let management = major(&devices, CAPABILITIES).and_then(|major| {
            let content = std::fs::read_to_string(self.proc.join(MANAGEMENT)).ok()?;
            capability(&content, major)
        });
        let parameters = std::fs::read_to_string(self.proc.join("driver/nvidia/params")).unwrap_or_default();
        Ok(Hardware {
            fabric: gpus.fabric,
            driver_version: gpus.driver_version,
            channels_major: major(&devices, CHANNELS),
            channels: channel_count(&parameters),
            management,
        })
    }
}

impl Probe for NodeProbe {
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<Hardware, HardwareError>> + Send + '_>> {
        Box::pin(self.hardware())
    }
}

/// The driver's parameter that says how many channels it creates.
fn channel_count(parameters: &str) -> Option<u32> {
    let mut lines = parameters.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.trim() == "ImexChannelCount")?;
    value.trim().parse().ok()
}

/// The boot of this node.
///
/// # Errors
/// When the kernel does not say.
pub fn boot_id(proc: &Path) -> Result<String, HardwareError> {
    Ok(read(&proc.join("sys/kernel/random/boot_id"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_says_how_many_channels_it_has() {
        assert_eq!(
            channel_count("ModifyDeviceFiles: 1\nImexChannelCount: 2048\n"),
            Some(2048)
        );
        assert_eq!(channel_count("x"), None);
    }

    #[tokio::test]
    async fn a_missing_driver_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let probe = NodeProbe {
            driver_root: directory.path().join("driver"),
            ..NodeProbe::default()
        };
        let error = probe.hardware().await.unwrap_err().to_string();
        assert!(
            error.contains("nvidia-smi") && error.contains("nvidiaDriverRoot"),
            "{error}"
        );
    }
}
