{{/* `parts` have members: without anything under one Helm passes nothing on. */}}
{{- define "library.checkedParts" -}}
{{- $values := .root.Values -}}
{{- range $path := splitList " " .parts -}}
{{- $held := $values -}}
{{- range splitList "." $path -}}{{- $held = get $held . -}}{{- end -}}
{{- if not (kindIs "map" $held) -}}
{{- fail (printf "\n%s: it is empty; leave it out, or write %s: {}" $path (splitList "." $path | last)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What no schema can say of the values of any chart. */}}
{{- define "library.checked" -}}
{{- $values := .root.Values -}}
{{- $whole := include "library.fullname" .root -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $whole) -}}
{{- fail (printf "\nfullnameOverride: objects would be called %s-..., and Services begin with a letter and have no dots; name the release otherwise, or set it" $whole) -}}
{{- end -}}
{{- include "library.checkedLabels" .root -}}
{{- with $values.podDisruptionBudget }}{{ include "library.checkedBudget" (dict "path" "podDisruptionBudget" "budget" .) }}{{ end -}}
{{- with $values.certificate -}}
{{- if and (eq .source "bootstrap") .secretName -}}
{{- fail "\ncertificate.secretName: with certificate.source bootstrap the server keeps its certificate in a Secret of its own; leave the name out, or set the source to secret" -}}
{{- end -}}
{{- if and (eq .source "secret") (not (and .secretName .caBundle)) -}}
{{- fail "\ncertificate.source: secret needs certificate.secretName (a Secret with tls.crt and tls.key) and certificate.caBundle (the authority that signed it, PEM in base64)" -}}
{{- end -}}
{{- end -}}
{{- if and $values.monitoring.podMonitor.enabled $values.monitoring.serviceMonitor.enabled -}}
{{- fail "\nmonitoring: podMonitor and serviceMonitor are two ways to find the same pods, and with both everything counts twice; enable one of them" -}}
{{- end -}}
{{- end -}}

{{/* Labels of all objects may not be those by which the chart finds its own. */}}
{{- define "library.checkedLabels" -}}
{{- $ours := dict "app.kubernetes.io/name" "" "app.kubernetes.io/instance" "" "app.kubernetes.io/component" "" "app.kubernetes.io/version" "" "app.kubernetes.io/managed-by" "" "helm.sh/chart" "" -}}
{{- include "library.notOurs" (dict "path" "commonLabels" "held" .Values.commonLabels "ours" $ours) -}}
{{- include "library.notOurs" (dict "path" "global.labels" "held" .Values.global.labels "ours" $ours) -}}
{{- end -}}

{{/* `path` is the part that has the library. */}}
{{- define "library.checkedHamiCore" -}}
{{- if and .library.image .library.hostPath -}}
{{- fail (printf "\n%s.library: image and hostPath are two ways to have HAMi-core's library; set one of them" .path) -}}
{{- end -}}
{{- end -}}

{{- define "library.checkedBudget" -}}
{{- if not (or (empty (.budget.minAvailable | toString)) (empty (.budget.maxUnavailable | toString))) -}}
{{- fail (printf "\n%s: minAvailable and maxUnavailable are two ways to say it; set one of them" .path) -}}
{{- end -}}
{{- end -}}
