//! What a ComputeDomain reports: its nodes, counts for each clique, and conditions with reasons.
//!
//! The status is a function of what is known of the whole domain, whichever namespace its objects are in, so no two loops
//! write different ones. It is written only when it differs, and at most every two seconds for each domain.

mod conditions;
mod nodes;
mod pace;
mod reasons;

pub use conditions::{READY, TEMPLATES, set_condition};
pub use nodes::{StatusFacts, roll_up};
pub use pace::StatusPace;
pub use reasons::Reason;
