{{/* Values that other charts call otherwise: a sentence that says how they are called here. */}}
{{- define "volcano-vgpu.renamed" -}}
devicePlugin.deviceSplitCount: agent.settings.deviceSplitCount
devicePlugin.deviceMemoryScaling: agent.settings.deviceMemoryScaling
devicePlugin.deviceCoreScaling: agent.settings.deviceCoreScaling
devicePlugin.disablecorelimit: agent.settings.disableCoreLimit
devicePlugin.runtimeClassName: agent.runtimeClassName
devicePlugin.nvidiaNodeSelector: agent.nodeSelector
devicePlugin.tolerations: agent.tolerations
devicePlugin.podAnnotations: agent.podAnnotations
devicePlugin.updateStrategy: agent.updateStrategy
devicePlugin.hostPID: agent.hostPID
devicePlugin.resources: agent.resources
deviceSplitCount: agent.settings.deviceSplitCount
deviceMemoryScaling: agent.settings.deviceMemoryScaling
deviceCoreScaling: agent.settings.deviceCoreScaling
resourceName: deviceConfig.nvidia.resourceCountName
resourceMem: deviceConfig.nvidia.resourceMemoryName
resourceMemPercentage: deviceConfig.nvidia.resourceMemoryPercentageName
resourceCores: deviceConfig.nvidia.resourceCoreName
schedulerName: allocator.settings.schedulers
scheduler.replicas: allocator.replicas
scheduler.nodeSelector: allocator.nodeSelector
scheduler.tolerations: allocator.tolerations
scheduler.resources: allocator.resources
devices.nvidia.enabled: agent.enabled
{{- end -}}

{{/* Of what other charts have below a word: where that stands here. */}}
{{- define "volcano-vgpu.elsewhere" -}}
devicePlugin: what is set about the agent stands under agent, see the values of the chart
scheduler: there is no scheduler here, for Volcano schedules; how it packs and spreads is allocator.settings.policy
devices: this chart is about NVIDIA's cards; Neuron devices are neuron-topology's, and others' are koordinator-adapter's
mockDevicePlugin: for tries without cards write them into a file, and name it in agent.settings.cardsFile
{{- end -}}

{{/* What has members; without anything under it Helm passes nothing on. */}}
{{- define "volcano-vgpu.parts" -}}
global deviceConfig nodeConfig agent agent.image agent.settings agent.library agent.resources allocator allocator.image allocator.settings allocator.ports allocator.webhooks allocator.certificate allocator.certificate.issuer allocator.resources allocator.podDisruptionBudget networkPolicy nodePolicy allocationPolicy rbac serviceAccounts serviceAccounts.agent serviceAccounts.allocator uninstall verify monitoring monitoring.podMonitor monitoring.serviceMonitor monitoring.prometheusRule monitoring.dashboard
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
{{- if and (eq .Values.allocator.certificate.source "bootstrap") .Values.allocator.certificate.secretName -}}
{{- fail "\nallocator.certificate.secretName: with allocator.certificate.source bootstrap the server keeps its certificate in a Secret of its own; leave the name out, or set the source to secret" -}}
{{- end -}}
{{- if and (eq .Values.allocator.certificate.source "secret") (not (and .Values.allocator.certificate.secretName .Values.allocator.certificate.caBundle)) -}}
{{- fail "\nallocator.certificate.source: secret needs allocator.certificate.secretName (a Secret with tls.crt and tls.key) and allocator.certificate.caBundle (the authority that signed it, PEM in base64)" -}}
{{- end -}}
{{- if and .Values.agent.enabled (not (or .Values.agent.nodeSelector .Values.agent.affinity)) -}}
{{- fail "\nagent.nodeSelector: say which nodes have cards ({gpu: \"on\"}), or use agent.affinity: an agent on a node without cards is never ready, and upgrades wait for it. {kubernetes.io/os: linux} means every node" -}}
{{- end -}}
{{- if and .Values.agent.library.image .Values.agent.library.hostPath -}}
{{- fail "\nagent.library: image and hostPath are two ways to have HAMi-core's library; set one of them" -}}
{{- end -}}
{{- if not (or .Values.agent.enabled (ne .Values.allocator.mode "none") (and .Values.uninstall.clean .Release.IsUpgrade)) -}}
{{- fail "\nagent.enabled is false and allocator.mode is none; nothing would be installed; set enabled: false for the whole chart" -}}
{{- end -}}
{{- if and .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled -}}
{{- fail "\nmonitoring: podMonitor and serviceMonitor are two ways to find the same pods, and with both everything counts twice; enable one of them" -}}
{{- end -}}
{{- end -}}
