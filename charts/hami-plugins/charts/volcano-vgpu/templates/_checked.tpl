{{/* What no schema can say of values. */}}
{{/* What has members; without anything under it Helm passes nothing on. */}}
{{- define "volcano-vgpu.parts" -}}
global nodeConfig agent agent.image agent.resources agent.podSecurityContext agent.securityContext agent.livenessProbe agent.readinessProbe agent.startupProbe agent.settings agent.library networkPolicy nodePolicy allocationPolicy rbac serviceAccounts serviceAccounts.agent uninstall uninstall.serviceAccount monitoring monitoring.podMonitor monitoring.serviceMonitor monitoring.prometheusRule monitoring.dashboard deviceConfig
{{- end -}}

{{- define "volcano-vgpu.checked" -}}
{{- include "library.checkedParts" (dict "root" . "parts" (include "volcano-vgpu.parts" .)) -}}
{{- $elsewhere := dict
  "allocator" "the server is the chart allocator; write its values there, one level higher"
  "verify" "helm test asks the server in the chart allocator; write verify there" -}}
{{- $hook := printf "HAMi-core's folder on nodes is agent.settings.hookPath here, with all of its name (%v/vgpu)" .Values.global.gpuHookPath -}}
{{- $globals := dict
  "gpuHookPath" (dict "set" .Values.agent.settings.hookPath "called" $hook)
  "imageTag" (dict "set" (or .Values.agent.image.tag .Values.agent.image.digest) "called" "the tag of the agent's image is agent.image.tag here")
  "managedNodeSelectorEnable" (dict "set" (or .Values.agent.nodeSelector .Values.agent.affinity) "called" "which nodes have cards is agent.nodeSelector here") -}}
{{- include "library.refuseHami" (dict "root" . "chart" "volcano-vgpu" "own" (list "nameOverride" "fullnameOverride" "namespaceOverride" "imagePullSecrets") "elsewhere" $elsewhere "globals" $globals) -}}
{{- include "library.checked" (dict "root" .) -}}
{{- if and .Values.agent.enabled (not (or .Values.agent.nodeSelector .Values.agent.affinity)) -}}
{{- fail "\nagent.nodeSelector: say which nodes have cards ({gpu: \"on\"}), or use agent.affinity: an agent on a node without cards is never ready, and upgrades wait for it. {kubernetes.io/os: linux} means every node" -}}
{{- end -}}
{{- if and (include "volcano-vgpu.flexibleMig" .) (not .Values.agent.privileged) -}}
{{- fail "\nagent.settings.flexibleMig: only a privileged agent may cut cards; set agent.privileged: true as well" -}}
{{- end -}}
{{- include "library.checkedHamiCore" (dict "path" "agent" "library" .Values.agent.library) -}}
{{- if not (or .Values.agent.enabled (and .Values.uninstall.clean .Release.IsUpgrade)) -}}
{{- fail "\nagent.enabled is false; nothing would be installed; set enabled: false for the whole chart" -}}
{{- end -}}
{{- end -}}
