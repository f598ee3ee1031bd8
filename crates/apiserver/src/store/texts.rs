//! Names with texts, in two allocations however many there are.
//!
//! Every stored object carries its labels and selectable fields beside its JSON; as separate strings they would take more
//! memory than their characters.

/// A list of names and texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// All names and texts, one after the other.
    characters: Box<str>,
    /// Where each name and each text ends.
    ends: Box<[u32]>,
}

impl Texts {
    /// The text under a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, text)| text)
    }

    /// All names and texts, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        let mut next = move |end: u32| {
            let end = end as usize;
            let part = &self.characters[start..end];
            start = end;
            part
        };
        let pairs = self.ends.as_chunks::<2>().0;
        pairs.iter().map(move |[name, text]| (next(*name), next(*text)))
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Texts {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let (mut characters, mut ends) = (String::new(), Vec::new());
        for (name, text) in pairs {
            for part in [name, text] {
                characters.push_str(part);
                ends.push(u32::try_from(characters.len()).expect("an object is smaller than 4 GiB"));
            }
        }
        Self {
            characters: characters.into(),
            ends: ends.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_name() {
        let pairs = [("a", "1"), ("app", ""), ("", "none"), ("z", "zz")];
        let texts: Texts = pairs.into_iter().collect();
        assert_eq!(texts.iter().collect::<Vec<_>>(), pairs);
        assert_eq!(texts.get("z"), Some("zz"));
        assert_eq!(texts.get("app"), Some(""));
        assert_eq!(texts.get(""), Some("none"));
        assert_eq!(texts.get("b"), None);
        assert_eq!(Texts::default().get("a"), None);
    }
}
