//! Label selectors: the text form of list requests and the structured form inside objects.
//!
//! Text: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, `a>1`, `a<1`, joined by commas.

use serde_json::Value;

/// How a label is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Present, with one of these values.
    In(Vec<Box<str>>),
    /// Absent, or with none of these values.
    NotIn(Vec<Box<str>>),
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// An integer above this.
    GreaterThan(i64),
    /// An integer below this.
    LessThan(i64),
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: Box<str>,
    /// The condition.
    pub operator: Operator,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Parses the text of a `labelSelector` parameter.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            tokens: tokenize(text),
            at: 0,
        };
        let mut requirements = Vec::new();
        if parser.peek().is_none() {
            return Ok(Self::default());
        }
        loop {
            requirements.push(parser.requirement()?);
            match parser.next() {
                None => break,
                Some(Token::Comma) => {
                    if parser.peek().is_none() {
                        return Err("found '', expected: identifier after ','".to_owned());
                    }
                }
                Some(other) => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
        Ok(Self { requirements })
    }

    /// Reads a `metav1.LabelSelector`: `matchLabels` and `matchExpressions`. An empty one selects everything.
    pub fn from_structured(selector: &Value) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let values = vec![value.as_str().unwrap_or_default().into()];
            requirements.push(LabelRequirement {
                key: key.as_str().into(),
                operator: Operator::In(values),
            });
        }
        for expression in selector
            .get("matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
            let values = expression.get("values").and_then(Value::as_array);
            let values: Vec<Box<str>> = values
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(Into::into)
                .collect();
            let operator = match expression.get("operator").and_then(Value::as_str).unwrap_or_default() {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            requirements.push(LabelRequirement {
                key: key.into(),
                operator,
            });
        }
        Ok(Self { requirements })
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The conditions.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Whether an object with these labels is selected.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|one| one.operator.holds(value_of(&one.key)))
    }

    /// Whether an object with this label map (JSON) is selected.
    pub fn matches_map(&self, labels: Option<&Value>) -> bool {
        self.matches(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }
}

impl Operator {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.iter().any(|one| **one == *value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| **one != *value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Not,
    Equal,
    NotEqual,
    Greater,
    Less,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Not => "!",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::Less => "<",
        }
    }
}

fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let token = match character {
            ',' => Token::Comma,
            '(' => Token::Open,
            ')' => Token::Close,
            '>' => Token::Greater,
            '<' => Token::Less,
            '!' if characters.next_if_eq(&'=').is_some() => Token::NotEqual,
            '!' => Token::Not,
            '=' => {
                characters.next_if_eq(&'=');
                Token::Equal
            }
            space if space.is_whitespace() => continue,
            first => {
                let mut word = String::from(first);
                while let Some(next) = characters.next_if(|next| !next.is_whitespace() && !",()!=<>".contains(*next)) {
                    word.push(next);
                }
                Token::Word(word)
            }
        };
        tokens.push(token);
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        if self.peek() == Some(&Token::Not) {
            self.at += 1;
            let key = self.key("identifier")?;
            return Ok(LabelRequirement {
                key,
                operator: Operator::DoesNotExist,
            });
        }
        let key = self.key("!, identifier, or 'end of string'")?;
        let operator = match self.peek() {
            None | Some(Token::Comma) => Operator::Exists,
            Some(Token::Equal) => Operator::In(vec![self.value_after_operator()?]),
            Some(Token::NotEqual) => Operator::NotIn(vec![self.value_after_operator()?]),
            Some(Token::Greater) => Operator::GreaterThan(self.number()?),
            Some(Token::Less) => Operator::LessThan(self.number()?),
            Some(Token::Word(word)) if word == "in" => Operator::In(self.set()?),
            Some(Token::Word(word)) if word == "notin" => Operator::NotIn(self.set()?),
            Some(other) => {
                return Err(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                    other.text()
                ));
            }
        };
        Ok(LabelRequirement { key, operator })
    }

    fn key(&mut self, expected: &str) -> Result<Box<str>, String> {
        match self.next() {
            Some(Token::Word(word)) => {
                check_key(&word)?;
                Ok(word.into())
            }
            other => Err(format!("found '{}', expected: {expected}", describe(other.as_ref()))),
        }
    }

    fn value_after_operator(&mut self) -> Result<Box<str>, String> {
        self.at += 1;
        match self.peek() {
            Some(Token::Word(word)) => {
                let value: Box<str> = word.as_str().into();
                self.at += 1;
                check_value(&value)?;
                Ok(value)
            }
            None | Some(Token::Comma) => Ok("".into()),
            other => Err(format!("found '{}', expected: identifier", describe(other))),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value_after_operator()?;
        value
            .parse()
            .map_err(|_| format!("for 'Gt', 'Lt' operators, the value must be an integer, not {value:?}"))
    }

    fn set(&mut self) -> Result<Vec<Box<str>>, String> {
        self.at += 1;
        if self.next() != Some(Token::Open) {
            return Err(format!(
                "found '{}' expected: '('",
                describe(self.tokens.get(self.at - 1))
            ));
        }
        let mut values: Vec<Box<str>> = Vec::new();
        loop {
            match self.next() {
                Some(Token::Word(word)) => {
                    check_value(&word)?;
                    values.push(word.into());
                    match self.next() {
                        Some(Token::Comma) => {}
                        Some(Token::Close) => return Ok(values),
                        other => return Err(format!("found '{}', expected: ',' or ')'", describe(other.as_ref()))),
                    }
                }
                Some(Token::Comma) => values.push("".into()),
                Some(Token::Close) => {
                    values.push("".into());
                    return Ok(values);
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', ')' or identifier",
                        describe(other.as_ref())
                    ));
                }
            }
        }
    }
}

