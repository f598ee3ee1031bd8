//! The options of a request, read from its query.

use coppice_schema::FieldError;
use serde_json::json;

use crate::selector::{FieldSelector, LabelSelector};
use crate::status::ApiError;

/// How unknown and duplicate fields in a body are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Dropped in silence.
    Ignore,
    /// Dropped with a warning.
    #[default]
    Warn,
    /// Refused.
    Strict,
}

/// All options; each verb reads its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) watch: bool,
    pub(crate) label_selector: LabelSelector,
    pub(crate) field_selector: FieldSelector,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) allow_watch_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: bool,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) include_object: String,
    /// What is wrong with the options themselves.
    pub(crate) invalid: Vec<FieldError>,
}

impl Options {
    /// Reads a query string.
    pub(crate) fn parse(query: &str) -> Result<Self, ApiError> {
        let mut options = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            options.set(&name, &value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), ApiError> {
        match name {
            "watch" => self.watch = boolean(value),
            "labelSelector" => {
                self.label_selector = LabelSelector::parse(value)
                    .map_err(|error| ApiError::bad_request(format!("unable to parse requirement: {error}")))?;
            }
            "fieldSelector" => {
                self.field_selector = FieldSelector::parse(value).map_err(ApiError::bad_request)?;
            }
            "limit" => {
                self.limit = number::<i64>(value)?
                    .and_then(|limit| usize::try_from(limit).ok())
                    .unwrap_or(0);
            }
            "continue" => value.clone_into(&mut self.continue_token),
            "resourceVersion" => value.clone_into(&mut self.resource_version),
            "resourceVersionMatch" => value.clone_into(&mut self.resource_version_match),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = boolean(value),
            "sendInitialEvents" => self.send_initial_events = Some(boolean(value)),
            "timeoutSeconds" => {
                self.timeout_seconds = number::<i64>(value)?.and_then(|seconds| u64::try_from(seconds).ok());
            }
            "dryRun" => match value {
                "All" => self.dry_run = true,
                "" => {}
                other => {
                    let error = FieldError::not_supported("dryRun", json!([other]), &[json!("All")]);
                    self.invalid.push(error);
                }
            },
            "fieldManager" => self.field_manager = check_manager(value)?,
            "fieldValidation" => {
                self.field_validation = match value {
                    "" | "Warn" => FieldValidation::Warn,
                    "Ignore" => FieldValidation::Ignore,
                    "Strict" => FieldValidation::Strict,
                    other => {
                        let allowed = ["", "Ignore", "Strict", "Warn"].map(|one| json!(one));
                        self.invalid
                            .push(FieldError::not_supported("fieldValidation", json!(other), &allowed));
                        FieldValidation::Ignore
                    }
                }
            }
            "force" => self.force = boolean(value),
            "gracePeriodSeconds" => self.grace_period_seconds = number(value)?,
            "propagationPolicy" => self.propagation_policy = Some(value.to_owned()),
            "orphanDependents" => self.orphan_dependents = Some(boolean(value)),
            "includeObject" => value.clone_into(&mut self.include_object),
            _ => {}
        }
        Ok(())
    }
}

impl Options {
    /// Adds what is wrong with the options of a list or a watch.
    pub(crate) fn check_list(&mut self, watch: bool) {
        let field = "resourceVersionMatch";
        let given = self.resource_version_match.clone();
        let streaming = self.send_initial_events == Some(true);
        let forbidden = |field: &str, detail: &str| FieldError::forbidden(field, detail);
        if !matches!(given.as_str(), "" | "Exact" | "NotOlderThan") {
            let allowed = ["Exact", "NotOlderThan", ""].map(|one| json!(one));
            self.invalid
                .push(FieldError::not_supported(field, json!(given), &allowed));
        } else if watch {
            if streaming && given != "NotOlderThan" {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                self.invalid.push(forbidden(field, detail));
            } else if !given.is_empty() && self.send_initial_events.is_none() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                self.invalid.push(forbidden(field, detail));
            }
        } else if !given.is_empty() && self.resource_version.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            self.invalid.push(forbidden(field, detail));
        } else if given == "Exact" && self.resource_version == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            self.invalid.push(forbidden(field, detail));
        }
        if !watch && self.send_initial_events.is_some() {
            self.invalid.push(forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
    }
}

/// Query booleans: anything but a clear no is a yes, as Go's conversion has it.
fn boolean(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

fn number<N: std::str::FromStr>(value: &str) -> Result<Option<N>, ApiError> {
    if value.is_empty() {
        return Ok(None);
    }
    value
        .parse()
        .map(Some)
        .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax")))
}

fn check_manager(value: &str) -> Result<String, ApiError> {
    if value.len() > 128 {
        return Err(ApiError::bad_request(
            "fieldManager: Too long: may not be more than 128 bytes",
        ));
    }
    Ok(value.to_owned())
}

/// A decimal revision; empty and "0" mean none.
pub(crate) fn revision(text: &str) -> Result<Option<u64>, ApiError> {
    match text {
        "" | "0" => Ok(None),
        digits => digits.parse().map(Some).map_err(|_| {
            ApiError::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {digits:?}: strconv.ParseUint: parsing {digits:?}: invalid syntax"
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_clients_send() {
        let options =
            Options::parse("watch=true&labelSelector=a%3Db&limit=500&resourceVersion=12&timeoutSeconds=30").unwrap();
        assert!(options.watch);
        assert_eq!((options.limit, options.timeout_seconds), (500, Some(30)));
        assert_eq!(revision(&options.resource_version), Ok(Some(12)));
        assert!(!Options::parse("watch=false").unwrap().watch);
        assert!(Options::parse("watch=").unwrap().watch);
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        for query in ["labelSelector=a%20b", "fieldSelector=x", "limit=many"] {
            assert!(Options::parse(query).is_err(), "{query}");
        }
        let options = Options::parse("dryRun=Some&fieldValidation=Maybe").unwrap();
        assert_eq!(options.invalid.len(), 2);
        assert!(revision("x").is_err());
    }
}
