//! Where in a YAML text a field stands, for messages about it.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// The line of a field in a document of a text, or of the nearest thing around it that is there.
///
/// A field is written as Kubernetes writes it: `spec.template.cliques[0].name`.
pub(crate) fn line(text: &str, document: usize, field: &str) -> Option<u64> {
    let documents: Vec<Spanned<Tree>> = serde_saphyr::from_multiple(text).ok()?;
    let mut node = documents.get(document)?;
    for step in field.split(['.', '[']) {
        let next = match (&node.value, step.strip_suffix(']')) {
            (Tree::Map(entries), None) => entries.iter().find(|(name, _)| name == step).map(|(_, node)| node),
            (Tree::List(items), Some(index)) => index.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    Some(node.referenced.line())
}

/// A document as places only.
enum Tree {
    Map(Vec<(String, Spanned<Tree>)>),
    List(Vec<Spanned<Tree>>),
    Leaf,
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shape)
    }
}

struct Shape;

impl<'de> Visitor<'de> for Shape {
    type Value = Tree;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Tree::Leaf)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a: 1\n---\n# a comment\nspec:\n  size: 2\n  list:\n    - name: x\n    - {name: y, size: 1}\n";

    #[test]
    fn fields_have_lines() {
        assert_eq!(line(TEXT, 0, "a"), Some(1));
        assert_eq!(line(TEXT, 1, "spec.size"), Some(5));
        assert_eq!(line(TEXT, 1, "spec.list[0].name"), Some(7));
        assert_eq!(line(TEXT, 1, "spec.list[1].size"), Some(8));
    }

    #[test]
    fn what_is_not_there_has_the_line_of_what_is_around_it() {
        assert_eq!(line(TEXT, 1, "spec.list[1].image"), Some(8));
        assert_eq!(line(TEXT, 1, "spec.list[7].name"), line(TEXT, 1, "spec.list"));
        assert_eq!(line(TEXT, 5, "spec"), None);
        assert_eq!(line("a: [", 0, "a"), None);
    }
}
