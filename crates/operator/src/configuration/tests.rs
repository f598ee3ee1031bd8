//! Files as people and charts write them.

use coppice_api::admission::SchedulerBackend;

use super::*;

fn read(text: &str) -> Read {
    Configuration::read(text).unwrap_or_else(|invalid| panic!("{invalid}"))
}

#[test]
fn an_empty_file_has_the_documented_defaults() {
    let configuration = read("{}").configuration;
    assert_eq!(configuration, Configuration::default());
    assert_eq!(
        (
            configuration.runtime_client_connection.qps,
            configuration.runtime_client_connection.burst
        ),
        (100.0, 120)
    );
    let server = &configuration.server;
    let ports = [
        server.webhooks.listener.port,
        server.health_probes.listener.port,
        server.metrics.port,
    ];
    assert_eq!(ports, [2750, 2751, 2752]);
    assert_eq!(server.webhooks.cert_provision_mode, CertProvisionMode::Auto);
    assert_eq!(server.webhooks.secret_name, "grove-webhook-server-cert");
    let election = &configuration.leader_election;
    let times = [election.lease_duration, election.renew_deadline, election.retry_period];
    assert_eq!(times.map(|time| time.as_secs()), [15, 10, 2]);
    assert!(!election.enabled);
    assert_eq!(configuration.workers(), 30);
    assert_eq!(configuration.schedulers().default_profile, "default-scheduler");
}

#[test]
fn what_is_printed_reads_as_the_same_without_warnings() {
    let text = "scheduler: {profiles: [{name: coppice}], defaultProfileName: coppice}\nleaderElection: {enabled: true}\n\
                server: {webhooks: {port: 9443}}\nauthorizer: {enabled: true, exemptServiceAccountUserNames: [a]}\n";
    let configuration = read(text).configuration;
    let printed = serde_saphyr::to_string(&configuration).unwrap();
    let again = read(&printed);
    assert_eq!(again.configuration, configuration, "{printed}");
    assert_eq!(again.warnings, [], "{printed}");
    assert!(printed.contains("leaseDuration: 15s"), "{printed}");
}

#[test]
fn every_field_has_an_effect() {
    let text = r#"
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
runtimeClientConnection: {qps: 50, burst: 60, contentType: application/json}
leaderElection: {enabled: true, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 4s, resourceName: ours, resourceNamespace: elsewhere}
server:
  webhooks: {bindAddress: 127.0.0.1, port: 9443, serverCertDir: /c, secretName: s, certProvisionMode: manual}
  healthProbes: {enable: false, bindAddress: "::1", port: 9444}
  metrics: {port: 9445}
debugging: {pprofBindHost: 127.0.0.1, pprofBindPort: 1}
controllers:
  podCliqueSet: {concurrentSyncs: 1}
  podClique: {concurrentSyncs: 2}
  podCliqueScalingGroup: {concurrentSyncs: 3}
  podGang: {concurrentSyncs: 4}
logLevel: debug
logFormat: text
authorizer: {enabled: true, exemptServiceAccountUserNames: [a, b], reconcilerServiceAccountUserName: me}
topologyAwareScheduling: {enabled: true}
network: {autoMNNVLEnabled: true, clusterDomain: corp.example}
gangTermination: {whenAllLost: Terminate}
endedPods: {perClique: 5, keepFor: 1h}
scheduler: {profiles: [{name: kai-scheduler}], defaultProfileName: kai-scheduler}
"#;
    let Read {
        configuration,
        warnings,
    } = read(text);
    assert_eq!(warnings, []);
    // Field by field different from the defaults, so none is read and forgotten.
    let given = serde_json::to_value(&configuration).unwrap();
    let default = serde_json::to_value(Configuration::default()).unwrap();
    let mut same = Vec::new();
    differences(&given, &default, "", &mut same);
    same.sort_unstable();
    assert_eq!(
        same,
        [
            "apiVersion",
            "debugging.enableProfiling",
            "debugging.pprofBindHost",
            "kind",
            "leaderElection.resourceLock",
            "server.metrics.bindAddress"
        ]
    );
    assert_eq!(configuration.workers(), 10);
    let schedulers = configuration.schedulers();
    assert_eq!(schedulers.default_profile, "kai-scheduler");
    assert_eq!(
        schedulers.profiles.keys().collect::<Vec<_>>(),
        ["default-scheduler", "kai-scheduler"]
    );
}

