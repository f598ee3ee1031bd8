//! Reads the XML of `nvidia-smi -q -x`.
//!
//! Only the driver's version and the fabric of each GPU are read. Names of elements are compared without case and
//! underscores, which have changed between versions.

use coppice_domains::decide::plugin::fabric::GpuFabric;
use roxmltree::{Document, Node, ParsingOptions};

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gpus {
    /// The version of the driver.
    pub(crate) driver_version: String,
    /// The fabric of each GPU.
    pub(crate) fabric: Vec<GpuFabric>,
}

/// Output that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SmiError {
    /// Not XML.
    #[error("the output is not XML: {0}")]
    NotXml(String),
    /// Without the driver's version.
    #[error("the output has no driver_version")]
    NoVersion,
    /// A GPU is registered, and its clique is not there.
    #[error("GPU {gpu} has completed its fabric registration without a usable {field}")]
    Incomplete {
        /// Which GPU.
        gpu: usize,
        /// Which field.
        field: &'static str,
    },
}

/// Reads the output.
pub(crate) fn parse(xml: &str) -> Result<Gpus, SmiError> {
    let options = ParsingOptions {
        // The output begins with a document type.
        allow_dtd: true,
        nodes_limit: 1_000_000,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(xml, options).map_err(|error| SmiError::NotXml(error.to_string()))?;
    let root = document.root_element();
    let driver_version = text(root, "driverversion").ok_or(SmiError::NoVersion)?;
    let gpus = root.children().filter(|node| is(*node, "gpu")).enumerate();
    let fabric = gpus.map(|(gpu, node)| fabric(gpu, node)).collect::<Result<_, _>>()?;
    Ok(Gpus {
        driver_version: driver_version.to_owned(),
        fabric,
    })
}

fn is(node: Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name().replace('_', "").eq_ignore_ascii_case(name)
}

fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let found = node.children().find(|child| is(*child, name))?;
    found.text().map(str::trim)
}

fn fabric(gpu: usize, node: Node<'_, '_>) -> Result<GpuFabric, SmiError> {
    let Some(fabric) = node.children().find(|child| is(*child, "fabric")) else {
        return Ok(GpuFabric::NotSupported);
    };
    let state = text(fabric, "state").unwrap_or_default();
    if ["", "N/A", "Not Supported", "Unknown Error"].contains(&state) {
        return Ok(GpuFabric::NotSupported);
    }
    if !state.eq_ignore_ascii_case("completed") {
        return Ok(GpuFabric::Incomplete {
            state: shortened(state),
        });
    }
    let status = text(fabric, "status").unwrap_or_default();
    if !status.eq_ignore_ascii_case("success") {
        return Ok(GpuFabric::Failed {
            status: shortened(status),
        });
    }
    let missing = |field| SmiError::Incomplete { gpu, field };
    let clique = text(fabric, "cliqueid").and_then(|clique| clique.parse().ok());
    Ok(GpuFabric::Registered {
        cluster_uuid: text(fabric, "clusteruuid")
            .filter(|uuid| !uuid.is_empty() && *uuid != "N/A")
            .ok_or_else(|| missing("ClusterUUID"))?
            .to_owned(),
        clique: clique.ok_or_else(|| missing("CliqueId"))?,
    })
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(fabric: &str) -> String {
        format!(
            "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n\
             <driver_version>580.65.06</driver_version><attached_gpus>1</attached_gpus>\n\
             <gpu id=\"00000008:01:00.0\"><product_name>NVIDIA GB200</product_name>{fabric}</gpu></nvidia_smi_log>\n"
        )
    }

    fn one(fabric: &str) -> Result<GpuFabric, SmiError> {
        parse(&output(fabric)).map(|mut gpus| gpus.fabric.remove(0))
    }

    #[test]
    fn the_clique_of_a_registered_gpu_is_read() {
        let fabric = "<fabric><state>Completed</state><status>Success</status><cliqueId>32766</cliqueId>\
                      <clusterUuid>7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d</clusterUuid></fabric>";
        let expected = GpuFabric::Registered {
            cluster_uuid: "7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d".into(),
            clique: 32_766,
        };
        assert_eq!(one(fabric), Ok(expected.clone()));
        let renamed = fabric
            .replace("cliqueId", "clique_id")
            .replace("clusterUuid", "ClusterUUID");
        assert_eq!(one(&renamed), Ok(expected));
        assert_eq!(parse(&output(fabric)).unwrap().driver_version, "580.65.06");
    }

    #[test]
    fn other_states_are_told_apart() {
        assert_eq!(one(""), Ok(GpuFabric::NotSupported));
        let state = |state: &str, status: &str| {
            one(&format!(
                "<fabric><state>{state}</state><status>{status}</status><cliqueId>N/A</cliqueId></fabric>"
            ))
        };
        assert_eq!(state("N/A", "N/A"), Ok(GpuFabric::NotSupported));
        assert_eq!(
            state("In Progress", "N/A"),
            Ok(GpuFabric::Incomplete {
                state: "In Progress".into()
            })
        );
        assert!(matches!(
            state("Completed", "Insufficient Resources"),
            Ok(GpuFabric::Failed { .. })
        ));
        assert_eq!(
            state("Completed", "Success"),
            Err(SmiError::Incomplete {
                gpu: 0,
                field: "ClusterUUID"
            })
        );
    }

    #[test]
    fn other_output_is_an_error() {
        assert!(matches!(parse("NVIDIA-SMI has failed"), Err(SmiError::NotXml(_))));
        assert_eq!(parse("<nvidia_smi_log/>"), Err(SmiError::NoVersion));
    }
}
