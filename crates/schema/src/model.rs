//! The schema model: an arena of nodes, named definitions on top of it, and cheap cursors for walking it.
//!
//! Owns the in-memory form that every other module of the crate walks. References stay references (an index into the
//! arena), so recursive types are fine and nothing is ever inlined or cloned while walking. It assumes that whoever
//! builds a set (facts, OpenAPI, CRDs) has resolved every reference; it never reads or writes JSON itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use serde_json::Value;

use crate::below::Below;
use crate::constraints::{Constraints, Rule};
use crate::fields::Fields;

/// Index of a node in its [`Definitions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// The JSON type a node accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Type {
    /// Anything, including null; nothing below it is pruned.
    #[default]
    Any,
    /// A JSON object: a struct (fields) or a map (values).
    Object,
    /// A JSON array.
    Array,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// true or false.
    Boolean,
    /// A whole number or a string.
    IntOrString,
    /// A resource quantity: a string such as `500m`, or a number.
    Quantity,
}

/// How a list is merged and compared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub enum ListType {
    /// Not stated; treated as atomic.
    #[default]
    Unset,
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, identified by these fields.
    Map(Vec<Box<str>>),
}

/// How an object is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum MapType {
    /// Not stated; treated as granular.
    #[default]
    Unset,
    /// Each field has its own owner.
    Granular,
    /// Replaced as a whole.
    Atomic,
}

/// The default of a field, list element or map value.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SlotDefault {
    /// No default.
    #[default]
    None,
    /// The zero value of the type: published in OpenAPI and used for missing list keys, but never filled in.
    Zero,
    /// A true default.
    Value(Value),
}

/// Strategic-merge facts of a field.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct PatchFacts {
    /// Lists and maps merge by default (`merge`).
    pub merge: bool,
    /// Keys absent from a patch's `$retainKeys` are cleared (`retainKeys`).
    pub retain_keys: bool,
    /// The patch replaces the value (`replace`).
    pub replace: bool,
    /// Field that identifies the elements of a merged list of objects.
    pub merge_key: Option<Box<str>>,
}

/// A place where a type is used: a field, a list element, a map value.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// The type used here.
    pub node: NodeId,
    /// What an absent value means.
    pub default: SlotDefault,
    /// Overrides the map type of the node at this place only.
    pub map: MapType,
    /// Strategic-merge facts.
    pub patch: Option<Box<PatchFacts>>,
}

impl Slot {
    /// A slot without default or merge facts.
    pub fn plain(node: NodeId) -> Self {
        Self {
            node,
            default: SlotDefault::None,
            map: MapType::Unset,
            patch: None,
        }
    }
}

/// A named field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The JSON name.
    pub name: Box<str>,
    /// Its type and use.
    pub slot: Slot,
}

/// `additionalProperties`.
#[derive(Debug, Clone, PartialEq)]
pub enum MapValues {
    /// Any value (`additionalProperties: true`).
    Any,
    /// Values of this type.
    Typed(Slot),
}

/// Group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: Box<str>,
    /// For example `v1`.
    pub version: Box<str>,
    /// For example `Pod`.
    pub kind: Box<str>,
}

impl GroupVersionKind {
    /// From its three parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// From `apiVersion` (`apps/v1` or `v1`) and kind.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }

    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.api_version(), self.kind)
    }
}

/// One type.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Name of the definition, for nodes that have one.
    pub name: Option<Box<str>>,
    /// The JSON type.
    pub ty: Type,
    /// `int32`, `date-time`, ….
    pub format: Option<Box<str>>,
    /// Null is a value of this type.
    pub nullable: bool,
    /// Declared fields.
    pub fields: Fields,
    /// Type of undeclared fields.
    pub values: Option<MapValues>,
    /// Type of list elements.
    pub items: Option<Slot>,
    /// Names of required fields, in the order stated.
    pub required: Vec<Box<str>>,
    /// How the list merges.
    pub list: ListType,
    /// How the object merges.
    pub map: MapType,
    /// Undeclared fields are kept.
    pub preserve_unknown: bool,
    /// The object is a whole Kubernetes object (apiVersion, kind, metadata).
    pub embedded_resource: bool,
    /// Value constraints.
    pub constraints: Option<Box<Constraints>>,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// Description, where the source has one (CRDs; the facts have none).
    pub description: Option<Box<str>>,
    /// Kinds this definition is the top-level type of.
    pub kinds: Vec<GroupVersionKind>,
}

