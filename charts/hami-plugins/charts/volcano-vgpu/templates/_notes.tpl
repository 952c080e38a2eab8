{{/* The next steps; the umbrella chart prints them as well. */}}
{{- define "volcano-vgpu.notes" -}}
{{ if has .Values.allocator.mode (list "extender" "webhook") }}
Configure Volcano's scheduler for mode {{ .Values.allocator.mode }} and this server. To print its configuration, and to check the present one:

  kubectl get configmap {{ include "volcano-vgpu.allocator" . }} --namespace {{ .Release.Namespace }} --output 'jsonpath={.data.allocator\.yaml}' > allocator.yaml
  hami-plugins volcano-vgpu conf --config allocator.yaml
  hami-plugins volcano-vgpu conf --config allocator.yaml --live
{{ else if eq .Values.allocator.mode "none" }}
Volcano's allocations are not corrected (allocator.mode is none). A table on the product's page lists the consequences.
{{ end -}}
{{- if not (or .Values.agent.library.image .Values.agent.library.hostPath) }}
Nodes need HAMi-core's library in {{ include "volcano-vgpu.hookPath" . }}: set agent.library.image or agent.library.hostPath, unless it is installed there.
{{ end }}
{{- end -}}
