{{/* What no schema can say of values. */}}
{{- define "hami-plugins.checked" -}}
{{- $neuron := "the server is the chart allocator; write its values under allocator, with vendors [AWSNeuron]" -}}
{{- include "library.refuseHami" (dict "root" . "chart" "" "own" list "elsewhere" (dict "neuron-topology" $neuron) "globals" (include "hami-plugins.globals" . | fromYaml)) -}}
{{- include "hami-plugins.sameNames" . -}}
{{- end -}}

{{/* HAMi's globals, and whether the products that are installed have values of their own instead. */}}
{{- define "hami-plugins.globals" -}}
{{- $agents := index .Values "volcano-vgpu" -}}{{- $agent := $agents.agent | default dict -}}{{- $server := .Values.allocator -}}
{{- $tagged := or (not $agents.enabled) ($agent.image).tag ($agent.image).digest -}}
{{- $served := or (not $server.enabled) ($server.image).tag ($server.image).digest -}}
{{- $placed := or (not $server.enabled) $server.nodeSelector $server.affinity -}}
gpuHookPath: {set: {{ or (not $agents.enabled) (($agent.settings).hookPath) | empty | not }}, called: {{ printf "HAMi-core's folder on nodes is volcano-vgpu.agent.settings.hookPath here, with all of its name (%v/vgpu)" (.Values.global).gpuHookPath | quote }}}
imageTag: {set: {{ and $tagged $served | empty | not }}, called: "tags of images are volcano-vgpu.agent.image.tag and allocator.image.tag here"}
managedNodeSelectorEnable: {set: {{ $placed | empty | not }}, called: "which nodes pods may be on is volcano-vgpu.agent.nodeSelector and allocator.nodeSelector here"}
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
