//! View models of the pages: pure functions from objects to what is shown, bounded by what a page can show.

pub mod address;
pub mod gang;
pub mod map;
pub mod node;
pub mod pending;
pub mod set;
pub mod sets;
pub mod timeline;

/// The part of a list that a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown<T> {
    /// What is shown.
    pub items: Vec<T>,
    /// How many there are in all.
    pub all: usize,
}

impl<T> Shown<T> {
    /// The first so many of a list.
    #[must_use]
    pub fn first(mut items: Vec<T>, most: usize) -> Self {
        let all = items.len();
        items.truncate(most);
        Self { items, all }
    }

    /// How many are left out.
    #[must_use]
    pub fn hidden(&self) -> usize {
        self.all - self.items.len()
    }
}
