//! Finds the files of the GPU driver that daemons need, and writes the CDI document of the device `all`.

use std::io;
use std::path::Path;

use coppice_domains::decide::plugin::driver_files::{
    DriverFiles, LIBRARY_DIRECTORIES, PROGRAM_DIRECTORIES, PROGRAMS, document, file_name, is_device, is_library,
};

use crate::files;
use crate::settings::Settings;

/// Writes the document.
pub(crate) fn write(settings: &Settings) -> io::Result<DriverFiles> {
    let found = find(&settings.driver_root, &settings.host_driver_root);
    files::replace(&settings.cdi.join(file_name()), document(&found).to_string().as_bytes())?;
    Ok(found)
}

/// What is below the driver root, by its paths on the host. The first directory that has a file wins.
fn find(root: &Path, on_host: &Path) -> DriverFiles {
    let host = |relative: &Path| on_host.join(relative).display().to_string();
    let mut found = DriverFiles::default();
    let mut names = std::collections::BTreeSet::new();
    for directory in LIBRARY_DIRECTORIES.map(Path::new) {
        for name in listed(&root.join(directory)) {
            if is_library(&name) && names.insert(name.clone()) {
                found.libraries.push(host(&directory.join(&name)));
            }
        }
    }
    for program in PROGRAMS {
        let mut places = PROGRAM_DIRECTORIES
            .iter()
            .map(|directory| Path::new(directory).join(program));
        found.programs.extend(
            places
                .find(|place| root.join(place).is_file())
                .map(|place| host(&place)),
        );
    }
    let devices = listed(&root.join("dev")).into_iter().filter(|name| is_device(name));
    found.devices = devices.map(|name| host(&Path::new("dev").join(name))).collect();
    found
}

fn listed(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_paths_on_the_host() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "usr/lib64/libcuda.so.1",
            "usr/lib/libcuda.so.1",
            "usr/bin/nvidia-imex",
            "dev/nvidiactl",
            "dev/null",
        ] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = find(root.path(), Path::new("/run/nvidia/driver"));
        let expected = DriverFiles {
            libraries: vec!["/run/nvidia/driver/usr/lib64/libcuda.so.1".into()],
            programs: vec!["/run/nvidia/driver/usr/bin/nvidia-imex".into()],
            devices: vec!["/run/nvidia/driver/dev/nvidiactl".into()],
        };
        assert_eq!(found, expected);
    }
}
