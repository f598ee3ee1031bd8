//! The fields of the file, one after the other: defaults, and what cannot work.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use coppice_api::admission::{DEFAULT_SCHEDULER, SchedulerBackend, SchedulerProfile};
use serde_json::Value;

use super::reader::{Findings, Section};
use super::{
    API_VERSION, Authorizer, CertProvisionMode, ClientConnection, ConcurrentSyncs, Configuration, Controllers,
    Debugging, Enabled, EndedPods, GangTermination, HealthProbes, Invalid, KIND, LeaderElection, Listener, LogFormat,
    LogLevel, Network, Profile, ProfileConfig, Read, Scheduler, Servers, Webhooks, WhenAllLost,
};

const LOOPBACK: &str = "127.0.0.1";
/// The name of Coppice's own scheduler, which reads gangs by itself.
const OWN_SCHEDULER: &str = "coppice";

pub(super) fn read(value: &Value) -> Result<Read, Invalid> {
    let findings = RefCell::new(Findings::default());
    let configuration = whole(&Section::new(String::new(), Some(value), &findings));
    let Findings { errors, mut warnings } = findings.into_inner();
    if !errors.is_empty() {
        return Err(Invalid(errors));
    }
    warnings.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Read {
        configuration,
        warnings,
    })
}

fn whole(file: &Section<'_>) -> Configuration {
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let given = file.text(field, expected);
        if given != expected {
            file.refuse(field, &format!("expected {expected}, got {given:?}"));
        }
    }
    let level = [
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("error", LogLevel::Error),
    ];
    let format = [("json", LogFormat::Json), ("text", LogFormat::Text)];
    Configuration {
        api_version: API_VERSION,
        kind: KIND,
        runtime_client_connection: client(&file.section("runtimeClientConnection")),
        leader_election: election(&file.section("leaderElection")),
        server: servers(&file.section("server")),
        debugging: debugging(&file.section("debugging")),
        controllers: controllers(&file.section("controllers")),
        log_level: file.choice("logLevel", LogLevel::Info, &level),
        log_format: file.choice("logFormat", LogFormat::Json, &format),
        authorizer: authorizer(&file.section("authorizer")),
        topology_aware_scheduling: Enabled {
            enabled: file.section("topologyAwareScheduling").boolean("enabled", false),
        },
        network: network(&file.section("network")),
        gang_termination: GangTermination {
            when_all_lost: file.section("gangTermination").choice(
                "whenAllLost",
                WhenAllLost::Wait,
                &[("Wait", WhenAllLost::Wait), ("Terminate", WhenAllLost::Terminate)],
            ),
        },
        ended_pods: ended_pods(&file.section("endedPods")),
        scheduler: scheduler(&file.section("scheduler")),
    }
}

fn ended_pods(section: &Section<'_>) -> EndedPods {
    EndedPods {
        per_clique: section.integer("perClique", 2, 0, 100),
        keep_for: section.duration("keepFor", Duration::from_secs(15 * 60)),
    }
}

fn network(section: &Section<'_>) -> Network {
    let network = Network {
        cluster_domain: section.text("clusterDomain", "cluster.local"),
        auto_mnnvl_enabled: section.boolean("autoMNNVLEnabled", false),
    };
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    if network.cluster_domain.len() > 253 || !network.cluster_domain.split('.').all(is_label) {
        section.refuse(
            "clusterDomain",
            "must be a DNS domain in lower case, such as cluster.local",
        );
    }
    network
}

fn client(section: &Section<'_>) -> ClientConnection {
    for field in ["contentType", "acceptContentTypes"] {
        let given = section.text(field, "");
        if !["", "application/json"].contains(&given.as_str()) {
            section.warn(field, "the client speaks application/json, whatever is asked for");
        }
    }
    ClientConnection {
        qps: section.decimal("qps", 100.0),
        burst: section.integer("burst", 120, 0, i64::from(i32::MAX)),
    }
}

fn election(section: &Section<'_>) -> LeaderElection {
    let seconds = Duration::from_secs;
    let election = LeaderElection {
        enabled: section.boolean("enabled", false),
        lease_duration: section.duration("leaseDuration", seconds(15)),
        renew_deadline: section.duration("renewDeadline", seconds(10)),
        retry_period: section.duration("retryPeriod", seconds(2)),
        resource_lock: section.text("resourceLock", "leases"),
        resource_name: section.text("resourceName", "grove-operator-leader-election"),
        resource_namespace: section.text("resourceNamespace", ""),
    };
    if !election.enabled {
        return election;
    }
    for (field, value) in [
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ] {
        if value.is_zero() {
            section.refuse(field, "must be longer than 0s");
        }
    }
    if election.lease_duration.subsec_nanos() != 0 {
        section.refuse(
            "leaseDuration",
            "must be whole seconds, because a Lease stores no others",
        );
    }
    if election.renew_deadline >= election.lease_duration {
        section.refuse(
            "renewDeadline",
            "must be shorter than leaseDuration, or two could lead at once",
        );
    }
    if election.retry_period * 2 >= election.renew_deadline {
        let message = "must be shorter than half of renewDeadline, or one failed renewal would end the leadership";
        section.refuse("retryPeriod", message);
    }
    if election.resource_lock != "leases" {
        section.refuse("resourceLock", "only leases are supported");
    }
    if election.resource_name.is_empty() {
        section.refuse("resourceName", "must not be empty");
    }
    election
}

