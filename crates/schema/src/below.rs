//! What there is below each type, so that walks pass by what does not concern them. Found out on first use.

use crate::default::slot_default;
use crate::model::{Cursor, Definitions, MapValues, Node, NodeId, Slot, Type};

/// For each node of a set, whether it or anything below it has these.
#[derive(Debug, Clone)]
pub(crate) struct Below {
    rules: Vec<bool>,
    defaults: Vec<bool>,
    quantities: Vec<bool>,
}

impl Definitions {
    fn below(&self) -> &Below {
        self.below.get_or_init(|| Below {
            rules: self.find(|node| !node.rules.is_empty()),
            defaults: self.find(|node| slots(node).any(|slot| slot_default(slot).is_some())),
            quantities: self.find(|node| node.ty == Type::Quantity),
        })
    }

    fn find(&self, is_found_at: impl Fn(&Node) -> bool) -> Vec<bool> {
        let mut found: Vec<bool> = self.nodes.iter().map(is_found_at).collect();
        // Types may refer to themselves, so this repeats until nothing is added; children come before parents in most
        // sources, which makes it two rounds.
        loop {
            let mut changed = false;
            for (index, node) in self.nodes.iter().enumerate() {
                if !found[index] && targets(node).any(|id| found[id.0 as usize]) {
                    found[index] = true;
                    changed = true;
                }
            }
            if !changed {
                return found;
            }
        }
    }
}

impl Cursor<'_> {
    /// Whether CEL rules are here or below.
    pub(crate) fn has_rules(self) -> bool {
        self.set.below().rules[self.id.0 as usize]
    }

    /// Whether anything below is filled in when it is absent.
    pub(crate) fn has_defaults(self) -> bool {
        self.set.below().defaults[self.id.0 as usize]
    }

    /// Whether this is a quantity, or there are some below.
    pub fn has_quantities(self) -> bool {
        self.set.below().quantities[self.id.0 as usize]
    }
}

fn slots(node: &Node) -> impl Iterator<Item = &Slot> {
    let values = match &node.values {
        Some(MapValues::Typed(slot)) => Some(slot),
        _ => None,
    };
    let fields = node.fields.iter().map(|field| &field.slot);
    fields.chain(values).chain(&node.items)
}

fn targets(node: &Node) -> impl Iterator<Item = NodeId> {
    let constraints = node.constraints.iter();
    let all_of = constraints.flat_map(|constraints| constraints.all_of.iter().copied());
    slots(node).map(|slot| slot.node).chain(all_of)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn below(definition: &str, schema: &serde_json::Value) -> [bool; 3] {
        let mut set = Definitions::default();
        let second = json!({"type": "object", "properties": {"next": {"$ref": "#/components/schemas/first"}}});
        let schemas = json!({"first": schema, "second": second});
        set.add_openapi(schemas.as_object().unwrap()).unwrap();
        let at = set.definition(definition).unwrap();
        [at.has_rules(), at.has_defaults(), at.has_quantities()]
    }

    #[test]
    fn what_is_below_is_found_through_fields_lists_maps_and_circles() {
        let default = json!({"type": "string", "default": "x"});
        let circle = json!({"$ref": "#/components/schemas/second"});
        for inner in [
            json!({"properties": {"a": default, "circle": circle}}),
            json!({"properties": {"list": {"type": "array", "items": {"type": "object", "properties": {"a": default}}}}}),
            json!({"additionalProperties": {"type": "object", "properties": {"a": default}}}),
        ] {
            let mut schema = inner.clone();
            schema["type"] = "object".into();
            assert_eq!(below("second", &schema), [false, true, false], "{inner}");
        }
        let plain = json!({"type": "object", "properties": {"a": {"type": "string"}, "circle": circle}});
        assert_eq!(below("second", &plain), [false; 3]);
    }

    #[test]
    fn what_is_below_built_in_types() {
        let at = |name: &str| crate::kubernetes().definition(name).unwrap();
        let pod = at("io.k8s.api.core.v1.Pod");
        assert!(pod.has_quantities() && !pod.has_rules());
        let meta = at("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        assert!(!meta.has_quantities() && !meta.has_defaults());
    }
}
