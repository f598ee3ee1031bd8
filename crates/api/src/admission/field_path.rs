//! Where in an object something stands, as Kubernetes writes it: `spec.template.cliques[0].name`.
//!
//! An item of a list that has a key also remembers the key. People see the index; comparing the findings of two
//! versions of an object goes by the key, because items move.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Field(&'static str),
    Item { index: usize, key: Option<String> },
    Key(String),
}

/// A path from the root of an object to a field.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

impl FieldPath {
    /// The path of a field of the object itself.
    pub fn root(field: &'static str) -> Self {
        Self::default().field(field)
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = self.segments.clone();
        segments.push(segment);
        Self { segments }
    }

    /// A field of what the path leads to.
    pub fn field(&self, name: &'static str) -> Self {
        self.with(Segment::Field(name))
    }

    /// An item of the list, known by its position only.
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Item { index, key: None })
    }

    /// An item of the list that is known by a key, whatever its position.
    pub fn item(&self, index: usize, key: &str) -> Self {
        let key = Some(key.to_owned());
        self.with(Segment::Item { index, key })
    }

    /// An entry of the map.
    pub fn key(&self, key: &str) -> Self {
        self.with(Segment::Key(key.to_owned()))
    }

    /// The path with keys instead of positions, and today's spelling of deprecated fields: equal in two versions of an
    /// object when it leads to the same thing.
    pub(super) fn identity(&self) -> String {
        let mut text = String::new();
        for segment in &self.segments {
            match segment {
                Segment::Field("packDomain") => text.push_str(".pack.required"),
                Segment::Field(name) => text.extend([".", name]),
                Segment::Item { key: Some(key), .. } | Segment::Key(key) => text.push_str(&format!("[{key:?}]")),
                Segment::Item { index, key: None } => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Field(name) if position == 0 => formatter.write_str(name)?,
                Segment::Field(name) => write!(formatter, ".{name}")?,
                Segment::Item { index, .. } => write!(formatter, "[{index}]")?,
                Segment::Key(key) => write!(formatter, "[{key}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_positions_and_identities_see_keys() {
        let path = FieldPath::root("spec")
            .field("cliques")
            .item(3, "a")
            .field("labels")
            .key("x/y");
        assert_eq!(path.to_string(), "spec.cliques[3].labels[x/y]");
        let moved = FieldPath::root("spec")
            .field("cliques")
            .item(0, "a")
            .field("labels")
            .key("x/y");
        assert_eq!(path.identity(), moved.identity());
        assert_ne!(path, moved);
        let plain = FieldPath::root("a").index(1);
        assert_ne!(plain.identity(), FieldPath::root("a").index(2).identity());
    }
}
