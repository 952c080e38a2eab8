{{/* Values that other charts call otherwise: a sentence that says how they are called here. */}}
{{- define "volcano-vgpu.renamed" -}}
devicePlugin.deviceSplitCount: agent.settings.deviceSplitCount
devicePlugin.deviceMemoryScaling: agent.settings.deviceMemoryScaling
devicePlugin.deviceCoreScaling: agent.settings.deviceCoreScaling
devicePlugin.disablecorelimit: agent.settings.disableCoreLimit
devicePlugin.migStrategy: agent.settings.mode (mig shares cards by MIG; instances under nvidia.com/mig-* are offered by NVIDIA's device plugin, on nodes of its own)
devicePlugin.runtimeClassName: agent.runtimeClassName
devicePlugin.nvidiaNodeSelector: agent.nodeSelector
devicePlugin.tolerations: agent.tolerations
devicePlugin.podAnnotations: agent.podAnnotations
devicePlugin.updateStrategy: agent.updateStrategy
devicePlugin.hostPID: agent.hostPID
devicePlugin.resources: agent.resources
scheduler.defaultMem: agent.settings.defaults.memory (under HAMi, as the scheduler has it; Volcano has no such default, and gives the whole card)
scheduler.defaultCores: agent.settings.defaults.cores (under HAMi, as the scheduler has it; Volcano has no such default, and limits nothing)
scheduler.defaultGPUNum: agent.settings.defaults.count (under HAMi, as the webhook has it; Volcano takes memory without a number for one card)
deviceSplitCount: agent.settings.deviceSplitCount
deviceMemoryScaling: agent.settings.deviceMemoryScaling
deviceCoreScaling: agent.settings.deviceCoreScaling
resourceName: deviceConfig.nvidia.resourceCountName
resourceMem: deviceConfig.nvidia.resourceMemoryName
resourceMemPercentage: deviceConfig.nvidia.resourceMemoryPercentageName
resourceCores: deviceConfig.nvidia.resourceCoreName
devices.nvidia.enabled: agent.enabled
{{- end -}}

{{/* Of what other charts have below a word: where that stands here. */}}
{{- define "volcano-vgpu.elsewhere" -}}
devicePlugin: what is set about the agent stands under agent, see the values of the chart
scheduler: this chart is the agent of nodes; the server that schedulers ask is the chart allocator
schedulerName: this chart is the agent of nodes; the scheduler's name is schedulerName of the chart allocator
devices: this chart is about NVIDIA's cards; other vendors' devices are allocated by the chart allocator (vendors), and HAMi's own device plugins give them out
allocator: the server is the chart allocator; write its values there, one level higher
verify: helm test asks the server in the chart allocator; write verify there
mockDevicePlugin: for tries without cards write them into a file, and name it in agent.settings.cardsFile
{{- end -}}

{{/* What has members; without anything under it Helm passes nothing on. */}}
{{- define "volcano-vgpu.parts" -}}
global deviceConfig nodeConfig agent agent.image agent.settings agent.library agent.resources networkPolicy nodePolicy allocationPolicy rbac serviceAccounts serviceAccounts.agent uninstall monitoring monitoring.podMonitor monitoring.serviceMonitor monitoring.prometheusRule monitoring.dashboard
{{- end -}}

{{- define "volcano-vgpu.checked" -}}
{{- $values := .Values -}}
{{- range $path := splitList " " (include "volcano-vgpu.parts" .) -}}
{{- $held := $values -}}
{{- range splitList "." $path -}}{{- $held = get $held . -}}{{- end -}}
{{- if not (kindIs "map" $held) -}}
{{- fail (printf "\n%s: it is empty; leave it out, or write %s: {}" $path (splitList "." $path | last)) -}}
{{- end -}}
{{- end -}}
{{- $whole := include "volcano-vgpu.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $whole) -}}
{{- fail (printf "\nfullnameOverride: objects would be called %s-..., and Services begin with a letter and have no dots; name the release otherwise, or set it" $whole) -}}
{{- end -}}
{{- range $old, $new := include "volcano-vgpu.renamed" . | fromYaml -}}
{{- $held := $values -}}
{{- $there := true -}}
{{- range splitList "." $old -}}
{{- if and $there (kindIs "map" $held) (hasKey $held .) -}}{{- $held = get $held . -}}{{- else -}}{{- $there = false -}}{{- end -}}
{{- end -}}
{{- if $there -}}
{{- fail (printf "\n%s: the value is called %s here; write it there, and remove %s" $old $new $old) -}}
{{- end -}}
{{- end -}}
{{- range $old, $where := include "volcano-vgpu.elsewhere" . | fromYaml -}}
{{- if hasKey $values $old -}}
{{- $at := $old -}}
{{- if kindIs "map" (get $values $old) -}}
{{- range $key := keys (get $values $old) | sortAlpha | reverse -}}{{- $at = printf "%s.%s" $old $key -}}{{- end -}}
{{- end -}}
{{- fail (printf "\n%s: there is no such value here; %s" $at $where) -}}
{{- end -}}
{{- end -}}
{{- if and (hasKey .Values.global "gpuHookPath") (not .Values.agent.settings.hookPath) -}}
{{- fail (printf "\nglobal.gpuHookPath: HAMi-core's folder on nodes is agent.settings.hookPath here, with all of its name (%s/vgpu); with that set, this one is another chart's" .Values.global.gpuHookPath) -}}
{{- end -}}
{{- if and .Values.agent.enabled (not (or .Values.agent.nodeSelector .Values.agent.affinity)) -}}
{{- fail "\nagent.nodeSelector: say which nodes have cards ({gpu: \"on\"}), or use agent.affinity: an agent on a node without cards is never ready, and upgrades wait for it. {kubernetes.io/os: linux} means every node" -}}
{{- end -}}
{{- if and (include "volcano-vgpu.flexibleMig" .) (not .Values.agent.privileged) -}}
{{- fail "\nagent.settings.flexibleMig: only a privileged agent may cut cards; set agent.privileged: true as well" -}}
{{- end -}}
{{- if and .Values.agent.library.image .Values.agent.library.hostPath -}}
{{- fail "\nagent.library: image and hostPath are two ways to have HAMi-core's library; set one of them" -}}
{{- end -}}
{{- if not (or .Values.agent.enabled (and .Values.uninstall.clean .Release.IsUpgrade)) -}}
{{- fail "\nagent.enabled is false; nothing would be installed; set enabled: false for the whole chart" -}}
{{- end -}}
{{- if and .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled -}}
{{- fail "\nmonitoring: podMonitor and serviceMonitor are two ways to find the same pods, and with both everything counts twice; enable one of them" -}}
{{- end -}}
{{- end -}}
