//! What the kernel says about processes and the machine, read from `/proc`. CPU time has the kernel's resolution of
//! hundredths of a second, so it is only meaningful over runs of seconds.

use std::time::Duration;

use anyhow::Context;

/// The unit of CPU times in `/proc`, fixed by the kernel's interface for programs.
const TICKS_PER_SECOND: u32 = 100;

/// User and system time of all threads of the processes so far.
pub fn cpu(processes: &[u32]) -> anyhow::Result<Duration> {
    let mut ticks = 0;
    for process in processes {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The second field is the program's name in parentheses and may contain anything.
        let (_, fields) = stat.rsplit_once(')').context("/proc stat has no name")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        for field in [11, 12] {
            ticks += fields.get(field).context("/proc stat is short")?.parse::<u32>()?;
        }
    }
    Ok(Duration::from_secs(1) * ticks / TICKS_PER_SECOND)
}

/// A line of `/proc/PID/status` given in kB (`VmRSS`, `VmHWM`), as bytes.
pub fn memory(process: u32, line: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    kilobytes(&status, line)
}

/// The machine in a few words: processor, count, memory, kernel.
pub fn machine() -> anyhow::Result<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let memory = kilobytes(&std::fs::read_to_string("/proc/meminfo")?, "MemTotal")?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let processors = std::thread::available_parallelism()?;
    Ok(format!(
        "{model}, {processors} processors, {} GiB of memory, Linux {}",
        memory >> 30,
        kernel.trim()
    ))
}

fn kilobytes(text: &str, name: &str) -> anyhow::Result<u64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .with_context(|| format!("no line {name}"))?;
    let number = value.trim().trim_end_matches("kB").trim();
    Ok(number.parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_read() {
        let own = std::process::id();
        assert!(memory(own, "VmHWM").unwrap() >= memory(own, "VmRSS").unwrap() / 2);
        cpu(&[own]).unwrap();
        assert!(machine().unwrap().contains("processors"));
    }

    #[test]
    fn lines_are_found_by_their_whole_name() {
        assert_eq!(
            kilobytes("VmRSSX:\t1 kB\nVmRSS:\t    12 kB\n", "VmRSS").unwrap(),
            12 * 1024
        );
        assert!(kilobytes("VmRSS:\t12 kB", "VmHWM").is_err());
    }
}
