//! How commands print: for people, or as JSON or YAML for programs.

use std::fmt::Arguments;
use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

/// Prints to standard output; use it instead of `print!`, which panics when the reader has gone.
macro_rules! out {
    ($($words:tt)*) => { $crate::output::write(format_args!($($words)*)) };
}

/// Prints a line to standard output.
macro_rules! outln {
    () => { $crate::output::write(format_args!("\n")) };
    ($($words:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($words)*))) };
}

/// Prints a line to standard error.
macro_rules! errln {
    ($($words:tt)*) => { $crate::output::write_error(format_args!($($words)*)) };
}

/// What a shell reports for a program that SIGPIPE ended, as it ends most programs whose reader has gone.
pub(crate) const READER_GONE: u8 = 141;

/// Writes to standard output. Ends the program when that is not possible: nothing it has to say can be heard.
pub(crate) fn write(words: Arguments<'_>) {
    let mut output = io::stdout().lock();
    if let Err(error) = output.write_fmt(words).and_then(|()| output.flush()) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            write_error(format_args!("error: cannot write to standard output: {error}"));
            std::process::exit(1);
        }
        std::process::exit(READER_GONE.into());
    }
}

/// Writes a line to standard error, if anyone reads it.
pub(crate) fn write_error(words: Arguments<'_>) {
    drop(writeln!(io::stderr(), "{words}"));
}

/// Whether an error is that the reader of the output has gone.
pub(crate) fn is_reader_gone(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

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
            Self::Text => out!("{}", text(value)),
            Self::Json => outln!("{}", serde_json::to_string_pretty(value)?),
            Self::Yaml => out!("{}", serde_saphyr::to_string(value)?),
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
