{{/* The next steps; the umbrella chart prints them as well. */}}
{{- define "volcano-vgpu.notes" -}}
{{- if not (or .Values.agent.library.image .Values.agent.library.hostPath) }}
Nodes need HAMi-core's library in {{ include "volcano-vgpu.hookPath" . }}: set agent.library.image or agent.library.hostPath, unless it is installed there.
{{ end }}
{{- end -}}
