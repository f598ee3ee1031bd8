//! Reading: single objects and lists.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::create::Outcome;
use super::query::revision;
use super::reply::encode;
use super::{Call, Form, Reply, view};
use crate::registry::Served;
use crate::status::ApiError;
use crate::store::{Key, ListError, Object, PageRequest};
use crate::table;

impl Call {
    /// GET on an object.
    pub(crate) fn get(&self) -> Result<Reply, ApiError> {
        let object = self
            .core
            .store
            .get(&self.served.id, &self.key())
            .ok_or_else(|| self.not_found())?;
        if let Some(wanted) = revision(&self.options.resource_version)? {
            self.check_reached(wanted)?;
        }
        self.show(StatusCode::OK, &Outcome::Stored(object))
    }

    fn check_reached(&self, wanted: u64) -> Result<(), ApiError> {
        let current = self.core.store.revision();
        if wanted > current {
            Err(ApiError::revision_too_large(wanted, current))
        } else {
            Ok(())
        }
    }

    /// GET on a collection.
    pub(super) fn list(&self) -> Result<Reply, ApiError> {
        let selection = self.selection()?;
        let request = self.page_request()?;
        let page = self
            .core
            .store
            .list(&self.served.id, &selection, &request)
            .map_err(|error| match error {
                ListError::Future { wanted, current } => ApiError::revision_too_large(wanted, current),
                ListError::Expired(_) => match &request.after {
                    Some(after) => ApiError::continue_expired(encode_token(None, after)),
                    None => ApiError::expired("The resourceVersion for the provided list is too old."),
                },
            })?;
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        if let (true, Some(last)) = (page.more, page.objects.last()) {
            metadata["continue"] = json!(encode_token(Some(page.revision), last.key()));
            if selection.is_plain() {
                metadata["remainingItemCount"] = json!(page.remaining);
            }
        }
        Ok(match self.answer.form {
            Form::Table => {
                let values: Vec<Value> = page
                    .objects
                    .iter()
                    .map(|object| view::shown_value(&self.served, object))
                    .collect();
                let table = table::table(&self.served, &values, &metadata, &self.table_options());
                self.encoded(StatusCode::OK, &table)
            }
            Form::Metadata => {
                let items: Vec<Value> = page
                    .objects
                    .iter()
                    .map(|object| partial(view::shown_value(&self.served, object)))
                    .collect();
                let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata, "items": items});
                self.encoded(StatusCode::OK, &list)
            }
            _ => {
                let body = whole_list(&self.served, &metadata, &page.objects);
                encode(StatusCode::OK, body, self.answer.encoding)
            }
        })
    }

    /// Which page of which moment: continue tokens pin a revision; `resourceVersion` means "at least" unless the
    /// match says exactly, and everything here is at least as new as anything asked for.
    fn page_request(&self) -> Result<PageRequest, ApiError> {
        let options = &self.options;
        let wanted = revision(&options.resource_version)?;
        if !options.continue_token.is_empty() {
            if wanted.is_some() {
                return Err(ApiError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let (pinned, after) = decode_token(&options.continue_token).ok_or_else(|| {
                ApiError::bad_request("invalid continue token: continue key is not valid: it cannot be decoded")
            })?;
            return Ok(PageRequest {
                revision: pinned,
                after: Some(after),
                limit: options.limit,
            });
        }
        let exact = match options.resource_version_match.as_str() {
            "" => wanted.is_some() && options.limit > 0,
            "Exact" => true,
            _ => false,
        };
        if let (Some(wanted), false) = (wanted, exact) {
            self.check_reached(wanted)?;
        }
        Ok(PageRequest {
            revision: wanted.filter(|_| exact),
            after: None,
            limit: options.limit,
        })
    }

    /// The answer to a write or a read of one object.
    pub(crate) fn show(&self, status: StatusCode, outcome: &Outcome) -> Result<Reply, ApiError> {
        match outcome {
            Outcome::Stored(object) if self.answer.form == Form::Whole => {
                Ok(encode(status, view::shown(&self.served, object), self.answer.encoding))
            }
            other => self.show_value(status, other.value(self)),
        }
    }

    /// The answer with a tree in the request's view.
    pub(crate) fn show_value(&self, status: StatusCode, object: Value) -> Result<Reply, ApiError> {
        let shown = match self.answer.form {
            Form::Table => {
                let metadata = json!({"resourceVersion": crate::tree::meta_text(&object, "resourceVersion")});
                table::table(
                    &self.served,
                    std::slice::from_ref(&object),
                    &metadata,
                    &self.table_options(),
                )
            }
            Form::Metadata => partial(object),
            _ => object,
        };
        Ok(self.encoded(status, &shown))
    }

    fn encoded(&self, status: StatusCode, value: &Value) -> Reply {
        let body = serde_json::to_vec(value).expect("trees always serialise");
        encode(status, body.into(), self.answer.encoding)
    }

    pub(super) fn table_options(&self) -> table::TableOptions<'_> {
        table::TableOptions {
            include_object: &self.options.include_object,
            now: self.core.clock.now(),
            headers: true,
        }
    }
}

