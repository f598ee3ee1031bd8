//! Which form the answer takes, read from the `Accept` header.

use http::HeaderMap;
use http::header::ACCEPT;

use crate::status::ApiError;

/// The media types of answers.
pub(crate) const SERVED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// What an object or a list is turned into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Itself.
    #[default]
    Whole,
    /// Rows for people.
    Table,
    /// Only metadata.
    Metadata,
    /// Aggregated discovery, version 2.
    AggregatedDiscovery,
}

/// The text the answer is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// JSON.
    #[default]
    Json,
    /// YAML.
    Yaml,
}

/// The chosen answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// What it shows.
    pub(crate) form: Form,
    /// How it is written.
    pub(crate) encoding: Encoding,
}

/// Picks the first wanted media type that is served.
pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Answer, ApiError> {
    let mut wanted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .peekable();
    if wanted.peek().is_none() {
        return Ok(Answer::default());
    }
    let mut any = false;
    for clause in wanted
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|clause| !clause.is_empty())
    {
        any = true;
        if let Some(answer) = accept(clause) {
            return Ok(answer);
        }
    }
    if any {
        Err(ApiError::not_acceptable(SERVED))
    } else {
        Ok(Answer::default())
    }
}

fn accept(clause: &str) -> Option<Answer> {
    let mut parts = clause.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "*/*" | "application/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        _ => return None,
    };
    let (mut kind, mut group, mut version) = ("", "", "");
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name {
            "as" => kind = value,
            "g" => group = value,
            "v" => version = value,
            _ => {}
        }
    }
    let form = match (kind, group, version) {
        ("", ..) => Form::Whole,
        ("Table", "meta.k8s.io", "v1") => Form::Table,
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => Form::Metadata,
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Form::AggregatedDiscovery,
        _ => return None,
    };
    Some(Answer { form, encoding })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &'static str) -> Option<Form> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, http::HeaderValue::from_static(accept));
        negotiate(&headers).ok().map(|answer| answer.form)
    }

    #[test]
    fn the_first_served_type_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(table), Some(Form::Table));
        assert_eq!(
            form("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"),
            Some(Form::Whole)
        );
        assert_eq!(
            form("application/vnd.kubernetes.protobuf,application/json"),
            Some(Form::Whole)
        );
        assert_eq!(
            form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Some(Form::Metadata)
        );
        assert_eq!(form("*/*"), Some(Form::Whole));
    }

    #[test]
    fn protobuf_alone_is_not_acceptable() {
        assert_eq!(form("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(form("text/html"), None);
    }

    #[test]
    fn no_header_means_json() {
        assert_eq!(negotiate(&HeaderMap::new()), Ok(Answer::default()));
    }
}
