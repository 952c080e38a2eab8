{{/* What no schema can say of values. */}}
{{/* What has members; without anything under it Helm passes nothing on. */}}
{{- define "neuron-topology.parts" -}}
global image settings ports webhooks certificate certificate.issuer resources podDisruptionBudget networkPolicy allocationPolicy rbac serviceAccount verify monitoring monitoring.podMonitor monitoring.serviceMonitor monitoring.prometheusRule monitoring.dashboard
{{- end -}}

{{- define "neuron-topology.checked" -}}
{{- $values := .Values -}}
{{- range $path := splitList " " (include "neuron-topology.parts" .) -}}
{{- $held := $values -}}
{{- range splitList "." $path -}}{{- $held = get $held . -}}{{- end -}}
{{- if not (kindIs "map" $held) -}}
{{- fail (printf "\n%s: it is empty; leave it out, or write %s: {}" $path (splitList "." $path | last)) -}}
{{- end -}}
{{- end -}}
{{- $whole := include "neuron-topology.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $whole) -}}
{{- fail (printf "\nfullnameOverride: objects would be called %s-..., and Services begin with a letter and have no dots; name the release otherwise, or set it" $whole) -}}
{{- end -}}
{{- if and (eq .Values.certificate.source "bootstrap") .Values.certificate.secretName -}}
{{- fail "\ncertificate.secretName: with certificate.source bootstrap the server keeps its certificate in a Secret of its own; leave the name out, or set the source to secret" -}}
{{- end -}}
{{- if and (eq .Values.certificate.source "secret") (not (and .Values.certificate.secretName .Values.certificate.caBundle)) -}}
{{- fail "\ncertificate.source: secret needs certificate.secretName (a Secret with tls.crt and tls.key) and certificate.caBundle (the authority that signed it, PEM in base64)" -}}
{{- end -}}
{{- if and .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled -}}
{{- fail "\nmonitoring: podMonitor and serviceMonitor are two ways to find the same pods, and with both everything counts twice; enable one of them" -}}
{{- end -}}
{{- end -}}
