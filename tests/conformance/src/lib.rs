//! Conformance of the embedded API server: requests as data, sent to it and to a real kube-apiserver.
//!
//! A [`corpus`] case is a list of HTTP requests. [`exchange`] sends them in order through a `kube::Client` and keeps the
//! raw answers; [`normalise`] replaces what must differ between two servers (uids, versions, times, addresses) by
//! tokens in order of appearance, so that equal stays equal; [`compare`] lists what still differs, minus the
//! differences that the corpus allows by name and with a reason. What a real server answered is kept as a transcript
//! in the repository, so that a clone without Kubernetes binaries still checks the embedded server against it. [`generate`]
//! makes cases from seeds, which both servers answer in `make e2e`.

pub mod compare;
pub mod corpus;
pub mod exchange;
pub mod generate;
pub mod normalise;
pub mod transcript;
