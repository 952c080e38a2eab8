{{/* The agent's settings: the operator's, and those that follow from where the chart puts things. */}}
{{- define "volcano-vgpu.agentSettings" -}}
{{- $ours := dict
  "version" 1
  "daemonSet" (printf "%s/%s" (include "library.namespace" .) (include "volcano-vgpu.agent" .))
  "kubeletDirectory" (printf "%s/device-plugins" .Values.agent.kubeletRoot)
  "podResourcesSocket" (printf "%s/pod-resources/kubelet.sock" .Values.agent.kubeletRoot)
  "listen" (dict "host" (include "library.nodeHost" (dict "root" . "part" .Values.agent)) "port" .Values.agent.port) -}}
{{- if or .Values.agent.library.image .Values.agent.library.hostPath }}{{ $_ := set $ours "librarySource" "/opt/hami-core" }}{{ end -}}
{{- with .Values.agent.library.sha256 }}{{ $_ := set $ours "librarySha256" . }}{{ end -}}
{{- toYaml (merge $ours (deepCopy .Values.agent.settings)) -}}
{{- end -}}

{{- define "volcano-vgpu.hookPath" -}}{{ .Values.agent.settings.hookPath | default "/usr/local/vgpu" }}{{- end -}}
{{- define "volcano-vgpu.lockPath" -}}{{ .Values.agent.settings.lockPath | default "/tmp/vgpulock" }}{{- end -}}
{{- define "volcano-vgpu.cdiDirectory" -}}{{ .Values.agent.settings.cdiDirectory | default "/var/run/cdi" }}{{- end -}}
