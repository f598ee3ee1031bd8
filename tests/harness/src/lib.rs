//! Test support: a real control plane to test against ([`control_plane`]), and scenarios written as data that run on
//! any control plane ([`scenario`]). Used by tests and by the `scenario` program; never part of the product.

pub mod client;
pub mod control_plane;
pub mod definitions;
pub mod scenario;
