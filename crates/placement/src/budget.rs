//! Step budgets: how much work a decision may cost.
//!
//! A step is one look at one node, one candidate domain or one packing state. Steps replace the clock, so the same
//! question with the same budget always gets the same answer. A search that runs out says so; it never says "no".

/// The budget ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the step budget is exhausted: raise it or ask again when the cluster changed")]
pub struct Exhausted;

/// A counter of steps with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    used: u64,
    limit: u64,
}

impl Steps {
    /// A fresh counter.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { used: 0, limit }
    }

    /// Takes steps, or refuses and takes none.
    pub fn spend(&mut self, steps: usize) -> Result<(), Exhausted> {
        let used = self.used.saturating_add(steps as u64);
        if used > self.limit {
            return Err(Exhausted);
        }
        self.used = used;
        Ok(())
    }

    /// Steps taken so far.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Steps still there.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.limit - self.used
    }

    /// Lowers the limit to at most `steps` more; returns the old limit.
    pub(crate) fn narrow(&mut self, steps: u64) -> u64 {
        let narrowed = self.limit.min(self.used.saturating_add(steps));
        std::mem::replace(&mut self.limit, narrowed)
    }

    pub(crate) fn widen(&mut self, limit: u64) {
        self.limit = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_never_pass_the_limit() {
        let mut steps = Steps::new(10);
        assert_eq!(steps.spend(7), Ok(()));
        assert_eq!(steps.spend(4), Err(Exhausted));
        assert_eq!((steps.used(), steps.left()), (7, 3));
        let outer = steps.narrow(1);
        assert_eq!(steps.spend(2), Err(Exhausted));
        steps.widen(outer);
        assert_eq!(steps.spend(3), Ok(()));
    }
}
