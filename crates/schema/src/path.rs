//! Field paths, as a chain of frames on the stack: nothing is allocated until an error has to name one.

use std::fmt::Write as _;

/// One step of a path.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// A declared field.
    Field(&'a str),
    /// A key of a map.
    Key(&'a str),
    /// An element of a list.
    Index(usize),
}

/// A path from the root of an object.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Option<Step<'a>>,
}

impl<'a> Path<'a> {
    /// The object itself.
    pub const ROOT: Path<'static> = Path {
        parent: None,
        step: None,
    };

    /// A declared field below this path.
    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Some(Step::Field(name)),
        }
    }

    /// A map key below this path.
    pub fn key(&'a self, name: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Some(Step::Key(name)),
        }
    }

    /// A list element below this path.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Some(Step::Index(index)),
        }
    }

    /// Whether this is the object itself.
    pub fn is_root(&self) -> bool {
        self.step.is_none()
    }

    /// `spec.labels[key].list[0]`, the way field errors are written.
    pub fn to_field_path(&self) -> String {
        let mut out = String::new();
        self.render(&mut out, true);
        out
    }

    /// `spec.labels.key.list[0]`, the way structural validation and unknown-field detection write it.
    pub fn to_dotted(&self) -> String {
        let mut out = String::new();
        self.render(&mut out, false);
        out
    }

    /// `spec.labels.list`: declared fields alone, without map keys and indices.
    pub fn to_dotted_names(&self) -> String {
        let mut out = self.parent.map(Path::to_dotted_names).unwrap_or_default();
        if let Some(Step::Field(name)) = self.step {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(name);
        }
        out
    }

    fn render(&self, out: &mut String, brackets: bool) {
        if let Some(parent) = self.parent {
            parent.render(out, brackets);
        }
        match self.step {
            None => {}
            Some(Step::Key(name)) if brackets => {
                let _ = write!(out, "[{name}]");
            }
            Some(Step::Field(name) | Step::Key(name)) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Some(Step::Index(index)) => {
                let _ = write!(out, "[{index}]");
            }
        }
    }
}