fn listener(section: &Section<'_>, port: u16) -> Listener {
    let bind_address = section.text("bindAddress", "");
    if !bind_address.is_empty() && bind_address.parse::<std::net::IpAddr>().is_err() {
        let message = format!("expected an IP address, or nothing for all addresses, got {bind_address:?}");
        section.refuse("bindAddress", &message);
    }
    Listener {
        bind_address,
        port: section.integer("port", port, 0, i64::from(u16::MAX)),
    }
}

fn servers(section: &Section<'_>) -> Servers {
    let webhooks = section.section("webhooks");
    let probes = section.section("healthProbes");
    let modes = [("auto", CertProvisionMode::Auto), ("manual", CertProvisionMode::Manual)];
    let secret_name = webhooks.text("secretName", "grove-webhook-server-cert");
    if secret_name.is_empty() {
        webhooks.refuse("secretName", "must not be empty");
    }
    Servers {
        webhooks: Webhooks {
            listener: listener(&webhooks, 2750),
            server_cert_dir: webhooks.text("serverCertDir", "/etc/grove-operator/webhook-certs"),
            secret_name,
            cert_provision_mode: webhooks.choice("certProvisionMode", CertProvisionMode::Auto, &modes),
        },
        health_probes: HealthProbes {
            enable: probes.boolean("enable", true),
            listener: listener(&probes, 2751),
        },
        metrics: listener(&section.section("metrics"), 2752),
    }
}

fn debugging(section: &Section<'_>) -> Debugging {
    let debugging = Debugging {
        enable_profiling: section.boolean("enableProfiling", false),
        pprof_bind_host: section.text("pprofBindHost", LOOPBACK),
        pprof_bind_port: section.integer("pprofBindPort", 2753, 0, i64::from(u16::MAX)),
    };
    if debugging.enable_profiling {
        let message = "there is no profile of a Go program to serve, so nothing listens; use perf, and logLevel: debug";
        section.warn("enableProfiling", message);
    }
    debugging
}

fn controllers(section: &Section<'_>) -> Controllers {
    let syncs = |field: &str, default: u32| ConcurrentSyncs {
        concurrent_syncs: section.section(field).integer("concurrentSyncs", default, 1, 1000),
    };
    Controllers {
        pod_clique_set: syncs("podCliqueSet", 10),
        pod_clique: syncs("podClique", 10),
        pod_clique_scaling_group: syncs("podCliqueScalingGroup", 5),
        pod_gang: syncs("podGang", 5),
    }
}

fn authorizer(section: &Section<'_>) -> Authorizer {
    Authorizer {
        enabled: section.boolean("enabled", false),
        exempt_service_account_user_names: section.texts("exemptServiceAccountUserNames"),
        reconciler_service_account_user_name: section.text("reconcilerServiceAccountUserName", ""),
    }
}

fn scheduler(section: &Section<'_>) -> Scheduler {
    let mut profiles: Vec<Profile> = Vec::new();
    let mut seen = BTreeSet::new();
    for profile in section.sections("profiles").into_iter().flatten() {
        let name = profile.text("name", "");
        let mut config = ProfileConfig::default();
        if name == DEFAULT_SCHEDULER {
            config.gang_scheduling = profile.section("config").boolean("gangScheduling", false);
        } else if profile.raw("config").is_some() {
            profile.warn("config", "this profile takes no configuration, so this has no effect");
        }
        if name.is_empty() {
            profile.refuse("name", "must not be empty");
            continue;
        }
        if !seen.insert(name.clone()) {
            profile.refuse("name", &format!("{name:?} is there twice"));
            continue;
        }
        if SchedulerProfile::named(&name).backend == SchedulerBackend::Gangs && name != OWN_SCHEDULER {
            profile.warn(
                "name",
                &format!("{name:?} is not a known scheduler; it is taken to read PodGangs by itself"),
            );
        }
        profiles.push(Profile { name, config });
    }
    // Pods that no gang scheduler wants are placed by Kubernetes itself, so its scheduler is always there.
    if !seen.contains(DEFAULT_SCHEDULER) {
        profiles.push(Profile {
            name: DEFAULT_SCHEDULER.to_owned(),
            config: ProfileConfig::default(),
        });
    }
    let default_profile_name = section.text("defaultProfileName", DEFAULT_SCHEDULER);
    if !profiles.iter().any(|profile| profile.name == default_profile_name) {
        let names: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
        let message = format!("{default_profile_name:?} is none of the profiles: {}", names.join(", "));
        section.refuse("defaultProfileName", &message);
    }
    Scheduler {
        profiles,
        default_profile_name,
    }
}
