{{/* Values that HAMi's chart has: a sentence that says where they stand here. */}}
{{- define "hami-plugins.renamed" -}}
devicePlugin.deviceSplitCount: volcano-vgpu.agent.settings.deviceSplitCount
devicePlugin.deviceMemoryScaling: volcano-vgpu.agent.settings.deviceMemoryScaling
devicePlugin.deviceCoreScaling: volcano-vgpu.agent.settings.deviceCoreScaling
devicePlugin.disablecorelimit: volcano-vgpu.agent.settings.disableCoreLimit
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
resourceName: volcano-vgpu.deviceConfig.nvidia.resourceCountName
resourceMem: volcano-vgpu.deviceConfig.nvidia.resourceMemoryName
resourceMemPercentage: volcano-vgpu.deviceConfig.nvidia.resourceMemoryPercentageName
resourceCores: volcano-vgpu.deviceConfig.nvidia.resourceCoreName
schedulerName: volcano-vgpu.allocator.settings.schedulers
scheduler.replicas: volcano-vgpu.allocator.replicas
scheduler.nodeSelector: volcano-vgpu.allocator.nodeSelector
scheduler.tolerations: volcano-vgpu.allocator.tolerations
scheduler.resources: volcano-vgpu.allocator.resources
devices.nvidia.enabled: volcano-vgpu.enabled
devices.awsneuron.enabled: neuron-topology.enabled
{{- end -}}

{{/* Of what HAMi's chart has below a word: where that stands here. */}}
{{- define "hami-plugins.elsewhere" -}}
devicePlugin: what is set about the agent of nodes stands under volcano-vgpu.agent, see the values of that chart
scheduler: there is no scheduler here, for Volcano, Koordinator or kube-scheduler schedules; how cards are packed and spread is volcano-vgpu.allocator.settings.policy
devices: products are chosen by volcano-vgpu.enabled, neuron-topology.enabled and koordinator-adapter.enabled, whose settings.devices.vendors are the vendors that it publishes
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
{{- end -}}
