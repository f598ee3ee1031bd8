//! The deciders of Coppice.
//!
//! Pure functions over borrowed data: no client, no clock, no randomness. [`facts`] reads a PodCliqueSet once,
//! [`layout`] says what one replica of it consists of (cliques, scaling groups, gangs, who waits for whom),
//! [`objects`] writes each of those down as the object to create, [`replica`] plans one replica and [`set`] what concerns
//! all of them, [`topology`] what a topology binding says of itself, [`backends`] what other schedulers read of gangs;
//! [`update`] holds the strategies, `health` what is broken and replaced. A plan is made in a [`draft`] and is a list of
//! [`command`]s; [`report`] says how their outcome is reported. No module depends on one that depends on it
//! (`hack/check-cycles.sh`).

pub mod backends;
pub mod command;
pub mod components;
pub mod conditions;
pub mod context;
pub mod draft;
pub mod facts;
pub mod failure;
pub mod gang_map;
mod health;
pub mod kind;
pub mod layout;
pub mod mnnvl;
pub mod object;
pub mod objects;
pub mod packing;
pub mod reasons;
pub mod replica;
pub mod report;
pub mod revisions;
pub mod set;
pub mod settings;
pub mod snapshot;
pub mod state;
pub mod topology;
pub mod update;
