//! Bodies that Go wrote, beside the JSON that Go wrote of the same objects.

use serde_json::json;

use super::*;

const SAMPLES: &str = include_str!("../../facts/go-types.samples");

fn binary(line: &str) -> (Vec<u8>, &str) {
    let (encoded, rest) = line.split_once(' ').unwrap();
    (base64::engine::general_purpose::STANDARD.decode(encoded).unwrap(), rest)
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

#[test]
fn a_body_means_the_same_in_both_forms() {
    for line in SAMPLES.lines() {
        let (body, text) = binary(line);
        let mut expected: Value = serde_json::from_str(text).unwrap();
        let mut read = decode(&body).unwrap();
        without_nulls(&mut expected);
        without_nulls(&mut read);
        assert_eq!(read, expected, "{}", expected["kind"]);
    }
    assert!(SAMPLES.lines().count() > 10);
}

#[test]
fn no_prefix_of_a_body_is_read_as_something_else() {
    for line in SAMPLES.lines() {
        let (body, _) = binary(line);
        let whole = decode(&body).unwrap();
        // The envelope ends with two empty texts, which nobody misses.
        for length in (0..body.len() - 4).step_by(101) {
            assert_ne!(decode(&body[..length]), Ok(whole.clone()));
        }
    }
}

#[test]
fn what_is_no_envelope_is_refused() {
    let refused = decode(b"{}").unwrap_err();
    let DecodeError::NoEnvelope(why) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.ends_with("expected prefix [107 56 115 0]"), "{why}");
}

#[test]
fn an_unknown_kind_is_named() {
    let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Nonsenses";
    let DecodeError::Broken { kind, api_version, .. } = decode(body).unwrap_err() else {
        panic!("it has an envelope")
    };
    assert_eq!((kind.as_str(), api_version.as_str()), ("Nonsenses", "v1"));
}

#[test]
fn nesting_has_a_bound() {
    let mut schema = Vec::new();
    for _ in 0..2 * DEPTH_LIMIT {
        // `not`, field 28 of a schema, holds another one.
        let mut outer = vec![0xe2, 0x01];
        let mut length = schema.len();
        while length >= 0x80 {
            outer.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.extend_from_slice(&schema);
        schema = outer;
    }
    let table = Table::shared();
    let place = table
        .kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        .unwrap();
    let mut members = Map::new();
    assert_eq!(read_message(table, place, &[], &mut members, 0), Ok(()));
    let schema_place = table.place_of("apiextensions.v1.JSONSchemaProps").unwrap();
    let deep = read_message(table, schema_place, &schema, &mut members, 0).unwrap_err();
    assert!(deep.ends_with("nested too deeply"), "{deep}");
}

#[test]
fn numbers_may_stand_together() {
    let field = Field {
        name: "numbers".into(),
        content: Type::List(Box::new(Type::Int)),
        empty: Empty::Omitted,
    };
    let mut members = Map::new();
    let table = Table::shared();
    read_field(table, &field, Content::Bytes(&[1, 0x96, 1]), &mut members, 0).unwrap();
    read_field(table, &field, Content::Varint(7), &mut members, 0).unwrap();
    assert_eq!(Value::Object(members), json!({"numbers": [1, 150, 7]}));
}
