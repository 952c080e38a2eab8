{{/* What is to be done next; the umbrella says it, too. */}}
{{- define "volcano-vgpu.notes" -}}
{{ if has .Values.allocator.mode (list "extender" "webhook") }}
Volcano's scheduler has to be told of mode {{ .Values.allocator.mode }} and of this server. What to write, and what is wrong with what is there:

  kubectl get configmap {{ include "volcano-vgpu.allocator" . }} --namespace {{ .Release.Namespace }} --output 'jsonpath={.data.allocator\.yaml}' > allocator.yaml
  hami-plugins volcano-vgpu conf --config allocator.yaml
  hami-plugins volcano-vgpu conf --config allocator.yaml --live
{{ else if eq .Values.allocator.mode "none" }}
Nobody puts Volcano's allocations right (allocator.mode is none). What that means is a table on the product's page.
{{ end -}}
{{- if not (or .Values.agent.library.image .Values.agent.library.hostPath) }}
Nodes need HAMi-core's library in {{ include "volcano-vgpu.hookPath" . }}: set agent.library.image or agent.library.hostPath, unless it is there.
{{ end }}
{{- end -}}
