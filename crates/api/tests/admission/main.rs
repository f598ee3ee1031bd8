//! Admission: the corpus, the rules one by one, defaults, the guard of managed objects, and arbitrary input.

mod support;

mod arbitrary;
mod authorizer;
mod corpus;
mod defaulting;
mod native_gangs;
mod rules;
mod schema;
mod updates;
