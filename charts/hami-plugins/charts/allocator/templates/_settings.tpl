{{- define "allocator.directory" -}}/var/run/hami-plugins-allocator{{- end -}}

{{/* The server's settings: the operator's, and those that follow from where the chart puts things. */}}
{{- define "allocator.settings" -}}
{{- $name := include "library.fullname" . -}}
{{- $certificate := .Values.certificate -}}
{{- $ours := dict
  "version" 1
  "vendors" .Values.vendors
  "scheduler" (dict "name" .Values.schedulerName)
  "volcano" (dict "mode" .Values.mode)
  "service" (dict "name" $name "namespace" (include "library.namespace" .) "port" 443)
  "lease" (dict "name" $name)
  "listen" (dict "host" .Values.listenHost "port" .Values.ports.plain)
  "webhooks" (dict "host" .Values.listenHost "port" .Values.ports.webhooks "configuration" (include "library.webhookConfiguration" (dict "root" . "server" (include "library.fullname" .))))
  "certificate" (dict "directory" (include "allocator.directory" .) "bootstrap" (eq $certificate.source "bootstrap") "secret" (include "library.certificateSecret" (dict "root" . "server" (include "library.fullname" .))) "names" ($certificate.names | default list)) -}}
{{- if .Values.journalVolume -}}
{{- $_ := set $ours "charging" (dict "journalDirectory" "/var/lib/hami-plugins/journal") -}}
{{- end -}}
{{- toYaml (merge $ours (deepCopy .Values.settings)) -}}
{{- end -}}
