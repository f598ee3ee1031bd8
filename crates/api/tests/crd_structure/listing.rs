//! The structure of CustomResourceDefinitions as a compact text of our own, one line for each node.
//!
//! A line is `<indent><segment>[!] <facts>`: the indentation is the depth, the segment a property name, `[]` (items) or
//! `{}` (values of a map), `!` says that the parent requires it. Facts are all keywords of the node but descriptions and
//! messages, so nothing that changes behaviour can hide. A subtree that occurs again is written once, with `&n` behind
//! its facts, and afterwards as `*n`. Used by the comparison test and by the example that extracts the fixture.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

/// The header of a listing.
const HEADER: &str = "\
# The structure of the reference CRDs: one line per node, `!` = required, `[]` = items, `{}` = map values,
# `&n` names a subtree, `*n` repeats it. Written by the example extract_reference; do not edit.
";

/// One node and what is below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    facts: String,
    children: BTreeMap<String, Child>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Child {
    required: bool,
    node: Node,
}

impl Node {
    /// The structures of several CustomResourceDefinitions below one root.
    pub fn of_definitions(definitions: &[Value]) -> Self {
        let mut root = Self::default();
        for definition in definitions {
            let name = definition["metadata"]["name"]
                .as_str()
                .expect("a definition has a name");
            root.insert(name, false, of_definition(definition));
        }
        root
    }

    fn insert(&mut self, segment: &str, required: bool, node: Node) {
        self.children.insert(segment.to_owned(), Child { required, node });
    }

    /// Every node by its path, with its facts.
    pub fn by_path(&self) -> BTreeMap<String, String> {
        let mut nodes = BTreeMap::new();
        self.collect("", &mut nodes);
        nodes
    }

    fn collect(&self, path: &str, nodes: &mut BTreeMap<String, String>) {
        for (segment, Child { required, node }) in &self.children {
            let path = if path.is_empty() {
                segment.clone()
            } else {
                format!("{path}/{segment}")
            };
            let mark = if *required { "required " } else { "" };
            nodes.insert(path.clone(), format!("{mark}{}", node.facts));
            node.collect(&path, nodes);
        }
    }

    /// The text of the listing.
    pub fn to_text(&self) -> String {
        let mut counts = BTreeMap::new();
        self.count(&mut counts);
        let mut text = String::from(HEADER);
        self.write(0, &counts, &mut BTreeMap::new(), &mut text);
        text
    }

    /// How often each subtree that is worth sharing occurs; what is inside a repetition does not count again.
    fn count<'a>(&'a self, counts: &mut BTreeMap<&'a Node, usize>) {
        for Child { node, .. } in self.children.values() {
            if node.length() >= 40 {
                let count = counts.entry(node).or_default();
                *count += 1;
                if *count > 1 {
                    continue;
                }
            }
            node.count(counts);
        }
    }

    fn length(&self) -> usize {
        let children = self
            .children
            .iter()
            .map(|(segment, child)| segment.len() + child.node.length());
        self.facts.len() + children.sum::<usize>()
    }

    fn write<'a>(
        &'a self,
        depth: usize,
        counts: &BTreeMap<&'a Node, usize>,
        names: &mut BTreeMap<&'a Node, usize>,
        text: &mut String,
    ) {
        for (segment, Child { required, node }) in &self.children {
            let mark = if *required { "!" } else { "" };
            let _ = write!(text, "{:depth$}{segment}{mark} ", "");
            if let Some(name) = names.get(node) {
                let _ = writeln!(text, "*{name}");
                continue;
            }
            text.push_str(&node.facts);
            if counts.get(node).is_some_and(|count| *count > 1) {
                names.insert(node, names.len());
                let _ = write!(text, " &{}", names.len() - 1);
            }
            text.push('\n');
            node.write(depth + 1, counts, names, text);
        }
    }

    /// Reads a listing back.
    pub fn from_text(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let mut reader = Reader {
            lines: &lines,
            names: BTreeMap::new(),
        };
        let root = Node {
            facts: String::new(),
            children: reader.children(0),
        };
        assert!(
            reader.lines.is_empty(),
            "the listing ends before the line {}",
            reader.lines[0]
        );
        root
    }
}

struct Reader<'a> {
    lines: &'a [&'a str],
    names: BTreeMap<String, Node>,
}

impl Reader<'_> {
    fn children(&mut self, depth: usize) -> BTreeMap<String, Child> {
        let mut children = BTreeMap::new();
        while let Some((line, rest)) = self.lines.split_first() {
            let content = line.trim_start_matches(' ');
            if line.len() - content.len() != depth {
                break;
            }
            self.lines = rest;
            let (segment, facts) = content.split_once(' ').expect("a line has a segment and facts");
            let required = segment.ends_with('!');
            let segment = segment.trim_end_matches('!').to_owned();
            let node = if let Some(name) = facts.strip_prefix('*') {
                self.names
                    .get(name)
                    .expect("a subtree is named before it is repeated")
                    .clone()
            } else {
                let (facts, name) = match facts.rsplit_once(" &") {
                    Some((facts, name)) if name.bytes().all(|byte| byte.is_ascii_digit()) => (facts, Some(name)),
                    _ => (facts, None),
                };
                let node = Node {
                    facts: facts.to_owned(),
                    children: self.children(depth + 1),
                };
                if let Some(name) = name {
                    self.names.insert(name.to_owned(), node.clone());
                }
                node
            };
            children.insert(segment, Child { required, node });
        }
        children
    }
}