/// Only the metadata of an object.
pub(super) fn partial(mut object: Value) -> Value {
    let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// A list of stored objects, put together from their own bytes.
pub(super) fn whole_list(served: &Served, metadata: &Value, objects: &[Arc<Object>]) -> Bytes {
    let size: usize = objects.iter().map(|object| object.size() + 1).sum();
    let mut body = Vec::with_capacity(size + 256);
    let mut metadata = metadata.clone();
    // Lists of custom resources say so when there is no next page.
    if served.custom && metadata.get("continue").is_none() {
        metadata["continue"] = json!("");
    }
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(&*served.list_kind),
        json!(served.api_version())
    );
    body.extend_from_slice(head.as_bytes());
    let type_prefix = format!(
        "{{\"apiVersion\":{},\"kind\":{},",
        json!(served.api_version()),
        json!(&*served.kind)
    );
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        let shown = view::shown(served, object);
        if served.custom {
            body.extend_from_slice(&shown);
        } else {
            write_without_type(&mut body, &shown, &type_prefix);
        }
    }
    body.extend_from_slice(b"]}");
    body.into()
}

/// Items of built-in lists carry no type of their own.
fn write_without_type(body: &mut Vec<u8>, shown: &[u8], type_prefix: &str) {
    // It comes first in what the store serialised, but not always in other views.
    if let Some(rest) = shown.strip_prefix(type_prefix.as_bytes()) {
        body.push(b'{');
        body.extend_from_slice(rest);
        return;
    }
    let mut item: Map<String, Value> = serde_json::from_slice(shown).expect("views are objects");
    item.remove("apiVersion");
    item.remove("kind");
    serde_json::to_writer(body, &item).expect("writing to memory cannot fail");
}

/// A continue token: the revision (none: whatever is current) and the last key, in an opaque form with a checksum.
fn encode_token(revision: Option<u64>, after: &Key) -> String {
    let plain = format!(
        "{} {after}",
        revision.map_or_else(|| "-".to_owned(), |revision| revision.to_string())
    );
    let text: String = plain.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{text}{}", checksum(&plain))
}

fn decode_token(token: &str) -> Option<(Option<u64>, Key)> {
    if !token.is_ascii() || token.len() < 8 {
        return None;
    }
    let (text, sum) = token.split_at(token.len() - 8);
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            std::str::from_utf8(pair)
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        })
        .collect();
    let plain = String::from_utf8(bytes?).ok()?;
    if checksum(&plain) != sum {
        return None;
    }
    let (revision, key) = plain.split_once(' ')?;
    let revision = if revision == "-" {
        None
    } else {
        Some(revision.parse().ok()?)
    };
    Some((revision, Key::from_text(key)))
}

fn checksum(plain: &str) -> String {
    Sha256::digest(plain.as_bytes())
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_no_type_wherever_it_stands() {
        let prefix = r#"{"apiVersion":"v1","kind":"Event","#;
        for shown in [
            r#"{"apiVersion":"v1","kind":"Event","action":"a"}"#,
            r#"{"action":"a","apiVersion":"v1","kind":"Event"}"#,
        ] {
            let mut body = Vec::new();
            write_without_type(&mut body, shown.as_bytes(), prefix);
            assert_eq!(body, br#"{"action":"a"}"#);
        }
    }

    #[test]
    fn tokens_survive_the_way_and_forgeries_do_not() {
        let key = Key::new("ns", "a");
        assert_eq!(
            decode_token(&encode_token(Some(12), &key)),
            Some((Some(12), key.clone()))
        );
        assert_eq!(decode_token(&encode_token(None, &key)), Some((None, key.clone())));
        let mut forged = encode_token(Some(12), &key);
        forged.replace_range(0..1, "4");
        assert_eq!(decode_token(&forged), None);
        assert_eq!(decode_token("nonsense"), None);
    }
}
