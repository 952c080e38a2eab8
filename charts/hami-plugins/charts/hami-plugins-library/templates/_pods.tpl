{{/* What the Pod Security level `restricted` wants of a pod, and of its containers. */}}
{{- define "library.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "library.restrictedContainer" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end -}}

{{/* The agents of nodes are root, and not restricted. */}}
{{- define "library.agentPod" -}}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* `over` is what values lay over what a chart sets. */}}
{{- define "library.overlaid" -}}
{{- $whole := mergeOverwrite (deepCopy .base) (deepCopy (.over | default dict)) -}}
{{- range $key, $held := $whole -}}{{- if kindIs "invalid" $held }}{{ $_ := unset $whole $key }}{{ end -}}{{- end -}}
{{- toYaml $whole -}}
{{- end -}}

{{/* A container's; `base` is YAML, that of a restricted one by default. */}}
{{- define "library.securityContext" -}}
{{- $base := .base | default (include "library.restrictedContainer" .) | fromYaml -}}
{{- include "library.overlaid" (dict "base" $base "over" (.part).securityContext) -}}
{{- end -}}

{{/* A pod's: of a restricted one, unless `agent` is set. OpenShift chooses users and groups itself. */}}
{{- define "library.podSecurityContext" -}}
{{- $base := include (empty .agent | ternary "library.restrictedPod" "library.agentPod") . | fromYaml -}}
{{- if .root.Values.global.openshift -}}{{- $base = omit $base "runAsUser" "runAsGroup" "fsGroup" -}}{{- end -}}
{{- include "library.overlaid" (dict "base" $base "over" (.part).podSecurityContext) -}}
{{- end -}}

{{/* What is mounted by default of a service account, for a volume that one container of a pod has. */}}
{{- define "library.token" -}}
sources:
- serviceAccountToken: {path: token, expirationSeconds: 3600}
- configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
- downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end -}}

{{/* Where an agent of nodes listens. On the network of its host no NetworkPolicy stands before it. */}}
{{- define "library.nodeHost" -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- $scraped := or $monitoring.podMonitor.enabled $monitoring.serviceMonitor.enabled -}}
{{- .part.listenHost | default (and .part.hostNetwork (not $scraped) | ternary "127.0.0.1" "0.0.0.0") -}}
{{- end -}}

{{/* Where a kubelet asks: at `host`, unless that is the pod's own address. */}}
{{- define "library.probes" -}}
{{- $get := dict "port" .port }}
{{- if not (has .host (list "" "0.0.0.0" "::")) }}{{ $_ := set $get "host" .host }}{{ end }}
{{- $alive := dict "httpGet" (merge (dict "path" "/healthz") $get) "periodSeconds" 20 "timeoutSeconds" 5 "failureThreshold" 6 }}
{{- $ready := dict "httpGet" (merge (dict "path" "/readyz") $get) "periodSeconds" .readySeconds "timeoutSeconds" 5 }}
{{- $started := dict "httpGet" (merge (dict "path" "/healthz") $get) "periodSeconds" 1 "timeoutSeconds" 5 "failureThreshold" 120 -}}
livenessProbe: {{- include "library.overlaid" (dict "base" $alive "over" .part.livenessProbe) | nindent 2 }}
readinessProbe: {{- include "library.overlaid" (dict "base" $ready "over" .part.readinessProbe) | nindent 2 }}
startupProbe: {{- include "library.overlaid" (dict "base" $started "over" .part.startupProbe) | nindent 2 }}
{{- end -}}

{{/* What a workload's pod has besides containers and volumes. */}}
{{- define "library.pod" -}}
{{- $part := .part -}}
{{- $pod := include "library.jobPod" . | fromYaml | merge (dict "priorityClassName" ($part.priorityClassName | default "")) -}}
{{- $_ := unset $pod "restartPolicy" -}}
{{- range $key := list "nodeSelector" "affinity" "runtimeClassName" -}}{{- with get $part $key }}{{ $_ := set $pod $key . }}{{ end -}}{{- end -}}
{{- with include "library.topologySpread" . | fromYamlArray }}{{ $_ := set $pod "topologySpreadConstraints" . }}{{ end -}}
{{- if eq ($part.automountServiceAccountToken | toString) "false" }}{{ $_ := set $pod "automountServiceAccountToken" false }}{{ end -}}
{{- toYaml $pod -}}
{{- end -}}

