//! What the kubelet plugin of a node decides: which devices it publishes, how claims are prepared and unprepared, and what is
//! written down before and after.
//!
//! Preparing is a loop over [`prepare::next_step`]: each step is carried out and recorded before the next is asked for, so a
//! crash at any point is followed by the same step again. What a step needs is in the facts; nothing here does I/O.

pub mod cdi;
pub mod checkpoint;
pub mod claim;
pub mod devices;
pub mod driver_files;
pub mod fabric;
pub mod import;
pub mod prepare;
pub mod proc_files;
pub mod slice;
pub mod unprepare;
