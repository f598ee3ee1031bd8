//! Kubernetes structural schemas as data.
