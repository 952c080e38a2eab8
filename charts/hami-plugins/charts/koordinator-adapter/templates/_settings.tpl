{{/* The settings of the server: the operator's, and those that follow from where the chart puts things. */}}
{{- define "koordinator-adapter.settings" -}}
{{- $name := include "koordinator-adapter.server" . -}}
{{- $certificate := .Values.certificate -}}
{{- $ours := dict
  "version" 1
  "service" (dict "name" $name "namespace" (include "library.namespace" .) "port" 443)
  "lease" (dict "name" $name)
  "listen" (dict "host" .Values.listenHost "port" .Values.ports.plain)
  "webhooks" (dict "host" .Values.listenHost "port" .Values.ports.webhooks "configuration" (include "library.webhookConfiguration" (dict "root" . "server" (include "koordinator-adapter.server" .))))
  "certificate" (dict "directory" "/var/run/koordinator-adapter" "bootstrap" (eq $certificate.source "bootstrap") "secret" (include "library.certificateSecret" (dict "root" . "server" (include "koordinator-adapter.server" .))) "names" ($certificate.names | default list)) -}}
{{- toYaml (merge $ours (deepCopy .Values.settings)) -}}
{{- end -}}

{{- define "koordinator-adapter.hookPath" -}}{{ (.Values.settings.injection | default dict).hookPath | default "/usr/local/vgpu" }}{{- end -}}
{{- define "koordinator-adapter.lockPath" -}}{{ (.Values.settings.injection | default dict).lockPath | default "/tmp/vgpulock" }}{{- end -}}

{{- define "koordinator-adapter.injects" -}}{{ (.Values.settings.injection | default dict).mode | default "never" }}{{- end -}}

{{/* The settings of the part on nodes. */}}
{{- define "koordinator-adapter.nodeSettings" -}}
{{- $ours := dict "version" 1 "listen" (dict "host" (include "library.nodeHost" (dict "root" . "part" .Values.node)) "port" .Values.node.port) -}}
{{- $injection := dict "mode" (include "koordinator-adapter.injects" .) "hookPath" (include "koordinator-adapter.hookPath" .) "lockPath" (include "koordinator-adapter.lockPath" .) -}}
{{- $part := deepCopy .Values.node.settings -}}
{{- if or .Values.node.library.image .Values.node.library.hostPath }}{{ $_ := set $part "librarySource" "/opt/hami-core" }}{{ end -}}
{{- with .Values.node.library.sha256 }}{{ $_ := set $part "librarySha256" . }}{{ end -}}
{{- toYaml (merge $ours (dict "injection" $injection "node" $part)) -}}
{{- end -}}
