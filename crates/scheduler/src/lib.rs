//! The gang scheduler: a thin shell around `coppice-placement`.

pub mod model;
