//! Recorded responses of kube-apiserver, so that `cargo test` can compare without one.
//!
//! A file of JSON lines: a header, then a step and its canonical response per line.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::canon::canonical;
use crate::compare::compare;
use crate::known::KnownDifferences;
use crate::pair::Finding;
use crate::run::{RunError, RunOptions, StepResponse, run};
use crate::sequence::{Sequence, Step};
use crate::server::Server;

/// A sequence with kube-apiserver's responses.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Transcript {
    /// The sequence.
    pub sequence: Sequence,
    /// The canonical responses.
    pub responses: Vec<StepResponse>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    name: String,
    about: String,
    /// The release that was recorded.
    upstream: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    step: Step,
    #[serde(rename = "answer")]
    response: StepResponse,
}

/// Why a file is not a valid transcript.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is invalid")]
pub struct TranscriptError {
    line: usize,
    source: serde_json::Error,
}

impl Transcript {
    /// Runs a sequence on `server` and records the responses. Watch steps take real time.
    ///
    /// # Errors
    ///
    /// If a connection to the server fails.
    pub async fn record(server: &Server, sequence: &Sequence) -> Result<Self, RunError> {
        let options = RunOptions { namespace: namespace(sequence), ..RunOptions::default() };
        let responses = canonical(&run(server, sequence, options).await?);
        Ok(Self { sequence: sequence.clone(), responses })
    }

    /// Runs the sequence on `server` and compares the responses.
    ///
    /// # Errors
    ///
    /// If a connection to the server fails.
    pub async fn replay(
        &self,
        server: &Server,
        known: &KnownDifferences,
    ) -> Result<Finding, RunError> {
        let namespace = namespace(&self.sequence);
        let expected = Some(self.responses.clone());
        let options = RunOptions { namespace, expected, ..RunOptions::default() };
        let ours = canonical(&run(server, &self.sequence, options).await?);
        Ok(Finding::new(&self.sequence, self.responses.clone(), ours, known))
    }

    /// Returns whether another recording of the same sequence differs only in random order or
    /// freshness.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let covers = |a, b| compare(0, a, b).is_empty();
        let mut responses = self.responses.iter().zip(&other.responses);
        self.sequence == other.sequence && responses.all(|(a, b)| covers(a, b) || covers(b, a))
    }

    /// Parses a transcript.
    ///
    /// # Errors
    ///
    /// If the text is not a valid transcript.
    pub fn parse(text: &str) -> Result<Self, TranscriptError> {
        let at = |line: usize| move |source| TranscriptError { line: line + 1, source };
        let mut lines = text.lines().enumerate();
        let (_, first) = lines.next().unwrap_or((0, ""));
        let header: Header = serde_json::from_str(first).map_err(at(0))?;
        let mut sequence =
            Sequence { name: header.name, about: header.about, ..Sequence::default() };
        let mut responses = Vec::new();
        for (number, line) in lines {
            let line: Line = serde_json::from_str(line).map_err(at(number))?;
            sequence.steps.push(line.step);
            responses.push(line.response);
        }
        Ok(Self { sequence, responses })
    }

    /// Renders the transcript as JSON lines.
    pub fn render(&self) -> String {
        let header = Header {
            name: self.sequence.name.clone(),
            about: self.sequence.about.clone(),
            upstream: evenkeel_upstream::KUBERNETES_VERSION.to_owned(),
        };
        let mut text = serde_json::to_string(&header).unwrap_or_default();
        text.push('\n');
        for (step, response) in self.sequence.steps.iter().zip(&self.responses) {
            let line = Line { step: step.clone(), response: response.clone() };
            text.push_str(&serde_json::to_string(&line).unwrap_or_default());
            text.push('\n');
        }
        text
    }

    /// Reads all transcripts of a directory, sorted by name.
    ///
    /// # Errors
    ///
    /// If the directory or one of its files cannot be read or is invalid.
    pub fn load_folder(folder: &Path) -> std::io::Result<Vec<Self>> {
        let mut paths: Vec<_> = std::fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        paths.sort();
        let mut transcripts = Vec::with_capacity(paths.len());
        for path in paths {
            let text = std::fs::read_to_string(&path)?;
            let transcript = Self::parse(&text)
                .map_err(|error| std::io::Error::other(format!("{}: {error}", path.display())))?;
            transcripts.push(transcript);
        }
        Ok(transcripts)
    }
}

/// Returns the namespace. It appears in responses, so it must be the same for every run.
fn namespace(sequence: &Sequence) -> String {
    format!("t-{}", sequence.name)
}
