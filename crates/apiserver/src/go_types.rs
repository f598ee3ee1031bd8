//! How Go's types hold the built-in kinds: the table behind protobuf bodies and behind the form of objects.
//!
//! Extracted by `hack/go-types` from the published Go types. Each line is `kind GROUP/VERSION KIND MESSAGE`, `message MESSAGE`
//! or, indented, a field of the message before it: its number in protobuf, its name in JSON (`-` for a message whose fields
//! belong to this one), its type, and what becomes of it when it is empty or absent: `optional` (a pointer: kept when empty,
//! left out when absent), `nullable` (a pointer: null when absent), `always` (a value that is always written), `omitzero` (a
//! value that is left out when it is empty, a message too), or nothing (a value that is left out when it is empty, but for
//! messages). Types are words, names of messages, `[]T` for lists, `{}T` for maps by string, `items=T` for a message that
//! only wraps a list, and `either=A,B,MESSAGE` for a message that stands for its field A, or else for its field B.

use std::collections::BTreeMap;
use std::sync::OnceLock;

const TEXT: &str = include_str!("../facts/go-types.facts");

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    String,
    Bytes,
    Bool,
    Int,
    Double,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Json,
    /// A message, by its place in the table.
    Message(usize),
    List(Box<Type>),
    Map(Box<Type>),
    /// A message whose only field is a list.
    Items(Box<Type>),
    /// A message that stands for the first of these fields that it has.
    Either {
        choices: [Box<str>; 2],
        message: usize,
    },
}

/// What becomes of an empty value, and of an absent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empty {
    /// It is written, and left out when absent.
    Optional,
    /// It is written, as null when absent.
    Nullable,
    /// It is written, also when absent.
    Always,
    /// It is left out, unless it is a message.
    Omitted,
    /// It is left out, a message too.
    OmittedEvenAsMessage,
}

/// A field of a message.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Its name in JSON; empty for a message whose fields belong to the outer one.
    pub(crate) name: Box<str>,
    pub(crate) content: Type,
    pub(crate) empty: Empty,
}

/// Kinds and messages.
#[derive(Debug, Default)]
pub(crate) struct Table {
    kinds: BTreeMap<(Box<str>, Box<str>), usize>,
    messages: Vec<BTreeMap<u64, Field>>,
    /// The fields of each message in order of their names, with those of messages that belong to it.
    named: Vec<Vec<Field>>,
    places: BTreeMap<Box<str>, usize>,
}

impl Table {
    /// The table of the kinds that are served.
    pub(crate) fn shared() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| Self::parse(TEXT))
    }

    /// The message of a kind.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        let find = |api_version: &str| self.kinds.get(&(api_version.into(), kind.into())).copied();
        find(api_version).or_else(|| find("*"))
    }

    /// A field of a message.
    pub(crate) fn field(&self, message: usize, number: u64) -> Option<&Field> {
        self.messages.get(message)?.get(&number)
    }

    /// All fields of a message as JSON has them, in order of their names.
    pub(crate) fn fields(&self, message: usize) -> &[Field] {
        self.named.get(message).map_or(&[], Vec::as_slice)
    }

    fn flattened(&self, message: usize) -> Vec<Field> {
        let mut fields: Vec<Field> = Vec::new();
        for field in self.messages[message].values() {
            match &field.content {
                Type::Message(inner) if field.name.is_empty() => fields.extend(self.flattened(*inner)),
                _ => fields.push(field.clone()),
            }
        }
        fields.sort_by(|one, other| one.name.cmp(&other.name));
        fields
    }

    /// The place of a message by its name.
    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    fn parse(text: &str) -> Self {
        let mut table = Self::default();
        let mut current = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["kind", api_version, kind, message] => {
                    let message = table.place(message);
                    table.kinds.insert(((*api_version).into(), (*kind).into()), message);
                }
                ["message", name] => current = table.place(name),
                [number, name, content, rest @ ..] => {
                    let number = number.parse().expect("the facts are generated, and tested");
                    let field = Field {
                        name: if *name == "-" { "".into() } else { (*name).into() },
                        content: table.content(content),
                        empty: match rest {
                            ["optional"] => Empty::Optional,
                            ["nullable"] => Empty::Nullable,
                            ["always"] => Empty::Always,
                            ["omitzero"] => Empty::OmittedEvenAsMessage,
                            _ => Empty::Omitted,
                        },
                    };
                    table.messages[current].insert(number, field);
                }
                other => unreachable!("the facts are generated, and tested: {other:?}"),
            }
        }
        table.named = (0..table.messages.len())
            .map(|message| table.flattened(message))
            .collect();
        table
    }

    /// The place of a message, made when it is first named.
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        self.messages.push(BTreeMap::new());
        let place = self.messages.len() - 1;
        self.places.insert(name.into(), place);
        place
    }

    fn content(&mut self, word: &str) -> Type {
        if let Some(item) = word.strip_prefix("[]") {
            return Type::List(Box::new(self.content(item)));
        }
        if let Some(item) = word.strip_prefix("{}") {
            return Type::Map(Box::new(self.content(item)));
        }
        if let Some(list) = word.strip_prefix("items=") {
            return Type::Items(Box::new(self.content(list)));
        }
        if let Some(either) = word.strip_prefix("either=") {
            let mut parts = either.splitn(3, ',');
            let mut next = || parts.next().expect("the facts are generated, and tested");
            return Type::Either {
                choices: [next().into(), next().into()],
                message: self.place(next()),
            };
        }
        match word {
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "double" => Type::Double,
            "time" => Type::Time,
            "micro-time" => Type::MicroTime,
            "quantity" => Type::Quantity,
            "int-or-string" => Type::IntOrString,
            "json" => Type::Json,
            message => Type::Message(self.place(message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::builtin_resources;

    #[test]
    fn every_named_message_is_described() {
        let table = Table::shared();
        let described: std::collections::BTreeSet<&str> =
            TEXT.lines().filter_map(|line| line.strip_prefix("message ")).collect();
        let named: std::collections::BTreeSet<&str> = table.places.keys().map(|name| &**name).collect();
        assert_eq!(described, named);
    }

    #[test]
    fn every_built_in_kind_is_there() {
        let table = Table::shared();
        for served in builtin_resources() {
            assert!(table.kind(&served.api_version(), &served.kind).is_some(), "{served:?}");
            let spoken = served.subresources.iter().filter_map(|part| part.speaks);
            for (group, version, kind) in spoken {
                let api_version = crate::registry::join_api_version(group, version);
                assert!(table.kind(&api_version, kind).is_some(), "{api_version} {kind}");
            }
        }
        assert!(table.kind("apps/v1", "DeleteOptions").is_some());
        assert_eq!(table.kind("v1", "Nothing"), None);
    }
}
