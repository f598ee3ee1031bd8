//! What is known about the fields of a pod template, as one static table.
//!
//! Owns the facts that turn JSON into meaning: which lists are keyed sets, which spellings equal absence, where
//! quantities stand, and what the API server fills in. Assumes the core/v1 types of Kubernetes 1.36. Never looks at
//! a value: the rules are applied by [`super::walk`] only, so that identity, stored revision and difference cannot
//! disagree. A field that is not in the table is never ignored (see [`Kind::Any`]).
//!
//! # When empty equals absent
//!
//! * `null` equals absent everywhere except as an element of a list.
//! * An empty list equals absent everywhere; Go clients drop it when they write the object back.
//! * `""`, `false` and `0` equal absent where the Go field is a plain value ([`Kind::Text`], [`Kind::Flag`],
//!   [`Kind::Number`]). Behind a pointer ([`Kind::Optional`]) they are statements of their own: a
//!   `storageClassName` of `""` asks for no class, `runAsUser: 0` asks for root.
//! * An empty object counts, because its presence often says something: `emptyDir: {}`, `labelSelector: {}` (all,
//!   where absence is none), `seLinuxOptions: {}` of a container (hides the pod's). The exceptions are declared
//!   [`Object::transparent`]; these say nothing when empty: `securityContext` (of the pod and of containers), `capabilities`,
//!   `lifecycle`, `resources`, `affinity` with `nodeAffinity`, `podAffinity` and `podAntiAffinity`, `dnsConfig`, and
//!   the `metadata` and `spec` of a volume claim template.
//!
//! # Defaults that are left out, and why
//!
//! * `schedulerName`: an empty name means the operator's default scheduler profile, which need not be
//!   `default-scheduler`.
//! * Pod-level `resources` filled from the containers: the server's rule depends on feature gates and on the sum over
//!   containers. Spelling the sum out counts as a change.
//! * Rounding of resource amounts up to a thousandth: two amounts below that count as different.
//! * What admission plugins add (service account `default`, tolerations, priority): that is the cluster's policy.
//! * What a component assumes without the API server ever writing it (`mountPropagation`, a toleration's `operator`,
//!   `nodeTaintsPolicy`, `divisor: 1`, …): spelling such a value out counts as a change.

mod container;
mod network_volume;
mod placement;
mod pod;
mod volume;

#[cfg(test)]
pub(super) use container::CONTAINER_PORT;
pub(super) use pod::POD_SPEC;
pub(super) use volume::{EMPTY_DIR_VOLUME, VOLUME};

/// The known fields of one object type, in the byte order of their names.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) fields: &'static [Field],
    /// Whether the object says nothing when all its fields are absent.
    pub(super) transparent: bool,
}

impl Object {
    const fn counted(fields: &'static [Field]) -> Self {
        Self {
            fields,
            transparent: false,
        }
    }

    const fn transparent(fields: &'static [Field]) -> Self {
        Self {
            fields,
            transparent: true,
        }
    }

    /// The facts about one field, when it is known.
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        let found = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        Some(&self.fields[found])
    }
}

/// One known field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) fill: Fill,
}

impl Field {
    const fn or(mut self, fill: Fill) -> Self {
        self.fill = fill;
        self
    }
}

/// How a value is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A plain string: `""` equals absent.
    Text,
    /// A plain boolean: `false` equals absent.
    Flag,
    /// A plain integer: `0` equals absent.
    Number,
    /// A scalar behind a pointer: only `null` equals absent.
    Optional,
    /// A resource amount behind a pointer: zero is a statement.
    Quantity,
    /// A plain resource amount: zero equals absent.
    PlainQuantity,
    /// Resource amounts by resource name.
    Quantities,
    /// Strings by key; an empty string is a value like any other.
    TextsByKey,
    /// A nested object.
    Object(&'static Object),
    /// A list of objects whose order carries meaning.
    List(&'static Object),
    /// A list of objects whose order says nothing, sorted by these keys.
    Set(&'static [Key], &'static Object),
    /// A list of scalars whose order carries meaning.
    Scalars,
    /// The requests of a container: every limit without a request is one.
    Requests,
    /// The pod's priority class, which the set's own overrides.
    PriorityClass,
    /// The service account, which an older field name may carry.
    ServiceAccount,
    /// The older name of another field: read there, never emitted here.
    Superseded,
    /// Anything: taken as it stands, with nothing but `null` and empty lists equal to absence.
    Any,
}

/// What the API server writes where nothing is said.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fill {
    Nothing,
    Text(&'static str),
    Integer(i64),
    Flag(bool),
    /// `Always` for the tag `latest` of the image named in this sibling field, else `IfNotPresent`.
    PullPolicyOf(&'static str),
    /// The container port, for pods in the host's network.
    ContainerPortOnHostNetwork,
    /// An empty directory, for volumes that name no source.
    EmptyDirWithoutSource,
}

/// One key of a set, with the value that an absent key stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) absent: &'static str,
}

impl Key {
    const fn or(mut self, absent: &'static str) -> Self {
        self.absent = absent;
        self
    }
}

const fn by(name: &'static str) -> Key {
    Key { name, absent: "" }
}

const fn special(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        fill: Fill::Nothing,
    }
}

const fn text(name: &'static str) -> Field {
    special(name, Kind::Text)
}

const fn flag(name: &'static str) -> Field {
    special(name, Kind::Flag)
}

const fn number(name: &'static str) -> Field {
    special(name, Kind::Number)
}

const fn optional(name: &'static str) -> Field {
    special(name, Kind::Optional)
}