impl Node {
    /// The declared field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// Whether the field is required.
    pub fn requires(&self, name: &str) -> bool {
        self.required.iter().any(|required| &**required == name)
    }

    /// A free-form object or value: nothing is declared and everything is kept.
    pub fn is_free_form(&self) -> bool {
        self.preserve_unknown && self.fields.is_empty() && self.values.is_none()
    }
}

/// A set of types that refer to each other.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: HashMap<Box<str>, NodeId>,
    pub(crate) kinds: HashMap<GroupVersionKind, NodeId>,
    pub(crate) below: OnceLock<Below>,
}

impl Definitions {
    /// The node behind an index of this set.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The definition of that name.
    pub fn id(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// A cursor at the definition of that name.
    pub fn definition(&self, name: &str) -> Option<Cursor<'_>> {
        self.id(name).map(|id| self.cursor(id))
    }

    /// A cursor at the top-level type of a kind.
    pub fn kind(&self, kind: &GroupVersionKind) -> Option<Cursor<'_>> {
        self.kinds.get(kind).map(|id| self.cursor(*id))
    }

    /// A cursor at any node.
    #[inline]
    pub fn cursor(&self, id: NodeId) -> Cursor<'_> {
        Cursor { set: self, id }
    }

    /// All definition names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// All kinds, sorted.
    pub fn kinds(&self) -> Vec<&GroupVersionKind> {
        let mut kinds: Vec<_> = self.kinds.keys().collect();
        kinds.sort_unstable();
        kinds
    }

    /// Names of all definitions reachable from the given ones (which are included), sorted.
    pub fn closure<'a>(&'a self, roots: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let mut seen = vec![false; self.nodes.len()];
        let mut stack: Vec<NodeId> = roots.into_iter().filter_map(|name| self.id(name)).collect();
        let mut names = Vec::new();
        while let Some(id) = stack.pop() {
            if std::mem::replace(&mut seen[id.0 as usize], true) {
                continue;
            }
            let node = self.node(id);
            names.extend(node.name.as_deref());
            stack.extend(node.fields.iter().map(|field| field.slot.node));
            stack.extend(node.items.iter().map(|slot| slot.node));
            if let Some(MapValues::Typed(slot)) = &node.values {
                stack.push(slot.node);
            }
        }
        names.sort_unstable();
        names
    }

    pub(crate) fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 schema nodes"));
        self.nodes.push(node);
        self.below.take();
        id
    }

    /// The index of a definition that may not have been read yet.
    pub(crate) fn declare(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.push(Node {
            name: Some(name.into()),
            ..Node::default()
        });
        self.names.insert(name.into(), id);
        id
    }

    /// Fills in a declared definition.
    pub(crate) fn define(&mut self, id: NodeId, mut node: Node) {
        node.name = self.nodes[id.0 as usize].name.take();
        for kind in &node.kinds {
            self.kinds.insert(kind.clone(), id);
        }
        self.nodes[id.0 as usize] = node;
        self.below.take();
    }
}

/// A position in a set of definitions.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    /// The set walked.
    pub set: &'a Definitions,
    /// The node the cursor is at.
    pub id: NodeId,
}

impl<'a> Cursor<'a> {
    /// The node the cursor is at.
    #[inline]
    pub fn node(self) -> &'a Node {
        self.set.node(self.id)
    }

    /// The type used in a slot of this node.
    #[inline]
    pub fn at(self, slot: &Slot) -> Cursor<'a> {
        Cursor {
            set: self.set,
            id: slot.node,
        }
    }

    /// The type of a field, declared or not.
    pub fn field(self, name: &str) -> Option<Cursor<'a>> {
        self.field_slot(name).map(|slot| self.at(slot))
    }

    /// The slot of a field: the declared one, or that of undeclared fields.
    #[inline]
    pub fn field_slot(self, name: &str) -> Option<&'a Slot> {
        let node = self.node();
        match (node.field(name), &node.values) {
            (Some(field), _) => Some(&field.slot),
            (None, Some(MapValues::Typed(slot))) => Some(slot),
            _ => None,
        }
    }

    /// The type of list elements.
    pub fn items(self) -> Option<Cursor<'a>> {
        self.node().items.as_ref().map(|slot| self.at(slot))
    }
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node().name {
            Some(name) => write!(out, "Cursor({name})"),
            None => write!(out, "Cursor(#{})", self.id.0),
        }
    }
}
