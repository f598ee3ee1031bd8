//! What the benchmarks share: servers in processes of their own, and what the kernel says of processes.

pub mod child;
pub mod process;
