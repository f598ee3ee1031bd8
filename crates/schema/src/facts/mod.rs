//! The facts format: type definitions as text, one line per field, made for grep and for diffs.
//!
//! ```text
//! def io.k8s.api.core.v1.Container
//!   name string= required
//!   ports [io.k8s.api.core.v1.ContainerPort=] list=map keys=containerPort,protocol patch=merge merge=containerPort
//! def io.k8s.apimachinery.pkg.api.resource.Quantity = quantity
//! ```
//!
//! A type is `string`, `integer`, `number`, `boolean`, `object` (free-form), `any`, `int-or-string`, `quantity`, the name
//! of a definition, `[T]` (list) or `{T}` (map); `:format` may follow a base type. `=` after a type says that
//! the zero value is published as default; `default=` states a true default as JSON. Object definitions carry `kind=` and
//! `map=`; fields `required`, `list=`, `keys=`, `map=`, `patch=`, `merge=` and constraints (`enum=`, `pattern=`,
//! `min-length=`, `max-length=`, `min-items=`, `max-items=`, `minimum=`, `maximum=`) as JSON without blanks.
//!
//! Lines starting with `#` are comments. Nothing else is allowed: a word that is not understood is an error.

mod read;
mod write;

pub use read::{read, read_fragment};
pub use write::write;
