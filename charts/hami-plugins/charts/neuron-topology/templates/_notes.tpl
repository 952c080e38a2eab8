{{/* What is to be done next; the umbrella says it, too. */}}
{{- define "neuron-topology.notes" -}}
The scheduler has to ask it. What to write for Volcano, or for kube-scheduler, and what is wrong with what is there:

  hami-plugins neuron conf
  {{ if not .Values.rbac.kubeSchedulerBinds }}HAMI_PLUGINS__NEURON_GRANTS__BINDS=false {{ end }}hami-plugins neuron conf --kube-scheduler
{{- end -}}
