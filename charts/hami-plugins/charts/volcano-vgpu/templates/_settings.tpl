{{/* The agent's settings: the operator's, and those that follow from where the chart puts things. */}}
{{- define "volcano-vgpu.agentSettings" -}}
{{- $ours := dict
  "version" 1
  "daemonSet" (printf "%s/%s" .Release.Namespace (include "volcano-vgpu.agent" .))
  "kubeletDirectory" (printf "%s/device-plugins" .Values.agent.kubeletRoot)
  "podResourcesSocket" (printf "%s/pod-resources/kubelet.sock" .Values.agent.kubeletRoot)
  "listen" (dict "host" (include "volcano-vgpu.agentHost" .) "port" .Values.agent.port) -}}
{{- if or .Values.agent.library.image .Values.agent.library.hostPath }}{{ $_ := set $ours "librarySource" "/opt/hami-core" }}{{ end -}}
{{- with .Values.agent.library.sha256 }}{{ $_ := set $ours "librarySha256" . }}{{ end -}}
{{- toYaml (merge $ours (deepCopy .Values.agent.settings)) -}}
{{- end -}}

{{- define "volcano-vgpu.hookPath" -}}{{ .Values.agent.settings.hookPath | default "/usr/local/vgpu" }}{{- end -}}
{{- define "volcano-vgpu.lockPath" -}}{{ .Values.agent.settings.lockPath | default "/tmp/vgpulock" }}{{- end -}}
{{- define "volcano-vgpu.cdiDirectory" -}}{{ .Values.agent.settings.cdiDirectory | default "/var/run/cdi" }}{{- end -}}

{{- define "volcano-vgpu.certificateSecret" -}}
{{- /* cert-manager's stays when its Certificate goes, and must not be in the way of the one that Helm makes. */ -}}
{{- $usual := printf "%s-%s" (include "volcano-vgpu.allocator" .) (eq .Values.allocator.certificate.source "bootstrap" | ternary "tls" "certificate") -}}
{{- .Values.allocator.certificate.secretName | default $usual -}}
{{- end -}}

{{- define "volcano-vgpu.webhookConfiguration" -}}
{{- include "volcano-vgpu.clusterName" (dict "root" . "name" (include "volcano-vgpu.allocator" .)) -}}
{{- end -}}

{{/* The settings of the allocator, in the same way. */}}
{{- define "volcano-vgpu.allocatorSettings" -}}
{{- $name := include "volcano-vgpu.allocator" . -}}
{{- $certificate := .Values.allocator.certificate -}}
{{- $ours := dict
  "version" 1
  "mode" .Values.allocator.mode
  "service" (dict "name" $name "namespace" .Release.Namespace "port" 443)
  "lease" (dict "name" $name)
  "listen" (dict "host" .Values.allocator.listenHost "port" .Values.allocator.ports.plain)
  "webhooks" (dict "host" .Values.allocator.listenHost "port" .Values.allocator.ports.webhooks "configuration" (include "volcano-vgpu.webhookConfiguration" .))
  "certificate" (dict "directory" "/var/run/volcano-vgpu-allocator" "bootstrap" (eq $certificate.source "bootstrap") "secret" (include "volcano-vgpu.certificateSecret" .) "names" ($certificate.names | default list)) -}}
{{- toYaml (merge $ours (deepCopy .Values.allocator.settings)) -}}
{{- end -}}
