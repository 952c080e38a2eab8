{{/* What no schema can say of values. */}}
{{/* What has members; without anything under it Helm passes nothing on. */}}
{{- define "allocator.parts" -}}
global image resources podSecurityContext securityContext livenessProbe readinessProbe startupProbe podDisruptionBudget settings service ports webhooks webhooks.namespaceSelector webhooks.objectSelector certificate certificate.issuer certificate.serviceAccount serviceAccount kubeScheduler kubeScheduler.resources kubeScheduler.podSecurityContext kubeScheduler.securityContext kubeScheduler.livenessProbe kubeScheduler.readinessProbe kubeScheduler.startupProbe kubeScheduler.podDisruptionBudget kubeScheduler.serviceAccount neuronAgent neuronAgent.image neuronAgent.resources neuronAgent.podSecurityContext neuronAgent.securityContext neuronAgent.livenessProbe neuronAgent.readinessProbe neuronAgent.startupProbe neuronAgent.settings neuronAgent.serviceAccount networkPolicy nodePolicy allocationPolicy rbac uninstall uninstall.serviceAccount verify monitoring monitoring.podMonitor monitoring.serviceMonitor monitoring.prometheusRule monitoring.dashboard
{{- end -}}

{{- define "allocator.checked" -}}
{{- include "library.checkedParts" (dict "root" . "parts" (include "allocator.parts" .)) -}}
{{- $globals := dict
  "imageTag" (dict "set" (or .Values.image.tag .Values.image.digest) "called" "the tag of the server's image is image.tag here")
  "managedNodeSelectorEnable" (dict "set" (or .Values.nodeSelector .Values.affinity) "called" "which nodes the server may be on is nodeSelector here") -}}
{{- include "library.refuseHami" (dict "root" . "chart" "allocator" "own" (list "schedulerName" "nameOverride" "fullnameOverride" "namespaceOverride" "imagePullSecrets") "elsewhere" dict "globals" $globals) -}}
{{- include "library.checked" (dict "root" .) -}}
{{- $_ := include "allocator.served" . -}}
{{- if and (eq .Values.mode "policy") (not (has "Volcano-vGPU" .Values.vendors)) -}}
{{- fail "\nmode: policy corrects the Bindings of Volcano's vGPUs alone; use extender, or add Volcano-vGPU to vendors" -}}
{{- end -}}
{{- if and .Values.webhooks.jobs (not (include "allocator.needs" . | fromJson).neuron) -}}
{{- fail "\nwebhooks.jobs: it patches Volcano Jobs for Neuron devices; add AWSNeuron to vendors, or leave it out" -}}
{{- end -}}
{{- include "library.checkedBudget" (dict "path" "kubeScheduler.podDisruptionBudget" "budget" .Values.kubeScheduler.podDisruptionBudget) -}}
{{- if .Values.kubeScheduler.enabled -}}
{{- if not .Values.kubeScheduler.image -}}
{{- fail "\nkubeScheduler.image: name the image of kube-scheduler, of the cluster's own Kubernetes release (kubectl version prints it), such as registry.k8s.io/kube-scheduler:v1.34.4; a newer one than the API server is not supported, and none is guessed" -}}
{{- end -}}
{{- if not (include "allocator.needs" . | fromJson).kubeScheduler -}}
{{- fail (printf "\nkubeScheduler.enabled: pods of kube-scheduler get no devices of %s; add another vendor to vendors, or leave it out" (join ", " .Values.vendors)) -}}
{{- end -}}
{{- if not (include "allocator.serves" .) -}}
{{- fail "\nkubeScheduler.enabled: it asks the server, and mode policy has none; use mode extender" -}}
{{- end -}}
{{- if eq .Values.schedulerName "default-scheduler" -}}
{{- fail "\nschedulerName: default-scheduler is the cluster's own; a second scheduler needs another name, such as hami-scheduler" -}}
{{- end -}}
{{- end -}}
{{- end -}}
