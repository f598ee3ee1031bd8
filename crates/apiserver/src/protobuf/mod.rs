//! Request bodies in `application/vnd.kubernetes.protobuf`, read into the same trees as JSON.
//!
//! Clients built from client-go send objects of built-in kinds this way. A body is a magic prefix and an envelope that
//! names the kind and holds the message; how messages are written is known from [`crate::go_types`]. A value that Go's JSON
//! would leave out because it is empty is left out here too, so a body means the same in both forms. Answers are never
//! written in protobuf: every such client also accepts JSON.

mod wire;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use crate::go_types::{Empty, Field, Table, Type};
use crate::ports::{format_micro_time, format_time};
use wire::{Content, Fields};

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages nested deeper than this are refused; only schemas of custom resources nest without a bound.
const DEPTH_LIMIT: usize = 128;

/// Why a body could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// It is no envelope, so nothing is known about it.
    NoEnvelope(String),
    /// It says what it is, but cannot be read as that.
    Broken {
        /// The kind in the envelope.
        kind: String,
        /// The version in the envelope.
        api_version: String,
        /// What is wrong.
        reason: String,
    },
}

/// Reads a body.
pub(crate) fn decode(body: &[u8]) -> Result<Value, DecodeError> {
    let Some(envelope) = body.strip_prefix(MAGIC) else {
        return Err(DecodeError::NoEnvelope(format!(
            "provided data does not appear to be a protobuf message, expected prefix {}",
            bytes_as_go_prints_them(MAGIC)
        )));
    };
    let envelope = Envelope::read(envelope).map_err(DecodeError::NoEnvelope)?;
    let broken = |reason: String| DecodeError::Broken {
        kind: envelope.kind.clone(),
        api_version: envelope.api_version.clone(),
        reason,
    };
    let table = Table::shared();
    let message = table.kind(&envelope.api_version, &envelope.kind).ok_or_else(|| {
        broken(format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            envelope.kind, envelope.api_version
        ))
    })?;
    let mut members = Map::new();
    members.insert("apiVersion".into(), envelope.api_version.as_str().into());
    members.insert("kind".into(), envelope.kind.as_str().into());
    read_message(table, message, envelope.raw, &mut members, 0).map_err(broken)?;
    Ok(Value::Object(members))
}

fn bytes_as_go_prints_them(bytes: &[u8]) -> String {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    format!("[{}]", numbers.join(" "))
}

