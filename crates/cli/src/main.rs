//! The coppice binary.
fn main() {}
