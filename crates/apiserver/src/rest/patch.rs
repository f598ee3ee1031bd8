//! PATCH: four languages for one thing, a new state made from the current one.

use coppice_schema::FieldError;
use http::StatusCode;
use serde_json::{Map, Value};

use super::body::duplicate;
use super::json_patch_operations::carry_out;
use super::{Call, Reply};
use crate::codec::{self, Parsed};
use crate::kinds::Part;
use crate::managed::Writer;
use crate::status::{About, ApiError};
use crate::tree::{members_mut, meta_mut, meta_text, set_aside_same};

/// The patches of custom resources.
const ACCEPTED_CUSTOM: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
const PATCH_OPTIONS: About<'static> = About {
    group: "meta.k8s.io",
    resource: "PatchOptions",
};

/// How a patch is to be read.
enum Language {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

impl Call {
    /// PATCH on an object or its status.
    pub(crate) async fn patch(&self, part: Part) -> Result<Reply, ApiError> {
        if self.content_type() == "application/apply-patch+yaml" {
            return self.apply(part).await;
        }
        if self.options.force {
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(ApiError::invalid(PATCH_OPTIONS, "", &[error]));
        }
        let (language, complaints) = self.read_patch()?;
        let decide = |current: &Value| self.patched(&language, current, &complaints);
        let outcome = self.modify(part, &decide, &Writer::update(self)).await?;
        self.show(StatusCode::OK, &outcome)
    }

    /// The patch, and what strict validation says about its text.
    fn read_patch(&self) -> Result<(Language, Vec<String>), ApiError> {
        let broken = |error: String| ApiError::bad_request(format!("error decoding patch: {error}"));
        let parse = || codec::parse_json(&self.body).map_err(broken);
        match self.content_type() {
            "application/json-patch+json" => {
                let Parsed { value, duplicates } = parse()?;
                let patch = serde_json::from_value(value).map_err(|error| broken(error.to_string()))?;
                let complaints = duplicates.iter().map(|path| format!("json patch {}", duplicate(path)));
                Ok((Language::Json(patch), complaints.collect()))
            }
            "application/merge-patch+json" => {
                let Parsed { value, duplicates } = parse()?;
                Ok((
                    Language::Merge(object_patch(value)?),
                    duplicates.iter().map(duplicate).collect(),
                ))
            }
            "application/strategic-merge-patch+json" if !self.served.custom => {
                let Parsed { value, duplicates } = parse()?;
                Ok((
                    Language::Strategic(object_patch(value)?),
                    duplicates.iter().map(duplicate).collect(),
                ))
            }
            "application/strategic-merge-patch+json" => Err(ApiError::unsupported_media_type(ACCEPTED_CUSTOM)),
            _ => Err(ApiError::unsupported_patch_type()),
        }
    }

    fn patched(&self, language: &Language, current: &Value, complaints: &[String]) -> Result<Value, ApiError> {
        let mut object = current.clone();
        match language {
            Language::Json(patch) => carry_out(&mut object, patch)?,
            Language::Merge(patch) => json_patch::merge(&mut object, patch),
            Language::Strategic(patch) => {
                object = self.served.rules.strategic_merge(object, patch)?;
            }
        }
        if !object.is_object() {
            return Err(ApiError::bad_request("the patch does not leave an object"));
        }
        // What a patch leaves as it was stored was checked then; only the schemas of custom resources change later.
        let unchanged = if self.served.custom {
            Map::new()
        } else {
            set_aside_same(&mut object, current)
        };
        let readable = self.check_types(&mut object);
        if let Err(problem) = readable.and_then(|()| self.drop_unknown(&mut object, complaints)) {
            return Err(ApiError::unreadable_patch(&object.to_string(), &problem));
        }
        members_mut(&mut object).extend(unchanged);
        self.check_patched(&object, current)?;
        Ok(object)
    }

    /// A patch may not turn the object into another one.
    fn check_patched(&self, object: &Value, current: &Value) -> Result<(), ApiError> {
        for name in ["apiVersion", "kind"] {
            if object.get(name) != current.get(name) {
                return Err(ApiError::bad_request(format!("the patch may not change {name}")));
            }
        }
        self.check_name(object)?;
        let (new, old) = (meta_text(object, "namespace"), meta_text(current, "namespace"));
        if !new.is_empty() && new != old {
            return Err(ApiError::bad_request(format!(
                "the namespace of the object ({new}) does not match the namespace on the request ({old})"
            )));
        }
        Ok(())
    }

    /// Server-side apply: creates what is not there.
    async fn apply(&self, part: Part) -> Result<Reply, ApiError> {
        let parsed = codec::parse_yaml(&self.body)
            .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
        if self.options.field_manager.is_empty() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            return Err(ApiError::invalid(PATCH_OPTIONS, "", &[error]));
        }
        if parsed.value.get("kind").is_none() || parsed.value.get("apiVersion").is_none() {
            return Err(ApiError::bad_request("invalid object type: /, Kind="));
        }
        let mut applied = self.read_configuration(parsed)?;
        if meta_text(&applied, "name").is_empty() {
            meta_mut(&mut applied).insert("name".into(), self.path.name.as_str().into());
        }
        self.check_name(&applied)?;
        // What is stated stays as it is stated; creating fills the namespace in.
        self.settle_namespace(&mut applied.clone())?;
        let writer = Writer::apply(self, applied.clone());
        loop {
            if self.core.store.get(&self.served.id, &self.key()).is_none() {
                return self.apply_new(part, &applied, &writer).await;
            }
            let decide = |current: &Value| writer.merge(self, current);
            match self.modify(part, &decide, &writer).await {
                // Deleted between the two looks: apply creates it again.
                Err(error) if error.reason() == "NotFound" && part == Part::Main => {}
                result => return self.show(StatusCode::OK, &result?),
            }
        }
    }

    async fn apply_new(&self, part: Part, applied: &Value, writer: &Writer) -> Result<Reply, ApiError> {
        if part != Part::Main {
            return Err(self.not_found());
        }
        let uid = meta_text(applied, "uid");
        if !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(ApiError::conflict(self.served.about(), &self.path.name, &why));
        }
        let mut object = writer.merge(self, writer.blank(self))?;
        meta_mut(&mut object).remove("resourceVersion");
        let outcome = self.create_object(object, writer).await?;
        self.show(StatusCode::CREATED, &outcome)
    }
}

fn object_patch(patch: Value) -> Result<Value, ApiError> {
    if patch.is_object() {
        Ok(patch)
    } else {
        Err(ApiError::bad_request(
            "error decoding patch: the patch is not an object",
        ))
    }
}
