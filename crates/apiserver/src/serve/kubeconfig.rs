//! The kubeconfig that clients of a serving server need.

use super::Certificates;

/// A kubeconfig with one cluster, one user, one context, all named `coppice`.
pub(super) fn render(url: &str, certificates: Option<&Certificates>) -> String {
    let authority = certificates
        .map(|certificates| {
            format!(
                "\n    certificate-authority-data: {}",
                base64(certificates.authority_pem())
            )
        })
        .unwrap_or_default();
    let user = match certificates {
        Some(certificates) => {
            let (certificate, key) = certificates.client_pem();
            format!(
                "\n    client-certificate-data: {}\n    client-key-data: {}",
                base64(certificate),
                base64(key)
            )
        }
        None => " {}".to_owned(),
    };
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: coppice\n  cluster:\n    server: {url}{authority}\nusers:\n- \
         name: coppice\n  user:{user}\ncontexts:\n- name: coppice\n  context:\n    cluster: coppice\n    user: coppice\n    \
         namespace: default\ncurrent-context: coppice\n"
    )
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
