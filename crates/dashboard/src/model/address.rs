//! The addresses of pages: read from a path and a query, and written for links.
//!
//! A page is what its address says, so that every view can be bookmarked, opened in a second tab and followed live. What an
//! address says is only a question: nothing in it grows work or memory beyond what exists.

use std::fmt::{Display, Formatter};

/// What the cells of the map are coloured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Colour {
    /// The gang that has the GPU.
    #[default]
    Gang,
    /// The set that has it.
    Set,
    /// Free, free on a node that is partly used, used, or out of use.
    Free,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// The cluster, or a domain of it.
    Map {
        /// The ClusterTopologyBinding; the first by name when not given.
        topology: Option<String>,
        /// Values of the levels from the broadest on; empty for nodes without the label.
        within: Vec<String>,
        /// What cells are coloured by.
        colour: Colour,
    },
    /// A node.
    Node(String),
    /// Gangs that wait.
    Pending {
        /// Only of this namespace.
        namespace: Option<String>,
    },
    /// One gang, and what would help it.
    Gang {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The remedy that is assumed, by its identity.
        assume: Option<String>,
    },
    /// All sets.
    Sets {
        /// Only of this namespace.
        namespace: Option<String>,
    },
    /// One set.
    Set {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The replica that is shown in full.
        replica: Option<u32>,
    },
    /// What happened.
    Timeline {
        /// Only what concerns this namespace.
        namespace: Option<String>,
        /// Only of this kind of entry.
        kind: Option<String>,
    },
    /// What a manifest would change.
    Plan,
}

impl Page {
    /// The map of the whole cluster.
    #[must_use]
    pub fn map() -> Self {
        Self::Map {
            topology: None,
            within: Vec::new(),
            colour: Colour::default(),
        }
    }

    /// Reads an address; none when there is no such page.
    #[must_use]
    pub fn read(path: &str, query: &str) -> Option<Self> {
        let parameters: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let all = |name: &str| {
            let named = parameters.iter().filter(move |(key, _)| key == name);
            named.map(|(_, value)| value.clone()).collect::<Vec<String>>()
        };
        let one = |name: &str| all(name).into_iter().find(|value| !value.is_empty());
        let steps: Option<Vec<String>> = path.split('/').filter(|step| !step.is_empty()).map(decoded).collect();
        let steps = steps?;
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        Some(match steps.as_slice() {
            [] => Self::Map {
                topology: one("topology"),
                within: all("in"),
                colour: match one("colour").as_deref() {
                    Some("set") => Colour::Set,
                    Some("free") => Colour::Free,
                    _ => Colour::Gang,
                },
            },
            ["nodes", name] => Self::Node((*name).to_owned()),
            ["pending"] => Self::Pending {
                namespace: one("namespace"),
            },
            ["gangs", namespace, name] => Self::Gang {
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
                assume: one("assume"),
            },
            ["sets"] => Self::Sets {
                namespace: one("namespace"),
            },
            ["sets", namespace, name] => Self::Set {
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
                replica: one("replica").and_then(|replica| replica.parse().ok()),
            },
            ["timeline"] => Self::Timeline {
                namespace: one("namespace"),
                kind: one("kind"),
            },
            ["plan"] => Self::Plan,
            _ => return None,
        })
    }
}

/// A step of a path without its escapes; none when it is no text.
fn decoded(step: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(step.len());
    let mut rest = step.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let text = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(text, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// A step of a path with everything escaped that is not plain.
fn encoded(step: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let mut text = String::with_capacity(step.len());
    for byte in step.bytes() {
        if plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

impl Display for Page {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let mut add = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        };
        let path = match self {
            Self::Map {
                topology,
                within,
                colour,
            } => {
                add("topology", topology.as_deref());
                within.iter().for_each(|value| add("in", Some(value)));
                add(
                    "colour",
                    match colour {
                        Colour::Gang => None,
                        Colour::Set => Some("set"),
                        Colour::Free => Some("free"),
                    },
                );
                "/".to_owned()
            }
            Self::Node(name) => format!("/nodes/{}", encoded(name)),
            Self::Pending { namespace } => {
                add("namespace", namespace.as_deref());
                "/pending".to_owned()
            }
            Self::Gang {
                namespace,
                name,
                assume,
            } => {
                add("assume", assume.as_deref());
                format!("/gangs/{}/{}", encoded(namespace), encoded(name))
            }
            Self::Sets { namespace } => {
                add("namespace", namespace.as_deref());
                "/sets".to_owned()
            }
            Self::Set {
                namespace,
                name,
                replica,
            } => {
                add("replica", replica.map(|replica| replica.to_string()).as_deref());
                format!("/sets/{}/{}", encoded(namespace), encoded(name))
            }
            Self::Timeline { namespace, kind } => {
                add("namespace", namespace.as_deref());
                add("kind", kind.as_deref());
                "/timeline".to_owned()
            }
            Self::Plan => "/plan".to_owned(),
        };
        let query = query.finish();
        match query.is_empty() {
            true => out.write_str(&path),
            false => write!(out, "{path}?{query}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_read_as_it_was_written() {
        let pages = [
            Page::map(),
            Page::Map {
                topology: Some("racks".into()),
                within: vec!["zone a".into(), String::new(), "r&1".into()],
                colour: Colour::Free,
            },
            Page::Node("n%2F\"<é".into()),
            Page::Pending {
                namespace: Some("models".into()),
            },
            Page::Gang {
                namespace: "models".into(),
                name: "llm-0".into(),
                assume: Some("0a1b".into()),
            },
            Page::Sets { namespace: None },
            Page::Set {
                namespace: "models".into(),
                name: "llm".into(),
                replica: Some(7),
            },
            Page::Timeline {
                namespace: None,
                kind: Some("placed".into()),
            },
            Page::Plan,
        ];
        for page in pages {
            let address = page.to_string();
            let (path, query) = address.split_once('?').unwrap_or((&address, ""));
            assert_eq!(Page::read(path, query), Some(page), "{address}");
        }
    }

    #[test]
    fn what_is_no_page_is_none() {
        for path in ["/x", "/sets/a/b/c", "/nodes/%zz", "/nodes/%f", "/gangs/a"] {
            assert_eq!(Page::read(path, ""), None, "{path}");
        }
    }
}
