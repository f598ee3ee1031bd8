//! Shared strings: label keys and values, namespaces, node names, reasons are the same for thousands of objects.
//!
//! Owns one copy of each. Never keeps a string that nobody else holds for long: when the table has doubled since the
//! last sweep, unused strings are dropped. Lookup only; nothing iterates it to decide.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;

/// A table of shared strings.
#[derive(Debug, Default)]
pub struct Interner {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    strings: BTreeSet<Arc<str>>,
    sweep_at: usize,
}

const SMALLEST_SWEEP: usize = 1024;

impl Interner {
    /// The shared copy of `text`.
    #[must_use]
    pub fn intern(&self, text: &str) -> Arc<str> {
        let mut table = self.table.lock();
        if let Some(found) = table.strings.get(text) {
            return found.clone();
        }
        if table.strings.len() >= table.sweep_at.max(SMALLEST_SWEEP) {
            table.strings.retain(|string| Arc::strong_count(string) > 1);
            table.sweep_at = table.strings.len() * 2;
        }
        let shared: Arc<str> = text.into();
        table.strings.insert(shared.clone());
        shared
    }

    /// How many strings are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.lock().strings.len()
    }

    /// Whether no string is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_one() {
        let names = Interner::default();
        assert!(Arc::ptr_eq(&names.intern("a"), &names.intern("a")));
        assert_eq!(names.len(), 1);
    }

    #[test]
    fn unused_strings_are_swept() {
        let names = Interner::default();
        let kept = names.intern("kept");
        for number in 0..10 * SMALLEST_SWEEP {
            let _ = names.intern(&format!("passing-{number}"));
        }
        assert!(names.len() <= SMALLEST_SWEEP + 1);
        assert!(Arc::ptr_eq(&kept, &names.intern("kept")));
    }
}
