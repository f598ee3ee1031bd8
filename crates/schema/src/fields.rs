//! The declared fields of an object, found by name. Every walk over an object looks up every one of its keys, so this is
//! the most frequent question that is asked of a schema.

use std::ops::Deref;

use crate::model::Field;

/// Fields in the order of their names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields {
    list: Vec<Field>,
    /// How their names begin, side by side: a search stays within these few bytes until it has found the place.
    beginnings: Vec<u64>,
}

impl Fields {
    /// The field of that name.
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.position(name).ok().map(|index| &self.list[index])
    }

    /// The field of that name, to change its use.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Field> {
        self.position(name).ok().map(|index| &mut self.list[index])
    }

    /// Adds a field, in place of one of the same name.
    pub(crate) fn insert(&mut self, field: Field) {
        match self.position(&field.name) {
            Ok(index) => self.list[index] = field,
            Err(index) => {
                self.beginnings.insert(index, beginning(&field.name));
                self.list.insert(index, field);
            }
        }
    }

    /// Where the field is, or where it would be.
    fn position(&self, name: &str) -> Result<usize, usize> {
        let wanted = beginning(name);
        let mut index = self.beginnings.partition_point(|known| *known < wanted);
        while self.beginnings.get(index) == Some(&wanted) {
            match (*self.list[index].name).cmp(name) {
                std::cmp::Ordering::Less => index += 1,
                std::cmp::Ordering::Equal => return Ok(index),
                std::cmp::Ordering::Greater => break,
            }
        }
        Err(index)
    }
}

/// The first bytes of a name as a number that is in the order of names.
fn beginning(name: &str) -> u64 {
    let bytes = name.as_bytes();
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }
    }
}

impl Deref for Fields {
    type Target = [Field];

    fn deref(&self) -> &[Field] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = &'a Field;
    type IntoIter = std::slice::Iter<'a, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{NodeId, Slot};

    fn field(name: &str, node: u32) -> Field {
        Field {
            name: name.into(),
            slot: Slot::plain(NodeId(node)),
        }
    }

    #[test]
    fn a_field_replaces_one_of_its_name() {
        let mut fields = Fields::default();
        fields.insert(field("name", 1));
        fields.insert(field("name", 2));
        assert_eq!(fields.len(), 1);
        assert_eq!(fields.get("name").unwrap().slot.node, NodeId(2));
    }

    proptest! {
        // Few letters, so that many names begin alike; lengths on both sides of what is compared first.
        #[test]
        fn fields_are_in_order_and_found_by_name(names in proptest::collection::btree_set("[ab]{0,10}", 0..40)) {
            let mut fields = Fields::default();
            for name in names.iter().rev() {
                fields.insert(field(name, 0));
            }
            prop_assert!(fields.iter().map(|field| &*field.name).eq(names.iter().map(String::as_str)));
            for name in &names {
                prop_assert_eq!(&*fields.get(name).unwrap().name, name.as_str());
                let other = format!("{name}b");
                prop_assert_eq!(fields.get(&other).is_some(), names.contains(&other));
            }
        }
    }
}
