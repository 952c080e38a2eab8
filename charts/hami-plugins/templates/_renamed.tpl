{{/* Values that HAMi's chart has: a sentence that says where they stand here. */}}
{{- define "hami-plugins.renamed" -}}
devicePlugin.deviceSplitCount: volcano-vgpu.agent.settings.deviceSplitCount
devicePlugin.deviceMemoryScaling: volcano-vgpu.agent.settings.deviceMemoryScaling
devicePlugin.deviceCoreScaling: volcano-vgpu.agent.settings.deviceCoreScaling
devicePlugin.disablecorelimit: volcano-vgpu.agent.settings.disableCoreLimit
devicePlugin.migStrategy: volcano-vgpu.agent.settings.mode (mig shares cards by MIG; instances under nvidia.com/mig-* are offered by NVIDIA's device plugin, on nodes of its own)
devicePlugin.runtimeClassName: volcano-vgpu.agent.runtimeClassName
devicePlugin.nvidiaNodeSelector: volcano-vgpu.agent.nodeSelector
devicePlugin.tolerations: volcano-vgpu.agent.tolerations
devicePlugin.podAnnotations: volcano-vgpu.agent.podAnnotations
devicePlugin.updateStrategy: volcano-vgpu.agent.updateStrategy
devicePlugin.hostPID: volcano-vgpu.agent.hostPID
devicePlugin.resources: volcano-vgpu.agent.resources
deviceSplitCount: volcano-vgpu.agent.settings.deviceSplitCount
deviceMemoryScaling: volcano-vgpu.agent.settings.deviceMemoryScaling
deviceCoreScaling: volcano-vgpu.agent.settings.deviceCoreScaling
schedulerName: allocator.schedulerName
scheduler.replicas: allocator.replicas
scheduler.nodeSelector: allocator.nodeSelector
scheduler.tolerations: allocator.tolerations
scheduler.resources: allocator.resources
scheduler.kubeScheduler.enabled: allocator.kubeScheduler.enabled
scheduler.kubeScheduler.image: allocator.kubeScheduler.image
scheduler.kubeScheduler.imageTag: allocator.kubeScheduler.image
scheduler.podAnnotations: allocator.podAnnotations
scheduler.forceOverwriteDefaultScheduler: allocator.settings.scheduler.forceOverwriteDefaultScheduler
scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy: allocator.settings.scheduler.nodeSchedulerPolicy
scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy: allocator.settings.scheduler.gpuSchedulerPolicy
scheduler.overwriteEnv: allocator.settings.devices.nvidia.overwriteEnv
scheduler.defaultMem: allocator.settings.devices.nvidia.defaultMemory (HAMi's scheduler; Volcano has no such default, and gives the whole card) or volcano-vgpu.agent.settings.defaults.memory (agents in HAMi's dialect, the same number)
scheduler.defaultCores: allocator.settings.devices.nvidia.defaultCores (HAMi's scheduler; Volcano has no such default, and limits nothing) or volcano-vgpu.agent.settings.defaults.cores (agents in HAMi's dialect, the same number)
scheduler.defaultGPUNum: allocator.settings.devices.nvidia.defaultGPUNum (HAMi's webhook; Volcano takes memory without a number for one card) or volcano-vgpu.agent.settings.defaults.count (agents in HAMi's dialect, the same number)
resourceName: allocator.settings.devices.nvidia.resourceCountName (HAMi's NVIDIA) or volcano-vgpu.deviceConfig.nvidia.resourceCountName (Volcano's vGPUs)
resourceMem: allocator.settings.devices.nvidia.resourceMemoryName (HAMi's NVIDIA) or volcano-vgpu.deviceConfig.nvidia.resourceMemoryName (Volcano's vGPUs)
resourceMemPercentage: allocator.settings.devices.nvidia.resourceMemoryPercentageName (HAMi's NVIDIA) or volcano-vgpu.deviceConfig.nvidia.resourceMemoryPercentageName (Volcano's vGPUs)
resourceCores: allocator.settings.devices.nvidia.resourceCoreName (HAMi's NVIDIA) or volcano-vgpu.deviceConfig.nvidia.resourceCoreName (Volcano's vGPUs)
resourcePriority: allocator.settings.devices.nvidia.resourcePriorityName
mluResourceName: allocator.settings.devices.cambricon.resourceCountName
mluResourceMem: allocator.settings.devices.cambricon.resourceMemoryName
mluResourceCores: allocator.settings.devices.cambricon.resourceCoreName
dcuResourceName: allocator.settings.devices.hygon.resourceCountName
dcuResourceMem: allocator.settings.devices.hygon.resourceMemoryName
dcuResourceCores: allocator.settings.devices.hygon.resourceCoreName
metaxResourceName: allocator.settings.devices.metax.resourceVCountName
metaxResourceMem: allocator.settings.devices.metax.resourceVMemoryName
metaxResourceCore: allocator.settings.devices.metax.resourceVCoreName
metaxsgpuTopologyAware: allocator.settings.devices.metax.sgpuTopologyAware
devices.ascend.hamiVnpuCore: allocator.settings.devices.vnpus.hamiVnpuCore
devices.ascend.enabled: allocator.vendors
devices.amd.enabled: allocator.vendors
devices.awsneuron.enabled: allocator.vendors
devices.biren.enabled: allocator.vendors
devices.enflame.enabled: allocator.vendors
devices.iluvatar.enabled: allocator.vendors
devices.kunlun.enabled: allocator.vendors
devices.metax.enabled: allocator.vendors
devices.mthreads.enabled: allocator.vendors
devices.nvidia.enabled: volcano-vgpu.enabled
devices.vastai.enabled: allocator.vendors
devices.nvidia.gpuCorePolicy: volcano-vgpu.agent.settings.container.corePolicy
devices.nvidia.libCudaLogLevel: volcano-vgpu.agent.settings.container.logLevel
{{- end -}}

{{/* Of what HAMi's chart has below a word: where that stands here. */}}
{{- define "hami-plugins.elsewhere" -}}
devicePlugin: what is set about the agent of nodes stands under volcano-vgpu.agent, see the values of that chart
scheduler: what is set about the server that schedulers ask stands under allocator, see the values of that chart
devices: the vendors whose devices are allocated are listed in allocator.vendors
neuron-topology: the server is the chart allocator; write its values under allocator, with vendors [AWSNeuron]
mockDevicePlugin: for tries without cards write them into a file, and name it in volcano-vgpu.agent.settings.cardsFile
{{- end -}}

{{- define "hami-plugins.checked" -}}
{{- $values := .Values -}}
{{- range $old, $new := include "hami-plugins.renamed" . | fromYaml -}}
{{- $held := $values -}}
{{- $there := true -}}
{{- range splitList "." $old -}}
{{- if and $there (kindIs "map" $held) (hasKey $held .) -}}{{- $held = get $held . -}}{{- else -}}{{- $there = false -}}{{- end -}}
{{- end -}}
{{- if $there -}}
{{- fail (printf "\n%s: the value is called %s here; write it there, and remove %s" $old $new $old) -}}
{{- end -}}
{{- end -}}
{{- range $old, $where := include "hami-plugins.elsewhere" . | fromYaml -}}
{{- if hasKey $values $old -}}
{{- $at := $old -}}
{{- if kindIs "map" (get $values $old) -}}
{{- range $key := keys (get $values $old) | sortAlpha | reverse -}}{{- $at = printf "%s.%s" $old $key -}}{{- end -}}
{{- end -}}
{{- fail (printf "\n%s: there is no such value here; %s" $at $where) -}}
{{- end -}}
{{- end -}}
{{- include "hami-plugins.sameNames" . -}}
{{- end -}}

{{/* Agent and server read the names of Volcano's resources from values of their own. Where they differ, nodes offer what no pod gets. */}}
{{- define "hami-plugins.sameNames" -}}
{{- $agent := index .Values "volcano-vgpu" -}}{{- $server := .Values.allocator -}}
{{- $both := and $agent.enabled $server.enabled (has "Volcano-vGPU" ($server.vendors | default list)) -}}
{{- if $both -}}{{- if include "volcano-vgpu.speaksVolcano" (index .Subcharts "volcano-vgpu") -}}
{{- $ours := (($agent.deviceConfig).nvidia | default dict) -}}
{{- $theirs := (((($server.settings).volcano).deviceConfig).nvidia | default dict) -}}
{{- $usual := dict "resourceCountName" "number" "resourceMemoryName" "memory" "resourceMemoryPercentageName" "memory-percentage" "resourceCoreName" "cores" -}}
{{- range $key, $name := $usual -}}
{{- $default := printf "volcano.sh/vgpu-%s" $name -}}
{{- $left := get $ours $key | default $default -}}{{- $right := get $theirs $key | default $default -}}
{{- if ne $left $right -}}
{{- fail (printf "\nvolcano-vgpu.deviceConfig.nvidia.%s is %s and allocator.settings.volcano.deviceConfig.nvidia.%s is %s: agent and allocator need the same name; set both" $key $left $key $right) -}}
{{- end -}}
{{- end -}}
{{- end -}}{{- end -}}
{{- end -}}
