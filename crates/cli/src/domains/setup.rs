//! What ComputeDomains need in an embedded cluster before the first one is made.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use coppice_domain_controller::{DomainController, Options};
use coppice_domains::api::{crd, names};
use coppice_domains::decide::render::RenderSettings;
use coppice_runtime::clock::SystemClock;
use coppice_runtime::supervise::Supervisor;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::resource::v1::DeviceClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The namespace of the driver.
pub(crate) const DRIVER_NAMESPACE: &str = "nvidia-dra-driver-gpu";
/// The image of daemons; simulated nodes pull nothing.
const IMAGE: &str = "coppice-compute-domain-daemon";

async fn create<K>(client: &Client, object: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let object: K = serde_json::from_value(object)?;
    let created = Api::<K>::all(client.clone())
        .create(&PostParams::default(), &object)
        .await;
    created
        .map(drop)
        .with_context(|| format!("creating {} {name}", K::kind(&())))
}

/// Installs the definitions, the DeviceClasses and the namespace of the driver.
pub(crate) async fn install(client: &Client) -> Result<()> {
    for definition in crd::all() {
        create::<CustomResourceDefinition>(client, definition).await?;
    }
    create::<Namespace>(client, json!({"metadata": {"name": DRIVER_NAMESPACE}})).await?;
    for (class, condition) in [
        (names::DAEMON_CLASS, ".type == 'daemon'".to_owned()),
        (
            names::CHANNEL_CLASS,
            format!(".type == 'channel' && device.attributes['{}'].id == 0", names::DRIVER),
        ),
    ] {
        let driver = names::DRIVER;
        let expression = format!("device.driver == '{driver}' && device.attributes['{driver}']{condition}");
        let spec = json!({"selectors": [{"cel": {"expression": expression}}]});
        create::<DeviceClass>(client, json!({"metadata": {"name": class}, "spec": spec})).await?;
    }
    Ok(())
}

/// Starts the controller.
pub(crate) async fn start_controller(client: Client, supervisor: &Supervisor) -> DomainController {
    let options = Options {
        settings: RenderSettings {
            namespace: DRIVER_NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
            ..RenderSettings::default()
        },
        clock: Arc::new(SystemClock),
        supervisor: supervisor.clone(),
        ..Options::default()
    };
    DomainController::start(client, options).await
}
