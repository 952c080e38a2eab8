{{/* What no schema can say of values. */}}
{{/* What has members; without anything under it Helm passes nothing on. */}}
{{- define "koordinator-adapter.parts" -}}
global image resources podSecurityContext securityContext livenessProbe readinessProbe startupProbe podDisruptionBudget settings service ports webhooks webhooks.namespaceSelector webhooks.objectSelector certificate certificate.issuer certificate.serviceAccount node node.resources node.podSecurityContext node.securityContext node.livenessProbe node.readinessProbe node.startupProbe node.settings node.library networkPolicy nodePolicy allocationPolicy rbac serviceAccounts serviceAccounts.server serviceAccounts.node uninstall uninstall.serviceAccount verify monitoring monitoring.podMonitor monitoring.serviceMonitor monitoring.prometheusRule monitoring.dashboard
{{- end -}}

{{- define "koordinator-adapter.checked" -}}
{{- include "library.checkedParts" (dict "root" . "parts" (include "koordinator-adapter.parts" .)) -}}
{{- $globals := dict
  "imageTag" (dict "set" (or .Values.image.tag .Values.image.digest) "called" "the tag of the image is image.tag here")
  "managedNodeSelectorEnable" (dict "set" (or .Values.nodeSelector .Values.affinity) "called" "which nodes the server may be on is nodeSelector here, and its part on nodes node.nodeSelector") -}}
{{- include "library.refuseHami" (dict "root" . "chart" "koordinator-adapter" "own" (list "nameOverride" "fullnameOverride" "namespaceOverride" "imagePullSecrets") "elsewhere" dict "globals" $globals) -}}
{{- include "library.checked" (dict "root" .) -}}
{{- include "library.checkedHamiCore" (dict "path" "node" "library" .Values.node.library) -}}
{{- end -}}
