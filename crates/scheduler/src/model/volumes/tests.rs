//! What volumes ask of nodes, and what they make pods wait for.
