//! What the kernel says of character devices: `/proc/devices`, and the capability files of the GPU driver.

/// A character device node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharDevice {
    /// Path inside a container.
    pub path: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Access bits.
    pub mode: u32,
}

/// The major number of a character device in `/proc/devices`.
pub fn major(proc_devices: &str, name: &str) -> Option<u32> {
    let characters = proc_devices.split("Block devices:").next()?;
    let (_, characters) = characters.split_once("Character devices:")?;
    characters.lines().find_map(|line| {
        let (number, found) = line.trim().split_once(' ')?;
        (found.trim() == name).then(|| number.parse().ok()).flatten()
    })
}

/// The device node of a channel.
pub fn channel(major: u32, channel: u32) -> CharDevice {
    CharDevice {
        path: format!("/dev/nvidia-caps-imex-channels/channel{channel}"),
        major,
        minor: channel,
        mode: 0o666,
    }
}

/// The device node that a capability file describes.
pub fn capability(content: &str, caps_major: u32) -> Option<CharDevice> {
    let field = |name: &str| {
        let mut lines = content.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
        value.trim().parse::<u32>().ok()
    };
    let minor = field("DeviceFileMinor")?;
    Some(CharDevice {
        path: format!("/dev/nvidia-caps/nvidia-cap{minor}"),
        major: caps_major,
        minor,
        mode: field("DeviceFileMode").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICES: &str = "Character devices:\n  1 mem\n234 nvidia-caps-imex-channels\n235 nvidia-caps\n\n\
                           Block devices:\n  8 nvidia-only-block\n";

    #[test]
    fn majors_are_found_by_their_whole_name_among_character_devices() {
        assert_eq!(major(DEVICES, "nvidia-caps"), Some(235));
        assert_eq!(major(DEVICES, "nvidia-caps-imex-channels"), Some(234));
        assert_eq!(major(DEVICES, "nvidia"), None);
        assert_eq!(major(DEVICES, "nvidia-only-block"), None);
        assert_eq!(major("", "mem"), None);
    }

    #[test]
    fn capability_files_give_device_nodes() {
        let device = capability("DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n", 235).unwrap();
        assert_eq!(
            (device.path.as_str(), device.minor, device.mode),
            ("/dev/nvidia-caps/nvidia-cap1", 1, 256)
        );
        assert_eq!(capability("nonsense", 235), None);
        assert_eq!(channel(234, 7).path, "/dev/nvidia-caps-imex-channels/channel7");
    }
}
