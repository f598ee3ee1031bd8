//! The Grove API as data.
