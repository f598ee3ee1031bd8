//! Facts about containers and what hangs below them.

use super::pod::{
    APP_ARMOR_PROFILE, OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR, SECCOMP_PROFILE, SELINUX_OPTIONS,
    WINDOWS_SECURITY_CONTEXT_OPTIONS,
};
use super::{
    Fill, Key, Kind, Object, by, flag, list, number, object, optional, quantities, scalars, set, special, text,
};

const PORT_KEYS: &[Key] = &[by("containerPort"), by("protocol").or("TCP")];

pub(in crate::canonical) static CONTAINER: Object = Object::counted(&[
    scalars("args"),
    scalars("command"),
    list("env", &ENV_VAR),
    list("envFrom", &ENV_FROM_SOURCE),
    text("image"),
    text("imagePullPolicy").or(Fill::PullPolicyOf("image")),
    object("lifecycle", &LIFECYCLE),
    object("livenessProbe", &PROBE),
    text("name"),
    set("ports", PORT_KEYS, &CONTAINER_PORT),
    object("readinessProbe", &PROBE),
    set("resizePolicy", &[by("resourceName")], &CONTAINER_RESIZE_POLICY),
    object("resources", &RESOURCE_REQUIREMENTS),
    optional("restartPolicy"),
    list("restartPolicyRules", &CONTAINER_RESTART_RULE),
    object("securityContext", &SECURITY_CONTEXT),
    object("startupProbe", &PROBE),
    flag("stdin"),
    flag("stdinOnce"),
    text("terminationMessagePath").or(Fill::Text("/dev/termination-log")),
    text("terminationMessagePolicy").or(Fill::Text("File")),
    flag("tty"),
    set("volumeDevices", &[by("devicePath")], &VOLUME_DEVICE),
    set("volumeMounts", &[by("mountPath")], &VOLUME_MOUNT),
    text("workingDir"),
]);

pub(in crate::canonical) static EPHEMERAL_CONTAINER: Object = Object::counted(&[
    scalars("args"),
    scalars("command"),
    list("env", &ENV_VAR),
    list("envFrom", &ENV_FROM_SOURCE),
    text("image"),
    text("imagePullPolicy").or(Fill::PullPolicyOf("image")),
    object("lifecycle", &LIFECYCLE),
    object("livenessProbe", &PROBE),
    text("name"),
    set("ports", PORT_KEYS, &EPHEMERAL_CONTAINER_PORT),
    object("readinessProbe", &PROBE),
    set("resizePolicy", &[by("resourceName")], &CONTAINER_RESIZE_POLICY),
    object("resources", &PLAIN_RESOURCE_REQUIREMENTS),
    optional("restartPolicy"),
    list("restartPolicyRules", &CONTAINER_RESTART_RULE),
    object("securityContext", &SECURITY_CONTEXT),
    object("startupProbe", &PROBE),
    flag("stdin"),
    flag("stdinOnce"),
    text("targetContainerName"),
    text("terminationMessagePath").or(Fill::Text("/dev/termination-log")),
    text("terminationMessagePolicy").or(Fill::Text("File")),
    flag("tty"),
    set("volumeDevices", &[by("devicePath")], &VOLUME_DEVICE),
    set("volumeMounts", &[by("mountPath")], &VOLUME_MOUNT),
    text("workingDir"),
]);

pub(in crate::canonical) static CONTAINER_PORT: Object = Object::counted(&[
    number("containerPort"),
    text("hostIP"),
    number("hostPort").or(Fill::ContainerPortOnHostNetwork),
    text("name"),
    text("protocol").or(Fill::Text("TCP")),
]);

pub(in crate::canonical) static EPHEMERAL_CONTAINER_PORT: Object = Object::counted(&[
    number("containerPort"),
    text("hostIP"),
    number("hostPort"),
    text("name"),
    text("protocol").or(Fill::Text("TCP")),
]);

pub(in crate::canonical) static ENV_FROM_SOURCE: Object = Object::counted(&[
    object("configMapRef", &CONFIG_MAP_ENV_SOURCE),
    text("prefix"),
    object("secretRef", &SECRET_ENV_SOURCE),
]);

pub(in crate::canonical) static CONFIG_MAP_ENV_SOURCE: Object = Object::counted(&[text("name"), optional("optional")]);

pub(in crate::canonical) static SECRET_ENV_SOURCE: Object = Object::counted(&[text("name"), optional("optional")]);

pub(in crate::canonical) static ENV_VAR: Object =
    Object::counted(&[text("name"), text("value"), object("valueFrom", &ENV_VAR_SOURCE)]);

pub(in crate::canonical) static ENV_VAR_SOURCE: Object = Object::counted(&[
    object("configMapKeyRef", &CONFIG_MAP_KEY_SELECTOR),
    object("fieldRef", &OBJECT_FIELD_SELECTOR),
    object("fileKeyRef", &FILE_KEY_SELECTOR),
    object("resourceFieldRef", &RESOURCE_FIELD_SELECTOR),
    object("secretKeyRef", &SECRET_KEY_SELECTOR),
]);

