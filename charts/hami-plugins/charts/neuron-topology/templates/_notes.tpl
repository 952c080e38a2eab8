{{/* What is to be done next; the umbrella says it, too. */}}
{{- define "neuron-topology.notes" -}}
The scheduler has to ask it. What to write for Volcano, or for kube-scheduler, and what is wrong with what is there:

  kubectl get configmap {{ include "neuron-topology.allocator" . }} --namespace {{ .Release.Namespace }} --output 'jsonpath={.data.allocator\.yaml}' > allocator.yaml
  hami-plugins neuron conf --config allocator.yaml
  hami-plugins neuron conf --config allocator.yaml --kube-scheduler
{{- end -}}
