//! Resources as integers.
//!
//! Owns the table of resource names: each name is interned to a column, and every amount in the crate is an `i64` in
//! base units (CPU in thousandths, everything else in units). Assumes that callers have already resolved quantities,
//! init containers, sidecars and overhead. Never rounds.

use std::collections::BTreeMap;

/// A resource, as an index into the columns of a [`Columns`] table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(u16);

impl Column {
    /// CPU in thousandths of a core.
    pub const CPU: Self = Self(0);
    /// Memory in bytes.
    pub const MEMORY: Self = Self(1);
    /// Local scratch space in bytes.
    pub const EPHEMERAL_STORAGE: Self = Self(2);
    /// The number of pods.
    pub const PODS: Self = Self(3);

    /// The position of the column.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Amounts by resource name, as callers give them.
pub type Amounts = BTreeMap<String, i64>;

/// The interned resource names of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    names: Vec<String>,
    index: BTreeMap<String, Column>,
}

impl Default for Columns {
    fn default() -> Self {
        let mut columns = Self {
            names: Vec::new(),
            index: BTreeMap::new(),
        };
        for name in ["cpu", "memory", "ephemeral-storage", "pods"] {
            columns.intern(name);
        }
        columns
    }
}

impl Columns {
    /// The column of a name, created on first use.
    pub fn intern(&mut self, name: &str) -> Column {
        if let Some(column) = self.index.get(name) {
            return *column;
        }
        let column = Column(u16::try_from(self.names.len()).expect("a cluster has fewer than 65536 resource names"));
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), column);
        column
    }

    /// The column of a name that is already known.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Column> {
        self.index.get(name).copied()
    }

    /// The name of a column.
    #[must_use]
    pub fn name(&self, column: Column) -> &str {
        &self.names[column.index()]
    }

    /// How many columns there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never true: four columns are always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Every column, in order.
    pub fn all(&self) -> impl Iterator<Item = Column> + use<> {
        let count = u16::try_from(self.names.len()).expect("checked when interning");
        (0..count).map(Column)
    }

    /// Amounts by name as a sorted list of positive amounts by column.
    pub fn resolve(&mut self, amounts: &Amounts) -> Vec<(Column, i64)> {
        let mut resolved: Vec<_> = amounts
            .iter()
            .filter(|(_, amount)| **amount > 0)
            .map(|(name, amount)| (self.intern(name), *amount))
            .collect();
        resolved.sort_unstable();
        resolved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_names_have_fixed_columns_and_others_follow() {
        let mut columns = Columns::default();
        assert_eq!(columns.intern("cpu"), Column::CPU);
        assert_eq!(columns.intern("pods"), Column::PODS);
        let gpu = columns.intern("nvidia.com/gpu");
        assert_eq!(gpu.index(), 4);
        assert_eq!(columns.intern("nvidia.com/gpu"), gpu);
        assert_eq!(columns.name(gpu), "nvidia.com/gpu");
        assert_eq!(columns.get("other"), None);
        assert!(!columns.is_empty());
    }

    #[test]
    fn amounts_of_nothing_are_left_out() {
        let mut columns = Columns::default();
        let amounts = Amounts::from([("memory".into(), 0), ("cpu".into(), 250)]);
        assert_eq!(columns.resolve(&amounts), vec![(Column::CPU, 250)]);
    }
}
