//! Resources as integers.
//!
//! Owns the table of resource names: each name that some node offers has a column, and every amount in the crate is an `i64`
//! in base units (CPU in thousandths, everything else in units). Names that only pods mention have no column: a tenant
//! invents as many as it likes, and a pod that asks for one of them is not placed. Sums are wider than amounts, so they
//! are exact whatever the amounts are. Assumes that callers have already resolved quantities, init containers, sidecars
//! and overhead. Never rounds.

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

/// A sum of amounts: wide enough for 2^32 amounts taken 2^31 times each.
pub(crate) type Sum = i128;

/// A sum as an amount; beyond the range of amounts the nearest one.
pub(crate) fn narrowed(sum: Sum) -> i64 {
    i64::try_from(sum).unwrap_or(if sum > 0 { i64::MAX } else { i64::MIN })
}

/// The most columns there are. Beyond that the names that most nodes offer count, and the others are not offered.
pub const MOST_COLUMNS: usize = 512;

/// Names that are listed of those that no node offers, and the longest of them.
const LISTED: usize = 3;
const LONGEST: usize = 80;

/// The resources that always have a column.
const ALWAYS: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// Resources that a pod asks for and that no node offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unoffered {
    /// How many there are.
    pub count: usize,
    /// The first of them, each cut to a bounded length.
    pub names: Vec<String>,
}

impl Unoffered {
    fn add(&mut self, name: &str) {
        self.count += 1;
        if self.names.len() < LISTED {
            self.names.push(name.chars().take(LONGEST).collect());
        }
    }
}

/// The resource names that the nodes of one cluster offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    names: Vec<String>,
    index: BTreeMap<String, Column>,
}

impl Default for Columns {
    fn default() -> Self {
        Self::of(&BTreeMap::new())
    }
}

impl Columns {
    /// The columns of the names that nodes offer, each with the number of nodes that do. The order of arrival does not matter.
    #[must_use]
    pub fn of(offers: &BTreeMap<String, u32>) -> Self {
        let mut others: Vec<(&String, u32)> = offers
            .iter()
            .filter(|(name, _)| !is_always(name))
            .map(|(name, nodes)| (name, *nodes))
            .collect();
        let most = MOST_COLUMNS - ALWAYS.len();
        if others.len() > most {
            others.sort_by_key(|(name, nodes)| (std::cmp::Reverse(*nodes), *name));
            others.truncate(most);
            others.sort_unstable();
        }
        let all = ALWAYS
            .into_iter()
            .chain(others.into_iter().map(|(name, _)| name.as_str()));
        let names: Vec<String> = all.map(str::to_owned).collect();
        let index = names.iter().cloned().zip(columns(names.len())).collect();
        Self { names, index }
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
        columns(self.names.len())
    }

    /// Amounts by name as a sorted list of positive amounts by column, and the names that have none.
    #[must_use]
    pub fn resolve(&self, amounts: &Amounts) -> (Vec<(Column, i64)>, Unoffered) {
        let (mut resolved, mut unoffered) = (Vec::new(), Unoffered::default());
        for (name, amount) in amounts.iter().filter(|(_, amount)| **amount > 0) {
            match self.get(name) {
                Some(column) => resolved.push((column, *amount)),
                None => unoffered.add(name),
            }
        }
        resolved.sort_unstable();
        (resolved, unoffered)
    }
}

/// What limits how many volumes of a storage driver a node can have attached, as a resource of nodes.
#[must_use]
pub fn attach_limit(driver: &str) -> String {
    format!("{ATTACHABLE}{driver}")
}

/// The driver whose volumes a resource limits.
pub(crate) fn attached_driver(resource: &str) -> Option<&str> {
    resource.strip_prefix(ATTACHABLE)
}

const ATTACHABLE: &str = "attachable-volumes-csi-";

/// Whether a resource has a column whether or not some node offers it.
pub(crate) fn is_always(name: &str) -> bool {
    ALWAYS.contains(&name)
}

fn columns(count: usize) -> impl Iterator<Item = Column> {
    // There are at most `MOST_COLUMNS`.
    (0..u16::try_from(count).unwrap_or(u16::MAX)).map(Column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_names_have_fixed_columns_and_others_follow() {
        let offers = |names: &[(&str, u32)]| {
            let offers = names.iter().map(|(name, nodes)| ((*name).to_owned(), *nodes));
            Columns::of(&offers.collect())
        };
        let columns = offers(&[("nvidia.com/gpu", 3), ("cpu", 3), ("example.com/card", 1)]);
        assert_eq!(columns.get("cpu"), Some(Column::CPU));
        assert_eq!(columns.get("pods"), Some(Column::PODS));
        assert_eq!(columns.get("nvidia.com/gpu").map(Column::index), Some(5));
        assert_eq!(columns.name(Column(4)), "example.com/card");
        assert_eq!(columns.get("other"), None);
        assert!(!columns.is_empty());
    }

    #[test]
    fn amounts_of_nothing_are_left_out_and_names_without_a_column_are_listed() {
        let columns = Columns::default();
        let mut amounts = Amounts::from([("memory".into(), 0), ("cpu".into(), 250), ("x".repeat(300), 1)]);
        amounts.extend((0..9).map(|at| (format!("a/{at}"), at)));
        let (resolved, unoffered) = columns.resolve(&amounts);
        assert_eq!(resolved, vec![(Column::CPU, 250)]);
        assert_eq!(unoffered.count, 9, "a/0 is asked for zero times");
        assert_eq!(unoffered.names, ["a/1", "a/2", "a/3"]);
    }

    #[test]
    fn sums_are_narrowed_to_the_nearest_amount() {
        let most = Sum::from(i64::MAX);
        assert_eq!(narrowed(most * 3), i64::MAX);
        assert_eq!(narrowed(-most * 3), i64::MIN);
        assert_eq!(narrowed(-7), -7);
    }
}
