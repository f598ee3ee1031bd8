//! Support for tests of this crate.

use coppice_runtime::cache::{Head, Interner, Projection};
use serde_json::Value;

/// The view of an object.
pub(crate) fn project<P: Projection>(projection: &P, object: &Value) -> P::View {
    let names = Interner::default();
    let raw = serde_json::value::to_raw_value(object).expect("JSON");
    let head = Head::read(&raw, &names).expect("an identity");
    projection.project(&head.meta, &raw, &names).expect("the right shape")
}
