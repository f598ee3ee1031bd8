//! The deciders of Coppice.
//!
//! Pure functions over borrowed data: no client, no clock, no randomness. [`facts`] reads a PodCliqueSet once,
//! [`layout`] says what one replica of it consists of (cliques, scaling groups, gangs, who waits for whom), and
//! [`objects`] writes each of those down as the object to create.

pub mod facts;
pub mod layout;
pub mod objects;
pub mod settings;
mod startup;
