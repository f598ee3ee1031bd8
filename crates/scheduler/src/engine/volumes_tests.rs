//! Gangs with volumes, decision by decision.
