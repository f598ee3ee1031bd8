//! Sends the requests of a case and keeps the raw answers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use futures::StreamExt;
use http::{Method, Request};
use http_body_util::{BodyExt, BodyStream};
use kube::Client;
use kube::client::Body;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::corpus::{Case, Step};

/// What a server answered to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The request, as written in the corpus.
    pub request: String,
    /// The status code.
    pub status: u16,
    /// Headers that clients act on.
    pub headers: BTreeMap<String, String>,
    /// The body: JSON where it is JSON, else text; for a watch, the list of its events.
    pub body: Value,
}

impl Answer {
    fn not_sent(step: &Step) -> Self {
        Self {
            request: step.request.clone(),
            status: 0,
            headers: BTreeMap::new(),
            body: Value::String("not sent: an earlier answer lacks what it needs".to_owned()),
        }
    }
}

/// An earlier answer lacks what a request takes from it.
#[derive(Debug)]
struct Absent(String);

impl std::error::Error for Absent {}

impl std::fmt::Display for Absent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Headers that are compared. The rest differs between any two servers (dates, audit ids, lengths).
const COMPARED_HEADERS: [&str; 4] = ["content-type", "warning", "retry-after", "allow"];

/// No request of the corpus takes longer, watches included; one that does would hang the whole run.
const LONGEST_ANSWER: Duration = Duration::from_secs(40);

/// Runs a case in a fresh namespace and returns the answers to its steps, silent ones left out.
pub async fn run(client: &Client, case: &Case) -> Result<Vec<Answer>> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.case}});
    let create = Step {
        request: "POST /api/v1/namespaces".to_owned(),
        body: Some(namespace),
        ..Step::default()
    };
    let mut kept = BTreeMap::from([("NS".to_owned(), Value::String(case.case.clone()))]);
    let created = send(client, &create, &kept).await?;
    if created.status != 201 {
        bail!("creating the namespace of case {}: {}", case.case, created.body);
    }
    let mut answers = Vec::new();
    for step in &case.steps {
        let answer = tokio::time::timeout(LONGEST_ANSWER, send(client, step, &kept))
            .await
            .map_err(|_| anyhow::anyhow!("no complete answer within {LONGEST_ANSWER:?}"))
            .and_then(|answer| answer)
            .with_context(|| format!("{}: {}", case.case, step.request))?;
        if let Some(name) = &step.keep {
            kept.insert(name.clone(), answer.body.clone());
        }
        if !step.silent {
            answers.push(answer);
        }
    }
    Ok(answers)
}

async fn send(client: &Client, step: &Step, kept: &BTreeMap<String, Value>) -> Result<Answer> {
    let request = match request(step, kept) {
        Err(error) if step.optional && error.is::<Absent>() => return Ok(Answer::not_sent(step)),
        request => request?,
    };
    let response = client.send(request).await?;
    let status = response.status().as_u16();
    let headers = COMPARED_HEADERS
        .iter()
        .filter_map(|name| {
            Some((
                (*name).to_owned(),
                response.headers().get(*name)?.to_str().ok()?.to_owned(),
            ))
        })
        .collect();
    let body = match step.events {
        Some(count) if status == 200 => {
            let until = step.until.as_ref().map(|name| fill(name, kept)).transpose()?;
            let condition = step.until_condition.as_deref();
            let last = |event: &Value| {
                let object = &event["object"];
                (until.is_some() && object["metadata"]["name"].as_str() == until.as_deref())
                    || condition.is_some_and(|kind| has_condition(object, kind))
            };
            Value::Array(watch_events(response.into_body(), count, last).await?)
        }
        _ => parse(&response.into_body().collect().await?.to_bytes()),
    };
    Ok(Answer {
        request: step.request.clone(),
        status,
        headers,
        body,
    })
}

