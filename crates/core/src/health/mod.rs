//! Health of a replica: what has fallen below its minimum, and what is replaced as a whole because of it.

pub(crate) mod breach;
pub(crate) mod terminating;
