//! Writes the structure of CustomResourceDefinitions to standard output, in the format of
//! `fixtures/reference-structure.txt`. The argument is a directory of YAML files with one definition each:
//!
//! ```text
//! cargo run -p coppice-api --example extract_reference <directory> > crates/api/fixtures/reference-structure.txt
//! ```
#![allow(clippy::print_stdout)]

#[allow(dead_code, unreachable_pub)]
#[path = "../tests/crd_structure/listing.rs"]
mod listing;

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or("give the directory of the definitions")?;
    let entries = std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<Result<Vec<PathBuf>, std::io::Error>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut definitions = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        definitions.push(serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    print!("{}", listing::Node::of_definitions(&definitions).to_text());
    Ok(())
}