fn request(step: &Step, kept: &BTreeMap<String, Value>) -> Result<Request<Body>> {
    let (method, path) = step
        .request
        .split_once(' ')
        .context("a request is a method and a path")?;
    let mut request = Request::builder()
        .method(Method::from_bytes(method.as_bytes())?)
        .uri(fill(path, kept)?);
    let mut headers = BTreeMap::from([("accept".to_owned(), "application/json".to_owned())]);
    let body = match (&step.body, &step.raw, &step.base64, step.oversize) {
        (Some(body), None, None, None) => Some(fill_value(body, kept)?.to_string().into_bytes()),
        (None, Some(raw), None, None) => Some(fill(raw, kept)?.into_bytes()),
        (None, None, Some(bytes), None) => Some(base64::engine::general_purpose::STANDARD.decode(bytes)?),
        (None, None, None, Some(bytes)) => Some(format!("{{\"filler\":\"{}\"}}", "x".repeat(bytes)).into_bytes()),
        (None, None, None, None) => None,
        _ => bail!("a step has one of body, raw, base64 and oversize"),
    };
    if body.is_some() {
        headers.insert("content-type".to_owned(), "application/json".to_owned());
    }
    headers.extend(
        step.headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone())),
    );
    for (name, value) in &headers {
        request = request.header(name, fill(value, kept)?);
    }
    Ok(request.body(Body::from(body.unwrap_or_default()))?)
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let holds = |condition: &Value| condition["type"] == kind && condition["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(holds))
}

/// Reads events until there are as many as asked for, there is one that is to be the last, or the server closes
/// the stream.
async fn watch_events(body: Body, count: usize, last: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
    let mut stream = BodyStream::new(body);
    let mut buffer: Vec<u8> = Vec::new();
    let mut events = Vec::new();
    while events.len() < count && !events.iter().any(&last) {
        let Some(frame) = stream.next().await else { break };
        if let Ok(data) = frame?.into_data() {
            buffer.extend_from_slice(&data);
        }
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            if !line.trim_ascii().is_empty() {
                events.push(parse(line.trim_ascii()));
            }
        }
    }
    events.truncate(count);
    Ok(events)
}

fn fill_value(value: &Value, kept: &BTreeMap<String, Value>) -> Result<Value> {
    Ok(match value {
        Value::String(text) => Value::String(fill(text, kept)?),
        Value::Array(items) => Value::Array(items.iter().map(|item| fill_value(item, kept)).collect::<Result<_>>()?),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, item)| Ok((fill(key, kept)?, fill_value(item, kept)?)))
                .collect::<Result<_>>()?,
        ),
        other => other.clone(),
    })
}

/// Puts kept answers in place of `$name` and `$name.path`; `$$` stands for a dollar sign.
fn fill(text: &str, kept: &BTreeMap<String, Value>) -> Result<String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('$') {
        filled.push_str(&rest[..position]);
        rest = &rest[position + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            filled.push('$');
            rest = after;
            continue;
        }
        let end = rest
            .find(|character: char| !(character.is_ascii_alphanumeric() || character == '.' || character == '_'))
            .unwrap_or(rest.len());
        let reference = rest[..end].trim_end_matches('.');
        let mut parts = reference.split('.');
        let name = parts.next().unwrap_or_default();
        let mut value = kept
            .get(name)
            .ok_or_else(|| Absent(format!("no earlier step is kept as '{name}'")))?;
        for part in parts {
            let next = match part.parse::<usize>() {
                Ok(index) if value.is_array() => value.get(index),
                _ => value.get(part),
            };
            value = next.ok_or_else(|| Absent(format!("'{reference}': the kept answer has no '{part}': {value}")))?;
        }
        match value {
            Value::String(text) => filled.push_str(text),
            other => filled.push_str(&other.to_string()),
        }
        rest = &rest[reference.len()..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_answers_are_put_in_place() {
        let kept = BTreeMap::from([
            ("NS".to_owned(), json!("a-case")),
            (
                "pod".to_owned(),
                json!({"metadata": {"uid": "u1"}, "items": [{"n": 3}]}),
            ),
        ]);
        assert_eq!(
            fill("/ns/$NS/pods/x?uid=$pod.metadata.uid&n=$pod.items.0.n", &kept).unwrap(),
            "/ns/a-case/pods/x?uid=u1&n=3"
        );
        assert_eq!(fill("costs $$5, $NS.", &kept).unwrap(), "costs $5, a-case.");
        assert!(
            fill("$nobody", &kept)
                .unwrap_err()
                .to_string()
                .contains("no earlier step is kept as 'nobody'")
        );
        assert!(
            fill("$pod.spec", &kept)
                .unwrap_err()
                .to_string()
                .contains("has no 'spec'")
        );
    }
}
