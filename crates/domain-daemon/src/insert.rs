//! The escape hatch: a daemon that no controller assigns an index inserts its own row, as NVIDIA's daemons do.
//!
//! The write is conditional on the version that the row was computed from; whoever loses computes again after a random wait.

use coppice_domains::api::{Clique, DaemonRow, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::settings::Settings;

/// Stores the rows: into the object they were computed from, or into a new one.
pub(crate) async fn store(
    client: Client,
    settings: Settings,
    stored: Option<Clique>,
    rows: Vec<DaemonRow>,
) -> Result<(), kube::Error> {
    let api: Api<Clique> = Api::namespaced(client, &settings.namespace);
    let name = names::clique(&settings.domain_uid, &settings.myself.clique_id);
    let params = PostParams {
        field_manager: Some("compute-domain-daemon".to_owned()),
        ..PostParams::default()
    };
    if let Some(mut clique) = stored {
        clique.daemons = rows;
        return api.replace(&name, &params, &clique).await.map(drop);
    }
    let labels = [
        (names::DOMAIN_LABEL, &settings.domain_uid),
        (names::CLIQUE_LABEL, &settings.myself.clique_id),
    ];
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: settings.pod_name.clone(),
        uid: settings.myself.pod_uid.clone(),
        ..OwnerReference::default()
    };
    let clique = Clique {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(settings.namespace.clone()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.clone())).into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        daemons: rows,
        ..Clique::default()
    };
    api.create(&params, &clique).await.map(drop)
}
