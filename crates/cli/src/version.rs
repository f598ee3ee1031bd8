//! `coppice version`: which program this is, and which API it speaks.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::output::Format;
use crate::view::API_VERSION;

/// Print the version of this program, and of the API that it speaks
#[derive(Args)]
pub(crate) struct Version {
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionView {
    api_version: &'static str,
    kind: &'static str,
    version: &'static str,
    /// The groups and versions of its kinds.
    serves: [&'static str; 2],
}

impl Version {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let view = VersionView {
            api_version: API_VERSION,
            kind: "VersionView",
            version: env!("CARGO_PKG_VERSION"),
            serves: ["grove.io/v1alpha1", "scheduler.grove.io/v1alpha1"],
        };
        let text = |view: &VersionView| format!("coppice {}  {}\n", view.version, view.serves.join(" "));
        self.output.print(&view, text)?;
        Ok(ExitCode::SUCCESS)
    }
}
