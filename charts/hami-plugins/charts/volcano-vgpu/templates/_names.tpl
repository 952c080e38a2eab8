{{- define "volcano-vgpu.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "volcano-vgpu.fullname" -}}
{{- $name := include "volcano-vgpu.name" . -}}
{{- $whole := .Values.fullnameOverride | default (contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name)) -}}
{{- if gt (len $whole) 47 -}}
{{- /* What was cut off still tells two apart. */ -}}
{{- $whole = printf "%s-%s" ($whole | trunc 38 | trimSuffix "-") (sha256sum $whole | trunc 8) -}}
{{- end -}}
{{- $whole -}}
{{- end -}}

{{- define "volcano-vgpu.agent" -}}{{ include "volcano-vgpu.fullname" . }}-agent{{- end -}}

{{/* Objects of the whole cluster carry the namespace, so that two releases of one name do not meet. */}}
{{- define "volcano-vgpu.clusterName" -}}
{{- printf "%s.%s" .root.Release.Namespace .name -}}
{{- end -}}

{{- define "volcano-vgpu.agentAccount" -}}
{{- .Values.serviceAccounts.agent.name | default (include "volcano-vgpu.agent" .) -}}
{{- end -}}

{{- define "volcano-vgpu.selector" -}}
app.kubernetes.io/name: {{ include "volcano-vgpu.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "volcano-vgpu.labels" -}}
{{ include "volcano-vgpu.selector" . }}
app.kubernetes.io/part-of: hami-plugins
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "volcano-vgpu.image" -}}
{{- $registry := .image.registry | default .root.Values.global.imageRegistry | default "" | trimSuffix "/" -}}
{{- if contains "://" $registry -}}
{{- fail (printf "\nglobal.imageRegistry: %s: nodes want a host alone, with its port and folder; leave the scheme out" $registry) -}}
{{- end -}}
{{- if not (or $registry .image.digest) -}}
{{- fail (printf "\nglobal.imageRegistry: name the registry that has %s; it is not published, build it from this tree. Without a registry nodes would pull it from docker.io, from an unknown publisher" .image.repository) -}}
{{- end -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- define "volcano-vgpu.pullSecrets" -}}
{{- $named := list -}}
{{- range concat (.Values.global.imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- $named = append $named (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $named }}imagePullSecrets: {{ toJson . }}{{ end -}}
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

{{/* Where a kubelet asks, unless that is the pod's own address. */}}
{{- define "volcano-vgpu.probeHost" -}}
{{- if not (has .listenHost (list "" "0.0.0.0" "::")) }}, host: {{ .listenHost | quote }}{{ end -}}
{{- end -}}

{{/* HAMi-core's image: from the registry of all, unless it names one itself. */}}
{{- define "volcano-vgpu.libraryImage" -}}
{{- $image := .Values.agent.library.image -}}
{{- $first := splitList "/" $image | first -}}
{{- $named := and (contains "/" $image) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}
{{- if and .Values.global.imageRegistry (not $named) }}{{ .Values.global.imageRegistry | trimSuffix "/" }}/{{ end }}{{ $image }}
{{- end -}}

{{/* Where the part on nodes listens. On the network of its host no NetworkPolicy stands before it. */}}
{{- define "volcano-vgpu.agentHost" -}}
{{- $scraped := or .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled -}}
{{- .Values.agent.listenHost | default (and .Values.agent.hostNetwork (not $scraped) | ternary "127.0.0.1" "0.0.0.0") -}}
{{- end -}}

{{/* Something, where any node shares its cards through MPS: by the mode of all, of some (nodes), or of the existing plugin's file. */}}
{{- define "volcano-vgpu.mps" -}}
{{- if regexMatch "\"(mode|operatingmode)\":\"mps\"" (list .Values.agent.settings .Values.nodeConfig | toJson) -}}yes{{- end -}}
{{- end -}}

{{/* Something, where any node makes MIG instances as pods need them. */}}
{{- define "volcano-vgpu.flexibleMig" -}}
{{- if regexMatch "\"flexibleMig\":true" (toJson .Values.agent.settings) -}}yes{{- end -}}
{{- end -}}
