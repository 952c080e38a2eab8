{{/* The next steps; the umbrella chart prints them as well. */}}
{{- define "neuron-topology.notes" -}}
Configure the scheduler to call it. To print the configuration for Volcano or kube-scheduler:

  kubectl get configmap {{ include "neuron-topology.allocator" . }} --namespace {{ .Release.Namespace }} --output 'jsonpath={.data.allocator\.yaml}' > allocator.yaml
  hami-plugins neuron conf --config allocator.yaml
  hami-plugins neuron conf --config allocator.yaml --kube-scheduler
{{- end -}}
