//! The corpus passes through the schemas of our own CRDs, as it would in an API server.
//!
//! What `schema` refuses is refused by them, at the path that the manifest says; everything else passes, uses only
//! fields that exist, and is judged by admission after the schema's defaults as it is without them. Rules in CEL are not
//! evaluated here (they need the API server), nor are Kubernetes' own rules for metadata.

use std::collections::BTreeMap;

use crate::support::{Case, corpus, judge};
use coppice_schema::{Definitions, NodeId, Root, apply_defaults, drop_nulls, prune, unknown_fields, validate};
use serde_json::Value;

struct Schemas {
    definitions: Definitions,
    kinds: BTreeMap<String, NodeId>,
}

impl Schemas {
    fn ours() -> Self {
        let mut definitions = Definitions::default();
        let mut kinds = BTreeMap::new();
        for definition in coppice_api::crd::all() {
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let kind = definition["spec"]["names"]["kind"].as_str().expect("a kind").to_owned();
            kinds.insert(kind, definitions.structural(schema).expect("a structural schema"));
        }
        Self { definitions, kinds }
    }

    fn errors(&self, document: &Value) -> Vec<coppice_schema::FieldError> {
        let kind = document["kind"].as_str().expect("a kind");
        let at = self.definitions.cursor(self.kinds[kind]);
        let mut document = document.clone();
        drop_nulls(at, &mut document);
        prune(at, &mut document, Root::Object);
        apply_defaults(at, &mut document);
        validate(at, &document, None)
    }

    /// The document with the schema's defaults.
    fn admit(&self, case: &str, document: &Value) -> Value {
        let kind = document["kind"].as_str().expect("a kind");
        let at = self.definitions.cursor(self.kinds[kind]);
        let mut document = document.clone();
        assert_eq!(
            unknown_fields(at, &document, Root::Object),
            Vec::<String>::new(),
            "{case}"
        );
        drop_nulls(at, &mut document);
        apply_defaults(at, &mut document);
        let errors: Vec<String> = validate(at, &document, None)
            .iter()
            .map(coppice_schema::FieldError::message)
            .collect();
        assert!(errors.is_empty(), "{case}: {errors:#?}");
        document
    }
}

fn refuser(case: &Case) -> &str {
    case.expected.first().map_or("", |expected| expected.refuser.as_str())
}

#[test]
fn the_schema_refuses_what_it_should() {
    let schemas = Schemas::ours();
    let mut refused = 0;
    for case in corpus("bad").into_iter().filter(|case| refuser(case) == "schema") {
        // Names of objects are judged by the API server itself, whatever the schema says.
        if case
            .expected
            .iter()
            .any(|expected| expected.path.starts_with("metadata."))
        {
            continue;
        }
        let errors = schemas.errors(case.documents.last().expect("a document"));
        for expected in &case.expected {
            let matches = |error: &&coppice_schema::FieldError| {
                error.path == expected.path && error.message().contains(&expected.piece) && kind(error) == expected.kind
            };
            assert!(
                errors.iter().any(|error| matches(&error)),
                "{}: {expected:?} in {errors:#?}",
                case.name
            );
        }
        refused += 1;
    }
    assert!(refused >= 15, "only {refused}");
}

/// Kubernetes reports a wrong type and too few items as kinds of their own, with the words of an invalid value.
fn kind(error: &coppice_schema::FieldError) -> String {
    let kind = format!("{:?}", error.kind);
    if ["TypeInvalid", "TooFew"].contains(&kind.as_str()) {
        "Invalid".to_owned()
    } else {
        kind
    }
}

#[test]
fn everything_else_passes_the_schema_and_is_judged_the_same_after_its_defaults() {
    let schemas = Schemas::ours();
    let others = corpus("bad").into_iter().filter(|case| refuser(case) != "schema");
    for case in corpus("good").into_iter().chain(others) {
        let admitted: Vec<Value> = case
            .documents
            .iter()
            .map(|document| schemas.admit(&case.name, document))
            .collect();
        let plain = judge(&case.documents, &case.context).outcome();
        let through = judge(&admitted, &case.context).outcome();
        assert_eq!(plain.errors.len(), through.errors.len(), "{}", case.name);
        for (plain, through) in plain.errors.iter().zip(&through.errors) {
            assert_eq!(
                (&plain.path, plain.kind, &plain.detail),
                (&through.path, through.kind, &through.detail),
                "{}",
                case.name
            );
        }
        assert_eq!(plain.warnings, through.warnings, "{}", case.name);
    }
}
