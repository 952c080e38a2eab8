{{- define "volcano-vgpu.agent" -}}{{ include "library.fullname" . }}-agent{{- end -}}

{{- define "volcano-vgpu.agentAccount" -}}
{{- .Values.serviceAccounts.agent.name | default (include "volcano-vgpu.agent" .) -}}
{{- end -}}

{{/* The names of Volcano's resources, as the products take them from its device configuration. */}}
{{- define "volcano-vgpu.resources" -}}
{{- $nvidia := (.Values.deviceConfig).nvidia | default dict -}}
{{- $names := list
  ($nvidia.resourceCountName | default "volcano.sh/vgpu-number")
  ($nvidia.resourceMemoryName | default "volcano.sh/vgpu-memory")
  ($nvidia.resourceMemoryPercentageName | default "volcano.sh/vgpu-memory-percentage") -}}
{{- append $names ($nvidia.resourceCoreName | default "volcano.sh/vgpu-cores") | toJson -}}
{{- end -}}

{{/* Not empty if some node speaks Volcano's dialect: with HAMi's alone there may be no Volcano. */}}
{{- define "volcano-vgpu.speaksVolcano" -}}
{{- $settings := .Values.agent.settings -}}
{{- if ne ($settings.dialect | default "volcano") "hami" -}}yes{{- end -}}
{{- range $settings.nodes -}}{{- if eq ((.settings).dialect | default "") "volcano" -}}yes{{- end -}}{{- end -}}
{{- end -}}

{{/* Something, where any node shares its cards through MPS: by the mode of all, of some (nodes), or of the existing plugin's file. */}}
{{- define "volcano-vgpu.mps" -}}
{{- if regexMatch "\"(mode|operatingmode)\":\"mps\"" (list .Values.agent.settings .Values.nodeConfig | toJson) -}}yes{{- end -}}
{{- end -}}

{{/* Something, where any node makes MIG instances as pods need them. */}}
{{- define "volcano-vgpu.flexibleMig" -}}
{{- if regexMatch "\"flexibleMig\":true" (toJson .Values.agent.settings) -}}yes{{- end -}}
{{- end -}}

{{- define "volcano-vgpu.agentContext" -}}
{{- if .Values.agent.privileged }}
privileged: true
{{- else }}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL], add: [FOWNER]}
{{- end }}
readOnlyRootFilesystem: true
runAsUser: 0
{{- end -}}
