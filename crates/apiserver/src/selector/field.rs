//! Field selectors: `a=b`, `a==b`, `a!=b`, joined by commas; a backslash escapes `\`, `,` and `=`.

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field's path.
    pub field: Box<str>,
    /// The value to compare with.
    pub value: Box<str>,
    /// Whether the field must be equal (or else different).
    pub equal: bool,
}

/// All comparisons of a selector, each of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Parses the text of a `fieldSelector` parameter.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            requirements.push(
                parse_term(&term).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?,
            );
        }
        Ok(Self { requirements })
    }

    /// A selector for one object by name.
    pub fn name(name: &str) -> Self {
        let requirement = FieldRequirement {
            field: "metadata.name".into(),
            value: name.into(),
            equal: true,
        };
        Self {
            requirements: vec![requirement],
        }
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The comparisons.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The value that `field` must be equal to, if the selector says so.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|one| one.equal && *one.field == *field)
            .map(|one| &*one.value)
    }

    /// Whether an object with these field values is selected.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> &'a str) -> bool {
        self.requirements
            .iter()
            .all(|one| (value_of(&one.field) == &*one.value) == one.equal)
    }
}

/// Splits at commas that are not escaped, keeping the escapes.
fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for character in text.chars() {
        if character == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = character == '\\' && !escaped;
        if let Some(term) = terms.last_mut() {
            term.push(character);
        }
    }
    terms
}

fn parse_term(term: &str) -> Option<FieldRequirement> {
    let operator = term.char_indices().find_map(|(at, _)| {
        ["!=", "==", "="]
            .into_iter()
            .find(|operator| term[at..].starts_with(operator))
            .map(|operator| (at, operator))
    })?;
    let (at, operator) = operator;
    let value = unescape(&term[at + operator.len()..])?;
    Some(FieldRequirement {
        field: term[..at].into(),
        value: value.into(),
        equal: operator != "!=",
    })
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next()? {
                escaped @ ('\\' | ',' | '=') => out.push(escaped),
                _ => return None,
            },
            '=' => return None,
            plain => out.push(plain),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_three_operators() {
        let selector = FieldSelector::parse("metadata.name=a,spec.nodeName!=n,status.phase==Running").unwrap();
        let terms: Vec<_> = selector
            .requirements()
            .iter()
            .map(|one| (&*one.field, &*one.value, one.equal))
            .collect();
        assert_eq!(
            terms,
            [
                ("metadata.name", "a", true),
                ("spec.nodeName", "n", false),
                ("status.phase", "Running", true)
            ]
        );
        assert_eq!(selector.required("metadata.name"), Some("a"));
        assert_eq!(selector.required("spec.nodeName"), None);
    }

    #[test]
    fn escapes_are_undone() {
        let selector = FieldSelector::parse(r"a=x\,y\=z").unwrap();
        assert_eq!(&*selector.requirements()[0].value, "x,y=z");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(FieldSelector::parse("metadata.name").is_err());
        assert!(FieldSelector::parse("a=b=c").is_err());
        assert!(FieldSelector::parse("").unwrap().is_empty());
    }

    #[test]
    fn every_comparison_must_hold() {
        let selector = FieldSelector::parse("a=1,b!=2").unwrap();
        assert!(selector.matches(|field| if field == "a" { "1" } else { "" }));
        assert!(!selector.matches(|field| if field == "a" { "1" } else { "2" }));
    }
}
