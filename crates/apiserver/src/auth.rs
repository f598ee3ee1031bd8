//! Who calls, and what they may do: two ports.
//!
//! The server asks an [`Authenticator`] who sent a request and an [`Authorizer`] whether it may be carried out. Requests over
//! TLS come with the user that their certificate or token stands for, or not at all; whoever else reaches the server (a
//! client in the process, a loopback address without TLS) is the administrator out of the box, and everyone may do everything.
//! RBAC plugs in here.

use http::request::Parts;

/// Who sent a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// A stable id.
    pub uid: String,
    /// Groups the user belongs to.
    pub groups: Vec<String>,
}

impl User {
    /// The administrator of the embedded cluster.
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".into(),
            uid: String::new(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
        }
    }

    /// Someone who has shown no credentials.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".into(),
            uid: String::new(),
            groups: vec!["system:unauthenticated".into()],
        }
    }
}

/// Tells who sent a request; `None` means nobody known (401).
pub trait Authenticator: Send + Sync + 'static {
    /// The sender.
    fn authenticate(&self, request: &Parts) -> Option<User>;
}

/// Takes a user that an outer layer put into the request's extensions; everyone else is the administrator.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrustEveryone;

impl Authenticator for TrustEveryone {
    fn authenticate(&self, request: &Parts) -> Option<User> {
        Some(request.extensions.get::<User>().cloned().unwrap_or_else(User::admin))
    }
}

/// What a request wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// The verb (`get`, `list`, `create`, ...).
    pub verb: &'a str,
    /// The group.
    pub group: &'a str,
    /// The resource with its part: `pods`, `pods/status`.
    pub resource: &'a str,
    /// The namespace, empty for none.
    pub namespace: &'a str,
    /// The object's name, empty for none.
    pub name: &'a str,
}

/// Decides whether a user may do something; an error says why not.
pub trait Authorizer: Send + Sync + 'static {
    /// Allows, or says why not.
    fn authorize(&self, user: &User, action: &Action<'_>) -> Result<(), String>;
}

/// Allows everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowEverything;

impl Authorizer for AllowEverything {
    fn authorize(&self, _user: &User, _action: &Action<'_>) -> Result<(), String> {
        Ok(())
    }
}