pub(in crate::canonical) static CONFIG_MAP_KEY_SELECTOR: Object =
    Object::counted(&[text("key"), text("name"), optional("optional")]);

pub(in crate::canonical) static SECRET_KEY_SELECTOR: Object =
    Object::counted(&[text("key"), text("name"), optional("optional")]);

pub(in crate::canonical) static FILE_KEY_SELECTOR: Object = Object::counted(&[
    text("key"),
    optional("optional").or(Fill::Flag(false)),
    text("path"),
    text("volumeName"),
]);

pub(in crate::canonical) static RESOURCE_REQUIREMENTS: Object = Object::transparent(&[
    set("claims", &[by("name")], &RESOURCE_CLAIM),
    quantities("limits"),
    special("requests", Kind::Requests),
]);

pub(in crate::canonical) static PLAIN_RESOURCE_REQUIREMENTS: Object = Object::transparent(&[
    set("claims", &[by("name")], &RESOURCE_CLAIM),
    quantities("limits"),
    quantities("requests"),
]);

pub(in crate::canonical) static RESOURCE_CLAIM: Object = Object::counted(&[text("name"), text("request")]);

pub(in crate::canonical) static CONTAINER_RESIZE_POLICY: Object =
    Object::counted(&[text("resourceName"), text("restartPolicy")]);

pub(in crate::canonical) static CONTAINER_RESTART_RULE: Object = Object::counted(&[
    text("action"),
    object("exitCodes", &CONTAINER_RESTART_RULE_ON_EXIT_CODES),
]);

pub(in crate::canonical) static CONTAINER_RESTART_RULE_ON_EXIT_CODES: Object =
    Object::counted(&[text("operator"), scalars("values")]);

pub(in crate::canonical) static VOLUME_MOUNT: Object = Object::counted(&[
    text("mountPath"),
    optional("mountPropagation"),
    text("name"),
    flag("readOnly"),
    optional("recursiveReadOnly"),
    text("subPath"),
    text("subPathExpr"),
]);

pub(in crate::canonical) static VOLUME_DEVICE: Object = Object::counted(&[text("devicePath"), text("name")]);

pub(in crate::canonical) static PROBE: Object = Object::counted(&[
    object("exec", &EXEC_ACTION),
    number("failureThreshold").or(Fill::Integer(3)),
    object("grpc", &GRPC_ACTION),
    object("httpGet", &HTTP_GET_ACTION),
    number("initialDelaySeconds"),
    number("periodSeconds").or(Fill::Integer(10)),
    number("successThreshold").or(Fill::Integer(1)),
    object("tcpSocket", &TCP_SOCKET_ACTION),
    optional("terminationGracePeriodSeconds"),
    number("timeoutSeconds").or(Fill::Integer(1)),
]);

pub(in crate::canonical) static EXEC_ACTION: Object = Object::counted(&[scalars("command")]);

pub(in crate::canonical) static HTTP_GET_ACTION: Object = Object::counted(&[
    text("host"),
    list("httpHeaders", &HTTP_HEADER),
    text("path").or(Fill::Text("/")),
    special("port", Kind::Any),
    text("scheme").or(Fill::Text("HTTP")),
]);

pub(in crate::canonical) static HTTP_HEADER: Object = Object::counted(&[text("name"), text("value")]);

pub(in crate::canonical) static TCP_SOCKET_ACTION: Object =
    Object::counted(&[text("host"), special("port", Kind::Any)]);

pub(in crate::canonical) static GRPC_ACTION: Object =
    Object::counted(&[number("port"), optional("service").or(Fill::Text(""))]);

pub(in crate::canonical) static LIFECYCLE: Object = Object::transparent(&[
    object("postStart", &LIFECYCLE_HANDLER),
    object("preStop", &LIFECYCLE_HANDLER),
    optional("stopSignal"),
]);

pub(in crate::canonical) static LIFECYCLE_HANDLER: Object = Object::counted(&[
    object("exec", &EXEC_ACTION),
    object("httpGet", &HTTP_GET_ACTION),
    object("sleep", &SLEEP_ACTION),
    object("tcpSocket", &TCP_SOCKET_ACTION),
]);

pub(in crate::canonical) static SLEEP_ACTION: Object = Object::counted(&[number("seconds")]);

pub(in crate::canonical) static SECURITY_CONTEXT: Object = Object::transparent(&[
    optional("allowPrivilegeEscalation"),
    object("appArmorProfile", &APP_ARMOR_PROFILE),
    object("capabilities", &CAPABILITIES),
    optional("privileged"),
    optional("procMount").or(Fill::Text("Default")),
    optional("readOnlyRootFilesystem"),
    optional("runAsGroup"),
    optional("runAsNonRoot"),
    optional("runAsUser"),
    object("seLinuxOptions", &SELINUX_OPTIONS),
    object("seccompProfile", &SECCOMP_PROFILE),
    object("windowsOptions", &WINDOWS_SECURITY_CONTEXT_OPTIONS),
]);

pub(in crate::canonical) static CAPABILITIES: Object = Object::transparent(&[scalars("add"), scalars("drop")]);
