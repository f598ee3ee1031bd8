//! Extracts facts from Kubernetes' published OpenAPI v3 documents.
//!
//! ```text
//! cargo run -p coppice-schema --example extract_facts -- <directory of *_openapi.json> <roots file> > out.facts
//! ```
//!
//! The roots file has one definition name per line. A line `markers <file>` names a facts file whose definitions
//! replace the published ones (constraints that code generators read from source markers and that are not published).
//! A line `zero <definition> <field>` says that the server publishes a default but does not fill it in.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use coppice_schema::{Definitions, facts};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [documents, roots] = arguments.as_slice() else {
        return Err("usage: extract_facts <directory of *_openapi.json> <roots file>".into());
    };
    let roots_text = fs::read_to_string(roots)?;
    let mut roots_list = Vec::new();
    let mut zeros = Vec::new();
    let mut set = Definitions::default();
    for line in roots_text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["markers", file] => set = facts::read_fragment(&fs::read_to_string(sibling(roots, file))?)?,
            ["zero", definition, field] => zeros.push((*definition, *field)),
            [name] => roots_list.push(*name),
            _ => return Err(format!("cannot read {line}").into()),
        }
    }
    let mut files: Vec<PathBuf> = fs::read_dir(documents)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    files.sort();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "json"))
    {
        let document: serde_json::Value = serde_json::from_slice(&fs::read(file)?)?;
        if let Some(schemas) = document
            .pointer("/components/schemas")
            .and_then(|schemas| schemas.as_object())
        {
            set.add_openapi(schemas)?;
        }
    }
    for (definition, field) in zeros {
        set.publish_only(definition, field)?;
    }
    if let Some(missing) = roots_list.iter().find(|name| set.id(name).is_none()) {
        return Err(format!("no document defines {missing}").into());
    }
    let header =
        "# Kubernetes type facts, extracted from the published OpenAPI v3 documents. Format: see `facts` module.\n";
    io::Write::write_all(
        &mut io::stdout(),
        (header.to_owned() + &facts::write(&set, roots_list)?).as_bytes(),
    )?;
    Ok(())
}

fn sibling(file: &Path, name: &str) -> PathBuf {
    file.with_file_name(name)
}
