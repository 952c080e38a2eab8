{{/* Values that HAMi's chart has: a sentence that says where they stand here. */}}
{{- define "allocator.renamed" -}}
scheduler.replicas: replicas
scheduler.nodeSelector: nodeSelector
scheduler.tolerations: tolerations
scheduler.resources: resources
scheduler.kubeScheduler.enabled: kubeScheduler.enabled
scheduler.kubeScheduler.image: kubeScheduler.image
scheduler.kubeScheduler.imageTag: kubeScheduler.image
scheduler.podAnnotations: podAnnotations
scheduler.forceOverwriteDefaultScheduler: settings.scheduler.forceOverwriteDefaultScheduler
scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy: settings.scheduler.nodeSchedulerPolicy
scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy: settings.scheduler.gpuSchedulerPolicy
scheduler.overwriteEnv: settings.devices.nvidia.overwriteEnv
scheduler.defaultMem: settings.devices.nvidia.defaultMemory
scheduler.defaultCores: settings.devices.nvidia.defaultCores
scheduler.defaultGPUNum: settings.devices.nvidia.defaultGPUNum
resourceName: settings.devices.nvidia.resourceCountName
resourceMem: settings.devices.nvidia.resourceMemoryName
resourceMemPercentage: settings.devices.nvidia.resourceMemoryPercentageName
resourceCores: settings.devices.nvidia.resourceCoreName
resourcePriority: settings.devices.nvidia.resourcePriorityName
mluResourceName: settings.devices.cambricon.resourceCountName
mluResourceMem: settings.devices.cambricon.resourceMemoryName
mluResourceCores: settings.devices.cambricon.resourceCoreName
dcuResourceName: settings.devices.hygon.resourceCountName
dcuResourceMem: settings.devices.hygon.resourceMemoryName
dcuResourceCores: settings.devices.hygon.resourceCoreName
metaxResourceName: settings.devices.metax.resourceVCountName
metaxResourceMem: settings.devices.metax.resourceVMemoryName
metaxResourceCore: settings.devices.metax.resourceVCoreName
metaxsgpuTopologyAware: settings.devices.metax.sgpuTopologyAware
devices.ascend.hamiVnpuCore: settings.devices.vnpus.hamiVnpuCore
devices.ascend.enabled: vendors
devices.amd.enabled: vendors
devices.awsneuron.enabled: vendors
devices.biren.enabled: vendors
devices.enflame.enabled: vendors
devices.iluvatar.enabled: vendors
devices.kunlun.enabled: vendors
devices.metax.enabled: vendors
devices.mthreads.enabled: vendors
devices.nvidia.enabled: vendors
devices.vastai.enabled: vendors
{{- end -}}

{{/* Of what HAMi's chart has below a word: where that stands here. */}}
{{- define "allocator.elsewhere" -}}
deviceCoreScaling: this chart is the server; agents of nodes are the chart volcano-vgpu, or HAMi's own device plugins
deviceMemoryScaling: this chart is the server; agents of nodes are the chart volcano-vgpu, or HAMi's own device plugins
devicePlugin: this chart is the server; agents of nodes are the chart volcano-vgpu, or HAMi's own device plugins
deviceSplitCount: this chart is the server; agents of nodes are the chart volcano-vgpu, or HAMi's own device plugins
devices: the vendors whose devices are allocated are listed in vendors, and what HAMi's device-config.yaml sets about them is settings.devices
mockDevicePlugin: for tries without cards, hami-plugins sandbox keeps a cluster with made-up devices running
scheduler: what is set about the server stands at the top here; a kube-scheduler of its own is kubeScheduler
{{- end -}}

{{- define "allocator.otherwords" -}}
{{- $values := .Values -}}
{{- range $old, $new := include "allocator.renamed" . | fromYaml -}}
{{- $held := $values -}}
{{- $there := true -}}
{{- range splitList "." $old -}}
{{- if and $there (kindIs "map" $held) (hasKey $held .) -}}{{- $held = get $held . -}}{{- else -}}{{- $there = false -}}{{- end -}}
{{- end -}}
{{- if and $there (ne $old $new) -}}
{{- fail (printf "\n%s: the value is called %s here; write it there, and remove %s" $old $new $old) -}}
{{- end -}}
{{- end -}}
{{- range $old, $where := include "allocator.elsewhere" . | fromYaml -}}
{{- if hasKey $values $old -}}
{{- $at := $old -}}
{{- if kindIs "map" (get $values $old) -}}
{{- range $key := keys (get $values $old) | sortAlpha | reverse -}}{{- $at = printf "%s.%s" $old $key -}}{{- end -}}
{{- end -}}
{{- fail (printf "\n%s: there is no such value here; %s" $at $where) -}}
{{- end -}}
{{- end -}}
{{- end -}}
