{{- define "koordinator-adapter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "koordinator-adapter.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "koordinator-adapter.name" . -}}
{{- (contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name)) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "koordinator-adapter.server" -}}{{ include "koordinator-adapter.fullname" . }}{{- end -}}
{{- define "koordinator-adapter.node" -}}{{ include "koordinator-adapter.fullname" . }}-node{{- end -}}

{{/* Objects of the whole cluster carry the namespace, so that two releases of one name do not meet. */}}
{{- define "koordinator-adapter.clusterName" -}}
{{- printf "%s.%s" .root.Release.Namespace .name -}}
{{- end -}}

{{- define "koordinator-adapter.serverAccount" -}}
{{- .Values.serviceAccounts.server.name | default (include "koordinator-adapter.server" .) -}}
{{- end -}}

{{- define "koordinator-adapter.selector" -}}
app.kubernetes.io/name: {{ include "koordinator-adapter.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "koordinator-adapter.labels" -}}
{{ include "koordinator-adapter.selector" . }}
app.kubernetes.io/part-of: hami-plugins
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "koordinator-adapter.image" -}}
{{- $registry := .image.registry | default .root.Values.global.imageRegistry -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- define "koordinator-adapter.pullSecrets" -}}
{{- with concat (.Values.global.imagePullSecrets | default list) .Values.imagePullSecrets }}imagePullSecrets: {{ toJson . }}{{ end -}}
{{- end -}}

{{/* Where a kubelet asks, unless that is the pod's own address. */}}
{{- define "koordinator-adapter.probeHost" -}}
{{- if not (has .listenHost (list "" "0.0.0.0" "::")) }}, host: {{ .listenHost | quote }}{{ end -}}
{{- end -}}

{{- define "koordinator-adapter.nodeAccount" -}}
{{- .Values.serviceAccounts.node.name | default (include "koordinator-adapter.node" .) -}}
{{- end -}}