/// The outer message: what is inside, and the inside.
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut envelope = Self {
            api_version: String::new(),
            kind: String::new(),
            raw: &[],
        };
        for field in Fields::new(bytes) {
            match field? {
                (1, Content::Bytes(kind)) => {
                    for field in Fields::new(kind) {
                        match field? {
                            (1, Content::Bytes(text)) => envelope.api_version = text_of(text)?,
                            (2, Content::Bytes(text)) => envelope.kind = text_of(text)?,
                            _ => {}
                        }
                    }
                }
                (2, Content::Bytes(raw)) => envelope.raw = raw,
                (3, Content::Bytes(encoding)) if !encoding.is_empty() => {
                    return Err(format!("content encoding {:?} is not supported", text_of(encoding)?));
                }
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// Reads the fields of a message into `members`.
fn read_message(
    table: &Table,
    message: usize,
    bytes: &[u8],
    members: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if depth > DEPTH_LIMIT {
        return Err("messages are nested too deeply".to_owned());
    }
    for field in Fields::new(bytes) {
        let (number, content) = field?;
        // Fields that are not known are of a newer client, and of no use here.
        let Some(field) = table.field(message, number) else {
            continue;
        };
        read_field(table, field, content, members, depth)?;
    }
    Ok(())
}

fn read_field(
    table: &Table,
    field: &Field,
    content: Content<'_>,
    members: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    match &field.content {
        Type::Message(inner) if field.name.is_empty() => {
            read_message(table, *inner, bytes_of(content)?, members, depth + 1)
        }
        Type::List(item) => {
            let list = members.entry(&*field.name).or_insert_with(|| Value::Array(Vec::new()));
            let Some(items) = list.as_array_mut() else {
                return Ok(());
            };
            match (&**item, content) {
                // Numbers may stand together in one piece.
                (Type::Int | Type::Bool, Content::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        let number = wire::varint(&mut packed)?;
                        items.push(read_value(table, item, Content::Varint(number), depth)?);
                    }
                }
                (_, content) => items.push(read_value(table, item, content, depth)?),
            }
            Ok(())
        }
        Type::Map(item) => {
            let (mut key, mut value) = (String::new(), None);
            for part in Fields::new(bytes_of(content)?) {
                match part? {
                    (1, content) => key = text_of(bytes_of(content)?)?,
                    (2, content) => value = Some(content),
                    _ => {}
                }
            }
            let value = value.unwrap_or(Content::Bytes(&[]));
            let value = read_value(table, item, value, depth)?;
            let map = members.entry(&*field.name).or_insert_with(|| Value::Object(Map::new()));
            map.as_object_mut().map(|map| map.insert(key, value));
            Ok(())
        }
        single => {
            let mut value = read_value(table, single, content, depth)?;
            if let (Value::Object(new), Some(Value::Object(old))) = (&mut value, members.get_mut(&*field.name)) {
                // A message may come in pieces; later pieces add to earlier ones.
                old.append(new);
                return Ok(());
            }
            if !left_out(field, &value) {
                members.insert(field.name.to_string(), value);
            }
            Ok(())
        }
    }
}

/// Whether Go's JSON would leave the value out. It knows emptiness only of plain values, and not of its structs.
fn left_out(field: &Field, value: &Value) -> bool {
    match (value, field.empty) {
        (Value::Null, _) => true,
        (Value::Object(members), Empty::OmittedEvenAsMessage) => members.is_empty(),
        (Value::String(text), Empty::Omitted) if field.content != Type::IntOrString => text.is_empty(),
        (Value::Bool(flag), Empty::Omitted) => !flag,
        (Value::Number(number), Empty::Omitted) if field.content != Type::IntOrString => number.as_f64() == Some(0.0),
        _ => false,
    }
}

fn read_value(table: &Table, kind: &Type, content: Content<'_>, depth: usize) -> Result<Value, String> {
    Ok(match kind {
        Type::String => Value::String(text_of(bytes_of(content)?)?),
        Type::Bytes => base64::engine::general_purpose::STANDARD
            .encode(bytes_of(content)?)
            .into(),
        Type::Bool => Value::Bool(number_of(content)? != 0),
        Type::Int => Value::from(number_of(content)?),
        Type::Double => match content {
            Content::Fixed64(bits) => Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number),
            _ => return Err(WRONG_WIRE.to_owned()),
        },
        Type::Time => time_of(bytes_of(content)?, format_time)?,
        Type::MicroTime => time_of(bytes_of(content)?, format_micro_time)?,
        Type::Quantity => quantity_of(bytes_of(content)?)?,
        Type::IntOrString => int_or_string_of(bytes_of(content)?)?,
        Type::Json => json_of(bytes_of(content)?)?,
        Type::Message(message) => {
            let mut members = Map::new();
            read_message(table, *message, bytes_of(content)?, &mut members, depth + 1)?;
            Value::Object(members)
        }
        Type::Items(list) => {
            let field = Field {
                name: "items".into(),
                content: (**list).clone(),
                empty: Empty::Always,
            };
            let mut members = Map::new();
            for part in Fields::new(bytes_of(content)?) {
                let (number, content) = part?;
                if number == 1 {
                    read_field(table, &field, content, &mut members, depth + 1)?;
                }
            }
            members.remove("items").unwrap_or_else(|| Value::Array(Vec::new()))
        }
        Type::Either { choices, message } => {
            let mut members = Map::new();
            read_message(table, *message, bytes_of(content)?, &mut members, depth + 1)?;
            let chosen = choices.iter().find_map(|choice| members.remove(&**choice));
            chosen.unwrap_or(Value::Null)
        }
        Type::List(_) | Type::Map(_) => return Err("a list within a list".to_owned()),
    })
}

const WRONG_WIRE: &str = "the value is not written as its type needs";

fn bytes_of<'a>(content: Content<'a>) -> Result<&'a [u8], String> {
    match content {
        Content::Bytes(bytes) => Ok(bytes),
        _ => Err(WRONG_WIRE.to_owned()),
    }
}

/// A whole number; negative ones are written in two's complement.
fn number_of(content: Content<'_>) -> Result<i64, String> {
    match content {
        Content::Varint(number) => Ok(number.cast_signed()),
        _ => Err(WRONG_WIRE.to_owned()),
    }
}

fn text_of(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "the text is not UTF-8".to_owned())
}

/// A moment; the empty one is null.
fn time_of(bytes: &[u8], format: fn(Timestamp) -> String) -> Result<Value, String> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    for field in Fields::new(bytes) {
        match field? {
            (1, content) => seconds = number_of(content)?,
            (2, content) => nanoseconds = number_of(content)?,
            _ => {}
        }
    }
    if (seconds, nanoseconds) == (0, 0) {
        return Ok(Value::Null);
    }
    let nanoseconds = i32::try_from(nanoseconds).map_err(|error| error.to_string())?;
    let moment = Timestamp::new(seconds, nanoseconds).map_err(|error| error.to_string())?;
    Ok(format(moment).into())
}

fn quantity_of(bytes: &[u8]) -> Result<Value, String> {
    let mut text = String::new();
    for field in Fields::new(bytes) {
        if let (1, content) = field? {
            text = text_of(bytes_of(content)?)?;
        }
    }
    Ok(if text.is_empty() { "0".into() } else { text.into() })
}

fn int_or_string_of(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in Fields::new(bytes) {
        match field? {
            (1, content) => is_text = number_of(content)? == 1,
            (2, content) => number = number_of(content)?,
            (3, content) => text = text_of(bytes_of(content)?)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

fn json_of(bytes: &[u8]) -> Result<Value, String> {
    let mut value = Value::Null;
    for field in Fields::new(bytes) {
        if let (1, content) = field? {
            let raw = bytes_of(content)?;
            if !raw.is_empty() {
                value = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
