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

/// A problem and what to do about it, as every error is told.
pub(crate) fn advice(problem: &str, next: &str) -> String {
    format!("{problem}\nnext: {next}")
}

/// An error with all its causes in one line; those that repeat what is around them are left out.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    // Some errors draw the text that they are about; the first line says what is wrong.
    let first = |error: &dyn std::error::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let mut text = first(error);
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = first(inner);
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = inner.source();
    }
    text.trim_start_matches("ServiceError: ").to_owned()
}
