//! Files and devices of the GPU driver that a daemon needs besides its claim: the CDI device `all`, and the template of
//! `nvidia-imex`'s configuration.

use serde_json::{Value, json};

use super::cdi::VENDOR;

/// Programs that are mounted where the driver root has them.
pub const PROGRAMS: [&str; 3] = ["nvidia-imex", "nvidia-imex-ctl", "nvidia-smi"];
/// Directories below a driver root that have programs.
pub const PROGRAM_DIRECTORIES: [&str; 4] = ["usr/bin", "usr/sbin", "bin", "sbin"];
/// Directories below a driver root that have libraries.
pub const LIBRARY_DIRECTORIES: [&str; 5] = [
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "usr/lib",
];
/// Where a daemon's image looks for libraries first.
const LIBRARIES: &str = "/usr/local/nvidia/lib";
/// Where it looks for programs.
const BINARIES: &str = "/usr/bin";

/// The file of the document in the CDI directory.
pub fn file_name() -> String {
    format!("{VENDOR}-device_base.json")
}

/// Whether a file name is that of a driver library as it is loaded: by its first version number.
pub fn is_library(name: &str) -> bool {
    let Some((stem, version)) = name.split_once(".so.") else {
        return false;
    };
    let known = stem == "libcuda" || stem.starts_with("libnvidia-");
    known && !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a file name in `/dev` is that of a device that a daemon may use.
pub fn is_device(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("nvidia") else {
        return false;
    };
    ["ctl", "-uvm", "-uvm-tools"].contains(&rest)
        || (!rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What was found below the driver root: paths on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverFiles {
    /// Libraries.
    pub libraries: Vec<String>,
    /// Programs.
    pub programs: Vec<String>,
    /// Devices.
    pub devices: Vec<String>,
}

/// The document of the device `all`.
pub fn document(files: &DriverFiles) -> Value {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let mount = |path: &String, directory: &str| {
        json!({
            "hostPath": path,
            "containerPath": format!("{directory}/{}", name(path)),
            "options": ["ro", "nosuid", "nodev", "bind"],
        })
    };
    let mounts: Vec<Value> = files
        .libraries
        .iter()
        .map(|path| mount(path, LIBRARIES))
        .chain(files.programs.iter().map(|path| mount(path, BINARIES)))
        .collect();
    let devices: Vec<Value> = files
        .devices
        .iter()
        .map(|path| json!({"path": format!("/dev/{}", name(path)), "hostPath": path}))
        .collect();
    json!({
        "cdiVersion": "0.5.0",
        "kind": format!("{VENDOR}/device"),
        "containerEdits": {"mounts": mounts},
        "devices": [{"name": "all", "containerEdits": {
            // Else a runtime of the vendor would add what the variable asks for, too.
            "env": ["NVIDIA_VISIBLE_DEVICES=void", format!("LD_LIBRARY_PATH={LIBRARIES}")],
            "deviceNodes": devices,
        }}],
    })
}

/// The template of `nvidia-imex`'s configuration: its documented settings, with the two that a daemon fills in. The log goes
/// to the standard error, the query tool asks on the pod's address, and an instance waits until those that it exported to
/// before it crashed are back.
pub const IMEX_CONFIG_TEMPLATE: &str = "\
LOG_LEVEL=4
LOG_FILE_NAME=
STATS_FILE_NAME=/var/log/nvidia-imex-stats.log
LOG_APPEND_TO_LOG=0
LOG_FILE_MAX_SIZE=1024
LOG_MAX_ROTATE_COUNT=10
LOG_USE_SYSLOG=0
DAEMONIZE=0
BIND_INTERFACE_IP=
SERVER_PORT=50000
IMEX_NODE_CONFIG_FILE={{ .IMEXDaemonNodesConfigPath }}
NETWORK_INTERFACE=
IMEX_WAIT_FOR_QUORUM=RECOVERY
IMEX_ENABLE_AUTH_ENCRYPTION=0
IMEX_CMD_ENABLED=1
IMEX_CMD_BIND_INTERFACE_IP={{ .IMEXCmdBindInterfaceIP }}
IMEX_CMD_PORT=50005
IMEX_CMD_UNIX_DOMAIN_PATH=
IMEX_NODE_DISCONNECTED_GRACE_TIME=-1
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::daemon::files::imex_config;

    #[test]
    fn libraries_and_devices_of_the_driver_are_recognized() {
        for good in ["libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-nvlink.so.580"] {
            assert!(is_library(good), "{good}");
        }
        for bad in [
            "libcuda.so",
            "libcudart.so.12",
            "libnvidia-ml.so.580.65.06",
            "libnvidia-ml.so.",
            "x",
        ] {
            assert!(!is_library(bad), "{bad}");
        }
        for good in ["nvidia0", "nvidia17", "nvidiactl", "nvidia-uvm"] {
            assert!(is_device(good), "{good}");
        }
        for bad in ["nvidia", "nvidia-caps", "nvidia0p1", "null"] {
            assert!(!is_device(bad), "{bad}");
        }
    }

    #[test]
    fn what_was_found_is_mounted_where_a_daemon_looks() {
        let files = DriverFiles {
            libraries: vec!["/run/nvidia/driver/usr/lib64/libcuda.so.1".into()],
            programs: vec!["/run/nvidia/driver/usr/bin/nvidia-imex".into()],
            devices: vec!["/dev/nvidiactl".into()],
        };
        let document = document(&files);
        assert_eq!(document["kind"], "k8s.compute-domain.nvidia.com/device");
        let mounts = &document["containerEdits"]["mounts"];
        assert_eq!(mounts[0]["containerPath"], "/usr/local/nvidia/lib/libcuda.so.1");
        assert_eq!(mounts[1]["containerPath"], "/usr/bin/nvidia-imex");
        let devices = &document["devices"][0];
        assert_eq!(devices["containerEdits"]["deviceNodes"][0]["path"], "/dev/nvidiactl");
    }

    #[test]
    fn the_daemon_can_fill_in_the_template() {
        let config = imex_config(IMEX_CONFIG_TEMPLATE, "10.0.0.7".parse().unwrap()).unwrap();
        assert!(config.contains("IMEX_CMD_BIND_INTERFACE_IP=10.0.0.7\n"));
        assert!(config.contains("IMEX_NODE_CONFIG_FILE=/imexd/nodes.cfg\n"));
    }
}
