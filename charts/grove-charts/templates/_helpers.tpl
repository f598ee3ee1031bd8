{{/* The image, by tag or by digest. */}}
{{- define "coppice.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- if hasPrefix "sha256:" $tag -}}
{{ .Values.image.repository }}@{{ $tag }}
{{- else -}}
{{ .Values.image.repository }}:{{ $tag }}
{{- end -}}
{{- end -}}

{{/*
Labels of every object; those of the values win. Use:
include "coppice.labels" (dict "root" $ "component" "..." "name" "..." "extra" .Values.some.labels)
*/}}
{{- define "coppice.labels" -}}
{{- $own := dict
      "app.kubernetes.io/component" .component
      "app.kubernetes.io/name" (.name | replace ":" ".")
      "app.kubernetes.io/part-of" "grove"
      "chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_")
      "release" .root.Release.Name -}}
{{- toYaml (merge (dict) (.extra | default dict) $own) -}}
{{- end -}}

{{/* What selects the pods of a Deployment; never changes between versions. */}}
{{- define "coppice.selector" -}}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/part-of: grove
{{- end -}}

{{/* Replicas on different nodes where there are several. */}}
{{- define "coppice.affinity" -}}
{{- if .root.Values.affinity -}}
{{ toYaml .root.Values.affinity }}
{{- else -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "coppice.selector" . | nindent 12 }}
{{- end -}}
{{- end -}}

{{/* A short-lived token, the cluster's CA and the namespace, where clients look for them. */}}
{{- define "coppice.tokenVolume" -}}
- name: kube-api-access-grove
  projected:
    sources:
      - serviceAccountToken:
          expirationSeconds: 3607
          path: token
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
      - downwardAPI:
          items:
            - path: namespace
              fieldRef:
                fieldPath: metadata.namespace
{{- end -}}

{{/* The operator's configuration file. */}}
{{- define "coppice.config" -}}
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
runtimeClientConnection:
  {{- toYaml .Values.config.runtimeClientConnection | nindent 2 }}
leaderElection:
  {{- toYaml (set (deepCopy .Values.config.leaderElection) "resourceNamespace" .Release.Namespace) | nindent 2 }}
server:
  webhooks:
    {{- toYaml .Values.config.server.webhooks | nindent 4 }}
  {{- if .Values.config.server.healthProbes.enable }}
  healthProbes:
    {{- toYaml (omit .Values.config.server.healthProbes "enable") | nindent 4 }}
  {{- end }}
  metrics:
    {{- toYaml .Values.config.server.metrics | nindent 4 }}
debugging:
  {{- toYaml .Values.config.debugging | nindent 2 }}
controllers:
  {{- toYaml .Values.config.controllers | nindent 2 }}
scheduler:
  {{- toYaml .Values.config.scheduler | nindent 2 }}
logLevel: {{ .Values.config.logLevel }}
logFormat: {{ .Values.config.logFormat }}
topologyAwareScheduling:
  {{- toYaml .Values.config.topologyAwareScheduling | nindent 2 }}
network:
  {{- toYaml .Values.config.network | nindent 2 }}
gangTermination:
  {{- toYaml .Values.config.gangTermination | nindent 2 }}
endedPods:
  {{- toYaml .Values.config.endedPods | nindent 2 }}
authorizer:
  {{- $authorizer := deepCopy .Values.config.authorizer }}
  {{- if .Values.gangScheduler.enabled }}
  {{- $scheduler := printf "system:serviceaccount:%s:%s" .Release.Namespace .Values.gangScheduler.serviceAccount.name }}
  {{- $authorizer = set $authorizer "exemptServiceAccountUserNames" (append ($authorizer.exemptServiceAccountUserNames | default list) $scheduler) }}
  {{- end }}
  {{- toYaml $authorizer | nindent 2 }}
{{- end -}}
