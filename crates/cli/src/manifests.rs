//! Reading manifests: files, directories and standard input, one or more YAML or JSON documents each.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One document of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// Where it stands, for messages: file and number.
    pub(crate) place: String,
    /// Its content.
    pub(crate) object: Value,
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

fn read_file(path: &Path) -> Result<Vec<Document>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&path.display().to_string(), &text)
}

/// The documents of one text, counted without the empty ones.
pub(crate) fn parse(place: &str, text: &str) -> Result<Vec<Document>> {
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(text).with_context(|| format!("{place} is not valid YAML"))?;
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
        })
        .collect())
}

#[cfg(test)]
mod tests {
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
    fn what_is_not_yaml_is_named() {
        let error = parse("f.yaml", "a: [1").expect_err("not valid");
        assert!(
            format!("{error:#}").starts_with("f.yaml is not valid YAML"),
            "{error:#}"
        );
    }
}
