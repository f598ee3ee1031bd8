//! How commands print: for people, or as JSON or YAML for programs.

use std::io::IsTerminal as _;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// A document with a versioned schema
    Json,
    /// The same as YAML
    Yaml,
}

impl Format {
    /// Prints a document, or the text that a function makes of it.
    pub(crate) fn print<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        match self {
            Self::Text => print!("{}", text(value)),
            Self::Json => println!("{}", serde_json::to_string_pretty(value)?),
            Self::Yaml => print!("{}", serde_saphyr::to_string(value)?),
        }
        Ok(())
    }
}

/// Whether glyphs and colours are welcome.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
