{{/* Values of HAMi's chart (2.10), each with its place here as the umbrella has it, or with why there is none (`no: ...`). A path stands
for all below it. */}}
{{- define "library.hamiValues" -}}
nameOverride: volcano-vgpu.nameOverride or allocator.nameOverride or koordinator-adapter.nameOverride
fullnameOverride: volcano-vgpu.fullnameOverride or allocator.fullnameOverride or koordinator-adapter.fullnameOverride
namespaceOverride: volcano-vgpu.namespaceOverride or allocator.namespaceOverride or koordinator-adapter.namespaceOverride
imagePullSecrets: volcano-vgpu.imagePullSecrets or allocator.imagePullSecrets or koordinator-adapter.imagePullSecrets
platform.openshift: global.openshift
openshift: "no: agents need a SecurityContextConstraints of yours; global.openshift is for all other pods"
selinux: "no: volcano-vgpu.agent.privileged is what nodes that enforce SELinux need, or volcano-vgpu.agent.securityContext with seLinuxOptions"
devicePlugin.enabled: volcano-vgpu.agent.enabled
devicePlugin.image.registry: volcano-vgpu.agent.image.registry
devicePlugin.image.repository: volcano-vgpu.agent.image.repository
devicePlugin.image.tag: volcano-vgpu.agent.image.tag
devicePlugin.image.pullPolicy: volcano-vgpu.agent.image.pullPolicy
devicePlugin.image.pullSecrets: volcano-vgpu.imagePullSecrets
devicePlugin.monitor.image: "no: the agent is the monitor as well"
devicePlugin.monitor.extraEnvs: "no: the agent is the monitor as well; volcano-vgpu.agent.extraEnv has its variables"
devicePlugin.monitor.resources: volcano-vgpu.agent.resources (the agent is the monitor as well)
devicePlugin.monitor: "no: the agent is the monitor as well; its settings are volcano-vgpu.agent.settings.monitor"
devicePlugin.deviceSplitCount: volcano-vgpu.agent.settings.deviceSplitCount
devicePlugin.deviceMemoryScaling: volcano-vgpu.agent.settings.deviceMemoryScaling
devicePlugin.deviceCoreScaling: volcano-vgpu.agent.settings.deviceCoreScaling
devicePlugin.disablecorelimit: volcano-vgpu.agent.settings.disableCoreLimit
devicePlugin.migStrategy: volcano-vgpu.agent.settings.mode (mig shares cards by MIG; instances under nvidia.com/mig-* are offered by NVIDIA's device plugin, on nodes of its own)
devicePlugin.nodeConfiguration.config: volcano-vgpu.nodeConfig (as a map, not as a text)
devicePlugin.nodeConfiguration.externalConfigName: "no: write the content into volcano-vgpu.nodeConfig"
devicePlugin.runtimeClassName: volcano-vgpu.agent.runtimeClassName
devicePlugin.createRuntimeClass: "no: the NVIDIA container toolkit or GPU operator makes the RuntimeClass; volcano-vgpu.extraObjects can"
devicePlugin.preConfiguredDeviceMemory: "no: the agent asks the driver for the memory"
devicePlugin.enableNumaTopology: "no: the agent names the NUMA node of each card always"
devicePlugin.numaRefit: "no: the allocator chooses devices of one NUMA node before the pod is bound"
devicePlugin.passDeviceSpecsEnabled: "no: device files come from the runtime or from CDI, volcano-vgpu.agent.settings.cdi"
devicePlugin.deviceListStrategy: volcano-vgpu.agent.settings.cdi (auto, always, never)
devicePlugin.nvidiaDriverRoot: "no: the NVIDIA container toolkit finds the driver"
devicePlugin.nvidiaHookPath: "no: the NVIDIA container toolkit has its hook"
devicePlugin.gdrcopyEnabled: "no: the NVIDIA container toolkit mounts GDRCopy"
devicePlugin.gdsEnabled: "no: the NVIDIA container toolkit mounts GPUDirect Storage"
devicePlugin.mofedEnabled: "no: the NVIDIA container toolkit mounts Mellanox devices"
devicePlugin.gpuOperatorToolkitReady: "no: the agent is not ready until it sees the driver, and tries again"
devicePlugin.extraArgs: volcano-vgpu.agent.extraArgs (arguments of another program)
devicePlugin.extraEnvs: volcano-vgpu.agent.extraEnv (as a list)
devicePlugin.service.httpPort: volcano-vgpu.agent.port
devicePlugin.service: "no: the agent has no Service; volcano-vgpu.monitoring.serviceMonitor makes one for scrapers"
devicePlugin.pluginPath: volcano-vgpu.agent.kubeletRoot (the kubelet's folder, without device-plugins)
devicePlugin.libPath: volcano-vgpu.agent.settings.hookPath
devicePlugin.podAnnotations: volcano-vgpu.agent.podAnnotations
devicePlugin.hostPID: volcano-vgpu.agent.hostPID
devicePlugin.hostPIDBroker: "no: the agent reads the processes itself, volcano-vgpu.agent.hostPID"
devicePlugin.hostNetwork: volcano-vgpu.agent.hostNetwork
devicePlugin.securityContext.privileged: volcano-vgpu.agent.privileged
devicePlugin.securityContext: volcano-vgpu.agent.securityContext
devicePlugin.nvidiaNodeSelector: volcano-vgpu.agent.nodeSelector
devicePlugin.tolerations: volcano-vgpu.agent.tolerations
devicePlugin.updateStrategy: volcano-vgpu.agent.updateStrategy
devicePlugin.resources: volcano-vgpu.agent.resources
deviceSplitCount: volcano-vgpu.agent.settings.deviceSplitCount
deviceMemoryScaling: volcano-vgpu.agent.settings.deviceMemoryScaling
deviceCoreScaling: volcano-vgpu.agent.settings.deviceCoreScaling
schedulerName: allocator.schedulerName
scheduler.nodeName: "no: pods are placed by allocator.nodeSelector"
scheduler.nodeLabelSelector: allocator.nodeSelector
scheduler.nodeSelector: allocator.nodeSelector
scheduler.replicas: allocator.replicas
scheduler.tolerations: allocator.tolerations
scheduler.resources: allocator.resources
scheduler.podAnnotations: allocator.podAnnotations
scheduler.serviceAccountName: allocator.serviceAccount.name
scheduler.podDisruptionBudget: allocator.podDisruptionBudget
scheduler.leaderElect: "no: replicas always elect a leader, allocator.settings.lease"
scheduler.livenessProbe: "no: the server always has probes, allocator.livenessProbe changes their times"
scheduler.metricsBindAddress: allocator.ports.plain
scheduler.kubeQPS: "no: the server watches, and asks for little"
scheduler.kubeBurst: "no: the server watches, and asks for little"
scheduler.kubeTimeout: "no: the server has deadlines of its own"
scheduler.nodeLockExpire: "no: a lock ends with its bind, or after five minutes as device plugins expect"
scheduler.nodeLockRetryTimeout: "no: the server queues binds of one node"
scheduler.extenderHTTPTimeout: "no: the chart's own kube-scheduler waits as long as the server needs"
scheduler.kubeScheduler.enabled: allocator.kubeScheduler.enabled
scheduler.kubeScheduler.image: allocator.kubeScheduler.image (the whole name with its tag)
scheduler.kubeScheduler.imageTag: allocator.kubeScheduler.image
scheduler.kubeScheduler.resources: allocator.kubeScheduler.resources
scheduler.kubeScheduler.extraNewArgs: allocator.kubeScheduler.extraArgs (without --config)
scheduler.kubeScheduler.extraArgs: allocator.kubeScheduler.extraArgs (without --policy-config-file)
scheduler.extender.image.registry: allocator.image.registry
scheduler.extender.image.repository: allocator.image.repository
scheduler.extender.image.tag: allocator.image.tag
scheduler.extender.image.pullPolicy: allocator.image.pullPolicy
scheduler.extender.image.pullSecrets: allocator.imagePullSecrets
scheduler.extender.resources: allocator.resources
scheduler.extender.extraArgs: allocator.extraArgs (arguments of another program)
scheduler.admissionWebhook.enabled: "no: without its webhooks the server allocates nothing; leave pods out by allocator.webhooks.objectSelector"
scheduler.admissionWebhook.customURL: allocator.webhooks.url (the whole URL)
scheduler.admissionWebhook.whitelistNamespaces: allocator.webhooks.exempt
scheduler.admissionWebhook.manageNamespaceSelector: "no: the chart always sets namespaceSelector"
scheduler.admissionWebhook.namespaceSelector: allocator.webhooks.namespaceSelector
scheduler.admissionWebhook.objectSelector: allocator.webhooks.objectSelector
scheduler.admissionWebhook.reinvocationPolicy: "no: the program needs IfNeeded"
scheduler.admissionWebhook.failurePolicy: allocator.webhooks.failurePolicy
scheduler.certManager.enabled: allocator.certificate.source (certManager)
scheduler.patch: "no: with allocator.certificate.source bootstrap a Job of the server's own image has the webhooks trust it"
scheduler.service.type: allocator.service.type
scheduler.service.labels: allocator.service.labels
scheduler.service.annotations: allocator.service.annotations
scheduler.service: allocator.ports
scheduler.networkPolicy: allocator.networkPolicy
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
hcuResourceName: allocator.settings.devices.hygon.resourceCountName
hcuResourceMem: allocator.settings.devices.hygon.resourceMemoryName
hcuResourceCores: allocator.settings.devices.hygon.resourceCoreName
metaxResourceName: allocator.settings.devices.metax.resourceVCountName
metaxResourceMem: allocator.settings.devices.metax.resourceVMemoryName
metaxResourceCore: allocator.settings.devices.metax.resourceVCoreName
metaxsgpuTopologyAware: allocator.settings.devices.metax.sgpuTopologyAware
metaxsGPUTopologyAware: allocator.settings.devices.metax.sgpuTopologyAware
enflameResourceNameDRSGCU: allocator.settings.devices.enflame.resourceNameDRSGCU
enflameResourceNameGCUMemory: allocator.settings.devices.enflame.resourceNameGCUMemory
enflameResourceNameGCUCore: allocator.settings.devices.enflame.resourceNameGCUCore
enflameResourceNameGCU: allocator.settings.devices.enflame.resourceNameGCU
enflameResourceNameVGCU: allocator.settings.devices.enflame.resourceNameVGCU
enflameResourceNameVGCUPercentage: "no: no program reads it since HAMi 2.7; pods ask for enflame.com/gcu-memory and gcu-core"
kunlunResourceName: allocator.settings.devices.kunlun.resourceCountName
kunlunResourceVCountName: allocator.settings.devices.kunlun.resourceVCountName
kunlunResourceVMemoryName: allocator.settings.devices.kunlun.resourceVMemoryName
vastaiResourceName: allocator.settings.devices.vastai.resourceCountName
birenResourceName: allocator.settings.devices.biren.resourceCountName
iluvatarResourceName: "no: names of Iluvatar's resources are in allocator.settings.devices.iluvatars, one entry a chip"
devices.ascend.hamiVnpuCore: allocator.settings.devices.vnpus.hamiVnpuCore
devices.ascend.enabled: allocator.vendors
devices.ascend.runtimeClassName: "no: it is runtimeClassName of the chips in allocator.settings.devices.vnpus.configs"
devices.amd.enabled: allocator.vendors
devices.awsneuron.enabled: allocator.vendors
devices.biren.enabled: allocator.vendors
devices.enflame.enabled: allocator.vendors
devices.iluvatar.enabled: allocator.vendors
devices.kunlun.enabled: allocator.vendors
devices.metax.enabled: allocator.vendors
devices.mthreads.enabled: allocator.vendors
devices.mthreads.memoryPerCard: "no: a whole card counts as 96 units of 512 MiB (MTT S4000)"
devices.vastai.enabled: allocator.vendors
devices.nvidia.enabled: volcano-vgpu.enabled
devices.nvidia.gpuCorePolicy: volcano-vgpu.agent.settings.container.corePolicy
devices.nvidia.libCudaLogLevel: volcano-vgpu.agent.settings.container.logLevel
device-config.content: allocator.settings.devices (as a map, not as a text)
prometheus.enabled: volcano-vgpu.monitoring.prometheusRule.enabled or allocator.monitoring.prometheusRule.enabled
legacyMetrics: "no: metrics have one name each, docs/reference/metrics.md lists those of HAMi as well"
podSecurityPolicy: "no: Kubernetes has no PodSecurityPolicy since 1.25; pods that are not an agent's are restricted ones"
mockDevicePlugin: "no: for tries without cards write them into a file, and name it in volcano-vgpu.agent.settings.cardsFile; hami-plugins sandbox keeps a cluster with made-up devices running"
{{- end -}}

{{/* Of what HAMi's chart has below a word: where to look. */}}
{{- define "library.hamiWords" -}}
devicePlugin: what is set about the agent of nodes is below volcano-vgpu.agent
scheduler: what is set about the server that schedulers ask is below allocator
devices: the vendors whose devices are allocated are listed in allocator.vendors, and HAMi's own device plugins offer them to kubelets
device-config: HAMi's device-config.yaml is allocator.settings.devices
platform: OpenShift is global.openshift
prometheus: what Prometheus needs is below monitoring of each chart
{{- end -}}

{{/* Reports all values of HAMi's chart that are set, together. `chart` is the chart's name, empty for the umbrella; `own` are words that are
its values as well; `elsewhere` are further words, by where they are now; `globals` are HAMi's globals, by what is set instead of each. */}}
{{- define "library.refuseHami" -}}
{{- $values := .root.Values -}}{{- $chart := .chart -}}
{{- $table := include "library.hamiValues" . | fromYaml -}}
{{- $words := merge (dict) .elsewhere (include "library.hamiWords" . | fromYaml) -}}
{{- $known := dict -}}
{{- range $path, $_ := $table }}{{ $_ := set $known (splitList "." $path | first) "" }}{{ end -}}
{{- range $word, $_ := $words }}{{ $_ := set $known $word "" }}{{ end -}}
{{- $state := dict "paths" list "table" $table -}}
{{- $own := .own -}}
{{- range $word, $_ := $known -}}
{{- if and (hasKey $values $word) (not (has $word $own)) }}{{ include "library.hamiPaths" (dict "held" (get $values $word) "path" $word "state" $state) }}{{ end -}}
{{- end -}}
{{- $told := list -}}
{{- range $path := $state.paths -}}
{{- $place := "" -}}
{{- $parts := splitList "." $path -}}
{{- range $above := until (len $parts) -}}
{{- $candidate := slice $parts 0 (sub (len $parts) $above) | join "." -}}
{{- if and (not $place) (hasKey $table $candidate) }}{{ $place = get $table $candidate }}{{ end -}}
{{- end -}}
{{- if hasPrefix "no: " $place -}}
{{- $told = append $told (printf "%s: no such value here; %s" $path (trimPrefix "no: " $place)) -}}
{{- else if not $place -}}
{{- $told = append $told (printf "%s: no such value here; %s" $path (get $words (first $parts) | default "see the values of the chart")) -}}
{{- else -}}
{{- $ours := list -}}
{{- range splitList " or " $place }}{{ if or (not $chart) (hasPrefix "global." .) }}{{ $ours = append $ours . }}{{ else if hasPrefix (printf "%s." $chart) . }}{{ $ours = append $ours (trimPrefix (printf "%s." $chart) .) }}{{ end }}{{ end -}}
{{- if $ours -}}
{{- $new := join " or " $ours -}}
{{- $told = append $told (printf "%s: the value is called %s here; write it there, and remove %s" $path $new $path) -}}
{{- else -}}
{{- $told = append $told (printf "%s: no such value in the chart %s; it is %s" $path $chart $place) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $instead := .globals -}}
{{- if and (get ($values.global | default dict) $name) (not $instead.set) -}}
{{- $told = append $told (printf "global.%s: %s; with that set, this one is another chart's" $name $instead.called) -}}
{{- end -}}
{{- end -}}
{{- with $told }}{{ fail (printf "\n%s" (join "\n" .)) }}{{ end -}}
{{- end -}}

{{/* The paths that are set below one, as far as the table has them. */}}
{{- define "library.hamiPaths" -}}
{{- $state := .state -}}{{- $path := .path -}}
{{- $below := printf "%s." $path -}}
{{- $deeper := false -}}
{{- range $known, $_ := $state.table }}{{ if hasPrefix $below $known }}{{ $deeper = true }}{{ end }}{{ end -}}
{{- if and (kindIs "map" .held) .held (or $deeper (not (or (contains "." $path) (hasKey $state.table $path)))) -}}
{{- range $key, $held := .held -}}{{- include "library.hamiPaths" (dict "held" $held "path" (printf "%s%s" $below $key) "state" $state) -}}{{- end -}}
{{- else }}{{ $_ := set $state "paths" (append $state.paths $path) }}{{ end -}}
{{- end -}}
