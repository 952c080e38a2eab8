{{- define "neuron-topology.certificateSecret" -}}
{{- /* cert-manager's stays when its Certificate goes, and must not be in the way of the one that Helm makes. */ -}}
{{- $usual := printf "%s-%s" (include "neuron-topology.allocator" .) (eq .Values.certificate.source "bootstrap" | ternary "tls" "certificate") -}}
{{- .Values.certificate.secretName | default $usual -}}
{{- end -}}

{{- define "neuron-topology.webhookConfiguration" -}}
{{- include "neuron-topology.clusterName" (dict "root" . "name" (include "neuron-topology.allocator" .)) -}}
{{- end -}}

{{/* The settings of the allocator, in the same way. */}}
{{- define "neuron-topology.allocatorSettings" -}}
{{- $name := include "neuron-topology.allocator" . -}}
{{- $certificate := .Values.certificate -}}
{{- $ours := dict
  "version" 1
  "binds" .Values.rbac.kubeSchedulerBinds
  "service" (dict "name" $name "namespace" .Release.Namespace "port" 443)
  "lease" (dict "name" $name)
  "listen" (dict "host" .Values.listenHost "port" .Values.ports.plain)
  "webhooks" (dict "host" .Values.listenHost "port" .Values.ports.webhooks "configuration" (include "neuron-topology.webhookConfiguration" .))
  "certificate" (dict "directory" "/var/run/neuron-allocator" "bootstrap" (eq $certificate.source "bootstrap") "secret" (include "neuron-topology.certificateSecret" .) "names" ($certificate.names | default list)) -}}
{{- toYaml (merge $ours (deepCopy .Values.settings)) -}}
{{- end -}}
