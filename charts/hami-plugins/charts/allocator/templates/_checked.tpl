{{/* What no schema can say of values. */}}
{{/* What has members; without anything under it Helm passes nothing on. */}}
{{- define "allocator.parts" -}}
global image settings ports webhooks certificate certificate.issuer resources podDisruptionBudget networkPolicy nodePolicy allocationPolicy rbac serviceAccount kubeScheduler kubeScheduler.resources kubeScheduler.podDisruptionBudget kubeScheduler.serviceAccount neuronAgent neuronAgent.image neuronAgent.settings neuronAgent.resources neuronAgent.serviceAccount verify monitoring monitoring.podMonitor monitoring.serviceMonitor monitoring.prometheusRule monitoring.dashboard
{{- end -}}

{{- define "allocator.checked" -}}
{{- $values := .Values -}}
{{- range $path := splitList " " (include "allocator.parts" .) -}}
{{- $held := $values -}}
{{- range splitList "." $path -}}{{- $held = get $held . -}}{{- end -}}
{{- if not (kindIs "map" $held) -}}
{{- fail (printf "\n%s: it is empty; leave it out, or write %s: {}" $path (splitList "." $path | last)) -}}
{{- end -}}
{{- end -}}
{{- $whole := include "allocator.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $whole) -}}
{{- fail (printf "\nfullnameOverride: objects would be called %s-..., and Services begin with a letter and have no dots; name the release otherwise, or set it" $whole) -}}
{{- end -}}
{{- include "allocator.otherwords" . -}}
{{- if and (eq .Values.certificate.source "bootstrap") .Values.certificate.secretName -}}
{{- fail "\ncertificate.secretName: with certificate.source bootstrap the server keeps its certificate in a Secret of its own; leave the name out, or set the source to secret" -}}
{{- end -}}
{{- if and (eq .Values.certificate.source "secret") (not (and .Values.certificate.secretName .Values.certificate.caBundle)) -}}
{{- fail "\ncertificate.source: secret needs certificate.secretName (a Secret with tls.crt and tls.key) and certificate.caBundle (the authority that signed it, PEM in base64)" -}}
{{- end -}}
{{- $_ := include "allocator.served" . -}}
{{- if and (eq .Values.mode "policy") (not (has "Volcano-vGPU" .Values.vendors)) -}}
{{- fail "\nmode: policy corrects the Bindings of Volcano's vGPUs alone; use extender, or add Volcano-vGPU to vendors" -}}
{{- end -}}
{{- if and .Values.webhooks.jobs (not (include "allocator.needs" . | fromJson).neuron) -}}
{{- fail "\nwebhooks.jobs: it patches Volcano Jobs for Neuron devices; add AWSNeuron to vendors, or leave it out" -}}
{{- end -}}
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
{{- if and .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled -}}
{{- fail "\nmonitoring: podMonitor and serviceMonitor are two ways to find the same pods, and with both everything counts twice; enable one of them" -}}
{{- end -}}
{{- end -}}
