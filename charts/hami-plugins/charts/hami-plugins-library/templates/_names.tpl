{{- define "library.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "library.fullname" -}}
{{- $name := include "library.name" . -}}
{{- $whole := .Values.fullnameOverride | default (contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name)) -}}
{{- if gt (len $whole) 47 -}}
{{- /* The hash keeps truncated names distinct. */ -}}
{{- $whole = printf "%s-%s" ($whole | trunc 38 | trimSuffix "-") (sha256sum $whole | trunc 8) -}}
{{- end -}}
{{- $whole -}}
{{- end -}}

{{- define "library.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* Objects of the whole cluster carry the namespace, so that two releases of one name do not meet. */}}
{{- define "library.clusterName" -}}
{{- printf "%s.%s" (include "library.namespace" .root) .name -}}
{{- end -}}

{{- define "library.selector" -}}
app.kubernetes.io/name: {{ include "library.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* A version as labels and image tags take it: they have no `+`. */}}
{{- define "library.version" -}}
{{- . | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "library.labels" -}}
{{- $ours := include "library.selector" . | fromYaml -}}
{{- $_ := set $ours "app.kubernetes.io/version" (include "library.version" .root.Chart.AppVersion) -}}
{{- $_ := set $ours "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $ours "helm.sh/chart" (include "library.version" (printf "%s-%s" .root.Chart.Name .root.Chart.Version)) -}}
{{- toYaml (merge $ours (include "library.commonLabels" .root | fromYaml)) -}}
{{- end -}}

{{/* Labels of all objects and pods. `app.kubernetes.io/part-of` alone is one of ours that another value may replace. */}}
{{- define "library.commonLabels" -}}
{{- $global := .Values.global.labels | default dict -}}
{{- toYaml (mergeOverwrite (dict "app.kubernetes.io/part-of" "hami-plugins") $global (.Values.commonLabels | default dict)) -}}
{{- end -}}

{{/* Labels and annotations of an object: `labels` and `annotations` are further ones of its own. */}}
{{- define "library.described" -}}
{{- $labels := include "library.labels" . | fromYaml -}}
{{- $global := .root.Values.global.annotations | default dict -}}
{{- $annotations := mergeOverwrite (deepCopy $global) (.root.Values.commonAnnotations | default dict) (.annotations | default dict) -}}
labels: {{- toYaml (merge $labels (.labels | default dict)) | nindent 2 }}
{{- with $annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
