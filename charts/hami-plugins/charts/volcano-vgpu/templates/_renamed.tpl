{{/* Values that other charts call otherwise: a sentence that says how they are called here. */}}
{{- define "volcano-vgpu.renamed" -}}
devicePlugin.deviceSplitCount: agent.settings.deviceSplitCount
devicePlugin.deviceMemoryScaling: agent.settings.deviceMemoryScaling
devicePlugin.deviceCoreScaling: agent.settings.deviceCoreScaling
devicePlugin.disablecorelimit: agent.settings.disableCoreLimit
devicePlugin.runtimeClassName: agent.runtimeClassName
devicePlugin.nvidiaNodeSelector: agent.nodeSelector
deviceSplitCount: agent.settings.deviceSplitCount
deviceMemoryScaling: agent.settings.deviceMemoryScaling
deviceCoreScaling: agent.settings.deviceCoreScaling
resourceName: deviceConfig.nvidia.resourceCountName
resourceMem: deviceConfig.nvidia.resourceMemoryName
resourceCores: deviceConfig.nvidia.resourceCoreName
schedulerName: grants.settings.schedulers
{{- end -}}

{{- define "volcano-vgpu.checked" -}}
{{- $values := .Values -}}
{{- range $old, $new := include "volcano-vgpu.renamed" . | fromYaml -}}
{{- $held := $values -}}
{{- range splitList "." $old -}}
{{- if kindIs "map" $held -}}{{- $held = get $held . -}}{{- else -}}{{- $held = "" -}}{{- end -}}
{{- end -}}
{{- if not (empty $held) -}}
{{- fail (printf "\n%s: the value is called %s here; write it there, and remove %s" $old $new $old) -}}
{{- end -}}
{{- end -}}
{{- if .Values.devicePlugin -}}
{{- fail (printf "\ndevicePlugin.%s: there is no such value here; what is set about the agent stands under agent, see the values of the chart" (keys .Values.devicePlugin | sortAlpha | first)) -}}
{{- end -}}
{{- if and (eq .Values.grants.certificate.source "secret") (not (and .Values.grants.certificate.secretName .Values.grants.certificate.caBundle)) -}}
{{- fail "\ngrants.certificate.source: secret needs grants.certificate.secretName (a Secret with tls.crt and tls.key) and grants.certificate.caBundle (the authority that signed it, PEM in base64)" -}}
{{- end -}}
{{- if and .Values.agent.library.image .Values.agent.library.hostPath -}}
{{- fail "\nagent.library: image and hostPath are two ways to have HAMi-core's library; set one of them" -}}
{{- end -}}
{{- if not (or .Values.agent.enabled (ne .Values.grants.mode "none")) -}}
{{- fail "\nagent.enabled is false and grants.mode is none, so that nothing would be installed; set enabled: false for the whole chart" -}}
{{- end -}}
{{- end -}}
