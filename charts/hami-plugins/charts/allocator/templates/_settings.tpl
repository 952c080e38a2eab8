{{- define "allocator.certificateSecret" -}}
{{- /* cert-manager's stays when its Certificate goes, and must not be in the way of the one that Helm makes. */ -}}
{{- $usual := printf "%s-%s" (include "allocator.fullname" .) (eq .Values.certificate.source "bootstrap" | ternary "tls" "certificate") -}}
{{- .Values.certificate.secretName | default $usual -}}
{{- end -}}

{{- define "allocator.webhookConfiguration" -}}
{{- include "allocator.clusterName" (dict "root" . "name" (include "allocator.fullname" .)) -}}
{{- end -}}

{{- define "allocator.directory" -}}/var/run/hami-plugins-allocator{{- end -}}

{{/* The server's settings: the operator's, and those that follow from where the chart puts things. */}}
{{- define "allocator.settings" -}}
{{- $name := include "allocator.fullname" . -}}
{{- $certificate := .Values.certificate -}}
{{- $ours := dict
  "version" 1
  "vendors" .Values.vendors
  "scheduler" (dict "name" .Values.schedulerName)
  "volcano" (dict "mode" .Values.mode)
  "service" (dict "name" $name "namespace" .Release.Namespace "port" 443)
  "lease" (dict "name" $name)
  "listen" (dict "host" .Values.listenHost "port" .Values.ports.plain)
  "webhooks" (dict "host" .Values.listenHost "port" .Values.ports.webhooks "configuration" (include "allocator.webhookConfiguration" .))
  "certificate" (dict "directory" (include "allocator.directory" .) "bootstrap" (eq $certificate.source "bootstrap") "secret" (include "allocator.certificateSecret" .) "names" ($certificate.names | default list)) -}}
{{- if .Values.journalVolume -}}
{{- $_ := set $ours "charging" (dict "journalDirectory" "/var/lib/hami-plugins/journal") -}}
{{- end -}}
{{- toYaml (merge $ours (deepCopy .Values.settings)) -}}
{{- end -}}
