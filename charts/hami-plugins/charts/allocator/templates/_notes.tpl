{{/* The next steps; the umbrella chart prints them as well. */}}
{{- define "allocator.notes" -}}
{{- $needs := include "allocator.needs" . | fromJson }}
{{- if include "allocator.serves" . -}}
Configure the scheduler to ask it. To print the configuration, and to check the present one:

  kubectl get configmap {{ include "library.fullname" . }} --namespace {{ include "library.namespace" . }} --output 'jsonpath={.data.allocator\.yaml}' > allocator.yaml
{{- if or $needs.volcano $needs.neuron }}
  hami-plugins allocator conf --config allocator.yaml
  hami-plugins allocator conf --config allocator.yaml --live
{{- end }}
{{- if .Values.kubeScheduler.enabled }}

Pods with schedulerName {{ .Values.schedulerName }} are scheduled by the release's own kube-scheduler; nothing else has to be configured for them.
{{- else if $needs.kubeScheduler }}
  hami-plugins allocator conf --config allocator.yaml --kube-scheduler
{{- end }}
{{- else -}}
An admission policy removes stale allocations of Volcano from Bindings. No server runs.
{{- end }}
{{- if and (not .Values.neuronAgent.enabled) (not .Values.uninstall.clean) (include "allocator.hadNeuronAgent" .) }}

The Neuron agents are turned off, and uninstall.clean is false. To remove what they wrote on nodes, once their pods have ended:

  hami-plugins neuron clean
{{- end }}
{{- end -}}
