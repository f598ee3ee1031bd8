//! The rest of a simulated cluster.
