//! The watch-fed, indexed cache with read-your-writes.
//!
//! Owns what a controller knows of the cluster: per kind a [`Kind`] of small projected objects with ordered secondary
//! indexes, all kinds under one lock, so that a [`Moment`] shows them at the same instant. [`reflect`] feeds a kind
//! from the API server; [`crate::write`] folds the answers of own writes in. [`barrier`] has the rules of what is newer.
//!
//! Never polls, never shows an older version of an object than it has shown or written, never resurrects one.
//!
//! ```
//! use coppice_runtime::cache::{Cache, ObjectKey, PodPhase, PodProjection};
//! use kube::core::ApiResource;
//!
//! let cache = Cache::default();
//! let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
//! let pods = cache.kind(resource, PodProjection::default());
//! let by_node = pods.index(|pod, emit| pod.node_name.iter().for_each(|node| emit((node.clone(), pod.phase))));
//! // Normally the answer of a write:
//! let pod = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"},"spec":{"nodeName":"x"}}"#;
//! pods.fold_write(&serde_json::from_str::<Box<serde_json::value::RawValue>>(pod).unwrap()).unwrap();
//!
//! let moment = cache.moment();
//! assert_eq!(pods.get(&moment, &ObjectKey::new("n", "a")).unwrap().meta.version.0, 7);
//! assert_eq!(by_node.get(&moment, &("x".into(), PodPhase::Unknown)).len(), 1);
//! ```

mod barrier;
mod departures;
mod index;
mod intern;
mod kind;
mod object;
mod pod;
mod pod_wire;
mod projection;
pub mod reflect;

pub use barrier::{Barrier, Change, Origin, WentBack};
pub use departures::Departures;
pub use index::Index;
pub use intern::Interner;
pub use kind::{Cache, Kind, KindStatus, Moment};
pub use object::{DecodeError, Head, Meta, ObjectKey, Version};
pub use pod::{Condition, ContainerRequests, PodPhase, PodProjection, PodView, Termination};
pub use projection::{Labels, Projection, Typed, labels};