const fn quantity(name: &'static str) -> Field {
    special(name, Kind::Quantity)
}

const fn quantities(name: &'static str) -> Field {
    special(name, Kind::Quantities)
}

const fn texts_by_key(name: &'static str) -> Field {
    special(name, Kind::TextsByKey)
}

const fn object(name: &'static str, facts: &'static Object) -> Field {
    special(name, Kind::Object(facts))
}

const fn list(name: &'static str, facts: &'static Object) -> Field {
    special(name, Kind::List(facts))
}

const fn set(name: &'static str, keys: &'static [Key], facts: &'static Object) -> Field {
    special(name, Kind::Set(keys, facts))
}

const fn scalars(name: &'static str) -> Field {
    special(name, Kind::Scalars)
}

#[cfg(test)]
mod tests {
    use coppice_schema::{Cursor, MapValues, Type};

    use super::*;

    fn visit(facts: &'static Object, seen: &mut Vec<*const Object>, check: &mut impl FnMut(&'static Object)) {
        if seen.contains(&std::ptr::from_ref(facts)) {
            return;
        }
        seen.push(std::ptr::from_ref(facts));
        check(facts);
        for field in facts.fields {
            if let Kind::Object(next) | Kind::List(next) | Kind::Set(_, next) = field.kind {
                visit(next, seen, check);
            }
        }
    }

    #[test]
    fn fields_are_in_byte_order_so_that_they_can_be_merged_and_searched() {
        let mut objects = 0;
        visit(&POD_SPEC, &mut Vec::new(), &mut |facts| {
            objects += 1;
            assert!(
                facts.fields.is_sorted_by(|left, right| left.name < right.name),
                "{facts:?}"
            );
        });
        assert!(objects > 80, "the table reaches {objects} object types");
    }

    #[test]
    fn the_keys_of_a_set_are_fields_of_its_elements() {
        visit(&POD_SPEC, &mut Vec::new(), &mut |facts| {
            for field in facts.fields {
                if let Kind::Set(keys, element) = field.kind {
                    assert!(!keys.is_empty(), "{}", field.name);
                    for key in keys {
                        assert!(element.field(key.name).is_some(), "{} of {}", key.name, field.name);
                    }
                }
            }
        });
    }

    #[test]
    fn objects_that_say_nothing_when_empty_have_fixed_defaults_only() {
        visit(&POD_SPEC, &mut Vec::new(), &mut |facts| {
            for field in facts.fields.iter().filter(|_| facts.transparent) {
                assert!(
                    matches!(
                        field.fill,
                        Fill::Nothing | Fill::Text(_) | Fill::Integer(_) | Fill::Flag(_)
                    ),
                    "{}",
                    field.name
                );
            }
        });
    }

    /// Whether a kind fits the type that the published schema gives the field.
    fn fits(kind: Kind, field: Cursor<'_>) -> bool {
        let node = field.node();
        let values = node.values.as_ref().map(|values| match values {
            MapValues::Typed(slot) => field.at(slot).node().ty,
            MapValues::Any => Type::Any,
        });
        match kind {
            Kind::Text | Kind::PriorityClass | Kind::ServiceAccount | Kind::Superseded => node.ty == Type::String,
            Kind::Flag => node.ty == Type::Boolean,
            Kind::Number => node.ty == Type::Integer,
            Kind::Optional => matches!(node.ty, Type::String | Type::Boolean | Type::Integer),
            Kind::Quantity | Kind::PlainQuantity => node.ty == Type::Quantity,
            Kind::Quantities | Kind::Requests => values == Some(Type::Quantity),
            Kind::TextsByKey => values == Some(Type::String),
            Kind::Object(_) => node.ty == Type::Object && !node.fields.is_empty(),
            Kind::List(_) | Kind::Set(..) => field.items().is_some_and(|items| !items.node().fields.is_empty()),
            Kind::Scalars => field
                .items()
                .is_some_and(|items| matches!(items.node().ty, Type::String | Type::Integer)),
            Kind::Any => node.ty == Type::IntOrString,
        }
    }

    fn compare(facts: &'static Object, cursor: Cursor<'_>, path: &str, wrong: &mut Vec<String>) {
        for field in facts.fields {
            let path = format!("{path}.{}", field.name);
            match cursor.field(field.name) {
                None => wrong.push(format!("{path} is not in the schema")),
                Some(inner) if !fits(field.kind, inner) => wrong.push(format!("{path} is {:?}", inner.node().ty)),
                Some(inner) => {
                    if let Kind::Object(next) | Kind::List(next) | Kind::Set(_, next) = field.kind {
                        compare(next, inner.items().unwrap_or(inner), &path, wrong);
                    }
                }
            }
        }
        // Of the metadata of a claim template only labels and annotations mean anything.
        let complete = !cursor
            .node()
            .name
            .as_deref()
            .is_some_and(|name| name.ends_with(".ObjectMeta"));
        for field in cursor.node().fields.iter().filter(|_| complete) {
            if facts.field(&field.name).is_none() {
                wrong.push(format!("{path}.{} is not in the table", field.name));
            }
        }
    }

    #[test]
    fn the_table_and_the_published_schema_name_the_same_fields() {
        let schema = coppice_schema::kubernetes()
            .definition("io.k8s.api.core.v1.PodSpec")
            .expect("the schema of pods");
        let mut wrong = Vec::new();
        compare(&POD_SPEC, schema, "spec", &mut wrong);
        assert_eq!(wrong, Vec::<String>::new());
    }
}
