//! Reading manifests: files, directories and standard input, one or more YAML or JSON documents each.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::locate;
use crate::output::advice;

/// One document of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// Where it stands, for messages: file and number.
    pub(crate) place: String,
    /// Its content.
    pub(crate) object: Value,
    /// The text that it is in, and which of the documents there it is.
    source: Arc<str>,
    number: usize,
}

impl Document {
    /// The document as an object of its kind; an error names the line and the field.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_path_to_error::deserialize(&self.object).map_err(|error| {
            let field = error.path().to_string();
            self.at(&field, &format!("{field}: {}", error.inner()))
        })
    }

    /// A message about a field, with the line that it is in.
    pub(crate) fn at(&self, field: &str, message: &str) -> String {
        match locate::line(&self.source, self.number, field) {
            Some(line) => format!("line {line}: {message}"),
            None => message.to_owned(),
        }
    }

    /// Kind and name, for messages.
    pub(crate) fn title(&self) -> String {
        let text = |value: &Value, none: &str| value.as_str().unwrap_or(none).to_owned();
        let kind = text(&self.object["kind"], "(no kind)");
        format!("{kind} {}", text(&self.object["metadata"]["name"], "(without a name)"))
    }
}

/// Reads all documents of files, directories (their `.yaml`, `.yml` and `.json` files) and `-` for standard input.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            documents.extend(parse("standard input", &text)?);
        } else if path.is_dir() {
            let mut files: Vec<PathBuf> = std::fs::read_dir(path)
                .with_context(|| format!("cannot read the directory {}", path.display()))?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<_, _>>()?;
            files.retain(|file| {
                file.extension()
                    .is_some_and(|kind| ["yaml", "yml", "json"].iter().any(|known| kind == *known))
            });
            files.sort();
            if files.is_empty() {
                bail!("{} has no .yaml, .yml or .json file", path.display());
            }
            for file in files {
                documents.extend(read_file(&file)?);
            }
        } else {
            documents.extend(read_file(path)?);
        }
    }
    Ok(documents)
}

/// What to say when none of the documents is of a kind that is wanted.
pub(crate) fn nothing_of(kinds: &str, documents: &[Document]) -> String {
    let found: Vec<String> = documents
        .iter()
        .map(|document| format!("{} in {}", document.title(), document.place))
        .collect();
    advice(
        &match found.as_slice() {
            [] => format!("there is no {kinds}: nothing is in what was given"),
            found => format!("there is no {kinds}, only {}", found.join(", ")),
        },
        "give -f a manifest of one; an example: examples/disaggregated.yaml",
    )
}

fn read_file(path: &Path) -> Result<Vec<Document>> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let problem = format!("cannot read {}: {error}", path.display());
        anyhow!(advice(
            &problem,
            "give a file, a directory of them, or - for standard input"
        ))
    })?;
    parse(&path.display().to_string(), &text)
}

/// The documents of one text, counted without the empty ones.
pub(crate) fn parse(place: &str, text: &str) -> Result<Vec<Document>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| anyhow!("{place} is not valid YAML: {}", error.without_snippet()))?;
    let source: Arc<str> = text.into();
    let several = objects.len() > 1;
    let documents = objects.into_iter().enumerate().filter(|(_, object)| !object.is_null());
    Ok(documents
        .map(|(index, object)| Document {
            place: if several {
                format!("{place} (document {})", index + 1)
            } else {
                place.to_owned()
            },
            object,
            source: source.clone(),
            number: index,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use coppice_api::types::PodCliqueSet;

    use super::*;

    #[test]
    fn documents_are_numbered_when_there_are_several() {
        let documents = parse("f.yaml", "a: 1\n---\n---\nb: 2\n").expect("valid");
        let places: Vec<&str> = documents.iter().map(|document| document.place.as_str()).collect();
        assert_eq!(places, ["f.yaml (document 1)", "f.yaml (document 2)"]);
        let documents = parse("f.yaml", "a: 1\n").expect("valid");
        assert_eq!(documents[0].place, "f.yaml");
    }

    #[test]
    fn what_is_not_yaml_is_named_with_its_line() {
        let error = parse("f.yaml", "a: 1\n  b: 2\n").expect_err("not valid").to_string();
        assert!(error.starts_with("f.yaml is not valid YAML: "), "{error}");
        assert!(error.contains("line 2") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn what_does_not_have_the_shape_of_its_kind_is_named_with_field_and_line() {
        let text = "kind: Other\n---\nkind: PodCliqueSet\nmetadata: {name: x}\nspec:\n  replicas: 1\n  template:\n    \
                    cliques:\n      - name: a\n        spec: {roleName: a, replicas: one, podSpec: {containers: []}}\n";
        let documents = parse("f.yaml", text).expect("valid YAML");
        let error = documents[1].decode::<PodCliqueSet>().expect_err("not a number");
        let expected = "line 10: spec.template.cliques[0].spec.replicas: invalid type: string \"one\", expected i32";
        assert_eq!(error, expected);
        assert_eq!(documents[1].title(), "PodCliqueSet x");
    }
}
