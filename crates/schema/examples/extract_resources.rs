//! Extracts the table of built-in resources from Kubernetes' published discovery documents (`APIResourceList`), for the
//! kinds that the crate has facts of.
//!
//! ```text
//! cargo run -p coppice-schema --example extract_resources -- <directory of apis__*.json> > facts/resources.facts
//! ```

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

use coppice_schema::{GroupVersionKind, kubernetes};
use serde_json::Value;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or("usage: extract_resources <directory>")?;
    let mut files: Vec<PathBuf> = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    files.sort();
    let mut out = String::from(
        "# Built-in resources, extracted from the published discovery documents. Format: see `resources` module.\n",
    );
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "json"))
    {
        let document: Value = serde_json::from_slice(&fs::read(file)?)?;
        if document["kind"] != "APIResourceList" {
            continue;
        }
        let group_version = document["groupVersion"].as_str().unwrap_or_default();
        let mut parent = String::new();
        for resource in document["resources"].as_array().into_iter().flatten() {
            write_resource(group_version, resource, &mut parent, &mut out);
        }
    }
    io::Write::write_all(&mut io::stdout(), out.as_bytes())?;
    Ok(())
}

fn write_resource(group_version: &str, resource: &Value, parent: &mut String, out: &mut String) {
    let text = |key: &str| resource[key].as_str().unwrap_or_default();
    let list = |key: &str| -> String {
        let words: Vec<&str> = resource[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        words.join(",")
    };
    let kind = match (text("group"), text("version")) {
        ("", "") => GroupVersionKind::from_api_version(group_version, text("kind")),
        (group, version) => GroupVersionKind::new(group, version, text("kind")),
    };
    if kubernetes().kind(&kind).is_none() {
        return;
    }
    if let Some((plural, subresource)) = text("name").split_once('/') {
        if plural == parent {
            let _ = writeln!(out, "  {subresource} {kind} verbs={}", list("verbs"));
        }
        return;
    }
    text("name").clone_into(parent);
    let scope = if resource["namespaced"] == true {
        "namespaced"
    } else {
        "cluster"
    };
    let _ = write!(
        out,
        "{} {group_version} {} {scope} singular={}",
        text("name"),
        text("kind"),
        text("singularName")
    );
    for (word, key) in [
        ("short", "shortNames"),
        ("categories", "categories"),
        ("verbs", "verbs"),
    ] {
        let words = list(key);
        if !words.is_empty() {
            let _ = write!(out, " {word}={words}");
        }
    }
    out.push('\n');
}
