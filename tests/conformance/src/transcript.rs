//! What a real server answered, kept in the repository.
//!
//! One file holds the normalised answers of all cases. `make e2e` fails when a real server answers otherwise than the
//! transcript says; `COPPICE_RECORD=1 make e2e` writes it anew.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::exchange::Answer;

/// The normalised answers of a real server.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transcript {
    /// The version of the server.
    pub kubernetes: String,
    /// The answers, by case.
    pub cases: BTreeMap<String, Vec<Answer>>,
}

impl Transcript {
    /// Reads a transcript.
    pub fn load(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("{}: record it with COPPICE_RECORD=1 make e2e", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("in {}", file.display()))
    }

    /// Writes a transcript: one answer on a line, so that a change shows as the answers that changed.
    pub fn save(&self, file: &Path) -> Result<()> {
        let mut text = format!(
            "{{\"kubernetes\": {},\n\"cases\": {{\n",
            serde_json::to_string(&self.kubernetes)?
        );
        for (index, (case, answers)) in self.cases.iter().enumerate() {
            let comma = if index + 1 < self.cases.len() { "," } else { "" };
            let lines: Vec<String> = answers.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
            text.push_str(&format!(
                "{}: [\n{}\n]{comma}\n",
                serde_json::to_string(case)?,
                lines.join(",\n")
            ));
        }
        text.push_str("}}\n");
        std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_saved_is_read_back() {
        let answer = Answer {
            request: "GET /version".into(),
            status: 200,
            headers: BTreeMap::from([("content-type".into(), "application/json".into())]),
            body: json!({"major": "1"}),
        };
        let transcript = Transcript {
            kubernetes: "v1".into(),
            cases: BTreeMap::from([("a".into(), vec![answer.clone(), answer]), ("b".into(), vec![])]),
        };
        let directory = std::env::temp_dir().join(format!("coppice-transcript-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("transcript.json");
        transcript.save(&file).unwrap();
        assert_eq!(Transcript::load(&file).unwrap(), transcript);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
