{{- define "allocator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "allocator.fullname" -}}
{{- $name := include "allocator.name" . -}}
{{- $whole := .Values.fullnameOverride | default (contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name)) -}}
{{- if gt (len $whole) 47 -}}
{{- /* What was cut off still tells two apart. */ -}}
{{- $whole = printf "%s-%s" ($whole | trunc 38 | trimSuffix "-") (sha256sum $whole | trunc 8) -}}
{{- end -}}
{{- $whole -}}
{{- end -}}

{{/* Objects of the whole cluster carry the namespace, so that two releases of one name do not meet. */}}
{{- define "allocator.clusterName" -}}
{{- printf "%s.%s" .root.Release.Namespace .name -}}
{{- end -}}

{{- define "allocator.account" -}}
{{- .Values.serviceAccount.name | default (include "allocator.fullname" .) -}}
{{- end -}}

{{- define "allocator.selector" -}}
app.kubernetes.io/name: {{ include "allocator.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "allocator.labels" -}}
{{ include "allocator.selector" . }}
app.kubernetes.io/part-of: hami-plugins
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "allocator.image" -}}
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

{{- define "allocator.pullSecrets" -}}
{{- $named := list -}}
{{- range concat (.Values.global.imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- $named = append $named (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $named }}imagePullSecrets: {{ toJson . }}{{ end -}}
{{- end -}}

{{- define "allocator.neuronAgent" -}}{{ include "allocator.fullname" . }}-neuron-agent{{- end -}}

{{- define "allocator.neuronAgentAccount" -}}
{{- .Values.neuronAgent.serviceAccount.name | default (include "allocator.neuronAgent" .) -}}
{{- end -}}

{{/* Where a kubelet asks, unless that is the pod's own address. */}}
{{- define "allocator.probeHost" -}}
{{- if not (has .listenHost (list "" "0.0.0.0" "::")) }}, host: {{ .listenHost | quote }}{{ end -}}
{{- end -}}

{{/* Whether there is a server; mode policy has none. */}}
{{- define "allocator.serves" -}}
{{- if ne .Values.mode "policy" }}yes{{ end -}}
{{- end -}}