fn differences(given: &Value, default: &Value, path: &str, same: &mut Vec<String>) {
    match (given, default) {
        (Value::Object(given), Value::Object(default)) => {
            for (key, value) in given {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                differences(value, &default[key], &path, same);
            }
        }
        (given, default) if given == default => same.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn unknown_fields_are_warned_about_with_their_path() {
    let warnings =
        read("server: {webhooks: {prot: 1}}\nlogLevle: debug\nscheduler: {profiles: [{name: coppice, conf: 1}]}")
            .warnings;
    let paths: Vec<&str> = warnings.iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(
        paths,
        ["logLevle", "scheduler.profiles[0].conf", "server.webhooks.prot"]
    );
    assert!(warnings[0].to_string().contains("logLevle: this field is unknown"));
}

#[test]
fn what_has_no_counterpart_is_said_so() {
    let text = "debugging: {enableProfiling: true}\nruntimeClientConnection: {contentType: application/vnd.kubernetes.protobuf}\n\
                scheduler: {profiles: [{name: kay-scheduler, config: {}}]}";
    let paths: Vec<String> = read(text).warnings.into_iter().map(|warning| warning.path).collect();
    let expected = [
        "debugging.enableProfiling",
        "runtimeClientConnection.contentType",
        "scheduler.profiles[0].config",
        "scheduler.profiles[0].name",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = r#"
kind: PodCliqueSet
runtimeClientConnection: {burst: -1, qps: many}
leaderElection: {enabled: true, leaseDuration: 10s, renewDeadline: 10s, retryPeriod: 5s, resourceLock: configmaps}
server: {webhooks: {port: 70000, certProvisionMode: magic, bindAddress: host}, metrics: 7}
controllers: {podClique: {concurrentSyncs: 0}}
logLevel: loud
scheduler: {profiles: [{name: kai-scheduler}, {name: kai-scheduler}, {}], defaultProfileName: volcano}
"#;
    let invalid = Configuration::read(text).unwrap_err();
    let mut paths: Vec<&str> = invalid.0.iter().map(|problem| problem.path.as_str()).collect();
    paths.sort_unstable();
    let expected = [
        "controllers.podClique.concurrentSyncs",
        "kind",
        "leaderElection.renewDeadline",
        "leaderElection.resourceLock",
        "leaderElection.retryPeriod",
        "logLevel",
        "runtimeClientConnection.burst",
        "runtimeClientConnection.qps",
        "scheduler.defaultProfileName",
        "scheduler.profiles[1].name",
        "scheduler.profiles[2].name",
        "server.metrics",
        "server.webhooks.bindAddress",
        "server.webhooks.certProvisionMode",
        "server.webhooks.port",
    ];
    assert_eq!(paths, expected);
    let text = invalid.to_string();
    assert!(
        text.contains("server.webhooks.certProvisionMode: expected one of auto, manual, got \"magic\""),
        "{text}"
    );
    assert!(Configuration::read("a: [").unwrap_err().to_string().contains("YAML"));
    assert!(
        Configuration::read("[]")
            .unwrap_err()
            .to_string()
            .contains("expected a mapping")
    );
}

#[test]
fn gang_scheduling_is_a_setting_of_the_default_scheduler_alone() {
    let text =
        "scheduler: {profiles: [{name: default-scheduler, config: {gangScheduling: true}}, {name: kai-scheduler}]}";
    let read = read(text);
    assert!(read.configuration.native_gangs());
    assert_eq!(read.warnings, []);
    let backend = |name: &str| read.configuration.schedulers().profiles[name].backend;
    assert_eq!(backend("default-scheduler"), SchedulerBackend::KubernetesGangs);
    assert_eq!(backend("kai-scheduler"), SchedulerBackend::Kai);
    let printed = serde_saphyr::to_string(&read.configuration).unwrap();
    assert_eq!(
        Configuration::read(&printed).unwrap().configuration,
        read.configuration,
        "{printed}"
    );
    assert!(!Configuration::default().native_gangs());
}
