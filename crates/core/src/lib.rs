//! The deciders of Coppice.
//!
//! Pure functions over borrowed data: no client, no clock, no randomness. [`facts`] reads a PodCliqueSet once,
//! [`layout`] says what one replica of it consists of (cliques, scaling groups, gangs, who waits for whom),
//! [`objects`] writes each of those down as the object to create, [`replica`] plans one replica and [`set`] what concerns
//! all of them, [`topology`] what a topology binding says of itself, [`backends`] what other schedulers read of gangs; [`update`] holds the strategies. A plan is a list of [`command`]s; [`report`] says what
//! is told of their outcome.

pub mod backends;
pub mod command;
pub mod conditions;
pub mod context;
pub mod facts;
pub mod gang_map;
pub mod kind;
pub mod layout;
pub mod mnnvl;
pub mod object;
pub mod objects;
pub mod reasons;
pub mod replica;
pub mod report;
pub mod set;
pub mod settings;
pub mod snapshot;
mod startup;
pub mod topology;
pub mod update;