fn describe(token: Option<&Token>) -> &str {
    token.map_or("", Token::text)
}

fn check_key(key: &str) -> Result<(), String> {
    let name = match key.split_once('/') {
        Some((prefix, name)) if !prefix.is_empty() => name,
        Some(_) => return Err(format!("key: Invalid value: {key:?}: prefix part must be non-empty")),
        None => key,
    };
    if !name.is_empty() && name.len() <= 63 && is_label_text(name) {
        return Ok(());
    }
    Err(format!(
        "key: Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    ))
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || (value.len() <= 63 && is_label_text(value)) {
        return Ok(());
    }
    Err(format!(
        "values[0][]: Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    ))
}

fn is_label_text(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|byte| inner(*byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(selector: &str, labels: &Value) -> bool {
        LabelSelector::parse(selector).unwrap().matches_map(Some(labels))
    }

    #[test]
    fn equality_and_existence() {
        let labels = json!({"a": "1", "example.com/b": "x"});
        for selector in [
            "",
            "a=1",
            "a==1",
            "a!=2",
            "a",
            "!c",
            "c!=1",
            "a=1,example.com/b=x",
            " a = 1 , !c",
        ] {
            assert!(matches(selector, &labels), "{selector}");
        }
        for selector in ["a=2", "a!=1", "c", "!a", "a=1,c"] {
            assert!(!matches(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn sets_and_numbers() {
        let labels = json!({"a": "1", "n": "5", "e": ""});
        for selector in [
            "a in (1,2)",
            "a notin (2, 3)",
            "c notin (1)",
            "n>4",
            "n<6",
            "e=",
            "e in ()",
            "a in (1),n",
        ] {
            assert!(matches(selector, &labels), "{selector}");
        }
        for selector in ["a in (2)", "a notin (1)", "n>5", "n<5", "a>0,c>0"] {
            assert!(!matches(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn broken_selectors_are_refused() {
        for selector in [
            "a in 1", "a in (1", "=a", "a b", "a,,b", "a,", "a>x", "-a=b", "a=b c", "!",
        ] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector}");
        }
    }

    #[test]
    fn structured_selectors() {
        let selector = json!({"matchLabels": {"a": "1"}, "matchExpressions": [
            {"key": "b", "operator": "Exists"}, {"key": "c", "operator": "NotIn", "values": ["x"]}]});
        let selector = LabelSelector::from_structured(&selector).unwrap();
        assert!(selector.matches_map(Some(&json!({"a": "1", "b": ""}))));
        assert!(!selector.matches_map(Some(&json!({"a": "1", "b": "", "c": "x"}))));
        assert!(LabelSelector::from_structured(&json!({"matchExpressions": [{"operator": "Near"}]})).is_err());
        assert!(LabelSelector::from_structured(&json!({})).unwrap().is_empty());
    }
}