{{/* The same of a Job or of the pod of `helm test`. */}}
{{- define "library.jobPod" -}}
{{- $part := .part -}}
{{- $pod := dict "restartPolicy" "Never" "enableServiceLinks" false "hostNetwork" ($part.hostNetwork | default false) -}}
{{- with .account }}{{ $_ := set $pod "serviceAccountName" . }}{{ end -}}
{{- with include "library.pullSecrets" .root | fromYaml }}{{ $pod = merge $pod . }}{{ end -}}
{{- /* The DNS server of a host knows no Services. */ -}}
{{- with $part.dnsPolicy | default ($part.hostNetwork | ternary "ClusterFirstWithHostNet" "") }}{{ $_ := set $pod "dnsPolicy" . }}{{ end -}}
{{- range $key := list "tolerations" "hostAliases" -}}{{- with get $part $key }}{{ $_ := set $pod $key . }}{{ end -}}{{- end -}}
{{- $_ := set $pod "securityContext" (include "library.podSecurityContext" . | fromYaml) -}}
{{- toYaml $pod -}}
{{- end -}}

{{/* A list: that of the values, or where they want it, pods of one component on different machines. */}}
{{- define "library.topologySpread" -}}
{{- $selector := dict "matchLabels" (include "library.selector" . | fromYaml) -}}
{{- $found := list -}}
{{- range .part.topologySpreadConstraints }}{{ $found = append $found (merge (omit . "labelSelector") (dict "labelSelector" (.labelSelector | default $selector))) }}{{ end -}}
{{- if and .part.topologySpread (empty $found) -}}
{{- $found = list (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" $selector) -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* Labels and annotations of a workload's pods; `checksum` changes with its settings. A key of ours that a value has as well would
stand there twice, or part the pods from what selects them. */}}
{{- define "library.podMetadata" -}}
{{- $selector := include "library.selector" . | fromYaml -}}
{{- $annotations := merge (dict "checksum/settings" .checksum) (.annotations | default dict) -}}
{{- include "library.notOurs" (dict "path" (printf "%spodLabels" .path) "held" .part.podLabels "ours" $selector) -}}
{{- include "library.notOurs" (dict "path" (printf "%spodAnnotations" .path) "held" .part.podAnnotations "ours" $annotations) -}}
labels: {{- toYaml (merge $selector (.part.podLabels | default dict) (include "library.commonLabels" .root | fromYaml)) | nindent 2 }}
annotations: {{- toYaml (merge $annotations (.part.podAnnotations | default dict)) | nindent 2 }}
{{- end -}}

{{/* Variables of a container: `ours`, and those of the values, which may not be ours as well. */}}
{{- define "library.env" -}}
{{- $ours := .ours | default list -}}
{{- $names := dict -}}{{- range $ours }}{{ $_ := set $names .name "" }}{{ end -}}
{{- $more := dict -}}{{- range .part.extraEnv }}{{ $_ := set $more .name "" }}{{ end -}}
{{- include "library.notOurs" (dict "path" (printf "%sextraEnv" .path) "held" $more "ours" $names) -}}
{{- with concat $ours (.part.extraEnv | default list) }}
env: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .part.envFrom }}
envFrom: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- define "library.notOurs" -}}
{{- $ours := .ours -}}{{- $path := .path -}}
{{- range $key, $_ := .held | default dict -}}
{{- if hasKey $ours $key -}}{{- fail (printf "\n%s: %s is the chart's own; remove it" $path $key) -}}{{- end -}}
{{- end -}}
{{- end -}}
