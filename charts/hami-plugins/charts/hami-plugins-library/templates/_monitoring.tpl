{{/* How a Prometheus finds the pods of a chart, its alerts and its dashboard. `parts` are the scraped components, each with the name of
its Service and the number of its port, whose name is `portName` everywhere. `without` are groups of alerts that are about nothing here. */}}
{{- define "library.monitoring" -}}
{{- $root := .root }}
{{- $whole := . }}
{{- $name := include "library.fullname" $root }}
{{- $context := dict "root" $root "component" "monitoring" }}
{{- $described := include "library.described" $context }}
{{- with $root.Values.monitoring.podMonitor }}
{{- if .enabled }}
---
{{ include "library.podMonitor" (merge (dict "name" $name "component" "monitoring") $whole) }}
{{- end }}
{{- end }}
{{- with $root.Values.monitoring.serviceMonitor }}
{{- if .enabled }}
---
{{ include "library.serviceMonitor" (merge (dict "name" $name "component" "monitoring") $whole) }}
{{- end }}
{{- end }}
{{- with $root.Values.monitoring.prometheusRule }}
{{- if .enabled }}
{{- $runbooks := .runbooks }}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ $name }}
  namespace: {{ include "library.namespace" $root | quote }}
  {{- include "library.described" (merge (dict "labels" .labels) $context) | nindent 2 }}
spec:
  groups:
  {{- range (include "library.rulesOf" (dict "root" $root "file" "files/alerts.yaml") | fromYaml).groups }}
  {{- if not (has .name ($whole.without | default list)) }}
  - name: {{ .name }}
    rules:
    {{- range .rules }}
    - alert: {{ .alert }}
      expr: {{ .expr | quote }}
      for: {{ .for }}
      labels: {{- toYaml .labels | nindent 8 }}
      annotations:
        {{- toYaml .annotations | nindent 8 }}
        {{- if $runbooks }}
        runbook_url: {{ printf "%s#%s" $runbooks (lower .alert) | quote }}
        {{- end }}
    {{- end }}
  {{- end }}
  {{- end }}
  {{- with (include "library.rulesOf" (dict "root" $root "file" "files/recording.yaml") | fromYaml).groups }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- with $root.Values.monitoring.dashboard }}
{{- if .enabled }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}-dashboard
  namespace: {{ include "library.namespace" $root | quote }}
  {{- include "library.described" (merge (dict "labels" .labels) $context) | nindent 2 }}
data:
  {{ $root.Chart.Name }}.json: |
    {{- $root.Files.Get "files/dashboard.json" | nindent 4 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The pods of `parts`, found by their component. */}}
{{- define "library.podMonitor" -}}
{{- $monitor := .root.Values.monitoring.podMonitor }}
{{- $components := list }}{{ range .parts }}{{ $components = append $components .component }}{{ end }}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ .name }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" (merge (dict "labels" $monitor.labels) .) | nindent 2 }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ include "library.name" .root | quote }}
      app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
    matchExpressions:
    - {key: app.kubernetes.io/component, operator: In, values: {{ $components | toJson }}}
  podMetricsEndpoints:
  - {{- include "library.endpoint" (dict "monitor" $monitor "portName" .portName) | nindent 4 }}
{{- end -}}

{{- define "library.endpoint" -}}
port: {{ .portName }}
path: /metrics
interval: {{ .monitor.interval }}
{{- with .monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .monitor.relabelings }}
relabelings: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{/* Services of `parts`, labelled as `component`, by which scrapers find the pods, ready or not. */}}
{{- define "library.serviceMonitor" -}}
{{- $whole := . }}
{{- $root := .root }}
{{- $described := include "library.described" . }}
{{- $monitor := .root.Values.monitoring.serviceMonitor }}
{{- range .parts }}
apiVersion: v1
kind: Service
metadata:
  name: {{ .service }}
  namespace: {{ include "library.namespace" $root | quote }}
  {{- $described | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "library.selector" (dict "root" $root "component" .component) | nindent 4 }}
  ports:
  - {name: {{ $whole.portName }}, port: {{ .port }}, targetPort: {{ $whole.portName }}}
---
{{- end }}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .name }}
  namespace: {{ include "library.namespace" $root | quote }}
  {{- include "library.described" (merge (dict "labels" $monitor.labels) .) | nindent 2 }}
spec:
  selector:
    matchLabels: {{- include "library.selector" . | nindent 6 }}
  endpoints:
  - {{- include "library.endpoint" (dict "monitor" $monitor "portName" .portName) | nindent 4 }}
{{- end -}}

{{/* A file of rules, about this release. */}}
{{- define "library.rulesOf" -}}
{{- .root.Files.Get .file | replace "RELEASE" (include "library.fullname" .root) | replace "NAMESPACE" (include "library.namespace" .root) -}}
{{- end -}}