fn of_definition(definition: &Value) -> Node {
    let spec = definition["spec"].as_object().expect("a definition has a spec");
    let mut node = Node {
        facts: keywords(spec, &["versions"]),
        children: BTreeMap::new(),
    };
    for version in spec["versions"].as_array().expect("a definition has versions") {
        let version = version.as_object().expect("a version is an object");
        let name = version["name"].as_str().expect("a version has a name");
        let mut child = of_schema(&version["schema"]["openAPIV3Schema"]);
        let facts = keywords(version, &["name", "schema", "additionalPrinterColumns"]);
        child.facts = format!("{facts} {}", child.facts);
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        for (position, column) in columns.into_iter().flatten().enumerate() {
            let column = column.as_object().expect("a column is an object");
            let name = column["name"].as_str().expect("a column has a name");
            let facts = format!("#{position} {}", keywords(column, &["name", "description"]));
            child.insert(
                &format!("column:{name}"),
                false,
                Node {
                    facts,
                    children: BTreeMap::new(),
                },
            );
        }
        node.insert(name, false, child);
    }
    node
}

fn of_schema(schema: &Value) -> Node {
    let schema = schema.as_object().expect("a schema is an object");
    let mut node = Node::default();
    let mut required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        node.insert(name, required.contains(&name.as_str()), of_schema(property));
    }
    required.retain(|name| !node.children.contains_key(*name));
    for (keyword, segment) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = schema.get(keyword).filter(|inner| inner.is_object()) {
            node.insert(segment, false, of_schema(inner));
        }
    }
    let mut facts = schema.clone();
    if let Some(rules) = facts.get_mut("x-kubernetes-validations") {
        *rules = rules
            .as_array()
            .expect("rules are a list")
            .iter()
            .map(of_rule)
            .collect();
    }
    facts.remove("required");
    if !required.is_empty() {
        facts.insert("required".to_owned(), json!(required));
    }
    node.facts = short(&mut facts);
    let rest = keywords(&facts, &["description", "properties", "items", "additionalProperties"]);
    let open = facts.get("additionalProperties").filter(|values| values.is_boolean());
    let open = open
        .map(|open| format!("additionalProperties={open}"))
        .unwrap_or_default();
    node.facts = [node.facts, rest, open]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    node
}

/// A rule without its message, which is for people, and without differences in white space.
fn of_rule(rule: &Value) -> Value {
    let mut rule = rule.as_object().expect("a rule is an object").clone();
    rule.remove("message");
    let text = rule["rule"]
        .as_str()
        .expect("a rule has a text")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    rule.insert("rule".to_owned(), text.into());
    Value::Object(rule.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
}

/// Short words for the frequent keywords, which are taken out of the map.
fn short(facts: &mut Map<String, Value>) -> String {
    let mut words = Vec::new();
    let mut take = |keyword: &str| facts.remove(keyword);
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let int_or_string = json!([{ "type": "integer" }, { "type": "string" }]);
    if let Some(kind) = take("type") {
        let format = take("format")
            .map(|format| format!("/{}", text(format)))
            .unwrap_or_default();
        words.push(format!("{}{format}", text(kind)));
    }
    if let Some(union) = take("anyOf") {
        words.push(if union == int_or_string {
            "int|string".to_owned()
        } else {
            format!("anyOf={union}")
        });
    }
    if let Some(list) = take("x-kubernetes-list-type") {
        let keys = take("x-kubernetes-list-map-keys");
        let keys: Vec<_> = keys
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .cloned()
            .map(text)
            .collect();
        words.push(format!(
            "list={}{}",
            text(list),
            keys.iter().map(|key| format!(":{key}")).collect::<String>()
        ));
    }
    for (keyword, word) in [
        ("x-kubernetes-map-type", "map"),
        ("x-kubernetes-int-or-string", "int-or-string"),
        ("x-kubernetes-preserve-unknown-fields", "preserve-unknown"),
        ("x-kubernetes-validations", "rules"),
    ] {
        if let Some(value) = take(keyword) {
            words.push(format!("{word}={}", text(value)));
        }
    }
    words.join(" ")
}

fn keywords(map: &Map<String, Value>, but: &[&str]) -> String {
    let sorted: BTreeMap<_, _> = map
        .iter()
        .filter(|(keyword, _)| !but.contains(&keyword.as_str()))
        .collect();
    let words = sorted
        .into_iter()
        .map(|(keyword, value)| format!("{keyword}={}", sort_keys(value)));
    words.collect::<Vec<_>>().join(" ")
}

fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(list) => list.iter().map(sort_keys).collect(),
        scalar => scalar.clone(),
    }
}
