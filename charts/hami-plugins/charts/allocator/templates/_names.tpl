{{- define "allocator.account" -}}
{{- .Values.serviceAccount.name | default (include "library.fullname" .) -}}
{{- end -}}

{{- define "allocator.neuronAgent" -}}{{ include "library.fullname" . }}-neuron-agent{{- end -}}

{{- define "allocator.neuronAgentAccount" -}}
{{- .Values.neuronAgent.serviceAccount.name | default (include "allocator.neuronAgent" .) -}}
{{- end -}}

{{/* Whether there is a server; mode policy has none. */}}
{{- define "allocator.serves" -}}
{{- if ne .Values.mode "policy" }}yes{{ end -}}
{{- end -}}

{{/* Whether this release has agents in the cluster, or a Job that failed to clean up after them. Most releases never had any: nothing runs
at their upgrades. What renders without a cluster (`helm template`, Argo CD) finds none. */}}
{{- define "allocator.hadNeuronAgent" -}}
{{- $namespace := include "library.namespace" . -}}
{{- $job := printf "%s-uninstall" (include "library.fullname" .) -}}
{{- if or (lookup "apps/v1" "DaemonSet" $namespace (include "allocator.neuronAgent" .)) (lookup "batch/v1" "Job" $namespace $job) }}yes{{ end -}}
{{- end -}}

{{- define "allocator.neuronAgentContext" -}}
{{- if .Values.neuronAgent.privileged }}
privileged: true
{{- else }}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}
readOnlyRootFilesystem: true
runAsUser: 0
{{- end -}}
