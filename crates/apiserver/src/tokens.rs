//! Tokens of service accounts: random texts made on request, known to this server only, good until they expire or their
//! account is gone. Nothing about them is stored; a server that starts anew knows none.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::auth::User;
use crate::store::{Key, Store};

/// The resource that tokens are for.
const ACCOUNTS: &str = "serviceaccounts";
/// The random bytes in a token.
const LENGTH: usize = 32;

/// The tokens that were given out.
#[derive(Default)]
pub(crate) struct Tokens {
    issued: Mutex<BTreeMap<String, Issued>>,
}

struct Issued {
    account: Key,
    uid: String,
    until: Timestamp,
}

impl Tokens {
    /// A new token for the account at `account`, which has that uid. `None` when the machine has no randomness.
    pub(crate) fn issue(&self, account: Key, uid: &str, now: Timestamp, until: Timestamp) -> Option<String> {
        let mut random = [0; LENGTH];
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.secure_random.fill(&mut random).ok()?;
        let token = URL_SAFE_NO_PAD.encode(random);
        let mut issued = self.issued.lock();
        issued.retain(|_, known| known.until > now);
        let uid = uid.to_owned();
        issued.insert(token.clone(), Issued { account, uid, until });
        Some(token)
    }

    /// Whose token it is, if it is one and still good.
    pub(crate) fn user(&self, token: &str, store: &Store, now: Timestamp) -> Option<User> {
        let issued = self.issued.lock();
        let known = issued.get(token).filter(|known| known.until > now)?;
        let account = store.get(ACCOUNTS, &known.account)?;
        let (namespace, name) = (known.account.namespace(), known.account.name());
        (account.uid() == known.uid).then(|| User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: known.uid.clone(),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Draft, Expect, Texts};

    #[test]
    fn a_token_is_good_while_its_time_and_its_account_last() {
        let store = Store::default();
        let robot = Key::new("default", "robot");
        let account = |uid: &str| Draft::new(&json!({"metadata": {"name": "robot", "uid": uid}}), Texts::default());
        let stored = store.put(ACCOUNTS, &robot, Expect::Absent, account("1")).unwrap();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let tokens = Tokens::default();
        let token = tokens.issue(robot.clone(), "1", at(0), at(10)).unwrap();
        let user = tokens.user(&token, &store, at(9)).unwrap();
        assert_eq!(user.name, "system:serviceaccount:default:robot");
        assert_eq!(tokens.user("something else", &store, at(9)), None);
        assert_eq!(tokens.user(&token, &store, at(10)), None);
        store.remove(ACCOUNTS, &robot, stored.revision()).unwrap();
        assert_eq!(tokens.user(&token, &store, at(9)), None);
        // Another account under the same name.
        store.put(ACCOUNTS, &robot, Expect::Absent, account("2")).unwrap();
        assert_eq!(tokens.user(&token, &store, at(9)), None);
        assert_ne!(tokens.issue(robot, "2", at(20), at(30)).unwrap(), token);
        assert_eq!(tokens.issued.lock().len(), 1);
    }
}
